"""Interleaving an operand: a copy in which values that one instruction adds up lie together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import substitute, var

from ...arguments import described
from ...errors import CascadeError
from ...formats.affine import Affine
from ...formats.workload import operand_name
from ..names import with_underlines
from ..sequence import AnyCascade
from ..terms import Access, Einsum, SizeParam, Tensor


@dataclass(frozen=True, order=True)
class Interleave:
    """``Z[m,n] = sum(A[m,k] * B[k,n])`` becomes ``B_packed[g,n,k] = B[4*g + k, n]`` for ``k`` below 4, and ``Z[m,n] = sum(A[m, 4*g + k] *
    B_packed[g,n,k])``: TensorIR's ReIndex, with a layout in which four values of a column follow one another.

    ``operand`` is the position of ``B`` among the operands, from 0, ``variable`` is ``k`` and ``group`` is 4. Where that does not divide,
    points beyond the end contribute nothing, and the copy holds zeros there. Invariant: the Einsum reduces the same values.
    """

    einsum: str
    operand: int
    variable: str
    group: int

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with the copy before this Einsum; :class:`CascadeError` unless the variable is reduced and indexes the operand."""
        einsum = cascade.einsum(self.einsum)
        size = self._checked(einsum)
        count = -(-size // self.group)
        number = with_underlines(f"{self.variable}_group", {v for other in cascade.einsums for v in other.variables})
        access = einsum.operands[self.operand]
        name = with_underlines(f"{access.tensor}_packed", {*cascade.tensors, *(other.name for other in cascade.einsums)})
        index = Affine.of({number: self.group, self.variable: 1})
        others = tuple(v for v in access.variables if v != self.variable)
        packed = Access(name, tuple(map(Affine.variable, (number, *others, self.variable))))
        sizes = {number: count, **{v: einsum.sizes[v] for v in others}, self.variable: self.group}
        inside = (Affine((), size - 1) - index,) if count * self.group > size else ()
        dtype = cascade.tensors[access.tensor].dtype
        copied = _at(access, self.variable, index)
        copy = Einsum(name, packed, (copied,), var(operand_name(0)), constantdict(sizes), guards=inside, accumulate=dtype, is_copy=True)
        operands = tuple(packed if k == self.operand else _at(other, self.variable, index) for k, other in enumerate(einsum.operands))
        guards = (*(guard.substituted({self.variable: index}) for guard in einsum.guards), *inside)
        own = {v: self.group if v == self.variable else n for v, n in einsum.sizes.items()}
        reading = dataclasses.replace(
            einsum,
            operands=operands,
            map=substitute(einsum.map, {self.variable: self.group * var(number) + var(self.variable)}),
            sizes=constantdict(_before(own, self.variable, number, count)),
            guards=guards,
        )
        tensors = {**cascade.tensors, name: Tensor(name, tuple(sizes.values()), dtype)}
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], copy, reading, *cascade.einsums[position + 1 :])
        return cascade.rewritten(einsums, tensors, self)

    def _checked(self, einsum: Einsum) -> int:
        """The variable's extent."""
        reason = ""
        if not isinstance(self.operand, int) or not 0 <= self.operand < len(einsum.operands):
            reason = f"there are {len(einsum.operands)} operands, numbered from 0"
        elif einsum.is_recurrence:
            reason = "it is a recurrence, whose points need one another"
        elif self.variable not in einsum.reduction_variables:
            reason = f"it does not reduce {self.variable}, but {', '.join(einsum.reduction_variables) or 'nothing'}"
        elif self.variable not in {index.bare for index in einsum.operands[self.operand].indices}:
            reason = f"{einsum.operands[self.operand]} is not indexed by {self.variable} alone"
        elif not isinstance(self.group, int) or self.group < 2:
            reason = f"a group has two values or more, not {described(self.group)}"
        else:
            access = einsum.operands[self.operand]
            unknown = [v for v in access.variables if isinstance(einsum.sizes[v], SizeParam)]
            reason = f"{unknown[0]} has the symbolic size {einsum.sizes[unknown[0]]}" if unknown else ""
        if reason:
            raise CascadeError(f"operand {described(self.operand)} of Einsum {einsum.name} cannot be interleaved: {reason}")
        size = einsum.sizes[self.variable]
        assert isinstance(size, int)
        return size


def _at(access: Access, variable: str, index: Affine) -> Access:
    """An access with a variable replaced."""
    return Access(access.tensor, tuple(i.substituted({variable: index}) for i in access.indices))


def _before(sizes: dict[str, int | SizeParam], variable: str, number: str, count: int) -> dict[str, int | SizeParam]:
    """The sizes with another variable right before one."""
    found: dict[str, int | SizeParam] = {}
    for name, size in sizes.items():
        if name == variable:
            found[number] = count
        found[name] = size
    return found
