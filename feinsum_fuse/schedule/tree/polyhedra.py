"""Loops, guards and accesses as integer sets and relations (ISL)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import islpy as isl

from ...formats.affine import Affine
from ...formats.integer_sets import integer_map, integer_set, within
from ..statement import Place
from .loops import interval
from .nest import For, Nest, statements


def _conditions(above: Sequence[For], guards: Sequence[Affine]) -> list[Affine]:
    boxes = [condition for loop in above for condition in (*within(loop.name, loop.extent), *loop.limits)]
    return [*boxes, *guards]


def relation(above: Sequence[For], outer: Sequence[str], indices: Sequence[Affine], guards: Sequence[Affine] = ()) -> isl.Map:
    """From the values of the ``outer`` loops to what the index expressions take while the other loops run."""
    inner = [loop.name for loop in above if loop.name not in outer]
    return integer_map(outer, indices, _conditions(above, guards), hidden=inner)


def points(above: Sequence[For], guards: Sequence[Affine] = ()) -> isl.Set:
    """All iterations of these loops that satisfy the guards."""
    return integer_set([loop.name for loop in above], _conditions(above, guards))


def extremes(index: Affine, above: Sequence[For], guards: Sequence[Affine] = ()) -> tuple[int | None, int | None]:
    """The least and the largest value of an expression over the loops; ``None`` where it depends on a symbolic size."""
    values = relation(above, (), (index,), guards).range()
    if values.is_empty():
        return None, None
    low, high = values.dim_min_val(0), values.dim_max_val(0)
    return (int(low.to_python()) if low.is_int() else None), (int(high.to_python()) if high.is_int() else None)


def left_axes(indices: Sequence[Affine], shape: Sequence[int | None], above: Sequence[For], guards: Sequence[Affine]) -> frozenset[int]:
    """The axes along which some iteration is outside of an array of this shape; axes of unknown length are never left at their end."""
    found = set()
    for axis, (index, length) in enumerate(zip(indices, shape, strict=True)):
        low, high = extremes(index, above, guards)
        if (low is not None and low < 0) or (high is not None and length is not None and high >= length):
            found.add(axis)
    return frozenset(found)


Visit = tuple[Place, For, Sequence[For]]
"""An access, the loop that is asked about, and the loops around the access."""


def _keeps_apart(nest: Nest, loop: For, around: Sequence[For]) -> bool:
    """Whether an axis of each array that is written tells the loop's iterations apart, whatever the limits: most loops that are bound.

    Along such an axis all accesses move alike with the loops around and by one step with the loop itself, and the loops below reach less
    far than that step.
    """
    outer = {other.name for other in around}
    found = [(above, s, p) for above, s in statements((loop,)) for p in (s.target, *s.operands) if p.source not in nest.tiles]
    for source in {p.source for _, s, p in found if p is s.target}:
        if not _some_axis_tells_apart([(p, loop, above) for above, _, p in found if p.source == source], outer):
            return False
    return True


def _some_axis_tells_apart(visits: Sequence[Visit], outer: Collection[str]) -> bool:
    """Whether all of these accesses to one array move along some axis as :func:`_tells_apart` asks.

    What the loops below add is bounded by their extents, and where that is too much by their limits: a tile of 64 that is cut into pieces
    of 24 ends in the middle of its third piece.
    """
    axes = range(len(visits[0][0].indices))
    moving = [axis for axis in axes if _move_alike(visits, axis, outer)]
    return any(_tells_apart(visits, axis, outer, limits) for limits in (0, 2) for axis in moving)


def _move_alike(visits: Sequence[Visit], axis: int, outer: Collection[str]) -> bool:
    """Whether the loops that are asked about step along an axis, all alike, and the loops around move all accesses alike."""
    place, loop, _ = visits[0]
    index = place.indices[axis]
    step, around = index.coefficients.get(loop.name, 0), index.restricted(outer)
    others = ((place.indices[axis], loop.name) for place, loop, _ in visits[1:])
    return step != 0 and all(i.coefficients.get(name, 0) == step and i.restricted(outer) == around for i, name in others)


def _tells_apart(visits: Sequence[Visit], axis: int, outer: Collection[str], limits: int) -> bool:
    """Whether constants and loops below move all of these accesses by less than the loops' own step, by so many of the limits."""
    step, lowest, highest = 0, math.inf, -math.inf
    for place, loop, above in visits:
        index = place.indices[axis]
        step = abs(index.coefficients[loop.name])
        below = Affine(tuple([term for term in index.terms if term[0] != loop.name and term[0] not in outer]), index.constant)
        low, high = interval(below, above, limits)
        lowest, highest = min(lowest, -math.inf if low is None else low), max(highest, math.inf if high is None else high)
        if highest - lowest >= step:
            return False
    return True


def is_one_iteration(one: Visit, other: Visit, standing: Collection[str]) -> bool:
    """Whether some axis shows that two accesses meet in an element only where both of their loops stand at the same value.

    The loops ``standing`` stand alike for both. Where no axis shows it, ISL has to decide.
    """
    return _some_axis_tells_apart((one, other), set(standing))


def carried(nest: Nest, loop: For, around: Sequence[For]) -> str | None:
    """An access to what another iteration of this loop writes while the loops around it stand still; ``None`` if there is none.

    Initial values that are set before the loop, and tiles, whose scope is checked where they are placed, are left out.
    """
    if _keeps_apart(nest, loop, around):
        return None
    outer = [*(other.name for other in around), loop.name]
    seen: list[tuple[bool, Place, isl.Map]] = []
    for above, statement in statements((loop,)):
        for place in (statement.target, *statement.operands):
            if place.source not in nest.tiles:
                written = place is statement.target
                seen.append((written, place, relation((*around, *above), outer, place.indices, statement.guards)))
    for written, place, map_ in seen:
        for _, other, other_map in seen:
            if written and other.source == place.source:
                pairs = map_.apply_range(other_map.reverse())
                space = pairs.get_space()
                same = isl.Map.universe(space)
                for position in range(len(outer) - 1):
                    same = same.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
                differ = pairs & same
                equal = differ.equate(isl.dim_type.in_, len(outer) - 1, isl.dim_type.out, len(outer) - 1)
                if not differ.subtract(equal).is_empty():
                    return str(other)
    return None
