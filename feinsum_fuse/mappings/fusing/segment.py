"""Einsums in a row, and the loops over independent rows that they can share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from ...cascades.cascade import Cascade
from ...cascades.rewriting.split_reduction import merges_parts
from ...cascades.terms import Access, Einsum
from ...formats.workload import Workload
from ...lowering.branch import runs_over_variables
from ...lowering.ties import extensions, touched_by
from ...schedule.target import USED_FROM_MEMORY

RowVariables = dict[str, str]
"""Einsum -> the rank variable that a common loop runs over."""
BATCH_POINTS = 4096
"""A problem of fewer points is no group of its own."""
GROUP_POINTS = 1 << 16
"""Below this many points a group does not pay for its start."""
GROUP_POINTS_OF_ITEMS = 1 << 12
"""The same where lanes are work-items: a unit of hardware starts it while others run, and each work-item has some tens of points."""
LEAST_ROWS = 16
"""Rows of a group at least, unless fewer are work enough and use nothing again; if so many rows of intermediates do not fit the budget,
Einsums are not fused."""
FEW_NUMBERS = 64
"""Bytes of what rows use again that stay in registers: a cache line, or half of one."""
ROW_PARTS = 8
"""Parts of a tile of rows by which it is made shorter; fewer rows are one group, since all groups would read what rows share."""
KERNEL_POINTS = 16 * GROUP_POINTS
"""Points of each core that pay for a kernel: a core's copies are worth one from as many operations on (``COPIED`` of ``forms.suited``)."""
FAR_PART = 4
"""Results that go through memory are held back for an Einsum that only a later one chains to them, where to read them takes one part in so
many of the time to compute both: on two cores of a Xeon a curl with 4 points takes 0.36 and 0.48 of its time, with 10 and 20 as long."""


class Surroundings:
    """What is asked of a cascade again and again while it is cut into segments."""

    def __init__(
        self, cascade: Cascade, workload: Workload, group_points: int = GROUP_POINTS, scalars: frozenset[str] = frozenset()
    ) -> None:
        """``group_points``: those below which a group does not pay for its start. ``scalars``: Einsums without lanes."""
        self.cascade = cascade
        self.group_points = group_points
        self.scalars = scalars
        self.accesses = {einsum.name: einsum for einsum in workload.einsums}
        """Einsum -> how the workload says that it touches tensors."""
        self.users: dict[str, set[str]] = {}
        """Tensor -> the Einsums that read or write it."""
        self.readers: dict[str, set[str]] = {}
        """Tensor -> the Einsums that read it."""
        for einsum in cascade.einsums:
            for access in einsum.operands:
                self.readers.setdefault(access.tensor, set()).add(einsum.name)
            for access in (*einsum.operands, einsum.output):
                self.users.setdefault(access.tensor, set()).add(einsum.name)
        self.intermediates = frozenset(cascade.intermediates)

    def tensor_bytes(self, tensor: str) -> int:
        """The size of a whole tensor."""
        return bytes_of(self.cascade, tensor)


@dataclass(frozen=True)
class Shared:
    """A loop that Einsums can share whose iterations are independent in all of them and need nothing of one another."""

    rows: RowVariables
    axes: Mapping[str, int | None]
    """Tensor that one of the Einsums writes -> the axis along which the loop advances."""
    extent: int
    reused: int
    """How many of the Einsums use an operand again in the next iteration."""
    is_batch: bool
    """Whether nothing is used again and nothing lies next to one another: each iteration is a problem of its own.

    Of a number for each problem, which lies beside others', a group reads too little to matter; see ``has_numbers``.
    """
    has_numbers: bool = False
    """Whether an operand is such numbers."""

    @classmethod
    def of(cls, einsum: Einsum, variable: str) -> Shared | None:
        """The loop of one Einsum over one of its rank variables, if its iterations are independent."""
        size = einsum.sizes[variable]
        if not isinstance(size, int):
            return None
        return cls({}, {}, size, 0, True).longer(einsum, variable)

    def longer(self, einsum: Einsum, variable: str) -> Shared | None:
        """The same loop with one more Einsum that runs under it, if that needs nothing of other iterations."""
        if einsum.sizes[variable] != self.extent or variable not in einsum.output_variables:
            return None
        axes = {**self.axes, einsum.output.tensor: _axis(einsum.output, variable)}
        for access in einsum.operands:
            if access.tensor in axes and (axes[access.tensor] is None or _axis(access, variable) != axes[access.tensor]):
                return None
        reused = len(einsum.operands) > 1 and any(variable not in access.variables for access in einsum.operands)
        numbers = [a for a in einsum.operands if a.variables == (variable,) and a.tensor not in self.axes]
        others = [a for a in (*einsum.operands, einsum.output) if a not in numbers]
        alone = self.is_batch and all(variable in a.variables and not lies_together(a, variable) for a in others)
        has_numbers = self.has_numbers or bool(numbers)
        return Shared({**self.rows, einsum.name: variable}, axes, self.extent, self.reused + reused, alone, has_numbers)


@dataclass(frozen=True)
class Segment:
    """Einsums in a row, and what they can share."""

    around: Surroundings
    einsums: tuple[Einsum, ...]
    shared: tuple[Shared, ...]
    points: int
    """All iteration points."""

    @classmethod
    def of(cls, around: Surroundings, einsum: Einsum) -> Segment:
        """One Einsum."""
        variables = around.accesses[einsum.name].bounds if runs_over_variables(around.cascade, einsum) else ()
        found = [Shared.of(einsum, v) for v in variables if v in einsum.sizes]
        return cls(around, (einsum,), tuple(loop for loop in found if loop is not None), einsum.box_points)

    def longer(self, einsum: Einsum) -> Segment:
        """With one more Einsum behind."""
        accesses = self.around.accesses
        touching = touched_by(accesses[einsum.name], (accesses[name] for name in self._neighbours(einsum)))
        found = [
            loop.longer(einsum, variable)
            for loop in (self.shared if einsum.has_injective_output or self.around.cascade.fills_output(einsum) else ())
            for variable in extensions(loop.rows, accesses[einsum.name], touching)
        ]
        loops = tuple(loop for loop in found if loop is not None and self._reads_along(loop, einsum.output.tensor))
        return Segment(self.around, (*self.einsums, einsum), loops, self.points + einsum.box_points)

    def has_parts(self, longer: Segment, groups: int, near: int) -> bool:
        """Whether along a loop of the longer segment so many groups have rows enough, each with its own part of every operand of this one.

        Parts of the largest operand are whole lines. What all groups read is little: all of it stays in a cache of ``near`` bytes.
        """
        read = [(einsum.name, access) for einsum in self.einsums for access in einsum.operands]
        name, largest = max(read, key=lambda one: self.around.tensor_bytes(one[1].tensor))

        def is_parted(loop: Shared) -> bool:
            every = {access.tensor for name, access in read if loop.rows[name] not in access.variables}
            rows = 1 if longer.points >= self.around.group_points * loop.extent else LEAST_ROWS
            enough = loop.extent >= groups * rows and sum(map(self.around.tensor_bytes, every)) <= near
            return enough and not longer.is_problem(loop) and not lies_together(largest, loop.rows[name])

        return any(map(is_parted, longer.loops))

    def is_merged_by(self, einsum: Einsum) -> bool:
        """Whether an Einsum reduces over what are problems of their own: then groups may take these, and need not read everything.

        Parts into which a reduction was split are such, also where all of them read a few numbers. A copy is none: it was made so that a
        group moves what it reads.
        """
        parts = (loop.rows for loop in self.loops if any(merges_parts(einsum, writer) for writer in self.einsums))
        kept = {item for rows in (*self.batches, *parts) for item in rows.items()}
        writers = {e.output.tensor: e for e in self.einsums if not e.is_copy}
        for access in einsum.operands:
            writer = writers.get(access.tensor)
            axes = zip(writer.output.indices, access.indices, strict=True) if writer is not None else ()
            if any((writer.name, own.bare) in kept and read.bare in einsum.reduction_variables for own, read in axes if writer):
                return True
        return False

    def is_beside(self, einsum: Einsum) -> bool:
        """Whether an Einsum reads what one of these reads, too, and a later one reads what both write, or both only go through it."""
        is_alike = any(read_alike(other, einsum) and self._meeting(other, einsum) for other in self.einsums)
        return is_alike or any(gone_through(other, einsum) for other in self.einsums)

    def held_back_for(self, einsum: Einsum, far: float) -> Einsum | None:
        """The later Einsum that reads what this one writes and more than ``far`` bytes that one of these writes, which to write and to read
        would take long beside computing both; ``None`` if there is none.
        """
        for other in self.einsums:
            names, tensor = self._meeting(other, einsum), other.output.tensor
            if other.is_copy or not names or self.around.tensor_bytes(tensor) <= far:
                continue
            if FAR_PART * USED_FROM_MEMORY * prod(self.cascade.fixed_shape(tensor)) >= self.points + einsum.box_points:
                return next(one for one in self.cascade.einsums if one.name in names)
        return None

    def _meeting(self, one: Einsum, other: Einsum) -> set[str]:
        """The Einsums that read what both write."""
        return self.around.readers.get(one.output.tensor, set()) & self.around.readers.get(other.output.tensor, set())

    def _reads_along(self, loop: Shared, tensor: str) -> bool:
        """Whether Einsums that read a tensor before it is written, as recurrences do, need nothing of other iterations."""
        axis = loop.axes[tensor]
        reads = [(e, a) for e in self.einsums if e.name in self.around.users[tensor] for a in e.operands if a.tensor == tensor]
        return all(axis is not None and _axis(access, loop.rows[einsum.name]) == axis for einsum, access in reads)

    def _neighbours(self, einsum: Einsum) -> list[str]:
        """The Einsums of the segment that touch what this one touches, in order."""
        users = set().union(*(self.around.users[a.tensor] for a in (*einsum.operands, einsum.output)))
        return [other.name for other in self.einsums if other.name in users]

    @property
    def cascade(self) -> Cascade:
        """What the Einsums are of."""
        return self.around.cascade

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The Einsums' names, in order."""
        return tuple(einsum.name for einsum in self.einsums)

    @cached_property
    def written(self) -> frozenset[str]:
        """The tensors that the Einsums write."""
        return frozenset(einsum.output.tensor for einsum in self.einsums)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """The intermediates that nobody else touches."""
        names = set(self.names)
        tensors = dict.fromkeys(e.output.tensor for e in self.einsums if e.output.tensor in self.around.intermediates)
        return tuple(t for t in tensors if self.around.users[t] <= names)

    @cached_property
    def keeps(self) -> frozenset[str]:
        """The same as a set."""
        return frozenset(self.kept)

    @cached_property
    def loops(self) -> tuple[Shared, ...]:
        """The loops that all of the Einsums can share; best first.

        Best is what lets the most Einsums use an operand again in the next iteration, then what is longest, then what cuts lines of the
        fewest tensors. Where nothing is summed up, numbers for each problem make it no batch, nor is an axis one that lies inside another
        loop's: rows go through memory from end to end.
        """
        found = self.shared
        if not any(einsum.reduction_variables for einsum in self.einsums):
            apart = [loop for loop in found if loop.is_batch and (loop.has_numbers or self._lies_inside(loop))]
            found = tuple(replace(loop, is_batch=False) if loop in apart else loop for loop in found)
        return tuple(sorted(found, key=lambda loop: (-loop.reused, -loop.extent, self._cut_by(loop))))

    def _lies_inside(self, loop: Shared) -> bool:
        """Whether the loop's axis lies inside that of a loop that is no batch, in all that is read and written along both."""
        accesses = [(e.name, access) for e in self.einsums for access in (*e.operands, e.output)]

        def is_outside(other: Shared) -> bool:
            places = [(_axis(access, other.rows[name]), _axis(access, loop.rows[name])) for name, access in accesses]
            return all(outer < inner for outer, inner in places if outer is not None and inner is not None)

        return any(not other.is_batch and is_outside(other) for other in self.shared)

    def _cut_by(self, loop: Shared) -> int:
        """How many accesses have lines along a loop."""
        return sum(lies_together(access, loop.rows[e.name]) for e in self.einsums for access in (*e.operands, e.output) if access.indices)

    @cached_property
    def batches(self) -> tuple[RowVariables, ...]:
        """Rows along which nothing is used again and nothing lies next to one another, if the problems are large enough for groups; parts
        into which a reduction was split also where all of them use a few numbers.
        """
        found = [loop for loop in self.loops if self.is_problem(loop)]
        alone = self.points // max(1, prod(loop.extent for loop in found))
        return tuple(loop.rows for loop in found) if len(found) < len(self.loops) and alone >= BATCH_POINTS else ()

    @cached_property
    def rows(self) -> tuple[RowVariables, ...]:
        """The rows of which a group may take a tile, best first."""
        return tuple(loop.rows for loop in self.loops if loop.rows not in self.batches)

    def is_problem(self, loop: Shared) -> bool:
        """Whether each iteration of a loop is a problem of its own; a part of a reduction is, too, where all parts together read no more
        of what they share than they have of their own.
        """
        if loop.is_batch:
            return True
        if loop.rows != self._parts:
            return False
        read = {(access.tensor, loop.rows[e.name] in access.variables) for e in self.einsums for access in e.operands}
        own, shared = (sum(self.around.tensor_bytes(tensor) for tensor, is_own in read if is_own is mine) for mine in (True, False))
        return shared * loop.extent <= own

    def beside(self, rows: RowVariables) -> list[Shared]:
        """Loops that all Einsums share beside these rows and problems of their own."""
        return [loop for loop in self.loops if loop.rows != rows and not self.is_problem(loop)]

    @cached_property
    def _parts(self) -> Mapping[str, str | None]:
        """The rows along which all Einsums are parts of reductions."""
        return {e.name: e.output.indices[0].bare for e in self.einsums if any(merges_parts(other, e) for other in self.cascade.einsums)}

    def extent(self, rows: RowVariables) -> int:
        """The number of iterations."""
        size = self.einsums[0].sizes[rows[self.names[0]]]
        assert isinstance(size, int)
        return size

    def least_rows(self, rows: RowVariables, groups: int = 1) -> int:
        """Rows of a group at least: what is used again in the next row, a group should use so many times, but for a few numbers.

        Where nothing is added up, the next group of a core finds it in the core's cache, too: rows for so many ``groups`` are left.
        """
        again = {a.tensor for e in self.einsums for a in e.operands if rows[e.name] not in a.variables}
        reused = any(loop.reused for loop in self.loops if loop.rows == rows)
        reused = reused and sum(map(self.around.tensor_bytes, again)) > FEW_NUMBERS
        enough = max(1, min(LEAST_ROWS, -(-self.around.group_points * self.extent(rows) // max(1, self.points))))
        if reused and groups > 1 and not any(einsum.reduces for einsum in self.einsums):
            count = self.extent(rows) * prod(map(self.extent, self.batches))
            return min(LEAST_ROWS, max(enough, count // groups))
        return LEAST_ROWS if reused else enough

    def fits(self, rows: RowVariables, budget: int) -> bool:
        """Whether as many rows as a group needs hold intermediates of no more than ``budget`` bytes."""
        return self.row_bytes(rows) * min(self.least_rows(rows), self.extent(rows)) <= budget

    def row_bytes(self, rows: RowVariables, beside: frozenset[str] = frozenset()) -> int:
        """What one iteration's share of the kept intermediates occupies, and of what Einsums go through one after another; but for what is
        ``beside``.
        """
        parts = self.extent(rows) * prod(map(self.extent, self.batches))
        through = {tensor for one, other in combinations(self.einsums, 2) for tensor in gone_through(one, other)}
        return sum(map(self.around.tensor_bytes, {*self.kept, *through} - beside)) // max(1, parts)

    def shared_bytes(self, rows: RowVariables) -> int:
        """What all rows use of inputs and of what other segments write: of one problem, and of what each has for itself that one's."""
        reads = [(access.tensor, einsum.name, access.variables) for einsum in self.einsums for access in einsum.operands]
        own = {tensor for tensor, name, variables in reads if rows[name] in variables} | self.written
        sizes: dict[str, int] = {}
        for tensor, name, variables in reads:
            apart = prod(self.extent(batch) for batch in self.batches if batch[name] in variables)
            sizes[tensor] = max(sizes.get(tensor, 0), self.around.tensor_bytes(tensor) // max(1, apart))
        return sum(size for tensor, size in sizes.items() if tensor not in own)

    def core_points(self, rows: RowVariables, units: int, near: int, held: int) -> float:
        """Points of each core, if groups take these rows; of Einsums that wait for arrays of more than ``held`` bytes, those that it could
        compute meanwhile. Few rows are one group, unless a cache of ``near`` bytes holds what they share.
        """
        read = {(a.tensor, rows[e.name] in a.variables) for e in self.einsums for a in e.operands if a.tensor not in self.written}
        again = sum(self.around.tensor_bytes(tensor) for tensor, is_own in read if not is_own)
        count = self.extent(rows) * prod(map(self.extent, self.batches))
        share = 1.0 if again > near and count < ROW_PARTS else -(-count // units) / count
        total = 0.0
        for einsum in self.einsums:
            touched = {a.tensor: rows[einsum.name] in a.variables for a in (*einsum.operands, einsum.output) if a.tensor not in self.keeps}
            large = {tensor: prod(self.cascade.fixed_shape(tensor)) for tensor in touched if self.around.tensor_bytes(tensor) > held}
            loads = sum(elements * (share if touched[tensor] else 1) for tensor, elements in large.items())
            total += max(einsum.box_points * share, USED_FROM_MEMORY * loads)
        return total

    def least_points(self, units: int, near: int, held: int) -> float:
        """The same of the best rows."""
        return min((self.core_points(rows, units, near, held) for rows in self.rows), default=float(self.points))

    def touched_bytes(self, rows: RowVariables) -> int:
        """What one iteration's share of all that the Einsums read and write occupies; of what all iterations use nothing counts."""
        parts = self.extent(rows) * prod(map(self.extent, self.batches))
        touched = {a.tensor for e in self.einsums for a in (*e.operands, e.output) if rows[e.name] in a.variables}
        return sum(map(self.around.tensor_bytes, touched)) // max(1, parts)


def _axis(access: Access, variable: str) -> int | None:
    """The axis that the variable alone indexes; ``None`` if it occurs elsewhere, too."""
    axes = [axis for axis, index in enumerate(access.indices) if variable in index.variables]
    return axes[0] if len(axes) == 1 and access.indices[axes[0]].bare == variable else None


def lies_together(access: Access, variable: str) -> bool:
    """Whether neighbours along the variable are neighbours in memory."""
    return access.indices[-1].coefficients.get(variable) in (1, -1)


def bytes_of(cascade: Cascade, tensor: str) -> int:
    """The size of a whole tensor."""
    return prod(cascade.fixed_shape(tensor)) * np.dtype(cascade.tensors[tensor].dtype).itemsize


def gone_through(one: Einsum, other: Einsum) -> set[str]:
    """The tensors of which both use each element once, if neither reads what the other writes: read together, they are read once."""
    if {one.output.tensor, other.output.tensor} & {access.tensor for e in (one, other) for access in e.operands}:
        return set()
    once = [{a.tensor for a in e.operands if set(a.variables) == set(e.variables)} for e in (one, other)]
    return once[0] & once[1]


def read_alike(one: Einsum, other: Einsum) -> bool:
    """Whether these read the same tensor."""
    return not {access.tensor for access in one.operands}.isdisjoint(access.tensor for access in other.operands)
