"""Intermediates that come and go: what is cheap is computed again where it is read, and what two Einsums compute alike is computed once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations

from pymbolic import primitives as p
from pymbolic import substitute, var
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.affine import Affine
from ...formats.workload import operand_name
from ..canonical.normal_map import normal_map
from ..element_types import computing_type
from ..maps import is_fractional, primitive
from ..sequence import AnyCascade, EinsumSequence
from ..terms import Access, Einsum

MOST_ORDERS = 720
"""Orders of operands that are tried to see whether two Einsums are alike: those of six."""


@dataclass(frozen=True, order=True)
class Recompute:
    """``E[m,n] = exp(A[m,n] - X[m])``, ``S[m] = sum(E[m,n])`` and ``Y[m,n] = E[m,n] / S[m]`` become ``S[m] = sum(exp(A[m,n] - X[m]))`` and
    ``Y[m,n] = exp(A[m,n] - X[m]) / S[m]``.

    The intermediate is neither written nor read; its map runs once for each read instead of once for each element (TensorIR and Halide:
    compute_inline). Invariant: the outputs keep their values; what is computed is not rounded to the intermediate's type in between, which
    is why that has to be the type that its map is computed in.
    """

    einsum: str

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade without this Einsum; :class:`CascadeError` unless it maps single elements to all of an intermediate."""
        einsum = cascade.einsum(self.einsum)
        reason = _kept_by(cascade, einsum)
        if reason:
            raise CascadeError(f"Einsum {einsum.name} cannot be computed where it is read: {reason}")
        tensor = einsum.output.tensor
        einsums = tuple(_inlined(other, einsum) for other in cascade.einsums if other is not einsum)
        tensors = {name: known for name, known in cascade.tensors.items() if name != tensor}
        return cascade.rewritten(einsums, tensors, self)


def _kept_by(cascade: EinsumSequence, einsum: Einsum) -> str:
    """Why an Einsum's output has to be stored; empty if it has not."""
    tensor = einsum.output.tensor
    if tensor in cascade.outputs:
        return f"{tensor} is an output"
    if einsum.reduces or einsum.populate is not None or einsum.guards or not einsum.has_injective_output:
        return "it reduces, or does not write each element once"
    if tuple(einsum.sizes[v] for v in einsum.output_variables) != cascade.tensors[tensor].shape:
        return f"it does not write all of {tensor}"
    if sum(other.output.tensor == tensor for other in cascade.einsums) > 1:
        return f"{tensor} is written by other Einsums, too"
    types = tuple(cascade.tensors[access.tensor].dtype for access in einsum.operands)
    if computing_type(types, einsum.accumulate, is_fractional(primitive(einsum.map))) != cascade.tensors[tensor].dtype:
        return f"{tensor} is stored in a type that its map is not computed in"
    rewritten = {operand.tensor for operand in einsum.operands} & _written_after(cascade, einsum)
    if rewritten:
        return f"{', '.join(sorted(rewritten))} changes before it is read"
    return ""


def _written_after(cascade: EinsumSequence, einsum: Einsum) -> set[str]:
    position = cascade.einsums.index(einsum)
    return {other.output.tensor for other in cascade.einsums[position + 1 :]}


def _inlined(reader: Einsum, einsum: Einsum) -> Einsum:
    """The Einsum that computes what it reads of the other one's output itself."""
    if all(access.tensor != einsum.output.tensor for access in reader.operands):
        return reader
    operands: list[Access] = []
    values: dict[str, Expression] = {}
    for number, access in enumerate(reader.operands):
        if access.tensor != einsum.output.tensor:
            values[operand_name(number)] = var(operand_name(_position(operands, access)))
            continue
        at = dict(zip(einsum.output_variables, access.indices, strict=True))
        inner: dict[str, Expression] = {v: _expression(index) for v, index in at.items()}
        for k, operand in enumerate(einsum.operands):
            moved = Access(operand.tensor, tuple(index.substituted(at) for index in operand.indices))
            inner[operand_name(k)] = var(operand_name(_position(operands, moved)))
        values[operand_name(number)] = substitute(einsum.map, inner)
    return dataclasses.replace(reader, operands=tuple(operands), map=substitute(reader.map, values), is_copy=False)


def _position(operands: list[Access], access: Access) -> int:
    """Where an access stands among the operands; it is added if it is new."""
    if access not in operands:
        operands.append(access)
    return operands.index(access)


def _expression(index: Affine) -> Expression:
    terms = [var(v) if factor == 1 else p.Product((factor, var(v))) for v, factor in index.terms]
    if index.constant or not terms:
        terms.append(index.constant)
    return terms[0] if len(terms) == 1 else p.Sum(tuple(terms))


@dataclass(frozen=True, order=True)
class Share:
    """``T[r,i] = sum(X[i,j] * C[j,r])`` and ``U[i,r] = sum(C[j,r] * X[i,j])`` become ``T``, and what read ``U[i,r]`` reads ``T[r,i]``.

    ``first`` and ``second`` name two Einsums that compute the same up to their variables' names, the order of operands, and that of the
    output's axes (a common factor of what reads them). Invariant: the outputs keep their values.
    """

    first: str
    second: str

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade without the second Einsum; :class:`CascadeError` unless both compute the same, or if the second writes an output."""
        first, second = cascade.einsum(self.first), cascade.einsum(self.second)
        axes = common(cascade, first, second)
        if axes is None:
            raise CascadeError(f"the Einsums {first.name} and {second.name} do not compute the same intermediate")
        gone = second.output.tensor

        def read(access: Access) -> Access:
            return Access(first.output.tensor, tuple(access.indices[k] for k in axes)) if access.tensor == gone else access

        einsums = tuple(
            dataclasses.replace(einsum, operands=tuple(map(read, einsum.operands))) for einsum in cascade.einsums if einsum is not second
        )
        tensors = {name: known for name, known in cascade.tensors.items() if name != gone}
        return cascade.rewritten(einsums, tensors, self)


def without_doubles(cascade: AnyCascade) -> AnyCascade:
    """The cascade in which no two Einsums compute the same intermediate."""
    pairs = ((one, other) for k, one in enumerate(cascade.einsums) for other in cascade.einsums[k + 1 :])
    alike = next((Share(one.name, other.name) for one, other in pairs if common(cascade, one, other) is not None), None)
    return cascade if alike is None else without_doubles(alike.apply(cascade))


def common(cascade: EinsumSequence, first: Einsum, second: Einsum) -> tuple[int, ...] | None:
    """For each axis of the first Einsum's output the axis of the second's that is the same; ``None`` if they do not compute the same.

    Neither may write again what others write, nor may an operand change between the two.
    """
    einsums, tensors = cascade.einsums, cascade.tensors
    one, other = first.output.tensor, second.output.tensor
    if first is second or einsums.index(first) > einsums.index(second) or other in cascade.outputs:
        return None
    if any(sum(einsum.output.tensor == tensor for einsum in einsums) > 1 for tensor in (one, other)):
        return None
    plain = (first.reduce, first.populate, first.accumulate, tensors[one].dtype, sorted(a.tensor for a in first.operands))
    if plain != (second.reduce, second.populate, second.accumulate, tensors[other].dtype, sorted(a.tensor for a in second.operands)):
        return None
    if first.guards or second.guards or not (first.has_injective_output and second.has_injective_output):
        return None
    if first.is_recurrence or second.is_recurrence or {a.tensor for a in first.operands} & _written_after(cascade, first):
        return None
    wanted = normal_map(first.map).unordered
    for names in _matchings(first, second):
        values = {old: var(new) for old, new in names.items()}
        if normal_map(substitute(second.map, values)).unordered == wanted:
            axes = {names[v]: k for k, v in enumerate(second.output_variables)}
            return tuple(axes[v] for v in first.output_variables)
    return None


def _matchings(first: Einsum, second: Einsum) -> Iterator[Mapping[str, str]]:
    """Names of the second Einsum's variables and operands -> those of the first, as its accesses, sizes and output allow.

    A variable that stands alone in no index of an operand gets no name, so that Einsums with such are alike to none.
    """
    count = len(first.operands)
    for order in islice(permutations(range(count)), MOST_ORDERS):
        pairs = [(second.operands[k], first.operands[order[k]]) for k in range(count)]
        if any(theirs.tensor != ours.tensor for theirs, ours in pairs):
            continue
        indices = [both for theirs, ours in pairs for both in zip(theirs.indices, ours.indices, strict=True)]
        names = {theirs.bare: ours.bare for theirs, ours in indices if theirs.bare is not None and ours.bare is not None}
        if names.keys() != second.sizes.keys() or {*names.values()} != first.sizes.keys():
            continue
        if any(theirs.renamed(names) != ours for theirs, ours in indices):
            continue
        if any(second.sizes[theirs] != first.sizes[ours] for theirs, ours in names.items()):
            continue
        if {names[v] for v in second.output_variables} == {*first.output_variables}:
            yield {**names, **{operand_name(k): operand_name(order[k]) for k in range(count)}}
