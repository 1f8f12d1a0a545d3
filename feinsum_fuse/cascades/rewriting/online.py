"""Cascades that take one pass over what a maximum is taken of: the algebra of the online softmax."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.language.reductions import MAX, REDUCTIONS
from ...formats.workload import operand_name
from ..sequence import AnyCascade, EinsumSequence
from ..terms import Access, Einsum, Tensor
from .softmax import ExpandSoftmax, softmax_arguments


@dataclass(frozen=True, order=True)
class Online:
    """Let a maximum be corrected while sums that depend on it are under way, so that one loop over its elements is enough.

    ``einsum`` is a maximum ``M = max_p x`` that exponentials ``exp(x - M)`` read, or a softmax, which is expanded first; there each product
    ``O = sum_p softmax(x)_p * V_p`` becomes ``O.sum = sum_p exp(x_p - M) * V_p`` and ``O = O.sum / sum_p exp(x_p - M)`` (late division).
    Invariant: the outputs keep their values. A mapping may then run the maximum, the exponentials and the sums under one loop over tiles
    of ``p``; the schedule rescales what was summed with an older maximum (Milakov and Gimelshein, 2018).
    """

    einsum: str

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The rewritten cascade; :class:`CascadeError` where one pass is not enough, with the number of passes that are."""
        softmax = self.einsum
        if softmax_arguments(cascade.einsum(softmax)) is not None:
            cascade = ExpandSoftmax(softmax).apply(cascade)
        if cascade.einsum(softmax).reduce == MAX.name and cascade.einsum(softmax).reduces:
            self._check_exponentials(cascade, softmax)
            return dataclasses.replace(cascade, rewritings=(*cascade.rewritings, self))
        quotient = cascade.einsum(softmax)
        if f"{softmax}.exp" not in {e.name for e in cascade.einsums}:
            raise CascadeError(f"Einsum {softmax} is neither a softmax nor a maximum", hint="Only these can be taken in one pass.")
        cascade = _late_division(cascade, quotient)
        self._check_exponentials(cascade, f"{softmax}.max")
        return dataclasses.replace(cascade, rewritings=(*cascade.rewritings, self))

    def maximum(self, cascade: EinsumSequence) -> str:
        """The Einsum that takes the maximum, in the rewritten cascade."""
        return self.einsum if self.einsum in {e.name for e in cascade.einsums if e.reduce == MAX.name} else f"{self.einsum}.max"

    @staticmethod
    def _check_exponentials(cascade: EinsumSequence, maximum: str) -> None:
        tensor = cascade.einsum(maximum).output.tensor
        readers = [e for e in cascade.einsums if tensor in {a.tensor for a in e.operands}]
        if not any(_calls_exp(e.map) for e in readers):
            raise CascadeError(
                f"no Einsum takes exp(x - {tensor})", hint="Only a maximum that exponentials are shifted by can be corrected later."
            )


def _calls_exp(expression: Expression) -> bool:
    return isinstance(expression, p.Call) and isinstance(expression.function, p.Variable) and expression.function.name == "exp"


def _late_division(cascade: AnyCascade, quotient: Einsum) -> AnyCascade:
    """Every sum over the softmax's axis of products with the quotient, divided after the sum; the quotient itself is gone."""
    name = quotient.output.tensor
    exponential, total = quotient.operands
    consumers = [e for e in cascade.einsums if name in {a.tensor for a in e.operands}]
    if name in cascade.outputs or not consumers:
        raise CascadeError(
            f"the softmax {quotient.name} is an output, which takes two passes: one for the maximum and the sum, one for the quotients",
            hint="Leave out online.",
        )
    einsums: list[Einsum] = []
    tensors = {tensor: known for tensor, known in cascade.tensors.items() if tensor != name}
    for einsum in cascade.einsums:
        if einsum is quotient:
            continue
        if einsum not in consumers:
            einsums.append(einsum)
            continue
        numerator, division = _divided_late(einsum, quotient, exponential, total)
        old = tensors[einsum.output.tensor]
        tensors[numerator.output.tensor] = Tensor(numerator.output.tensor, old.shape, einsum.accumulate, old.ranks)
        einsums += [numerator, division]
    return cascade.changed(tuple(einsums), tensors, cascade.outputs, cascade.rewritings)


def _divided_late(einsum: Einsum, quotient: Einsum, exponential: Access, total: Access) -> tuple[Einsum, Einsum]:
    """``O.sum = sum E * V`` and ``O = O.sum / L`` for ``O = sum (E / L) * V``."""
    places = [k for k, access in enumerate(einsum.operands) if access.tensor == quotient.output.tensor]
    read = einsum.operands[places[0]]
    names = {ours.bare: theirs for ours, theirs in zip(quotient.output.indices, read.indices, strict=True) if ours.bare is not None}
    row = tuple(index.substituted(names) for index in total.indices)
    varies = {v for index in row for v in index.variables} & set(einsum.reduction_variables)
    if len(places) > 1 or not REDUCTIONS[einsum.reduce].is_sum or varies or not _is_product_with(einsum.map, operand_name(places[0])):
        raise CascadeError(
            f"Einsum {einsum.name} is no sum of products with the softmax {quotient.name} along its axis, which takes two passes",
            hint="Leave out online.",
        )
    output = Access(f"{einsum.output.tensor}.sum", einsum.output.indices)
    operands = tuple(Access(exponential.tensor, a.indices) if k == places[0] else a for k, a in enumerate(einsum.operands))
    numerator = dataclasses.replace(einsum, name=f"{einsum.name}.sum", output=output, operands=operands, populate=None)
    sizes = constantdict({v: einsum.sizes[v] for v in einsum.output.variables})
    division = dataclasses.replace(
        einsum,
        operands=(output, Access(total.tensor, row)),
        map=p.Quotient(var(operand_name(0)), var(operand_name(1))),
        sizes=sizes,
        guards=tuple(guard for guard in einsum.guards if set(guard.variables) <= set(sizes)),
    )
    return numerator, division


def _is_product_with(expression: Expression, name: str) -> bool:
    return expression == var(name) or (isinstance(expression, p.Product) and expression.children.count(var(name)) == 1)
