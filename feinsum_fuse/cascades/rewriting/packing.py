"""Packing an operand: a copy of it whose axes lie as the Einsum that reads it wants them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import var

from ...arguments import described
from ...errors import CascadeError
from ...formats.affine import Affine
from ...formats.workload import operand_name
from ..names import with_underlines
from ..sequence import AnyCascade
from ..terms import Access, Einsum, SizeParam, Tensor


@dataclass(frozen=True, order=True)
class Pack:
    """``Z[m,n] = sum(A[m,k] * B[n,k])`` becomes ``B_packed[k,n] = B[n,k]`` and ``Z[m,n] = sum(A[m,k] * B_packed[k,n])``.

    ``operand`` is the position of ``B`` among the operands, from 0; ``variables`` are those that index it, in the order of the copy's axes.
    What is indexed by sums of variables is gathered, so that a convolution's input becomes a matrix (im2col): ``I[c, h + r]`` becomes
    ``I_packed[c,r,h]``. Invariant: the Einsum reads the same values. An operand that is read twice is packed for one of the two.
    """

    einsum: str
    operand: int
    variables: tuple[str, ...]

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with the copy before this Einsum; :class:`CascadeError` unless the variables are those of the operand."""
        einsum = cascade.einsum(self.einsum)
        reason = self._obstacle(einsum)
        if reason:
            raise CascadeError(f"operand {described(self.operand)} of Einsum {einsum.name} cannot be packed: {reason}")
        access = einsum.operands[self.operand]
        name = with_underlines(f"{access.tensor}_packed", {*cascade.tensors, *(other.name for other in cascade.einsums)})
        packed = Access(name, tuple(map(Affine.variable, self.variables)))
        sizes = constantdict({v: einsum.sizes[v] for v in self.variables})
        dtype = cascade.tensors[access.tensor].dtype
        guards = tuple(guard for guard in einsum.guards if set(guard.variables) <= sizes.keys())
        copy = Einsum(name, packed, (access,), var(operand_name(0)), sizes, guards=guards, accumulate=dtype, is_copy=True)
        operands = tuple(packed if k == self.operand else other for k, other in enumerate(einsum.operands))
        tensors = {**cascade.tensors, name: Tensor(name, tuple(sizes.values()), dtype)}
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], copy, dataclasses.replace(einsum, operands=operands), *cascade.einsums[position + 1 :])
        return cascade.rewritten(einsums, tensors, self)

    def _obstacle(self, einsum: Einsum) -> str:
        """Why it cannot be packed; empty if it can."""
        if not isinstance(self.operand, int) or not 0 <= self.operand < len(einsum.operands):
            return f"there are {len(einsum.operands)} operands, numbered from 0"
        access = einsum.operands[self.operand]
        if sorted(self.variables) != sorted(set(access.variables)) or not self.variables:
            return f"the copy's axes must name each variable of {access} once"
        if any(set(guard.variables) & set(self.variables) and not set(guard.variables) <= set(self.variables) for guard in einsum.guards):
            return "which of its elements are read depends on other variables"
        if einsum.is_recurrence and access.tensor == einsum.output.tensor:
            return "it is what the Einsum writes"
        if any(isinstance(einsum.sizes[v], SizeParam) for v in self.variables):
            return "its size is not known"
        return ""
