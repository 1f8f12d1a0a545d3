"""Outputs that sums of variables index: each element gathers what reaches it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import substitute, var

from ..errors import CascadeError
from ..formats.affine import Affine
from ..formats.language.reductions import REDUCTIONS
from ..formats.workload import operand_name
from .kernel.kernel import affine_expression
from .names import with_underlines
from .sequence import AnyCascade
from .terms import Access, Einsum, Size, Tensor


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


@dataclass(frozen=True, order=True)
class GatherSteps:
    """``Z[2*p + r] = sum(A[p] * W[r])`` becomes ``Z_steps[s,q] = sum(A[q - t] * W[2*t + s])`` and ``Z[2*q + s] = Z_steps[s,q]``.

    Elements that lie as many apart as ``p`` steps are gathered from the same part of ``W``: for each of the places ``s`` in a step what
    reaches them is a sum of its own without gaps, over the steps ``t`` that ``r`` goes. ``axes`` are those of the output that are indexed
    so. The last of its axes is the last of ``Z_steps``, too. Invariant: the same points reach each element.
    """

    einsum: str
    axes: tuple[int, ...]

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with this Einsum in two; :class:`CascadeError` where an axis goes in no steps."""
        einsum, old = cascade.einsum(self.einsum), cascade.tensors[cascade.einsum(self.einsum).output.tensor]
        if not self.axes or any(stepped(cascade, einsum, axis) is None for axis in self.axes):
            raise CascadeError(f"the Einsum {einsum.name} cannot gather in steps along axes {list(self.axes)} of {einsum.output}")
        sizes, values, guards = dict(einsum.sizes), dict[str, Affine](), list[Affine]()
        indices, copied, inside = list[Affine](), list[Affine](), list[Affine]()
        for axis, index in enumerate(einsum.output.indices):
            found = stepped(cascade, einsum, axis) if axis in self.axes else None
            if found is None:
                indices.append(index)
                copied.append(index)
                continue
            (moving, beside), step = found, index.coefficients[found[0]]
            length, width, extent = (n for n in (sizes.pop(moving), sizes.pop(beside), old.shape[axis]) if isinstance(n, int))
            number, part, place = (with_underlines(name, sizes) for name in (f"{moving}_step", f"{beside}_step", f"{beside}_place"))
            sizes |= {number: -(-(extent - index.constant) // step), place: step, part: -(-width // step)}
            values |= {moving: Affine.variable(number) - Affine.variable(part), beside: Affine.of({part: step, place: 1})}
            guards += [values[moving], -values[moving] + (length - 1), -values[beside] + (width - 1)]
            copied.append(Affine.of({number: step, place: 1}, index.constant))
            inside += [copied[-1], -copied[-1] + (extent - 1)]
            indices += map(Affine.variable, (place, number) if axis == len(old.shape) - 1 else (number, place))
        written = [index.bare for index in indices if index.bare is not None]
        guards = [*(guard.substituted(values) for guard in einsum.guards), *guards]
        name = with_underlines(f"{old.name}_steps", {*cascade.tensors, *(other.name for other in cascade.einsums)})
        steps = Access(name, tuple(indices))
        boxes = {v: sizes[v] for v in dict.fromkeys([*written, *sizes])}
        gathering = dataclasses.replace(
            einsum,
            name=name,
            output=steps,
            operands=tuple(Access(a.tensor, tuple(i.substituted(values) for i in a.indices)) for a in einsum.operands),
            map=substitute(einsum.map, {v: affine_expression(value) for v, value in values.items()}),
            sizes=constantdict(boxes),
            guards=_needed(guards, boxes),
        )
        box = {v: sizes[v] for v in written}
        target, value = Access(old.name, tuple(copied)), var(operand_name(0))
        copy = Einsum(einsum.name, target, (steps,), value, constantdict(box), guards=_needed(inside, box), accumulate=old.dtype)
        tensors = {**cascade.tensors, name: Tensor(name, tuple(box.values()), old.dtype)}
        position = cascade.einsums.index(einsum)
        return cascade.rewritten((*cascade.einsums[:position], gathering, copy, *cascade.einsums[position + 1 :]), tensors, self)


def stepped(cascade: AnyCascade, einsum: Einsum, axis: int) -> tuple[str, str] | None:
    """The variable that goes in steps along an axis of the output, and the one beside it; ``None`` where there are no such two.

    Each of the output's other axes is indexed by a variable of its own, or likewise.
    """
    index, others = einsum.output.indices[axis], [i for k, i in enumerate(einsum.output.indices) if k != axis]
    names = sorted(index.variables, key=lambda v: -index.coefficients[v])
    if len(names) != 2 or einsum.is_recurrence or einsum.populate is not None or not REDUCTIONS[einsum.reduce].combines:
        return None
    elsewhere = [v for other in others for v in other.variables]
    if index.coefficients[names[0]] < 2 or index.coefficients[names[1]] != 1 or index.constant > 0 or set(names) & set(elsewhere):
        return None
    shape = cascade.tensors[einsum.output.tensor].shape
    if len(set(elsewhere)) < len(elsewhere) or not all(isinstance(n, int) for n in (*shape, *einsum.sizes.values())):
        return None
    return (names[0], names[1])


def _needed(guards: Iterable[Affine], sizes: Mapping[str, Size]) -> tuple[Affine, ...]:
    """Those that some point of a box fails."""

    def least(guard: Affine) -> int:
        ends = (factor * (n - 1) for v, factor in guard.terms if factor < 0 and isinstance(n := sizes[v], int))
        return guard.constant + sum(ends)

    return tuple(guard for guard in dict.fromkeys(guards) if least(guard) < 0)


def gathered(einsum: Einsum, axis: int) -> list[str]:
    """The variables of known size that the index of an output's axis adds up, and no other axis has."""
    index, others = einsum.output.indices[axis], [i for k, i in enumerate(einsum.output.indices) if k != axis]
    if len(index.terms) < 2 or einsum.is_recurrence or not REDUCTIONS[einsum.reduce].combines:
        return []
    elsewhere = {v for other in others for v in other.variables}
    return [v for v, factor in index.terms if factor == 1 and v not in elsewhere and isinstance(einsum.sizes[v], int)]
