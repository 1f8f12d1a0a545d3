"""Loops, guards and accesses as integer sets and relations (ISL)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import islpy as isl

from ...formats.affine import Affine
from ...formats.integer_sets import integer_map, integer_set, within
from .nest import For, Nest, Place, statements


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


def _keeps_apart(nest: Nest, loop: For, around: Sequence[For]) -> bool:
    """Whether an axis of each array that is written tells the loop's iterations apart, whatever the limits: most loops that are bound.

    Along such an axis all accesses move alike with the loops around and by one step with the loop itself, and the loops below reach less
    far than that step.
    """
    outer = {other.name for other in around}
    found = [(above, s, p) for above, s in statements((loop,)) for p in (s.target, *s.operands) if p.source not in nest.tiles]
    for source in {p.source for _, s, p in found if p is s.target}:
        axes = zip(*[_moves(p, loop, above, outer) for above, _, p in found if p.source == source], strict=True)
        if not any(_tells_apart(list(axis)) for axis in axes):
            return False
    return True


_Move = tuple[Affine, int, int | None, int | None]
"""What the loops around do to an index, the loop's own step, and the least and most that constant and loops below add."""


def _moves(place: Place, loop: For, above: Sequence[For], outer: Collection[str]) -> list[_Move]:
    extents = {other.name: other.extent for other in above}
    moves: list[_Move] = []
    for index in place.indices:
        low: int | None = index.constant
        high: int | None = index.constant
        for name, factor in index.terms:
            if name == loop.name or name in outer:
                continue
            extent = extents.get(name)
            if extent is None or low is None or high is None:
                low = high = None
                break
            low, high = low + min(0, factor * (extent - 1)), high + max(0, factor * (extent - 1))
        moves.append((index.restricted(outer), index.coefficients.get(loop.name, 0), low, high))
    return moves


def _tells_apart(moves: Sequence[_Move]) -> bool:
    around, step, _, _ = moves[0]
    lows, highs = [low for *_, low, _ in moves if low is not None], [high for *_, high in moves if high is not None]
    if not step or len(lows) < len(moves) or any(move[:2] != (around, step) for move in moves):
        return False
    return max(highs) - min(lows) < abs(step)


Visit = tuple[Place, For, Sequence[For]]
"""An access, the loop that is asked about, and the loops around the access."""


def is_one_iteration(one: Visit, other: Visit, standing: Collection[str]) -> bool:
    """Whether some axis shows that two accesses meet in an element only where both of their loops stand at the same value.

    The loops ``standing`` stand alike for both. Where no axis shows it, ISL has to decide.
    """
    axes = zip(_moves(*one, set(standing)), _moves(*other, set(standing)), strict=True)
    return any(_tells_apart(axis) for axis in axes)


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
