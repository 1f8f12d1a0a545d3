"""What memory is asked for ahead of where it is read: streams that a core is done with before memory answers, blocks that are read a few
times, rows that are read side by side, and rows that are computed on at length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

from loopy.symbolic import WalkMapper, get_dependencies
from pymbolic.primitives import Variable

from ..errors import ScheduleError
from ..formats.language.functions import FUNCTIONS, IN_KERNELS
from ..formats.workload import operand_name
from ..number_types import memory_type
from ..schedule.statement import Place, Statement
from ..schedule.steps.prefetch_steps import Prefetch
from ..schedule.target import USED_FROM_MEMORY, Target
from ..schedule.tree.nest import For, Nest

if TYPE_CHECKING:
    from pymbolic.primitives import Call

NEAR_BLOCKS = 4
"""Of so many blocks a core's own cache has room: the one that is read, the next one, which is asked for, and what else is used."""
FEW_USES = 6
"""The next block is asked for each time one is read. Where that is often, asking costs more than waiting once."""
LONG_CYCLES = 20.0
"""A function that takes so many cycles on a vector takes as long as memory takes for the vector's line."""


def asked_ahead(nest: Nest, target: Target) -> Iterator[Prefetch]:
    """Steps that ask ahead for what is read as one stream, once, and is narrower in memory than what it is added up in; for the next block
    of what is read in blocks, each a few times, or in rows side by side; and for the next row where functions of a row's numbers are
    computed that was read before.

    A core is done with a page of such numbers before memory answers, and hardware fetches ahead within pages only. In a block that is read
    several times hardware sees no stream, or goes on behind each piece; of short rows side by side it sees the lines in another order than
    they lie in, and each block begins with waiting for all of its rows. While functions are computed memory has nothing to do, and the
    first pass through the next row, a maximum or a sum, does nothing but wait for it.
    """
    if not target.pages_ahead:
        return
    found: dict[tuple[str, str], int] = {}
    for above, statement in nest.points:
        if statement.role not in {"update", "map"} or not above or above[-1].binding != "vector":
            continue
        for place in statement.operands:
            if size := _distance(nest, place, above, statement, target):
                found[statement.einsum, nest.tensor_of(place.source)] = size
    for (einsum, tensor), distance in found.items():
        step = Prefetch(einsum, tensor, distance, target.line_bytes)
        with suppress(ScheduleError):
            step.apply(nest)
            yield step


def _distance(nest: Nest, place: Place, above: Sequence[For], statement: Statement, target: Target) -> int:
    """How many bytes ahead an array is asked for where a statement reads it; 0: it is not."""
    if not any(above[-1].name in index.variables for index in place.indices):
        return rows_side_by_side(nest, place, above, target) if statement.role == "update" else 0
    if statement.role == "update":
        wide = memory_type(nest.dtype_of(statement.target.source)).itemsize
        if memory_type(nest.dtype_of(place.source)).itemsize < wide and is_read_once(nest, place, above, target):
            return target.pages_ahead * target.page_bytes
        if size := block_used_again(nest, place, above, target):
            return size
    return row_computed_on(nest, place, above, statement, target)


def block_used_again(nest: Nest, place: Place, above: Sequence[For], target: Target) -> int:
    """How many bytes of a large array an iteration of a loop reads a few times in short pieces, before the next one reads what follows.

    Of the innermost such loop among those around a statement; 0 without one. The block is too large for the nearest cache, and a core's own
    one has room for more of them; the array is so large that little of it is left there from another time. Pieces are shorter than a page:
    of others hardware sees streams.
    """
    shape = _large_shape(nest, place, NEAR_BLOCKS * target.core_cache_bytes * target.units)
    itemsize = memory_type(nest.dtype_of(place.source)).itemsize
    if not shape or _piece(place, shape, above) * itemsize >= target.page_bytes:
        return 0
    spans, uses = [1] * len(shape), 1
    for loop in reversed(above):
        moved = {axis: by for axis, index in enumerate(place.indices) if (by := index.coefficients.get(loop.name, 0))}
        if loop.extent is None or len(moved) > 1:
            return 0
        if not moved:
            uses *= loop.extent if loop.binding == "loop" else 1
            continue
        ((axis, by),) = moved.items()
        block = (*[1] * axis, by, *shape[axis + 1 :])
        if uses > 1 and loop.binding == "loop" and loop.extent > 1 and tuple(spans) == block:
            size = prod(block) * itemsize
            return size if uses <= FEW_USES and target.nearest_cache_bytes < size <= target.core_cache_bytes // NEAR_BLOCKS else 0
        spans[axis] = min(shape[axis], spans[axis] + by * (loop.extent - 1))
    return 0


def rows_side_by_side(nest: Nest, place: Place, above: Sequence[For], target: Target) -> int:
    """How many bytes ahead a large array is asked for of which an iteration of a loop reads a block of short rows, a number of each in
    turns, and the next one the block behind it: the blocks of a page, at least one. 0 of any other array.

    A row has more than a line, else lines are read in order; and less than a page, else hardware sees streams. Of longer blocks the
    beginning is a small part, and what is computed with a number takes no longer than memory.
    """
    shape = _large_shape(nest, place, target.core_cache_bytes * target.units)
    if not shape:
        return 0
    itemsize = memory_type(nest.dtype_of(place.source)).itemsize
    apart = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    inside, row, block, uses = list[tuple[int, int]](), 0, 0, 1
    for loop in reversed(above):
        if loop.extent is None:
            return 0
        step = sum(index.coefficients.get(loop.name, 0) * by for index, by in zip(place.indices, apart, strict=True))
        uses *= loop.extent if not step else 1
        if loop.extent == 1 or not step or block:
            continue
        if loop.binding == "loop" and sorted(inside) != inside and _together(inside) == step:
            row, block = min(inside)[1] * itemsize, step * itemsize
        inside.append((step, loop.extent))
    if not target.line_bytes < row < target.page_bytes or block > target.pages_ahead * target.page_bytes:
        return 0
    return -(-target.page_bytes // block) * block if uses <= USED_FROM_MEMORY * (above[-1].extent or 1) else 0


def _together(loops: Sequence[tuple[int, int]]) -> int:
    """How many elements loops read that lie together; each with how far apart those of its iterations lie, and how many it has. 0: others
    lie between them.
    """
    run = 1
    for step, extent in sorted(loops):
        if step != run:
            return 0
        run *= extent
    return run


def _piece(place: Place, shape: Sequence[int], above: Sequence[For]) -> int:
    """How many neighbours are read before the innermost loop in time goes on elsewhere."""
    run = 1
    for loop in reversed(above):
        moved = [(axis, by) for axis, index in enumerate(place.indices) if (by := index.coefficients.get(loop.name, 0))]
        row = prod(shape[moved[0][0] :]) if moved else 0
        if len(moved) == 1 and run * shape[moved[0][0]] == moved[0][1] * row:
            run = min(row, run * (loop.extent or 1))
        elif loop.binding == "loop":
            break
    return run


def is_read_once(nest: Nest, place: Place, above: Sequence[For], target: Target) -> bool:
    """Whether an array in memory is read from end to end, or in pieces of more than a page, by these loops around a statement.

    It is larger than the caches that cores have of their own: what lies there is not asked for.
    """
    shape = _large_shape(nest, place, target.core_cache_bytes * target.units)
    if not shape:
        return False
    itemsize = memory_type(nest.sources[place.source].dtype).itemsize
    steps = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    run = 1
    for loop in reversed(above):
        if loop.extent == 1:
            continue
        step = sum(index.coefficients.get(loop.name, 0) * apart for index, apart in zip(place.indices, steps, strict=True))
        if not step or loop.extent is None or (step != run and run * itemsize <= target.page_bytes):
            return False
        run *= loop.extent
    return True


def row_computed_on(nest: Nest, place: Place, above: Sequence[For], statement: Statement, target: Target) -> int:
    """How many bytes of a large array an iteration of a loop reads one after another, elsewhere first, and then here for functions of
    several instructions; 0 if it does not.

    The nearest cache has room for it. Where little is computed memory is busy without being asked.
    """
    shape = _large_shape(nest, place, NEAR_BLOCKS * target.core_cache_bytes * target.units)
    if not shape or place not in _of_long_functions(statement):
        return 0
    itemsize, run = memory_type(nest.dtype_of(place.source)).itemsize, 1
    for depth in reversed(range(len(above))):
        loop = above[depth]
        moved = {axis: by for axis, index in enumerate(place.indices) if (by := index.coefficients.get(loop.name, 0))}
        if loop.extent is None or len(moved) != 1:
            return 0
        ((axis, by),) = moved.items()
        row = prod(shape[axis + 1 :])
        if run == by * row and loop.binding == "loop" and run > 1 and _is_read_before(nest, place.source, loop, above[depth + 1]):
            return run * itemsize if run * itemsize <= target.nearest_cache_bytes else 0
        if run != by * row:
            return 0
        run = min(row * shape[axis], run * loop.extent)
    return 0


def _is_read_before(nest: Nest, source: str, around: For, inner: For) -> bool:
    """Whether an array is read in an iteration of a loop before it comes to one inside."""
    for above, statement in nest.points:
        names = [loop.name for loop in above]
        if inner.name in names:
            return False
        if around.name in names and any(place.source == source for place in statement.operands):
            return True
    return False


class _LongFunctions(WalkMapper):  # type: ignore[misc]
    """Collects the variables of arguments of functions that are long."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def map_call(self, expr: Call) -> None:
        name = expr.function.name if isinstance(expr.function, Variable) else str(expr.function)
        function = FUNCTIONS.get(name) or IN_KERNELS.get(name)
        if function is not None and function.cost != "" and function.cycles[0] >= LONG_CYCLES:
            self.found |= get_dependencies(expr)
        super().map_call(expr)


def _of_long_functions(statement: Statement) -> list[Place]:
    """What a statement reads as arguments of functions that take long."""
    found = _LongFunctions()
    found(statement.value)
    return [place for position, place in enumerate(statement.operands) if operand_name(position) in found.found]


def _large_shape(nest: Nest, place: Place, size: int) -> tuple[int, ...]:
    """The shape of an array in memory that takes more than so many bytes; empty for any other."""
    source = nest.sources.get(place.source)
    if source is None or (source.is_rule and not source.is_direct) or source.consecutive_axis != -1 or None in source.shape:
        return ()
    shape = tuple(size for size in source.shape if size is not None)
    return shape if prod(shape) * memory_type(source.dtype).itemsize > size else ()
