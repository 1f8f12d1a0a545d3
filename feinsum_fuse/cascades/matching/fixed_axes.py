"""Axes of an output that other loops fix: ``T[i, j] = A[i]`` where ``i = j`` is ``T[i, i] = A[i]``.

The grammar writes an output at bare loops, so an Einsum that indexes two axes alike (or one by ``2*i``) has a loop of its own for such an
axis, and conditions that leave one value of it. Here that loop goes, and the axis is indexed by the value.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

from constantdict import constantdict
from loopy.symbolic import get_dependencies

from ...formats.affine import Affine
from ..terms import Size
from .instruction import Instruction


def without_fixed_axes(found: Instruction, named: Collection[str]) -> Instruction:
    """The instruction without loops that serve only to find the element that is written; itself if it has none.

    A loop stays that is ``named`` a rank variable, that the map or an operand uses, or whose value is not a sum of multiples of the others.
    """
    used = {*named, *found.reduced, *get_dependencies(found.map)}
    used |= {variable for read in found.operands.reads for index in read.indices for variable in index.variables}
    result = found
    for index in found.indices:
        if index.bare is not None and index.bare not in used:
            result = _without(result, index.bare)
    return result


def in_lowest_terms(found: Instruction) -> Instruction:
    """The instruction with conditions on loops such as ``2*i >= 2*j + 1`` as ``i >= j + 1``."""
    return dataclasses.replace(found, guards=tuple(dict.fromkeys(map(_lowest, found.guards))))


def _lowest(guard: Affine) -> Affine:
    factor = math.gcd(*(factor for _, factor in guard.terms))
    return Affine(tuple((name, f // factor) for name, f in guard.terms), guard.constant // factor) if factor > 1 else guard


def as_short(found: Instruction) -> Instruction:
    """The instruction with loops no longer than conditions on one loop alone leave them; itself where that is already so."""
    tight = _tightened(found.guards, found.sizes)
    return found if tight is None else dataclasses.replace(found, sizes=tight[0], guards=tight[1])


def _without(found: Instruction, loop: str) -> Instruction:
    """The instruction with the value of a loop in its place; itself if conditions do not fix that, or leave nothing."""
    value = _value(loop, found.guards)
    if value is None:
        return found
    inside = _inside(value, found.sizes[loop], found.sizes)
    if inside is None:
        return found
    sizes = {name: size for name, size in found.sizes.items() if name != loop}
    tight = _tightened([*(guard.substituted({loop: value}) for guard in found.guards), *inside], sizes)
    if tight is None:
        return found
    indices = tuple(index.substituted({loop: value}) for index in found.indices)
    return in_lowest_terms(dataclasses.replace(found, indices=indices, sizes=tight[0], guards=tight[1]))


def _value(loop: str, guards: Collection[Affine]) -> Affine | None:
    """What a loop must be for a condition and its opposite (both are >= 0) to hold."""
    for guard in guards:
        factor = guard.coefficients.get(loop, 0)
        if abs(factor) == 1 and -guard in guards:
            return (guard - Affine.of({loop: factor})) * -factor
    return None


def _inside(value: Affine, size: Size, sizes: Mapping[str, Size]) -> tuple[Affine, ...] | None:
    """What must be >= 0 for a value to be an index of an axis; ``None`` if that is no affine condition."""
    if value.bare is not None and sizes[value.bare] == size:
        return ()
    return (value, -value + (size - 1)) if isinstance(size, int) else None


def _tightened(guards: Collection[Affine], sizes: Mapping[str, Size]) -> tuple[constantdict[str, Size], tuple[Affine, ...]] | None:
    """Loops as short as conditions on one of them alone make them, and the conditions that are left; ``None`` if they leave no point."""
    short = dict(sizes)
    for guard in guards:
        (name, factor), *others = guard.terms or (("", 0),)
        size = short.get(name)
        if factor < 0 and not others and isinstance(size, int):
            short[name] = min(size, guard.constant // -factor + 1)
    numbers = {name: size for name, size in short.items() if isinstance(size, int)}
    if any(size < 1 for size in numbers.values()):
        return None
    known = [guard for guard in dict.fromkeys(guards) if numbers.keys() >= set(guard.variables)]
    if any(guard.largest(numbers) < 0 for guard in known):
        return None
    holding = {guard for guard in known if guard.smallest(numbers) >= 0}
    return constantdict(short), tuple(guard for guard in dict.fromkeys(guards) if guard not in holding)
