"""What part of an array the statements below a place in the tree touch, and whether a tile there can hold it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import gcd

import islpy as isl

from ...formats.affine import Affine
from ...formats.opencl import MEMORIES, AddressSpace
from ..refusals import NestOrderError, ProducerConsumerError, ScopeError, SymbolicExtentError
from ..statement import Place
from ..step import Step
from .loops import interval
from .nest import For
from .polyhedra import relation

Touch = tuple[tuple[For, ...], Place]
"""A place that is touched, with the loops around."""


@dataclass(frozen=True)
class Region:
    """What part of an array is touched below a scope: per axis ``shape`` elements from ``base`` (over the loops of the scope), ``strides``
    apart.
    """

    base: tuple[Affine, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """1 but where work-items take turns along an axis."""

    def local(self, place: Place, source: str) -> Place:
        """The same element, counted from the region's first."""
        offsets = (index - base for index, base in zip(place.indices, self.base, strict=True))
        return Place(source, tuple(_divided(offset, stride) for offset, stride in zip(offsets, self.strides, strict=True)))


def _divided(index: Affine, stride: int) -> Affine:
    return index if stride == 1 else Affine(tuple((name, factor // stride) for name, factor in index.terms), index.constant // stride)


def region(accesses: Sequence[Touch], scope: Collection[str], step: Step, items: Sequence[For] = ()) -> Region:
    """The region that accesses to one array touch while the loops of the scope stand still, in one of the work-items ``items``."""
    bases, shape, strides = [], [], []
    own = {loop.name for loop in items}
    for axis in range(len(accesses[0][1].indices)):
        fixed = {place.indices[axis].restricted({*scope, *own}) for _, place in accesses}
        if len(fixed) > 1:
            shown = ", ".join(sorted(str(place) for _, place in accesses))
            raise ProducerConsumerError(f"{step}: the accesses {shown} do not move together with the loops above")
        start = fixed.pop()
        low, high = [], []
        for above, place in accesses:
            least, most = interval(place.indices[axis] - start, above)
            if least is None or most is None:
                raise SymbolicExtentError(
                    f"{step}: the tile along axis {axis} of {place} has a symbolic size", hint="Split the loop first."
                )
            low.append(least)
            high.append(most)
        stride = _stride([place.indices[axis] - start for _, place in accesses], low) if own.intersection(start.variables) else 1
        bases.append(start + min(low))
        shape.append((max(high) - min(low)) // stride + 1)
        strides.append(stride)
    return Region(tuple(bases), tuple(shape), tuple(strides))


def _stride(offsets: Sequence[Affine], lowest: Sequence[int]) -> int:
    """How far apart the elements are that one work-item touches."""
    return gcd(*(factor for offset in offsets for _, factor in offset.terms), *(low - lowest[0] for low in lowest)) or 1


def check_dense(accesses: Sequence[Touch], scope: Collection[str], step: Step, touched: Region) -> None:
    """:class:`NestOrderError` if a tile would have gaps, whose elements other iterations own and a write-back would overwrite."""
    for above, place in accesses:
        extents = {loop.name: loop.extent or 1 for loop in above if loop.name not in scope}
        for index, stride in zip(place.indices, touched.strides, strict=True):
            reach = stride
            for factor, name in sorted((abs(factor), name) for name, factor in index.terms if extents.get(name, 1) > 1):
                if factor > reach:
                    raise NestOrderError(
                        f"{step}: the tile of {place} would have gaps along {index}: a loop above it steps by less than {name} below it",
                        hint="Place the tile above the inner part of a rank variable, or the outer part above the tile.",
                    )
                reach += factor * (extents[name] - 1)


def check_visible(memory: AddressSpace, accesses: Sequence[Touch], scope: Collection[str], step: Step) -> None:
    """A local tile is one per group and a private one per work-item: no such loop may lie between the tile and its use."""
    for above, place in accesses:
        for loop in above:
            if loop.name not in scope and MEMORIES[memory].is_hidden_from(loop.binding):
                raise ScopeError(
                    f"{step}: {memory} memory is not visible across {loop.binding}, which lies between the tile and its use in {place}",
                    hint="Place the tile below that loop, or in a memory further out."
                    if loop.is_over_groups
                    else "Place the tile below that loop, or hold it in local memory, or distributed over the work-items.",
                )


def check_own(writes: Sequence[Touch], reads: Sequence[Touch], scope: Sequence[str], items: Sequence[For], step: Step) -> None:
    """:class:`ScopeError` unless each work-item of ``items`` touches, of what is written below the scope, its own part alone."""
    if not items:
        return  # there are no others: what a processor's lowering asks of each tile
    names = [loop.name for loop in items]
    for above, place in writes:
        for other_above, other in (*writes, *reads):
            around, other_around = {loop.name for loop in above}, {loop.name for loop in other_above}
            apart = next((loop for loop in items if (loop.name in around) != (loop.name in other_around)), None)
            if apart is None and (foreign := _of_others((above, place), (other_above, other), scope, names)):
                apart = items[foreign - 1]
            if apart is not None:
                raise ScopeError(
                    f"{step}: a work-item of {apart.binding} would use {other} where another one has written {place}; private memory is "
                    "each work-item's own",
                    hint="Hold the tensor in local memory there, or let the same work-items take the same elements.",
                )


def _of_others(write: Touch, use: Touch, scope: Sequence[str], items: Sequence[str]) -> int:
    """Along which of the loops over work-items (counted from 1) another work-item uses what one has written; 0 if along none."""
    around = {loop.name for loop in write[0]}
    outer = [*scope, *(name for name in items if name in around)]
    pairs = relation(write[0], outer, write[1].indices).apply_range(relation(use[0], outer, use[1].indices).reverse())
    for position in range(len(scope)):
        pairs = pairs.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    for position in range(len(scope), len(outer)):
        if not pairs.subtract(pairs.equate(isl.dim_type.in_, position, isl.dim_type.out, position)).is_empty():
            return items.index(outer[position]) + 1
    return 0


def moved_limits(above: Sequence[For], scope: Collection[str], inner: Affine, value: Affine) -> tuple[Affine, ...]:
    """The limits of the loops below the scope that bound this index alone, in terms of another expression for the index."""
    if not inner.terms:
        return ()
    found = []
    name, step = inner.terms[0]
    below = {node.name for node in above} - set(scope)
    for node in above:
        for limit in node.limits if name in node.limiting else ():
            ours = limit.restricted(below)
            factor = -ours.coefficients.get(name, 0) // step
            if factor and ours == -inner * factor:
                found.append(limit + inner * factor - value * factor)
    return tuple(dict.fromkeys(found))
