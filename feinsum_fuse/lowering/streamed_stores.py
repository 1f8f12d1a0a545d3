"""What is written past the caches: results that are too large for the last one, where whole lines are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import prod

from ..errors import ScheduleError
from ..number_types import memory_type
from ..schedule.kernel.operations import STREAMED_BYTES
from ..schedule.statement import Place, Statement
from ..schedule.steps.prefetch_steps import StreamStores
from ..schedule.target import Target
from ..schedule.tree.nest import For, Nest, Source

LARGE = 2
"""A result of less than one part in so many of the last cache may be there when somebody reads it, after inputs that are read once."""


def streamed(nest: Nest, target: Target) -> Iterator[StreamStores]:
    """Steps that write past the caches what a cascade computes, writes once and does not read, and what the last cache cannot hold.

    A line that is written through caches is fetched before it is changed, which moves three lines for two of a copy. Of what fits the last
    cache, with all that is read, the next run finds its lines there.
    """
    if not target.last_cache_bytes or _bytes(nest.sources.values()) < target.last_cache_bytes:
        return
    read = {nest.sources[p.source].tensor for _, statement in nest.points for p in statement.operands if p.source in nest.sources}
    writes: dict[str, list[tuple[tuple[For, ...], Statement]]] = {}
    for above, statement in nest.points:
        writes.setdefault(statement.target.source, []).append((above, statement))
    for source, found in writes.items():
        array = nest.sources.get(source)
        if array is None or array.is_rule or array.tensor in read or len(found) > 1:
            continue
        ((above, statement),) = found
        multiple = _multiple(nest, statement.target, above, target)
        is_small = LARGE * _bytes([array]) < target.last_cache_bytes
        if is_small or not multiple or statement.reduce is not None or statement.first or statement.later:
            continue
        step = StreamStores(statement.einsum, array.tensor, multiple)
        with suppress(ScheduleError):
            step.apply(nest)
            yield step


def _bytes(sources: Iterable[Source]) -> int:
    """The bytes of arrays in memory, of each tensor once; none of those whose size nobody knows."""
    found: dict[str, int] = {}
    for source in sources:
        sizes = [size for size in source.shape if size is not None]
        if (source.is_direct or not source.is_rule) and len(sizes) == len(source.shape):
            found[source.tensor] = prod(sizes) * memory_type(source.dtype).itemsize
    return sum(found.values())


def _multiple(nest: Nest, place: Place, above: Sequence[For], target: Target) -> int:
    """Of how many bytes the places have to be multiples at which vectors of whole lines are written, each once; 0: they are not.

    What is written from one end of a page to the other begins at a piece of a line, and anything else at a line: one that is written in
    two parts, now and then, or in one through caches, goes to memory twice.
    """
    source = nest.sources[place.source]
    if source.consecutive_axis != -1 or None in source.shape or not above or above[-1].binding != "vector":
        return 0
    shape, itemsize = tuple(size or 0 for size in source.shape), memory_type(source.dtype).itemsize
    steps = [prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape))]
    run, apart = itemsize, [sum(index.constant * step for index, step in zip(place.indices, steps, strict=True))]
    for loop in reversed(above):
        moved = [(axis, by) for axis, index in enumerate(place.indices) if (by := index.coefficients.get(loop.name, 0))]
        if loop.extent is None or len(moved) > 1:
            return 0
        if loop.extent == 1:
            continue
        if not moved:
            return 0
        ((axis, by),) = moved
        if by * steps[axis] != run:
            apart.append(by * steps[axis])
        elif len(apart) == 1:
            run = min(run * loop.extent, shape[axis] * steps[axis])
    if above[-1].limits and prod(shape[:-1]) > 1:
        return 0  # each row ends with a part of a vector, which goes through caches
    multiple = STREAMED_BYTES if run >= target.page_bytes else target.line_bytes
    # Half a line of which the place is no multiple of a line would go through caches, and the other half past them.
    places = apart if run >= target.page_bytes else [*apart, (above[-1].extent or 0) * itemsize]
    return multiple if all(size % multiple == 0 for size in places) else 0
