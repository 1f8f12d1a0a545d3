"""Computing an intermediate where it is read instead of storing it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from constantdict import constantdict
from loopy.symbolic import SubstitutionMapper, get_dependencies
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.workload import operand_name
from ..refusals import NestOrderError, ProducerConsumerError, UnknownTensorError
from ..statement import Place, Statement
from ..step import EinsumName, Step
from ..tree.loops import chain_of, computing
from ..tree.nest import For, Nest, NestItem, rebuilt, statements


@dataclass(frozen=True)
class Inline(Step):
    """Compute what an Einsum stores wherever it is read, and store it no more (TensorIR: compute_inline).

    Before: ``for i: T[i] = f(A[i])``, ``for j: Z[j] = g(T[j])``. After: ``for j: Z[j] = g(f(A[j]))``. Invariant: each read element was
    written exactly once, by the iteration whose value now stands in its place. An Einsum that copies leaves an alias.
    """

    einsum: EinsumName

    def apply(self, nest: Nest) -> Nest:
        chain = chain_of(nest, self.einsum, self)
        made = computing(nest, self.einsum)
        array = self._array(nest, chain, made)
        axes = [index.variables[0] for index in made.target.indices]

        def change(node: NestItem) -> tuple[NestItem, ...]:
            if isinstance(node, For):
                return (node,)
            return () if node is made else (self._read(node, made, axes),)

        sources = constantdict({name: source for name, source in nest.sources.items() if name != array})
        return nest.replace(body=rebuilt(nest.body, change), sources=sources)

    def _array(self, nest: Nest, chain: tuple[For, ...], made: Statement) -> str:
        """The array that the Einsum writes, if each of its elements is written once, by a nest of its own."""
        source = nest.sources.get(made.target.source)
        if source is None or source.name in nest.outputs:
            raise UnknownTensorError(f"{self}: {self.einsum} writes no intermediate", hint="What a caller or a tile sees stays stored.")
        beside = [s for _, s in statements(chain[:1]) if s is not made]
        if beside or made.role != "map" or source.name in {place.source for place in made.operands}:
            raise NestOrderError(
                f"{self}: {self.einsum} does not compute each element on its own, in loops of its own",
                hint="Inline before sharing loops; a reduction is not inlined.",
            )
        extents = {loop.name: loop.extent for loop in chain}
        bare = [index.bare for index in made.target.indices]
        whole = [extents.get(name or "", -1) for name in bare] == list(source.shape) and len(set(bare)) == len(bare) == len(chain)
        cut = made.guards or any(set(limit.variables) & (extents.keys() - {loop.name}) for loop in chain for limit in loop.limits)
        if not whole or cut:
            raise ProducerConsumerError(f"{self}: {self.einsum} does not write each element of {source.name} exactly once")
        return source.name

    def _read(self, reader: Statement, made: Statement, axes: list[str]) -> Statement:
        """The statement with every read of the Einsum's array replaced by what is computed there."""
        operands: list[Place] = []
        values: dict[str, Affine] = dict(reader.values)
        parts: dict[str, Expression] = {}
        for position, place in enumerate(reader.operands):
            inner: dict[str, Expression] = {}
            if place.source == made.target.source:
                at = dict(zip(axes, place.indices, strict=True))
                here, ours = [p.substituted(at) for p in made.operands], f"{self.einsum}_{position}"
                for name in sorted(get_dependencies(made.value) & made.values.keys()):
                    inner[name] = var(f"{name}_{ours}")
                    values[f"{name}_{ours}"] = made.values[name].substituted(at)
            else:
                here = [place]
            inner |= {operand_name(k): var(operand_name(len(operands) + k)) for k in range(len(here))}
            operands += here
            whole = made.value if place.source == made.target.source else var(operand_name(0))
            parts[operand_name(position)] = _substituted(whole, inner)
        value = _substituted(reader.value, parts)
        return dataclasses.replace(reader, value=value, operands=tuple(operands), values=constantdict(values))


def _substituted(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    return SubstitutionMapper(make_subst_func(values))(expression)
