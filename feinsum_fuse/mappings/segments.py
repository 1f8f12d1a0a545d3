"""Which Einsums of a cascade run well under common loops over independent rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ..cascades.cascade import Cascade
from ..cascades.terms import Access, Einsum
from ..formats.workload import Workload
from .shared_loops import shareable

Rows = dict[str, str]
"""Einsum -> the rank variable that a common loop runs over."""
BATCH_POINTS = 4096
"""A problem of fewer points is no group of its own."""


@dataclass(frozen=True)
class Segment:
    """Einsums in a row, and what they can share."""

    cascade: Cascade
    workload: Workload
    names: tuple[str, ...]

    @cached_property
    def einsums(self) -> tuple[Einsum, ...]:
        """The Einsums, in order."""
        return tuple(self.cascade.einsum(name) for name in self.names)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """The intermediates that nobody else touches."""
        others = [e for e in self.cascade.einsums if e.name not in self.names]
        outside = {a.tensor for e in others for a in (*e.operands, e.output)}
        return tuple(dict.fromkeys(e.output.tensor for e in self.einsums if e.output.tensor in set(self.cascade.intermediates) - outside))

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """The loops whose iterations are independent in all Einsums and need nothing of one another; best first.

        Best is what lets the most Einsums use an operand again in the next iteration, then what is longest.
        """
        if not all(e.has_injective_output for e in self.einsums):
            return ()
        found = [rows for rows in shareable(self.workload, self.names) if self._is_independent(rows)]
        return tuple(sorted(found, key=lambda rows: (-self._reused(rows), -self.extent(rows))))

    @cached_property
    def batches(self) -> tuple[Rows, ...]:
        """Rows along which nothing is used again and nothing lies next to one another: each iteration is a problem of its own."""
        found = tuple(rows for rows in self.rows if all(self._is_batch(e, rows[e.name]) for e in self.einsums))
        rest = [rows for rows in self.rows if rows not in found]
        alone = self.points() // max(1, prod(map(self.extent, found)))
        return found if rest and alone >= BATCH_POINTS else ()

    @cached_property
    def main(self) -> Rows | None:
        """The rows of which a group takes a tile."""
        return next((rows for rows in self.rows if rows not in self.batches), None)

    def _is_batch(self, einsum: Einsum, variable: str) -> bool:
        accesses = (*einsum.operands, einsum.output)
        return all(variable in a.variables and variable not in a.indices[-1].variables for a in accesses)

    def extent(self, rows: Rows) -> int:
        """The number of iterations."""
        size = self.einsums[0].sizes[rows[self.names[0]]]
        assert isinstance(size, int)
        return size

    def row_bytes(self, rows: Rows) -> int:
        """What one iteration's share of the kept intermediates occupies."""
        parts = self.extent(rows) * prod(map(self.extent, self.batches))
        return sum(self.tensor_bytes(t) for t in self.kept) // max(1, parts)

    def tensor_bytes(self, tensor: str) -> int:
        """The size of a whole tensor."""
        known = self.cascade.tensors[tensor]
        return prod(self.cascade.fixed_shape(tensor)) * np.dtype(known.dtype).itemsize

    def points(self) -> int:
        """All iteration points."""
        return sum(points(e) for e in self.einsums)

    def _is_independent(self, rows: Rows) -> bool:
        sizes = {e.sizes[rows[e.name]] for e in self.einsums}
        if len(sizes) > 1 or any(rows[e.name] not in e.output_variables for e in self.einsums):
            return False
        produced = {e.output.tensor: _axis(e.output, rows[e.name]) for e in self.einsums}
        for einsum in self.einsums:
            for access in einsum.operands:
                if access.tensor in produced:
                    axis = _axis(access, rows[einsum.name])
                    if axis is None or axis != produced[access.tensor]:
                        return False
        return True

    def _reused(self, rows: Rows) -> int:
        return sum(any(rows[e.name] not in a.variables for a in e.operands) for e in self.einsums if len(e.operands) > 1)


def _axis(access: Access, variable: str) -> int | None:
    """The axis that the variable alone indexes; ``None`` if it occurs elsewhere, too."""
    axes = [axis for axis, index in enumerate(access.indices) if variable in index.variables]
    return axes[0] if len(axes) == 1 and access.indices[axes[0]].bare == variable else None


def points(einsum: Einsum) -> int:
    """The box of an Einsum."""
    return prod(size for size in einsum.sizes.values() if isinstance(size, int))


def segments(cascade: Cascade, workload: Workload, budget: int, least_rows: int) -> Iterator[Segment]:
    """The cascade cut into runs of Einsums that are chained and share independent rows, ``least_rows`` of which fit ``budget`` bytes."""
    names: tuple[str, ...] = ()
    for einsum in cascade.einsums:
        longer = Segment(cascade, workload, (*names, einsum.name))
        written = {cascade.einsum(name).output.tensor for name in names}
        chained = written & {a.tensor for a in einsum.operands}
        rows = longer.main if names and chained else None
        if rows is not None and longer.row_bytes(rows) * min(least_rows, longer.extent(rows)) <= budget:
            names = longer.names
            continue
        if names:
            yield Segment(cascade, workload, names)
        names = (einsum.name,)
    if names:
        yield Segment(cascade, workload, names)
