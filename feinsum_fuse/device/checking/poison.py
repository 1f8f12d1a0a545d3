"""Bit patterns that show which elements of a buffer were never written, or written where nothing belongs."""

from __future__ import annotations

import numpy as np

_BYTE = (0xA5, 0x5A, 0xC3, 0x3C)
_QUIET_NAN = {
    2: (0x7FA5, 0x7F5A, 0x7FC3, 0x7F3C),
    4: (0x7FF5A5A5, 0x7FFA5A5A, 0x7FFC3C3C, 0x7FE3C3C3),
    8: (0x7FFDA5A5A5A5A5A5, 0x7FFA5A5A5A5A5A5A, 0x7FFC3C3C3C3C3C3C, 0x7FFBC3C3C3C3C3C3),
}


def _words(dtype: np.dtype, which: int) -> tuple[np.dtype, int]:
    """The unsigned type to look at elements through, and the pattern (0 to 3) in it: a NaN for floating point."""
    width = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if dtype.kind in "fc" and width in _QUIET_NAN:
        return np.dtype(f"u{width}"), _QUIET_NAN[width][which]
    return np.dtype("u1"), _BYTE[which]


def poisoned(dtype: np.dtype, elements: int, which: int = 0) -> np.ndarray:
    """A flat array of this many elements, each holding one of four patterns."""
    words, pattern = _words(dtype, which)
    return np.full(elements * dtype.itemsize // words.itemsize, pattern, words).view(dtype)


def is_poison(array: np.ndarray, which: int = 0) -> np.ndarray:
    """For each element of a C-contiguous array whether all of its bits are the pattern's; same shape, bool."""
    words, pattern = _words(array.dtype, which)
    per_element = array.dtype.itemsize // words.itemsize
    same = np.equal(array.reshape(-1).view(words), pattern)
    whole: np.ndarray = same.reshape(-1, per_element).all(axis=1)
    return whole.reshape(array.shape)
