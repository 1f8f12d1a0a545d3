"""Computing whole tiles where the end of a tensor cuts them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from loopy.symbolic import TypeCast, get_dependencies
from pymbolic.primitives import Comparison, If, LogicalAnd, LogicalOr, Product, Sum, Variable
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.opencl import MEMORIES
from ...number_types import kind_of
from ..refusals import ScopeError
from ..statement import Place, Statement
from ..step import EinsumName, Step
from ..tree.initial_values import initial_values
from ..tree.loops import chain_of, computing, interval, replace_chain
from ..tree.nest import For, Nest, NestItem, PlacedStatement


@dataclass(frozen=True)
class RoundUp(Step):
    """Compute all elements of a work-item's tile, also those behind the end of the tensor (Halide: TailStrategy::RoundUp).

    Before: ``for i in [0, 16), 16*l + i < 99: acc[i] = 0; for k: for i in [0, 16), 16*l + i < 99: acc[i] += A_local[16*l + i, k] * x[k]``.
    After: the loops over ``i`` have no limits; what stores ``acc`` keeps its own. Invariant: every element that has an initial value gets
    the same value. The others are read by nobody but what computes them, whatever they hold, so that nothing is asked of what goes into
    them but that it lies inside its array: all reads of other arrays stay where they were, those of tiles stay inside the tile.

    A limit is left out where the loops that set the initial values have it, too. Limits of loops over work-items stay: one that has
    nothing to do does nothing. Whole numbers are multiplied and added only, which no value can stop. Where no tile is cut nothing changes.
    """

    einsum: EinsumName

    def apply(self, nest: Nest) -> Nest:
        above, update = chain_of(nest, self.einsum, self), computing(nest, self.einsum)
        tile = nest.tiles.get(update.target.source)
        if tile is None or not MEMORIES[tile.memory].is_register:
            raise ScopeError(f"{self}: {self.einsum} adds nothing up in registers", hint="Place a tile of its output there first.")
        cut = self._cut(nest, (above, update))
        free = self._left_out(nest, above, update, cut) if cut else []
        if cut and not free:
            raise ScopeError(
                f"{self}: no limit of a loop around {self.einsum} can be left out",
                hint="Its operands must be tiles that hold as much as is computed then, and its tile have initial values.",
            )
        ends = {limit.end for limit in free}
        for number in range(len(initial_values(nest, self.einsum, tile.name))):
            point = initial_values(nest, self.einsum, tile.name)[number]
            # A vector is set as a whole; the limits of its lanes say where the tensor's part of it ends.
            own = {limit.condition for limit in _limits_of(point) if limit.end in ends}
            nest = _without(nest, point, own - {limit for loop in point[0] if loop.binding == "vector" for limit in loop.limits})
        return _without(nest, (chain_of(nest, self.einsum, self), update), {limit.condition for limit in free})

    def _cut(self, nest: Nest, point: PlacedStatement) -> list[_Limit]:
        """The limits of its loops that those which set the tile's initial values have, too."""
        set_too = [{limit.end for limit in _limits_of(other)} for other in initial_values(nest, self.einsum, point[1].target.source)]
        return [limit for limit in _limits_of(point) if set_too and all(limit.end in ends for ends in set_too)]

    def _left_out(self, nest: Nest, above: tuple[For, ...], update: Statement, cut: Sequence[_Limit]) -> list[_Limit]:
        """Those of these limits that can be left out."""
        roles = {s.role for _, s in nest.points if s.target.source == update.target.source}
        if update.role != "update" or "reload" in roles or not _is_harmless(nest, update):
            return []
        found: list[_Limit] = []
        for limit in cut:
            if _is_inside(nest, above, update, {limit.condition, *(other.condition for other in found)}):
                found.append(limit)
        return found


@dataclass(frozen=True)
class _Limit:
    """A limit of a loop that moves a statement's target along one axis of its tile."""

    condition: Affine
    end: tuple[int, Affine]
    """The axis, and the last element along it that is within the limit: of the same group, work-item and iteration of loops around."""


def _limits_of(point: PlacedStatement) -> Iterator[_Limit]:
    """The limits of a statement's loops, but of those over groups and work-items, that end an axis of its target where other loops say."""
    above, statement = point
    axes = {loop.name: Affine.variable(loop.binding) for loop in above if loop.is_over_grid and not loop.fused}
    for loop in above:
        if loop.is_over_grid or loop.fused or loop.extent is None or len(loop.inner_points) != 1:
            continue
        for limit in loop.limits:
            for axis, index in enumerate(statement.target.indices):
                if loop.name in index.variables:
                    yield _Limit(limit, (axis, (limit + index).substituted(axes)))


def _is_inside(nest: Nest, above: Sequence[For], update: Statement, without: Container[Affine]) -> bool:
    """Whether all that a statement touches lies inside its array without these limits of its loops."""
    loops = [loop.changed(limits=tuple(limit for limit in loop.limits if limit not in without)) for loop in above]
    return all(_lies_inside(nest, place, loops) for place in (update.target, *update.operands))


def _lies_inside(nest: Nest, place: Place, loops: Sequence[For]) -> bool:
    tile = nest.tiles.get(place.source)
    source = nest.sources.get(place.source)
    if source is not None and source.is_rule and not source.is_direct:
        return False
    shape = source.shape if tile is None and source is not None else tile.shape if tile is not None else ()
    for index, size in zip(place.indices, shape, strict=True):
        low, high = interval(index, loops)
        if low is None or high is None or size is None or low < 0 or high >= size:
            return False
    return True


def _without(nest: Nest, point: PlacedStatement, limits: Container[Affine]) -> Nest:
    """The nest without these limits of loops around a statement, which are around it alone."""
    above, statement = point
    depth = next((depth for depth, loop in enumerate(above) if any(limit in limits for limit in loop.limits)), None)
    if depth is None:
        return nest
    body: tuple[NestItem, ...] = (statement,)
    for loop in reversed(above[depth:]):
        body = (loop.changed(limits=tuple(limit for limit in loop.limits if limit not in limits), body=body),)
    return nest.replace(body=replace_chain(nest.body, above[: depth + 1], body))


def _is_harmless(nest: Nest, update: Statement) -> bool:
    """Whether any operands at all have a value: those of whole numbers may not be divided, nor may what loops count."""
    types = [nest.dtype_of(place.source) for place in (update.target, *update.operands)]
    counted = get_dependencies(update.value) & update.values.keys()
    return (all(kind_of(dtype) in "fc" for dtype in types) and not counted) or _is_simple(update.value)


def _is_simple(value: Expression) -> bool:
    """Whether an expression only adds, multiplies and chooses."""
    match value:
        case Sum(children) | Product(children) | LogicalAnd(children) | LogicalOr(children):
            return all(map(_is_simple, children))
        case If(condition, then, otherwise):
            return all(map(_is_simple, (condition, then, otherwise)))
        case Comparison(left, _, right):
            return _is_simple(left) and _is_simple(right)
        case TypeCast():
            return _is_simple(value.child)
    return isinstance(value, Variable | int | float | complex | np.generic)
