"""Expansion of ``softmax(x, p)`` into a maximum, exponentials, their sum, and a division."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.checking.mapping_check import SOFTMAX_PARTS
from ...formats.language.reductions import ADD, MAX
from ...formats.workload import operand_name
from ..sequence import AnyCascade
from ..terms import Access, Einsum, Tensor


def softmax_arguments(einsum: Einsum) -> tuple[Expression, str] | None:
    """The expression and the rank variable of a map ``softmax(x, p)``; ``None`` for any other map."""
    call = einsum.map
    if not (isinstance(call, p.Call) and isinstance(call.function, p.Variable) and call.function.name == "softmax"):
        return None
    if len(call.parameters) != 2 or not isinstance(call.parameters[1], p.Variable):
        raise CascadeError(f"the map of Einsum {einsum.name} is {call}; softmax takes an expression and a rank variable")
    return call.parameters[0], call.parameters[1].name


@dataclass(frozen=True, order=True)
class ExpandSoftmax:
    """``P[m,p] = softmax(x, p)`` becomes ``P.max[m] = max(x)``, ``P.exp[m,p] = exp(x - P.max[m])``, ``P.sum[m]`` and their quotient.

    The Einsums are called ``SM.max``, ``SM.exp``, ``SM.sum`` and ``SM``. Invariant: all tensors of the cascade keep their values.
    """

    einsum: str

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum expanded; :class:`CascadeError` unless its map is a softmax along an index of its output."""
        einsum = cascade.einsum(self.einsum)
        arguments = softmax_arguments(einsum)
        if arguments is None:
            raise CascadeError(f"the map of Einsum {einsum.name} is no softmax")
        expression, along = arguments
        _check(einsum, along)
        tensors = dict(cascade.tensors)
        output = einsum.output
        kept = tuple(axis for axis, index in enumerate(output.indices) if index.bare != along)
        row = tuple(output.indices[axis] for axis in kept)
        for part in SOFTMAX_PARTS:
            axes = range(len(output.indices)) if part == "exp" else kept
            old = tensors[output.tensor]
            name = f"{output.tensor}.{part}"
            if name in tensors:
                raise CascadeError(f"the softmax of Einsum {einsum.name} needs the name {name}, which is taken", hint="Rename it.")
            ranks = tuple(old.ranks[axis] for axis in axes) if old.ranks else ()
            dtype = old.dtype if part == "exp" else einsum.accumulate
            tensors[name] = Tensor(name, tuple(old.shape[axis] for axis in axes), dtype, ranks)
        parts = _parts(einsum, expression, Access(f"{output.tensor}.max", row), Access(f"{output.tensor}.sum", row))
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], *parts, *cascade.einsums[position + 1 :])
        return cascade.rewritten(einsums, tensors, self)


def _check(einsum: Einsum, along: str) -> None:
    bare = [index.bare for index in einsum.output.indices]
    reason = ""
    if along not in bare:
        reason = f"{along} is no index of its output {einsum.output}"
    elif not einsum.has_injective_output or einsum.reduction_variables:
        reason = "it reduces as well"
    elif einsum.populate is not None:
        reason = "it has an initial value"
    if reason:
        raise CascadeError(f"the softmax of Einsum {einsum.name} cannot be expanded: {reason}", hint="Give softmax an Einsum of its own.")


def _parts(einsum: Einsum, expression: Expression, largest: Access, total: Access) -> tuple[Einsum, ...]:
    count = len(einsum.operands)
    exponentials = Access(f"{einsum.output.tensor}.exp", einsum.output.indices)
    first, second = var(operand_name(0)), var(operand_name(1))

    def part(name: str, output: Access, operands: tuple[Access, ...], map: Expression, reduce: str = ADD.name) -> Einsum:
        order = dict.fromkeys((*output.variables, *einsum.variables))
        sizes = constantdict({v: einsum.sizes[v] for v in order})
        return dataclasses.replace(einsum, name=name, output=output, operands=operands, map=map, reduce=reduce, sizes=sizes)

    shifted = p.Call(var("exp"), (p.Sum((expression, p.Product((-1, var(operand_name(count)))))),))
    return (
        part(f"{einsum.name}.max", largest, einsum.operands, expression, MAX.name),
        part(f"{einsum.name}.exp", exponentials, (*einsum.operands, largest), shifted),
        part(f"{einsum.name}.sum", total, (exponentials,), first),
        part(einsum.name, einsum.output, (exponentials, total), p.Quotient(first, second)),
    )
