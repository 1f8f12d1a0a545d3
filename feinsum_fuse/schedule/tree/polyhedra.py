"""Loops, guards and accesses as integer sets and relations (ISL)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import islpy as isl

from ...formats.affine import Affine
from .nest import For, Nest, Place, statements


def _constraints(above: Sequence[For], guards: Sequence[Affine]) -> list[str]:
    texts = []
    for loop in above:
        texts.append(f"0 <= {loop.name}" if loop.extent is None else f"0 <= {loop.name} < {loop.extent}")
        texts += [f"{limit} >= 0" for limit in loop.limits]
    return texts + [f"{guard} >= 0" for guard in guards]


def _parameters(above: Sequence[For], expressions: Sequence[Affine]) -> str:
    names = {loop.name for loop in above}
    mentioned = {v for loop in above for limit in loop.limits for v in limit.variables} | {v for e in expressions for v in e.variables}
    return ", ".join(sorted(mentioned - names))


@lru_cache(4096)
def _set(text: str) -> isl.Set:
    """ISL takes longer to read a set than to work with it, and a nest asks for the same few over and over."""
    return isl.Set(text)


@lru_cache(4096)
def _map(text: str) -> isl.Map:
    return isl.Map(text)


def relation(above: Sequence[For], outer: Sequence[str], indices: Sequence[Affine], guards: Sequence[Affine] = ()) -> isl.Map:
    """From the values of the ``outer`` loops to what the index expressions take while the other loops run."""
    inner = [loop.name for loop in above if loop.name not in outer]
    targets = [f"x{axis}" for axis in range(len(indices))]
    texts = _constraints(above, guards) + [f"{target} = {index}" for target, index in zip(targets, indices, strict=True)]
    condition = " and ".join(texts) or "true"
    exists = f"exists {', '.join(inner)}: {condition}" if inner else condition
    parameters = _parameters(above, [*indices, *guards])
    return _map(f"[{parameters}] -> {{ [{', '.join(outer)}] -> [{', '.join(targets)}] : {exists} }}")


def points(above: Sequence[For], guards: Sequence[Affine] = ()) -> isl.Set:
    """All iterations of these loops that satisfy the guards."""
    condition = " and ".join(_constraints(above, guards)) or "true"
    return _set(f"[{_parameters(above, list(guards))}] -> {{ [{', '.join(loop.name for loop in above)}] : {condition} }}")


def extremes(index: Affine, above: Sequence[For], guards: Sequence[Affine] = ()) -> tuple[int | None, int | None]:
    """The least and the largest value of an expression over the loops; ``None`` where it depends on a symbolic size."""
    values = relation(above, (), (index,), guards).range()
    if values.is_empty():
        return None, None
    low, high = values.dim_min_val(0), values.dim_max_val(0)
    return (int(low.to_python()) if low.is_int() else None), (int(high.to_python()) if high.is_int() else None)


def carried(nest: Nest, loop: For, around: Sequence[For]) -> str | None:
    """An access to what another iteration of this loop writes while the loops around it stand still; ``None`` if there is none.

    Initial values that are set before the loop, and tiles, whose scope is checked where they are placed, are left out.
    """
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
