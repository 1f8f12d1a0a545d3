"""Symmetric outputs: half of the elements are computed, and the others are copies of these."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import combinations

from constantdict import constantdict
from pymbolic import substitute, var
from pymbolic.primitives import Comparison, If

from ...errors import CascadeError
from ...formats.language.reductions import ADD
from ...formats.workload import operand_name
from ..canonical.normal_map import normal_map
from ..sequence import AnyCascade
from ..terms import Access, Einsum, SizeParam, Tensor


@dataclass(frozen=True, order=True)
class Triangle:
    """``Z[m,n] = sum(A[k,m] * A[k,n])`` becomes ``Z_half[m,n] = sum(where(n <= m, A[k,m] * A[k,n], 0))`` and
    ``Z[m,n] = where(n <= m, Z_half[m,n], Z_half[n,m])``.

    The Einsum must say the same when the variables ``first`` and ``second`` of its output change places (BLAS: syrk). Sums that are all 0
    are skipped by mappings, tile by tile. Invariant: the output keeps its value.
    """

    einsum: str
    first: str
    second: str

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum in two; :class:`CascadeError` unless it is a sum that is symmetric in the two variables."""
        einsum = cascade.einsum(self.einsum)
        reason = _obstacle(einsum, self.first, self.second)
        if reason:
            raise CascadeError(f"the Einsum {einsum.name} cannot be halved along {self.first} and {self.second}: {reason}")
        tensor, name = f"{einsum.output.tensor}_half", f"{einsum.name}_half"
        while tensor in cascade.tensors or name in {other.name for other in cascade.einsums}:
            tensor, name = f"{tensor}_", f"{name}_"
        below = Comparison(var(self.second), "<=", var(self.first))
        indices = einsum.output.indices
        half = dataclasses.replace(einsum, name=name, output=Access(tensor, indices), map=If(below, einsum.map, 0))
        names = {self.first: self.second, self.second: self.first}
        mirrored = dataclasses.replace(
            einsum,
            operands=(Access(tensor, indices), Access(tensor, tuple(index.renamed(names) for index in indices))),
            map=If(below, var(operand_name(0)), var(operand_name(1))),
            sizes=constantdict({v: einsum.sizes[v] for v in einsum.output_variables}),
        )
        old = cascade.tensors[einsum.output.tensor]
        tensors = {**cascade.tensors, tensor: Tensor(tensor, old.shape, einsum.accumulate, old.ranks)}
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], half, mirrored, *cascade.einsums[position + 1 :])
        return cascade.rewritten(einsums, tensors, self)


def symmetries(einsum: Einsum) -> list[tuple[str, str]]:
    """The pairs of an output's variables that may change places, the one that is further out first."""
    return [(first, second) for first, second in combinations(einsum.output_variables, 2) if not _obstacle(einsum, first, second)]


def _obstacle(einsum: Einsum, first: str, second: str) -> str:
    """Why an Einsum cannot be halved; empty if it can."""
    if einsum.reduce != ADD.name or not einsum.reduction_variables or einsum.is_recurrence or einsum.populate is not None:
        return "it is no sum, or starts at another value than 0"
    if not einsum.has_injective_output or first == second or not {first, second} <= {*einsum.output_variables}:
        return f"these are no two indices of {einsum.output}"
    if einsum.guards:
        return "it does not run over a box"
    if any(isinstance(size, SizeParam) for size in einsum.sizes.values()) or einsum.sizes[first] != einsum.sizes[second]:
        return "their sizes are not known, or not the same"
    names = {first: second, second: first}
    exchanged = [Access(a.tensor, tuple(index.renamed(names) for index in a.indices)) for a in einsum.operands]
    if any(access not in einsum.operands for access in exchanged):
        return f"with them exchanged it reads {', '.join(map(str, exchanged))}"
    values = {old: var(new) for old, new in names.items()}
    values |= {operand_name(k): var(operand_name(einsum.operands.index(access))) for k, access in enumerate(exchanged)}
    same = {operand_name(k): var(operand_name(einsum.operands.index(access))) for k, access in enumerate(einsum.operands)}
    if normal_map(substitute(einsum.map, values)).unordered != normal_map(substitute(einsum.map, same)).unordered:
        return "with them exchanged its map gives another value"
    return ""
