"""Packing: copies of operands whose axes lie as an Einsum that reads them wants them, and of outputs computed in another order."""

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


@dataclass(frozen=True, order=True)
class Unpack:
    """``Z[m,n] = sum(A[k,n,m] * B[k])`` becomes ``Z_packed[n,m] = sum(A[k,n,m] * B[k])`` and ``Z[m,n] = Z_packed[n,m]``.

    ``variables`` are those of the output, in the order of the axes in which it is computed. What moves is the output, where packing an
    operand would move that. Invariant: the output keeps its value.
    """

    einsum: str
    variables: tuple[str, ...]

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with a copy behind this Einsum; :class:`CascadeError` unless the variables are those of its output."""
        einsum = cascade.einsum(self.einsum)
        reason = self._obstacle(einsum)
        if reason:
            raise CascadeError(f"the output of Einsum {einsum.name} cannot be computed in another order: {reason}")
        old = cascade.tensors[einsum.output.tensor]
        name = with_underlines(f"{old.name}_packed", {*cascade.tensors, *(other.name for other in cascade.einsums)})
        packed = Access(name, tuple(map(Affine.variable, self.variables)))
        sizes = constantdict({v: einsum.sizes[v] for v in einsum.output_variables})
        computing = dataclasses.replace(einsum, name=name, output=packed)
        copy = Einsum(einsum.name, einsum.output, (packed,), var(operand_name(0)), sizes, accumulate=old.dtype, is_copy=True)
        tensors = {**cascade.tensors, name: Tensor(name, tuple(sizes[v] for v in self.variables), old.dtype)}
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], computing, copy, *cascade.einsums[position + 1 :])
        return cascade.rewritten(einsums, tensors, self)

    def _obstacle(self, einsum: Einsum) -> str:
        """Why it cannot be; empty if it can."""
        if not einsum.has_injective_output:
            return f"{einsum.output} is not indexed by bare variables"
        if sorted(self.variables) != sorted(einsum.output_variables) or not self.variables:
            return f"the order must name each variable of {einsum.output} once"
        if einsum.is_recurrence:
            return "the Einsum reads what it writes"
        if einsum.guards:
            return "the Einsum does not run over a box, so that some elements keep what they held"
        if any(isinstance(einsum.sizes[v], SizeParam) for v in self.variables):
            return "its size is not known"
        return ""
