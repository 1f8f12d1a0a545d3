"""Numbers in four bits, two to a byte, with a factor for each group: what a tensor of the type ``int4/32`` is given as."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .arguments import array_of, described
from .errors import Error, UnsupportedTypeError

GROUP = 32
"""Numbers that share a factor, unless another number is asked for."""
INT4 = "int4"
"""How files and tables of types say that a tensor is given in four bits: ``int4``, or ``int4/64`` for groups of 64."""
ZERO = 8
"""The code of 0."""
CODES = 16
_ELEMENTS = 1 << 22
"""Numbers that are quantized at once, so that copies of them are no burden."""


class FourBits(NamedTuple):
    """A tensor in four bits; its last axis, of length ``n``, lies in ``ceil(n / group)`` groups.

    ``packed``: uint8 of shape ``(..., groups, group / 2)``. Byte ``h`` of group ``g`` has the code of element ``g * group + h`` in its low
    four bits and that of ``g * group + group / 2 + h`` in its high ones. ``scales``: float32 of shape ``(..., groups)``. An element is
    ``scale * (code - 8)``; elements behind the end have the code 8.
    """

    packed: np.ndarray
    scales: np.ndarray


def checked_group(group: object, error: type[Error] = UnsupportedTypeError) -> int:
    """A number of elements that can share a factor: even, from 2 to 65536; raises ``error`` for any other."""
    if not isinstance(group, int | np.integer) or isinstance(group, bool) or not 2 <= group <= 1 << 16 or group % 2:
        raise error(f"groups of {described(group)} elements cannot lie two to a byte", hint="Give an even number from 2 to 65536.")
    return int(group)


def group_of(dtype: str) -> int | None:
    """How many numbers share a factor in tensors of this type, ``None`` for other types. Raises as :func:`checked_group`."""
    name, slash, group = dtype.partition("/")
    if name != INT4:
        return None
    return checked_group(int(group) if group.isascii() and group.isdigit() and len(group) < 9 else group) if slash else GROUP


def quantize4(array: ArrayLike, group: int = GROUP) -> FourBits:
    """An array in four bits, in groups of so many elements along its last axis.

    The element of the largest magnitude in a group is -8 times the factor, which has its sign, and exact up to rounding; any other is at
    most half a factor off, or a whole one where it is as large with the opposite sign. A last group is filled up with zeros.
    Raises :class:`~feinsum_fuse.errors.UnsupportedTypeError` for what holds no real and finite numbers or has no axis, and for groups that
    are no even number.
    """
    group = checked_group(group)
    given = array_of(array, "what is to be quantized", UnsupportedTypeError)
    if given.ndim == 0 or given.dtype.kind in "bcOSUmM" or not np.can_cast(given.dtype, np.float32, "same_kind"):
        raise UnsupportedTypeError(
            f"{described(array)} of {given.dtype}, with {given.ndim} axes, cannot be quantized", hint="Give real numbers."
        )
    length = given.shape[-1]
    groups = -(-length // group)
    rows = given.reshape(-1, length) if given.size else given.reshape(0, length)
    try:
        packed, scales = np.empty((len(rows), groups, group // 2), np.uint8), np.empty((len(rows), groups), np.float32)
    except MemoryError as error:
        raise UnsupportedTypeError(f"{list(given.shape)} numbers do not fit the memory in four bits: {error}") from error
    step = max(1, _ELEMENTS // max(1, length))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        packed[part], scales[part] = _quantized(rows[part], groups, group)
    return FourBits(packed.reshape(*given.shape[:-1], groups, group // 2), scales.reshape(*given.shape[:-1], groups))


def _quantized(rows: np.ndarray, groups: int, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Packed codes and factors of some rows."""
    filled = np.zeros((len(rows), groups * group), np.float32)
    filled[:, : rows.shape[1]] = rows
    if not np.isfinite(filled).all():
        raise UnsupportedTypeError("numbers that are not finite cannot be quantized", hint="Four bits have neither infinities nor NaN.")
    values = filled.reshape(len(rows), groups, group)
    largest = np.take_along_axis(values, np.abs(values).argmax(axis=2)[..., None], 2)
    scales = largest / -ZERO
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=np.abs(scales) >= np.finfo(np.float32).tiny)
    codes = np.clip(np.rint(values * inverse) + ZERO, 0, CODES - 1).astype(np.uint8)
    low, high = codes[..., : group // 2], codes[..., group // 2 :]
    return low | high << 4, np.where(inverse == 0, 0, scales)[..., 0]


def dequantize4(packed: ArrayLike, scales: ArrayLike, length: int | None = None) -> np.ndarray:
    """The float32 numbers that :func:`quantize4` stands for; ``length``: of the last axis, by default that of whole groups.

    Raises :class:`~feinsum_fuse.errors.UnsupportedTypeError` for arrays of other types, or whose shapes do not go together.
    """
    codes, factors = (array_of(part, name, UnsupportedTypeError) for part, name in ((packed, "packed"), (scales, "scales")))
    if codes.dtype != np.uint8 or codes.ndim < 2 or factors.shape != codes.shape[:-1]:
        raise UnsupportedTypeError(
            f"{codes.dtype}{list(codes.shape)} and {factors.dtype}{list(factors.shape)} are no numbers in four bits with their factors",
            hint="Give uint8[..., groups, group / 2] and float32[..., groups], as quantize4 does.",
        )
    whole = codes.shape[-2] * codes.shape[-1] * 2
    if length is None:
        length = whole
    if not isinstance(length, int | np.integer) or not 0 <= length <= whole:
        raise UnsupportedTypeError(f"{described(length)} is no length of {whole} numbers in four bits", hint=f"Give 0 to {whole}.")
    values = np.concatenate([codes & CODES - 1, codes >> 4], axis=-1).astype(np.float32) - ZERO
    numbers: np.ndarray = (values * factors[..., None]).astype(np.float32).reshape(*codes.shape[:-2], whole)
    return numbers[..., :length]
