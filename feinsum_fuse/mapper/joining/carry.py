"""Capacity across Einsums: what is reserved in memories while loops stay open, carried from join to join.

The rule is that of :mod:`feinsum_fuse.model.accelforge.estimate`. Between two Einsums ``k`` loops stay open. What an Einsum reserved above
``m <= k`` of them stays taken while later Einsums run under the same loops; what it reserved deeper is free again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.quantity import Floats


@dataclass(frozen=True)
class LiveTensor:
    """A shared tensor that is alive while an Einsum runs: its bits in the one tracked memory where it lives."""

    memory: int
    """Its place among the tracked memories."""
    depth: int
    """Loops above it."""
    bits: Floats
    new: bool
    """Whether no earlier Einsum touches it."""
    last: bool
    """Whether no later Einsum touches it."""


@dataclass(frozen=True)
class Carry:
    """Arrays with one element a row.

    ``stays[:, :, m - 1]``, ``m = 1..k``: bits of earlier Einsums that stay taken while loops from number ``m`` on are open.
    ``fullest[:, :, m]``, ``m = 0..k``: the fullest past moment that is still under ``m`` open loops; later reservations above depth ``m``
    come on top of it.
    """

    stays: Floats
    fullest: Floats

    @staticmethod
    def empty(tracked: int) -> Carry:
        """Before the first Einsum."""
        return Carry(np.zeros((1, tracked, 0)), np.zeros((1, tracked, 1)))

    def at(self, rows: NDArray[np.intp] | NDArray[np.bool_] | NDArray[np.int64]) -> Carry:
        """Some of the rows."""
        return Carry(self.stays[rows], self.fullest[rows])

    @property
    def peak(self) -> Floats:
        """The fullest moment of all; (rows, tracked)."""
        return np.asarray(self.fullest.max(axis=2))

    def joined(self, reserved: Floats, residents: Sequence[LiveTensor], after: int, sizes: Floats) -> tuple[Carry, NDArray[np.bool_]]:
        """The carry after one more Einsum, row by row, and which rows fit.

        ``reserved[:, :, m - 1]``: what it reserves above depth ``m`` for itself alone; ``after``: how many loops stay open after it.
        """
        count = self.stays.shape[2]
        total = reserved[:, :, -1] + (self.stays[:, :, count - 1] if count else 0.0)
        for resident in residents:
            total[:, resident.memory] += resident.bits
        fullest = self.fullest.copy()
        for depth in range(1, count + 1):
            fullest[:, :, depth] += reserved[:, :, depth - 1]
            for resident in residents:
                if resident.new and resident.depth < depth:
                    fullest[:, resident.memory, depth] += resident.bits
        fullest[:, :, count] = np.maximum(fullest[:, :, count], total)
        fits = np.all(fullest.max(axis=2) <= sizes, axis=1)
        return Carry(self._staying(reserved, residents, after), _open(fullest, total, after)), fits

    def _staying(self, reserved: Floats, residents: Sequence[LiveTensor], after: int) -> Floats:
        count = self.stays.shape[2]
        stays = np.zeros((*reserved.shape[:2], after))
        for depth in range(1, after + 1):
            stays[:, :, depth - 1] = reserved[:, :, depth - 1]
            if count:
                stays[:, :, depth - 1] += self.stays[:, :, min(depth, count) - 1]
            for resident in residents:
                if resident.last and resident.depth < depth:
                    stays[:, resident.memory, depth - 1] += resident.bits
        return stays


def _open(fullest: Floats, total: Floats, after: int) -> Floats:
    """The past moments by how many of the loops that stay open they are under.

    A deeper one only grows more, so the fullest of all deeper ones stands for those above it too: the same mappings fit, and more rows
    compare.
    """
    count = fullest.shape[2] - 1
    result = np.zeros((*fullest.shape[:2], after + 1))
    for depth in range(count + 1):
        place = min(depth, after)
        result[:, :, place] = np.maximum(result[:, :, place], fullest[:, :, depth])
    if after > count:
        result[:, :, after] = total
    for depth in range(after - 1, -1, -1):
        result[:, :, depth] = np.maximum(result[:, :, depth], result[:, :, depth + 1])
    return result
