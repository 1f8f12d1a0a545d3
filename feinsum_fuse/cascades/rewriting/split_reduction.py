"""Splitting a reduction: parts of it that nothing ties together, and a second Einsum that reduces their results."""

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

PART = "_part"
"""What the name of an Einsum of parts ends with, but for underlines."""


def merges_parts(merge: Einsum, part: Einsum) -> bool:
    """Whether one Einsum reduces the parts that :class:`SplitReduction` has made another one's results: by their indices and names."""
    reads = merge.operands[0] if len(merge.operands) == 1 else None
    return (
        reads is not None
        and reads.tensor == part.output.tensor
        and reads.indices[1:] == merge.output.indices
        and merge.reduce == part.reduce
        and part.name.rstrip("_") == f"{merge.name}{PART}"
    )


@dataclass(frozen=True, order=True)
class SplitReduction:
    """``Z[m] = sum(A[m,k])`` becomes ``Z_part[b,m] = sum(A[m, P*b + k])`` for ``k`` below ``P``, and ``Z[m] = sum(Z_part[b,m])``.

    ``P`` is the variable's extent over ``parts``, rounded up; where that does not divide, the last part is shorter, and points beyond the
    end contribute nothing. Sums, products, extrema and truths are associative, so each is reduced by itself twice. ``Z_part`` has the type
    in which the Einsum accumulates; an initial value takes part in the second reduction alone. Invariant: the output keeps its value up to
    the order of reduction. Groups, which cannot wait for one another, may then share a reduction (TensorIR's rfactor, across kernels).
    """

    einsum: str
    variable: str
    parts: int

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum in two; :class:`CascadeError` unless it reduces the variable, over this many points or more."""
        einsum = cascade.einsum(self.einsum)
        size = self._checked(einsum)
        length = -(-size // self.parts)
        count = -(-size // length)
        taken = {v for other in cascade.einsums for v in other.variables}
        number = with_underlines(f"{self.variable}_part", taken)
        tensor = with_underlines(f"{einsum.output.tensor}_part", cascade.tensors)
        name = with_underlines(f"{einsum.name}{PART}", {other.name for other in cascade.einsums})
        output = Access(tensor, (Affine.variable(number), *einsum.output.indices))
        part = self._part(einsum, name, output, number, length, count)
        merge = dataclasses.replace(
            einsum,
            operands=(output,),
            map=var(operand_name(0)),
            sizes=constantdict({**{v: einsum.sizes[v] for v in einsum.output_variables}, number: count}),
            guards=(),
        )
        old = cascade.tensors[einsum.output.tensor]
        known = set().union(*(t.ranks for t in cascade.tensors.values()))
        ranks = (with_underlines(number.upper(), known), *old.ranks) if old.ranks else ()
        tensors = {**cascade.tensors, tensor: Tensor(tensor, (count, *old.shape), einsum.accumulate, ranks)}
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], part, merge, *cascade.einsums[position + 1 :])
        return cascade.rewritten(einsums, tensors, self)

    def _checked(self, einsum: Einsum) -> int:
        """The variable's extent."""
        reason = ""
        indexed = [index for index in einsum.output.indices if index.variables]
        if einsum.is_recurrence:
            reason = "it is a recurrence, whose points need one another"
        elif len({index.bare for index in indexed} - {None}) < len(indexed):
            reason = f"its output {einsum.output} is not indexed by bare variables"
        elif self.variable not in einsum.reduction_variables:
            reason = f"it does not reduce {self.variable}, but {', '.join(einsum.reduction_variables) or 'nothing'}"
        if reason:
            raise CascadeError(f"the reduction of Einsum {einsum.name} cannot be split: {reason}")
        size = einsum.sizes[self.variable]
        if isinstance(size, SizeParam):
            raise CascadeError(f"{self.variable} of Einsum {einsum.name} has the symbolic size {size.name}", hint="Give it a value.")
        if not isinstance(self.parts, int) or not 2 <= self.parts <= size:
            hint = f"Give a number from 2 to {size}." if size > 1 else "There is one point, and nothing to split."
            raise CascadeError(f"{self.variable} of Einsum {einsum.name} cannot be split into {described(self.parts)} parts", hint=hint)
        return size

    def _part(self, einsum: Einsum, name: str, output: Access, number: str, length: int, count: int) -> Einsum:
        """The Einsum of all parts."""
        size = einsum.sizes[self.variable]
        assert isinstance(size, int)
        index = Affine.of({number: length, self.variable: 1})
        guards = tuple(guard.substituted({self.variable: index}) for guard in einsum.guards)
        if length * count > size:
            guards += (Affine((), size - 1) - index,)
        variables = (*einsum.output_variables, *einsum.reduction_variables)
        sizes = {number: count, **{v: length if v == self.variable else einsum.sizes[v] for v in variables}}
        operands = tuple(Access(a.tensor, tuple(i.substituted({self.variable: index}) for i in a.indices)) for a in einsum.operands)
        expression = substitute(einsum.map, {self.variable: length * var(number) + var(self.variable)})
        return dataclasses.replace(
            einsum, name=name, output=output, operands=operands, map=expression, sizes=constantdict(sizes), populate=None, guards=guards
        )
