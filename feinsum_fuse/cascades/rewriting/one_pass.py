"""One pass over what cascaded reductions run over: each part of it is reduced with its own estimates, which are corrected at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic import substitute, var
from pymbolic.typing import Expression

from ...errors import CascadeError
from ...formats.language.reductions import ADD, MAX, MIN
from ...formats.workload import operand_name
from ...number_types import kind_of, largest
from ..maps import primitive, variables_in
from ..sequence import AnyCascade, EinsumSequence
from ..terms import Access, Einsum, Tensor
from .rescaling import PartRule, References, correction
from .split_reduction import SplitReduction


@dataclass(frozen=True, order=True)
class OnePass:
    """``M[m] = max(S[m,p])`` and ``L[m] = sum(exp(S[m,p] - M[m]))`` become parts that need nothing of one another, and their combination:
    ``M_part[b,m]``, ``L_part[b,m]`` with ``exp(S - M_part[b,m])``, and ``L[m] = sum(L_part[b,m] * exp(M_part[b,m] - M[m]))``.

    ``einsum`` is the first reduction, ``variable`` what it runs over; all reductions over the same axis that depend on its result follow,
    whichever maps they have, as long as :func:`~feinsum_fuse.cascades.rewriting.rescaling.correction` has a rule. Elementwise steps in
    between are computed where they are used. In parts on groups this is split keys; in parts as long as a cache holds, the online form.
    Invariant: the outputs keep their values up to the order of reduction (Neptune, arXiv 2510.08726; RedFuser, arXiv 2603.10026).
    """

    einsum: str
    variable: str
    parts: int

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade in parts; :class:`CascadeError` where nothing depends on the reduction, or a map has no correction."""
        chain = _Chain(cascade, self, {})
        while (again := _Chain(cascade, self, chain.axes)).axes != chain.axes:
            chain = again
        chain = again
        if chain.followers == 0:
            raise CascadeError(
                f"no reduction over {self.variable} depends on Einsum {self.einsum}", hint="Where nothing does, SplitReduction is enough."
            )
        einsums = _used(_ordered(chain.einsums, chain.first), cascade.outputs)
        written = {einsum.output.tensor for einsum in einsums} | {access.tensor for einsum in einsums for access in einsum.operands}
        tensors = {name: tensor for name, tensor in chain.tensors.items() if name in written}
        return cascade.rewritten(einsums, tensors, self)


class _Chain:
    """The Einsums of the new cascade, as the old ones are taken one by one."""

    def __init__(self, cascade: EinsumSequence, rewriting: OnePass, axes: Mapping[str, int]) -> None:
        """``axes``: what an earlier attempt found, so that reductions beside the first one are known as such."""
        self.cascade, self.rewriting = cascade, rewriting
        self.einsums: list[Einsum] = []
        self.first: set[str] = set()
        """Names of the Einsums that work on parts."""
        self.tensors: dict[str, Tensor] = dict(cascade.tensors)
        self.estimates: dict[str, tuple[str, str]] = {}
        """Result of a reduction, or what follows from such results -> its tensor of parts, and the reduction whose estimates these are."""
        self.inlined: dict[str, Einsum] = {}
        """Tensor along the axis -> the elementwise Einsum that writes it."""
        self.axes: dict[str, int] = dict(axes)
        """Tensor -> its axis along which the reduction runs."""
        self.followers = 0
        self.count = self.size = 0
        """How many parts there are, and the length of the axis."""
        for einsum in cascade.einsums:
            self.take(einsum)

    def take(self, einsum: Einsum) -> None:
        """Rewrite one Einsum."""
        if einsum.name == self.rewriting.einsum:
            self._note_axes(einsum, self.rewriting.variable)
            self._split(einsum, self.rewriting.variable)
            return
        if not {access.tensor for access in einsum.operands} & (self.estimates.keys() | self.inlined.keys()) or einsum.is_recurrence:
            beside = self._along(einsum) if self.estimates else None
            if beside is not None and beside in einsum.reduction_variables and not einsum.is_recurrence:
                self._split(einsum, beside)
            else:
                self.einsums.append(einsum)
            return
        einsum = self._with_inlined(einsum)
        variable = self._along(einsum)
        if variable is not None and variable in einsum.reduction_variables:
            self.followers += 1
            self._note_axes(einsum, variable)
            self._split(einsum, variable)
            return
        is_plain = einsum.has_injective_output and not einsum.reduction_variables and not einsum.guards and einsum.populate is None
        if variable is not None and is_plain and einsum.output.tensor not in self.cascade.outputs:
            self.inlined[einsum.output.tensor] = einsum
            self.axes[einsum.output.tensor] = [index.bare for index in einsum.output.indices].index(variable)
        elif variable is None and is_plain and all(access.tensor in self.estimates for access in einsum.operands):
            self._estimate(einsum)
        self.einsums.append(einsum)

    def _note_axes(self, einsum: Einsum, variable: str) -> None:
        for access in einsum.operands:
            bare = [index.bare for index in access.indices]
            if variable in bare and access.tensor not in self.estimates:
                self.axes.setdefault(access.tensor, bare.index(variable))

    def _along(self, einsum: Einsum) -> str | None:
        """The variable of an Einsum that runs along the axis."""
        found = {a.indices[self.axes[a.tensor]].bare for a in einsum.operands if a.tensor in self.axes}
        return found.pop() if len(found) == 1 else None

    def _with_inlined(self, einsum: Einsum) -> Einsum:
        """The Einsum with elementwise steps computed in it."""
        while place := next((k for k, a in enumerate(einsum.operands, 1) if a.tensor in self.inlined), 0):
            read, step = einsum.operands[place - 1], self.inlined[einsum.operands[place - 1].tensor]
            names = {mine.bare: index for mine, index in zip(step.output.indices, read.indices, strict=True) if mine.bare is not None}
            if variables_in(step.map) & step.sizes.keys() or any(index.bare is None for index in read.indices):
                raise CascadeError(f"Einsum {step.name} cannot be computed inside {einsum.name}: it is read shifted, or uses its indices")
            count = len(einsum.operands)
            added = tuple(Access(a.tensor, tuple(index.substituted(names) for index in a.indices)) for a in step.operands)
            value = substitute(step.map, {operand_name(k): var(operand_name(count + k)) for k in range(len(added))})
            operands = (*einsum.operands, *added)
            einsum = _compact(dataclasses.replace(einsum, operands=operands, map=substitute(einsum.map, {operand_name(place - 1): value})))
        return einsum

    def _split(self, einsum: Einsum, variable: str) -> None:
        """A reduction in parts, with estimates in the place of results, and the parts corrected where they come together."""
        after = SplitReduction(einsum.name, variable, self.rewriting.parts).apply(
            self.cascade.changed((*self.einsums, einsum), self.tensors, self.cascade.outputs)
        )
        part, merge = after.einsums[-2:]
        self.tensors = dict(after.tensors)
        number = next(v for v in part.output.variables if v not in einsum.output.variables)
        count, size = part.sizes[number], einsum.sizes[variable]
        if not isinstance(count, int) or not isinstance(size, int) or self.size not in (0, size):
            raise CascadeError(f"Einsum {einsum.name} runs over another length than Einsum {self.rewriting.einsum}")
        self.count, self.size = count, size
        places = [k for k, access in enumerate(part.operands) if access.tensor in self.estimates]
        rule = self._rule(einsum, part, number, places)
        estimates = {k: self._estimated(part.operands[k], merge, number) for k in places}
        operands = tuple(estimates.get(k, access) for k, access in enumerate(part.operands))
        parts = self._parts(dataclasses.replace(part, operands=operands), rule, number)
        self.einsums += [one for one in parts if isinstance(one, Einsum)]
        self.first |= {one.name for one in parts if isinstance(one, Einsum)}
        self.einsums.append(self._merged(einsum, merge, part, rule, parts, operands))
        self.estimates[einsum.output.tensor] = (part.output.tensor, einsum.reduce)

    def _rule(self, einsum: Einsum, part: Einsum, number: str, places: list[int]) -> PartRule:
        shift = len(part.operands)
        old = {operand_name(k): self._bounded(part.operands[k].tensor, var(operand_name(k)), number) for k in places}
        new = {operand_name(k): var(operand_name(shift + k)) for k in places}
        reduced = set(einsum.reduction_variables)
        fixed = {operand_name(k) for k, a in enumerate(einsum.operands) if not reduced & set(a.variables)} | set(einsum.output_variables)
        try:
            return correction(primitive(part.map), References(old, new, frozenset(fixed - old.keys())), einsum.reduce)
        except CascadeError as error:
            raise CascadeError(f"Einsum {einsum.name} takes another pass over {self.rewriting.variable}: {error.message}") from error

    def _bounded(self, tensor: str, value: Expression, number: str) -> Expression:
        """An estimate that is finite where nothing takes part, and of the whole where it is the sum of a part."""
        reduce, dtype = self.estimates[tensor][1], np.dtype(self.tensors[tensor].dtype)
        if reduce == ADD.name:
            length = -(-self.size // self.count)
            last = self.size - length * (self.count - 1)
            if last == length:
                return p.Product((value, self.count))
            points = p.Call(var("min"), (length, p.Sum((self.size, p.Product((-length, var(number)))))))
            return p.Product((value, p.Quotient(float(self.size), points)))
        if reduce not in (MAX.name, MIN.name) or kind_of(dtype) != "f":
            return value
        lowest = -largest(dtype)
        return p.Call(var("max"), (value, lowest)) if reduce == MAX.name else p.Call(var("min"), (value, -lowest))

    def _estimated(self, access: Access, merge: Einsum, number: str) -> Access:
        if not set(access.variables) <= set(merge.output_variables):
            raise CascadeError(f"Einsum {merge.name} reduces over more than one row of {access.tensor}, which takes another pass")
        index = next(i for a in merge.operands for i in a.indices if i.bare == number)
        return Access(self.estimates[access.tensor][0], (index, *access.indices))

    def _parts(self, part: Einsum, rule: PartRule, number: str) -> list[Einsum | Expression]:
        """For each local map the Einsum that reduces it, or how often it is counted, times what it is."""
        found: list[Einsum | Expression] = []
        for place, local in enumerate(rule.locals):
            operands = {v for v in variables_in(local) if v.startswith("%")}
            moving = {operand_name(k) for k, a in enumerate(part.operands) if set(a.variables) - set(part.output.variables)}
            if not operands & moving and place:
                found.append(p.Product((local, self._points(part, number))))
                continue
            suffix = f"_{place}" if place else ""
            output = Access(f"{part.output.tensor}{suffix}", part.output.indices)
            if suffix:
                self.tensors[output.tensor] = dataclasses.replace(self.tensors[part.output.tensor], name=output.tensor)
            found.append(_compact(dataclasses.replace(part, name=f"{part.name}{suffix}", output=output, map=local)))
        return found

    def _points(self, part: Einsum, number: str) -> Expression:
        """How many points a part has: the last may be shorter."""
        reduced = [v for v in part.variables if v not in part.output.variables]
        sizes = [n for v in reduced if isinstance(n := part.sizes[v], int)]
        if len(part.guards) > 1 or (part.guards and len(reduced) > 1):
            raise CascadeError(f"how many points a part of Einsum {part.name} has depends on more than its number")
        if not part.guards:
            return int(np.prod(sizes))
        ((_, step),) = ((v, -factor) for v, factor in part.guards[0].terms if v == number)
        return p.Call(var("min"), (sizes[0], p.Sum((part.guards[0].constant + 1, p.Product((-step, var(number)))))))

    def _merged(
        self, einsum: Einsum, merge: Einsum, part: Einsum, rule: PartRule, parts: list[Einsum | Expression], operands: tuple[Access, ...]
    ) -> Einsum:
        """The parts, corrected: operands are those of the part, its results' own, and the values of what was estimated."""
        read: list[Access] = [*operands, *einsum.operands]
        terms: list[Expression] = []
        for one, factor in zip(parts, rule.combined, strict=True):
            if isinstance(one, Einsum):
                read.append(one.output)
                result: Expression = var(operand_name(len(read) - 1))
            else:
                result = one
            if einsum.reduce in (MAX.name, MIN.name):
                terms.append(result if factor == 0 else p.Sum((result, factor)))
            else:
                terms.append(result if factor == 1 else p.Product((result, factor)))
        expression = terms[0] if len(terms) == 1 else p.Sum(tuple(terms))
        merged = _compact(dataclasses.replace(merge, operands=tuple(read), map=expression))
        names = {v for a in merged.operands for v in a.variables} | set(merge.sizes)
        return dataclasses.replace(merged, sizes=constantdict({v: n for v, n in merge.sizes.items() if v in names}))

    def _estimate(self, einsum: Einsum) -> None:
        """What follows from results of reductions, of their estimates."""
        tensor, name = f"{einsum.output.tensor}_part", f"{einsum.name}_part"
        number = next(e for e in self.einsums if e.output.tensor == self.estimates[einsum.operands[0].tensor][0]).output.indices[0]
        if tensor in self.tensors or {number.bare} & set(einsum.variables):
            return
        operands = tuple(Access(self.estimates[a.tensor][0], (number, *a.indices)) for a in einsum.operands)
        own = [var(operand_name(k)) for k in range(len(einsum.operands))]
        values = {o.name: self._bounded(a.tensor, o, number.variables[0]) for o, a in zip(own, einsum.operands, strict=True)}
        output = Access(tensor, (number, *einsum.output.indices))
        old = self.tensors[einsum.output.tensor]
        self.tensors[tensor] = Tensor(tensor, (self.count, *old.shape), old.dtype)
        sizes = constantdict({number.variables[0]: self.count, **einsum.sizes})
        value = substitute(primitive(einsum.map), values)
        self.einsums.append(dataclasses.replace(einsum, name=name, output=output, operands=operands, map=value, sizes=sizes, is_copy=False))
        self.first.add(name)
        self.estimates[einsum.output.tensor] = (tensor, "")


def _compact(einsum: Einsum) -> Einsum:
    """The Einsum with each operand once, and only those that its map reads."""
    used = variables_in(einsum.map)
    kept = list(dict.fromkeys(a for k, a in enumerate(einsum.operands) if operand_name(k) in used))
    names = {operand_name(k): var(operand_name(kept.index(a))) for k, a in enumerate(einsum.operands) if a in kept}
    return dataclasses.replace(einsum, operands=tuple(kept), map=substitute(einsum.map, names), is_copy=False)


def _ordered(einsums: Iterable[Einsum], first: set[str]) -> list[Einsum]:
    """The parts as early as what they need allows, so that one loop can run them all; the others in their order."""
    waiting = list(einsums)
    written = {einsum.output.tensor for einsum in waiting}
    done: dict[str, Einsum] = {}

    def is_ready(einsum: Einsum) -> bool:
        return all(a.tensor not in written or a.tensor in done or a.tensor == einsum.output.tensor for a in einsum.operands)

    while waiting:
        ready = [einsum for einsum in waiting if is_ready(einsum)]
        chosen = next((einsum for einsum in ready if einsum.name in first), ready[0])
        done[chosen.output.tensor] = chosen
        waiting = [einsum for einsum in waiting if einsum is not chosen]
    return list(done.values())


def _used(einsums: list[Einsum], outputs: Iterable[str]) -> tuple[Einsum, ...]:
    """Those whose results somebody reads."""
    needed: set[str] = set(outputs)
    kept: Mapping[str, Einsum] = {}
    for einsum in reversed(einsums):
        if einsum.output.tensor in needed:
            needed |= {access.tensor for access in einsum.operands}
            kept = {einsum.name: einsum, **kept}
    return tuple(kept.values())
