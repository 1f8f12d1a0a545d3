"""Comparing what a kernel computed with a reference, and the random data for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...number_types import kind_of

LARGEST_INTEGER = 3
"""Of random integers, which are not negative."""
SLICE = 1 << 20
"""Elements that are compared at once, which takes less than 100 MB however large the arrays are."""


@dataclass(frozen=True)
class TensorError:
    """How far one output lies from its reference.

    ``error`` is the largest absolute difference over the largest magnitude in the reference (1 if that is all zero): a norm-wise error,
    since an element that cancels to nearly nothing says little about a kernel. ``where`` is that element's index. Values that are not
    finite agree only with the same value; otherwise the error is infinite.
    """

    tensor: str
    error: float
    tolerance: float
    where: tuple[int, ...] = ()
    got: float = 0.0
    expected: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance

    def __repr__(self) -> str:
        text = f"{self.tensor}: relative error {self.error:.2e}, tolerance {self.tolerance:.2e}"
        return text if self.passed else f"{text}; at {list(self.where)} got {self.got:.9g}, expected {self.expected:.9g}"


@dataclass(frozen=True)
class Verification:
    """The comparison of all outputs."""

    tensors: tuple[TensorError, ...]

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance."""
        return all(tensor.passed for tensor in self.tensors)

    def __repr__(self) -> str:
        return "\n".join(map(str, self.tensors))


def verify(
    outputs: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    tolerance: Mapping[str, float] | float,
    others: Sequence[Mapping[str, np.ndarray]] = (),
) -> Verification:
    """Compare every output with the array of the same name in ``expected``; ``tolerance`` for all, or for each by name.

    ``others``: results that are as right (:mod:`feinsum_fuse.cascades.reference.jumps`); an element is held to the nearest.
    An output that ``expected`` lacks raises ``KeyError``: nothing passes unseen.
    """
    found = []
    for name, got in outputs.items():
        comparison = OutputComparison(name, tolerance[name] if isinstance(tolerance, Mapping) else tolerance)
        comparison.add(got, expected[name], [other[name] for other in others])
        found.append(comparison.error)
    return Verification(tuple(found))


class OutputComparison:
    """One output beside its reference, a part after another."""

    def __init__(self, name: str, tolerance: float) -> None:
        self.name = name
        self.tolerance = tolerance
        self.scale = 0.0
        self.largest = -1.0
        self.where: tuple[int, ...] = ()
        self.got = self.expected = 0.0

    def add(self, got: np.ndarray, expected: np.ndarray, others: Sequence[np.ndarray] = (), corner: Sequence[int] = ()) -> None:
        """Compare a part, whose first element has the index ``corner`` in the whole."""
        if got.shape != expected.shape:
            raise ValueError(f"{self.name}: shape {got.shape} against {expected.shape}")
        flat_got, flat_expected = np.ravel(got), np.ravel(expected)
        for start in range(0, got.size, SLICE):
            part = slice(start, start + SLICE)
            differences, magnitude = _differences(flat_got[part], flat_expected[part])
            for other in others:
                np.minimum(differences, _differences(flat_got[part], np.ravel(other)[part])[0], out=differences)
            self.scale = max(self.scale, magnitude)
            worst = int(np.argmax(differences))
            if differences[worst] > self.largest:
                self.largest, at = float(differences[worst]), start + worst
                index = np.unravel_index(at, got.shape)
                self.where = tuple(int(i) + first for i, first in zip(index, corner or (0,) * got.ndim, strict=True))
                self.got, self.expected = float(np.real(flat_got[at])), float(np.real(flat_expected[at]))

    @property
    def error(self) -> TensorError:
        """What was found so far."""
        if self.largest < 0:
            return TensorError(self.name, 0.0, self.tolerance)
        return TensorError(self.name, self.largest / (self.scale or 1.0), self.tolerance, self.where, self.got, self.expected)


def _differences(got: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, float]:
    """The absolute differences of some elements, infinite where one is no number alone, and the largest finite magnitude expected."""
    wide = np.complex128 if "c" in (got.dtype.kind, expected.dtype.kind) else np.float64
    a, b = got.astype(wide), expected.astype(wide)
    with np.errstate(invalid="ignore"):
        differences = np.abs(a - b)
    differences[~np.isfinite(differences)] = np.inf
    differences[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return differences, float(np.abs(b[np.isfinite(b)]).max(initial=0.0))


def random_array(shape: tuple[int, ...], dtype: str, generator: np.random.Generator) -> np.ndarray:
    """Random data on which sums stay well conditioned: floating point uniform in [0.5, 1), integers in 0..3, booleans.

    With values of one sign, sums do not cancel and products of a cascade keep their scale apart from a factor per reduction.
    """
    kind = np.dtype(dtype)
    if kind_of(kind) in "fc":
        return generator.uniform(0.5, 1.0, shape).astype(kind)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(kind)
    return generator.integers(0, LARGEST_INTEGER + 1, shape).astype(kind)
