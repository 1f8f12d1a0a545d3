"""One pass over a reduction whose intermediate maximum is not known yet: the online softmax as a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from constantdict import constantdict
from pymbolic import var
from pymbolic.primitives import Call, Product, Sum, Variable
from pymbolic.typing import Expression

from ...cascades.maps import variables_in
from ...formats.affine import Affine
from ...formats.language.reductions import ADD, MAX, MUL
from ...formats.workload import operand_name
from ...number_types import largest, scalar
from ..refusals import IncompleteReductionError, NestOrderError
from ..statement import Place, Statement
from ..step import EinsumName, Step
from ..tree.loops import chain_of, computing, inside, replace_loop, with_body
from ..tree.nest import For, LoopRef, Nest, NestItem, Source, rebuilt
from .loop_steps import shared


@dataclass(frozen=True)
class RollingUpdate(Step):
    """Share a loop over which a maximum is still being taken, and rescale what was summed with an older one.

    For ``M = max_p x``, ``E_p = exp(x_p - M)`` and sums ``S = sum_p E_p * y_p``. Before: three loops over tiles of ``p``. After one:
    ``for tile: old = M; M = max(M, x); old = exp(old - M); S *= old; S += exp(x - M) * y``. Invariant: after each tile ``S`` is the sum so
    far, taken with the maximum so far; ``exp(x - M') = exp(x - M) * exp(M - M')`` (Milakov and Gimelshein, 2018, section 3).

    ``maximum`` is the Einsum of ``M``; ``loops`` are the shared loop's parts, one of each Einsum in order. The maximum starts at the lowest
    finite number, so that elements which a mask sets to minus infinity count as zeros. The new Einsums are called ``<maximum>.before``,
    ``<maximum>.scale`` and ``<sum>.rescale``; the array of the old maximum and the factor is the tensor ``<maximum>.scale``.
    """

    effect = "reassociates"
    loops: tuple[LoopRef, ...]
    maximum: EinsumName

    def apply(self, nest: Nest) -> Nest:
        names = [ref.einsum for ref in self.loops]
        if self.maximum not in names:
            raise NestOrderError(f"{self}: the loops are not those of {self.maximum}")
        largest = computing(nest, self.maximum)
        exponentials = [e for e in names if _reads(nest, e, largest.target.source)]
        sums = [e for e in names if any(_reads(nest, e, computing(nest, x).target.source) for x in exponentials)]
        self._check(nest, largest, exponentials, sums)
        chains = {e: chain_of(nest, e, self) for e in (self.maximum, *sums)}
        nest = shared(nest, self.loops, self, unfinished={self.maximum})
        loop = next(node for node in chain_of(nest, self.maximum, self) if self.loops[0] in node.refs)
        old = self._scale_array(nest, largest)
        nest = nest.replace(sources=constantdict({**nest.sources, old.name: old}))
        place = Place(old.name, largest.target.indices)
        before = self._statement(nest, largest, f"{self.maximum}.before", place, [largest.target])
        scale = self._statement(nest, largest, f"{self.maximum}.scale", place, [place, largest.target])
        difference = Sum((var(operand_name(0)), Product((-1, var(operand_name(1))))))
        added = [(self.maximum, dataclasses.replace(scale, value=var("exp")(difference)))]
        for einsum in sums:
            factor = _row(nest, einsum, exponentials, old.name, largest, self)
            total = computing(nest, einsum)
            added.append((einsum, self._statement(nest, total, f"{einsum}.rescale", total.target, [factor], reduce=True)))
        body = [*_under(chains[self.maximum], self.loops, loop.name, before, nest)]
        for node in loop.body:
            body.append(node)
            if inside(node, [self.maximum]):
                for einsum, statement in added:
                    body += _under(chains[einsum], self.loops, loop.name, statement, nest)
        nest = nest.replace(body=replace_loop(nest.body, loop.name, (with_body(loop, tuple(body)),)))
        return nest.replace(body=rebuilt(nest.body, lambda n: (self._finite(nest, n),)))

    def _check(self, nest: Nest, largest: Statement, exponentials: Sequence[str], sums: Sequence[str]) -> None:
        if largest.reduce != MAX.name or not exponentials:
            raise IncompleteReductionError(f"{self}: {self.maximum} is no maximum that exponentials under the loop read")
        for einsum in exponentials:
            if not _is_shifted_exponential(computing(nest, einsum), largest.target.source):
                raise IncompleteReductionError(
                    f"{self}: {einsum} uses the maximum other than as exp(x - maximum); one pass cannot correct it later, two can",
                    hint="Leave the loop unshared.",
                )
        for einsum in sums:
            statement = computing(nest, einsum)
            if einsum not in exponentials and (statement.reduce != ADD.name or not _is_linear(nest, statement, exponentials)):
                raise IncompleteReductionError(
                    f"{self}: {einsum} is no sum of products with the exponentials; one pass cannot rescale it, two can",
                    hint="Move the division behind the sum, or leave the loop unshared.",
                )

    def _scale_array(self, nest: Nest, largest: Statement) -> Source:
        source = nest.sources[largest.target.source]
        return Source(nest.fresh(f"{source.name}_scale"), f"{self.maximum}.scale", source.shape, source.dtype, is_owned=True)

    def _statement(
        self, nest: Nest, like: Statement, einsum: str, target: Place, operands: list[Place], *, reduce: bool = False
    ) -> Statement:
        used = {v for place in (target, *operands) for v in place.loops}
        values = constantdict({name: v for name, v in like.values.items() if set(v.variables) <= used})
        return Statement(
            einsum, "update" if reduce else "map", target, var(operand_name(0)), tuple(operands), values, MUL.name if reduce else None
        )

    def _finite(self, nest: Nest, node: NestItem) -> NestItem:
        if isinstance(node, Statement) and node.role == "init" and node.einsum == self.maximum:
            lowest = scalar(nest.sources[node.target.source].dtype, -largest(nest.sources[node.target.source].dtype))
            return dataclasses.replace(node, value=cast(Expression, lowest))
        return node


def _reads(nest: Nest, einsum: str, source: str) -> bool:
    return any(place.source == source for place in computing(nest, einsum).operands)


def _is_shifted_exponential(statement: Statement, source: str) -> bool:
    """Whether the value is ``exp(x - M)`` where ``M`` is the only read of the source."""
    value = statement.value
    if not (isinstance(value, Call) and isinstance(value.function, Variable) and value.function.name == "exp"):
        return False
    positions = [k for k, place in enumerate(statement.operands) if place.source == source]
    argument = value.parameters[0]
    if len(positions) != 1 or not isinstance(argument, Sum):
        return False
    name = operand_name(positions[0])
    shifts = [child for child in argument.children if isinstance(child, Product) and var(name) in child.children]
    others = [child for child in argument.children if child not in shifts]
    return len(shifts) == 1 and _is_negated(shifts[0], name) and not any(_mentions(child, name) for child in others)


def _is_negated(product: Product, name: str) -> bool:
    rest = [child for child in product.children if child != var(name)]
    return len(rest) == 1 and np.isscalar(rest[0]) and rest[0] == -1


def _mentions(expression: Expression, name: str) -> bool:
    return name in variables_in(expression)


def _is_linear(nest: Nest, statement: Statement, exponentials: Sequence[str]) -> bool:
    """Whether the value is a product in which one exponential occurs once."""
    written = {computing(nest, e).target.source for e in exponentials}
    names = [operand_name(k) for k, place in enumerate(statement.operands) if place.source in written]
    if len(names) != 1:
        return False
    value = statement.value
    if value == var(names[0]):
        return True
    return (
        isinstance(value, Product)
        and value.children.count(var(names[0])) == 1
        and all(child == var(names[0]) or not _mentions(child, names[0]) for child in value.children)
    )


def _row(nest: Nest, einsum: str, exponentials: Sequence[str], array: str, largest: Statement, step: Step) -> Place:
    """The factor that belongs to an element of a sum: the maximum's indices, through the exponential that both touch."""
    total = computing(nest, einsum)
    for name in exponentials:
        exponential = computing(nest, name)
        read = next(place for place in exponential.operands if place.source == largest.target.source)
        used = next((place for place in total.operands if place.source == exponential.target.source), None)
        if used is None:
            continue
        axes = dict(zip(exponential.target.indices, used.indices, strict=True))
        if all(index in axes for index in read.indices):
            return Place(array, tuple(axes[index] for index in read.indices))
    raise IncompleteReductionError(
        f"{step}: which maximum belongs to an element of {einsum} is not one of its indices", hint="Leave the loop unshared."
    )


def _under(chain: Sequence[For], refs: Sequence[LoopRef], shared_loop: str, statement: Statement, nest: Nest) -> Iterator[NestItem]:
    """The statement under copies of an Einsum's loops inside the shared one, reduction loops left out, with references of its own."""
    start = next(i for i, loop in enumerate(chain) if any(ref in loop.refs for ref in refs)) + 1
    used = {v for place in (statement.target, *statement.operands) for v in place.loops}
    kept = [loop for loop in chain[start:] if loop.name in used]
    names = {loop.name: nest.fresh(f"{loop.name}_{statement.einsum.replace('.', '_')}") for loop in kept}
    values = {name: Affine.variable(new) for name, new in names.items()}
    # The first tile has nothing to rescale, and what an accumulator below holds then may not be set yet.
    body: tuple[NestItem, ...] = (dataclasses.replace(statement.substituted(values), later=(shared_loop,)),)
    for loop in reversed(kept):
        limits = tuple(limit.substituted(values) for limit in loop.limits)
        refs_here = tuple(LoopRef(statement.einsum, ref.variable, ref.path) for ref in loop.refs)
        body = (For(names[loop.name], loop.extent, body, limits, refs_here),)
    yield from body
