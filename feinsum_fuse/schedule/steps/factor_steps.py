"""Reductions whose iterations run at the same time: each has a partial result of its own, and these are combined afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from constantdict import constantdict

from ...formats.affine import Affine
from ...formats.language.reductions import REDUCTIONS
from ...number_types import scalar
from ..refusals import BindingConflictError, NestOrderError, NoReductionError, ProducerConsumerError, SymbolicExtentError
from ..statement import Place, Statement
from ..step import Keyword, Step
from ..tree.accumulators import Hoisted, can_wait, hoisted
from ..tree.loops import check_alone, find, is_reduction, replace_statement, with_body
from ..tree.nest import For, LoopRef, Nest, NestItem, Tile, statements
from ..tree.regions import Region, check_dense, check_visible, region
from .tile_steps import Mover, part_of, placed_at, space_of, sum_dtype, tile_origin, tile_strides


@dataclass(frozen=True)
class RFactor(Step):
    """Give each iteration of a reduction loop a partial result of its own (TensorIR: rfactor), so that the loop may run in parallel.

    Before: ``for i: init Z; for k: Z[base(i) + inner] += ...``. After: ``for i: init Z; part[k, f] = neutral;
    for k: part[k, inner] += ...; for f: for k: Z[base(i) + f] += part[k, f]``. The partial results live in ``memory`` below the loop
    ``at`` (none: the kernel's start), in the type in which the Einsum accumulates. Constant factors of a sum are applied to partial results
    as these are combined. Invariant: after the loop ``at`` has run an iteration, Z holds what it held before; sums are taken in another
    order.
    """

    effect = "reassociates"
    loop: LoopRef
    at: LoopRef | None
    memory: Keyword

    def apply(self, nest: Nest) -> Nest:
        memory = space_of(self.memory, self)
        einsum = self.loop.einsum
        self._check(nest)
        nest, scope = placed_at(nest, self.at, memory, (einsum,), self)
        names = tuple(loop.name for loop in scope)
        loop = find(nest, self.loop, self)
        above, update = next((a, s) for a, s in nest.points if s.einsum == einsum and s.role == "update" and loop in a)
        if above[: len(names)] != scope or loop.name in names:
            raise NestOrderError(f"{self}: {self.loop} does not run below this loop", hint="Hold the partial results further out.")
        place = update.target
        check_visible(memory, [(above, place)], names, self)
        touched = region([(above, place)], names, self)
        check_dense([(above, place)], names, self, touched)
        self._check_unread(nest, names, place)
        assert update.reduce is not None and loop.extent is not None
        name, dtype = nest.fresh_tile(f"{nest.tensor_of(place.source)}_partial"), sum_dtype(nest, einsum, place.source)
        shape = (loop.extent, *touched.shape)
        origin = (Affine(()), *tile_origin(nest, place.source, touched.base))
        strides = (1, *tile_strides(nest, place.source, touched))
        tile = Tile(name, nest.tensor_of(place.source), memory, shape, dtype, origin, tuple(range(len(shape))), strides=strides)
        own = Place(name, (Affine.variable(loop.name), *touched.local(place, name).indices))
        before = _started(nest, einsum, tile, scalar(dtype, REDUCTIONS[update.reduce].neutral_of(dtype)))
        waits = can_wait(update.reduce, nest.dtype_of(place.source), dtype)
        each = hoisted(update.value) if waits else Hoisted(update.value)
        after = _combined(nest, tile, touched, update, each, above, names)
        # Partial results of partial results are combined before those are.
        body = _around(nest.body, update, len(names), before, after)
        body = replace_statement(body, update, dataclasses.replace(update, target=own, value=each.inner))
        return nest.replace(body=body, tiles=constantdict({**nest.tiles, name: tile}))

    def _check(self, nest: Nest) -> None:
        loop = find(nest, self.loop, self)
        if loop.binding != "loop":
            raise BindingConflictError(f"{self}: the loop is bound to {loop.binding} already", hint="Factor a loop before binding it.")
        check_alone(nest, loop, self)
        if len(loop.refs) > 1:
            shared = ", ".join(map(str, loop.refs))
            raise NestOrderError(f"{self}: the loop is shared by {shared}", hint="Split it, and factor an inner part that is not shared.")
        if not is_reduction(nest, loop, self.loop.einsum):
            hint = "Such a loop can be bound as it is."
            raise NoReductionError(f"{self}: {self.loop} is no reduction loop of {self.loop.einsum}", hint=hint)
        if loop.extent is None:
            raise SymbolicExtentError(f"{self}: {self.loop} has a symbolic size", hint="Split the loop first.")

    def _check_unread(self, nest: Nest, names: Sequence[str], place: Place) -> None:
        """:class:`ProducerConsumerError` if another Einsum reads the sums below the scope, where they are not combined yet."""
        for _, other in statements(part_of(nest.body, names, [self.loop.einsum])):
            if other.einsum != self.loop.einsum and place.source in {p.source for p in (other.target, *other.operands)}:
                raise ProducerConsumerError(
                    f"{self}: {other.einsum} uses {place} before the partial results are combined",
                    hint="Hold the partial results further in, below the loop that both run under.",
                )


def _started(nest: Nest, einsum: str, tile: Tile, value: float | int) -> tuple[NestItem, ...]:
    """All partial results at the value that leaves others unchanged, those of one element one after another, as they lie."""
    names = [nest.fresh(f"{tile.name}_init_{axis}") for axis in range(len(tile.shape))]
    body: tuple[NestItem, ...] = (Statement(einsum, "init", Place(tile.name, tuple(map(Affine.variable, names))), value),)
    for axis in (0, *reversed(range(1, len(tile.shape)))):
        body = (For(names[axis], tile.shape[axis], body),)
    return body


def _combined(
    nest: Nest, tile: Tile, touched: Region, update: Statement, each: Hoisted, above: tuple[For, ...], names: tuple[str, ...]
) -> tuple[NestItem, ...]:
    """Every element of the region with the partial results added to it, one iteration of the factored loop after another."""
    axes = tuple(range(len(touched.shape)))
    whole = dataclasses.replace(tile, shape=touched.shape, origin=tile.origin[1:], axes=axes, strides=tile.strides[1:])
    (node,) = Mover(nest, whole, touched, update.target, above, names).statement(update.einsum, "drain")
    ((_, drain),) = statements((node,))
    lane = nest.fresh(f"{tile.name}_combine")
    held = Place(tile.name, (Affine.variable(lane), *drain.operands[0].indices))
    combine = dataclasses.replace(drain, role="combine", value=each.of(drain.value), operands=(held,), reduce=update.reduce)
    return _replaced((node,), For(lane, tile.shape[0], (combine,)))


def _around(
    body: tuple[NestItem, ...], update: Statement, depth: int, before: tuple[NestItem, ...], after: tuple[NestItem, ...]
) -> tuple[NestItem, ...]:
    """The tree with nodes put right before and after what holds a statement below so many loops."""
    result: list[NestItem] = []
    for node in body:
        if not any(s is update for _, s in statements((node,))):
            result.append(node)
        elif depth and isinstance(node, For):
            result.append(with_body(node, _around(node.body, update, depth - 1, before, after)))
        else:
            result += [*before, node, *after]
    return tuple(result)


def _replaced(body: tuple[NestItem, ...], leaf: For) -> tuple[NestItem, ...]:
    """The nest of loops with this at its bottom."""
    return tuple(dataclasses.replace(n, body=_replaced(n.body, leaf)) if isinstance(n, For) else leaf for n in body)
