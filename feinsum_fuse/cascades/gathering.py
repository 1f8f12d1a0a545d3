"""Outputs that sums of variables index: each element gathers what reaches it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import substitute

from ..errors import CascadeError
from ..formats.affine import Affine
from ..formats.language.reductions import REDUCTIONS
from .kernel.kernel import affine_expression
from .sequence import AnyCascade
from .terms import Access, Einsum


@dataclass(frozen=True, order=True)
class Gather:
    """``Z[p + r] = sum(A[p] * W[r])`` becomes ``Z[o] = sum(A[o - r] * W[r])``, over those ``r`` for which ``0 <= o - r < P``.

    ``variable`` is the one that the new index takes the place of along an axis of the output; elsewhere it is written as what is left of
    the index. The loops over the output are then a rank variable's, along which there are lanes and groups. Invariant: the same points
    reach each element.
    """

    einsum: str
    axis: int
    variable: str

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum's output indexed by a variable of its own; :class:`CascadeError` where that is not possible."""
        einsum = cascade.einsum(self.einsum)
        if self.variable not in gathered(einsum, self.axis):
            raise CascadeError(f"the Einsum {einsum.name} cannot gather along axis {self.axis} of {einsum.output} for {self.variable}")
        index, extent = einsum.output.indices[self.axis], cascade.tensors[einsum.output.tensor].shape[self.axis]
        size = einsum.sizes[self.variable]
        assert isinstance(size, int)
        element = f"{self.variable}_element"
        while element in einsum.sizes:
            element += "_"
        value = Affine.variable(element) - (index - Affine.variable(self.variable))
        values = {self.variable: value}
        indices = (*einsum.output.indices[: self.axis], Affine.variable(element), *einsum.output.indices[self.axis + 1 :])
        output = Access(einsum.output.tensor, indices)
        sizes = {element: extent, **{v: n for v, n in einsum.sizes.items() if v != self.variable}}
        first = [v for i in indices for v in i.variables]
        changed = dataclasses.replace(
            einsum,
            output=output,
            operands=tuple(Access(a.tensor, tuple(i.substituted(values) for i in a.indices)) for a in einsum.operands),
            map=substitute(einsum.map, {self.variable: affine_expression(value)}),
            sizes=constantdict({v: sizes[v] for v in dict.fromkeys([*first, *sizes])}),
            guards=(*(guard.substituted(values) for guard in einsum.guards), value, -value + (size - 1)),
        )
        position = cascade.einsums.index(einsum)
        einsums = (*cascade.einsums[:position], changed, *cascade.einsums[position + 1 :])
        return cascade.rewritten(einsums, cascade.tensors, self)


def gathered(einsum: Einsum, axis: int) -> list[str]:
    """The variables of known size that the index of an output's axis adds up, and no other axis has."""
    index, others = einsum.output.indices[axis], [i for k, i in enumerate(einsum.output.indices) if k != axis]
    if len(index.terms) < 2 or einsum.is_recurrence or not REDUCTIONS[einsum.reduce].combines:
        return []
    elsewhere = {v for other in others for v in other.variables}
    return [v for v, factor in index.terms if factor == 1 and v not in elsewhere and isinstance(einsum.sizes[v], int)]
