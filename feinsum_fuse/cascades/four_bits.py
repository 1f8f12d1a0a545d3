"""An input in four bits: two numbers to a byte and a factor for each group, taken apart in registers."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from dataclasses import dataclass
from math import prod

from constantdict import constantdict
from pymbolic import primitives as p
from pymbolic import substitute, var
from pymbolic.typing import Expression

from ..errors import CascadeError
from ..formats.affine import Affine
from ..formats.language.reductions import ADD, REDUCTIONS
from ..formats.workload import operand_name
from ..number_types import kind_of
from ..quantization import checked_group
from .maps import product_of, variables_in
from .sequence import AnyCascade
from .terms import Access, Einsum, Size, Tensor

USED = 8
"""How many times an element must be used for its number to be worth writing, which takes eight times as many bytes as its four bits."""
_LOW, _HIGH = var("low4"), var("high4")


@dataclass(frozen=True, order=True)
class InFourBits:
    """``Z[m] = sum(W[m,k] * x[k])`` becomes ``Z[m] = sum(S[m,g] * (low4(P[m,g,h]) * x[G*g + h] + high4(P[m,g,h]) * x[G*g + G/2 + h]))``.

    ``P`` is ``W_packed`` (uint8) and ``S`` is ``W_scales`` (float32), in the layout of :class:`~feinsum_fuse.quantization.FourBits` with
    groups of ``G``, which is ``group``, along the tensor's last axis. Numbers that are used often, or by several Einsums, are written once
    instead, as ``W_values[m,g,b,h]``. Where groups do not divide the axis, points beyond its end contribute nothing. Invariant: the
    outputs are those for the numbers that ``P`` and ``S`` stand for, up to the order of reduction.
    """

    tensor: str
    group: int

    def apply(self, cascade: AnyCascade) -> AnyCascade:
        """The cascade with the packed tensor; :class:`CascadeError`, with the reason, for one that cannot be read so."""
        checked_group(self.group, CascadeError)
        readers = [einsum for einsum in cascade.einsums if self.tensor in {access.tensor for access in einsum.operands}]
        reason = self._obstacle(cascade, readers)
        if reason:
            hint = "Give another type, or store it so that its last axis is one that the Einsum reduces: W[m,k] for W[m,k] * x[k]."
            raise CascadeError(f"tensor {self.tensor!s:.60} cannot be read in four bits: {reason}", hint=hint)
        elements = prod(cascade.fixed_shape(self.tensor))
        within = len(readers) == 1 and readers[0].box_points < USED * elements and self._is_folded(cascade, readers[0])
        return self._within(cascade, readers[0]) if within else self._apart(cascade, readers)

    def _obstacle(self, cascade: AnyCascade, readers: list[Einsum]) -> str:
        """Why the tensor has to stay as it is; empty if it has not."""
        if self.tensor not in cascade.tensors or self.tensor not in cascade.inputs or not readers:
            return f"it is no input; these are {', '.join(cascade.inputs)}"
        tensor = cascade.tensors[self.tensor]
        if kind_of(tensor.dtype) != "f":
            return f"its elements are {tensor.dtype}, and what four bits stand for is floating-point"
        if not tensor.shape or not all(isinstance(size, int) for size in tensor.shape):
            return f"it has the shape {list(tensor.shape)}, and its last axis is to have a known length"
        for einsum in readers:
            (access, *others) = [access for access in einsum.operands if access.tensor == self.tensor]
            variable = access.indices[-1].bare
            if others:
                return f"Einsum {einsum.name} reads it twice"
            if variable is None or any(variable in index.variables for index in access.indices[:-1]):
                return f"Einsum {einsum.name} reads its last axis at {access.indices[-1]}, which is no variable of that axis alone"
            if variable not in einsum.reduction_variables or not einsum.has_injective_output:
                return f"Einsum {einsum.name} does not reduce {variable}, along which groups lie"
            if einsum.is_recurrence or einsum.sizes[variable] != tensor.shape[-1]:
                return f"Einsum {einsum.name} does not run over all of {variable} at once"
            if variable in variables_in(einsum.map):
                return f"the map of Einsum {einsum.name} asks for {variable} itself"
        return ""

    def _is_folded(self, cascade: AnyCascade, einsum: Einsum) -> bool:
        """Whether an Einsum takes both numbers of a byte in one point: groups divide, and nothing is cut off."""
        variable = self._variable(einsum)
        whole = cascade.tensors[self.tensor].shape[-1] % self.group == 0  # type: ignore[operator]
        return bool(whole) and not any(variable in guard.variables for guard in einsum.guards)

    def _variable(self, einsum: Einsum) -> str:
        """The rank variable along which groups lie."""
        found = next(access for access in einsum.operands if access.tensor == self.tensor).indices[-1].bare
        assert found is not None
        return found

    def _within(self, cascade: AnyCascade, einsum: Einsum) -> AnyCascade:
        """The cascade whose Einsum reads bytes."""
        names, tensors = self._tensors(cascade)
        k = self._variable(einsum)
        group, byte = _free(f"{k}_group", einsum.sizes), _free(f"{k}_byte", einsum.sizes)
        ends = [Affine.of({group: self.group, byte: 1}, start) for start in (0, self.group // 2)]
        operands: list[Access] = []
        values: tuple[dict[str, Expression], ...] = ({}, {})

        def added(access: Access) -> Expression:
            if access not in operands:
                operands.append(access)
            return var(operand_name(operands.index(access)))

        for position, access in enumerate(einsum.operands):
            name = operand_name(position)
            if access.tensor == self.tensor:
                outer = access.indices[:-1]
                scale = added(Access(names[1], (*outer, Affine.variable(group))))
                packed = added(Access(names[0], (*outer, Affine.variable(group), Affine.variable(byte))))
                for value, part in zip(values, (_LOW, _HIGH), strict=True):
                    value[name] = part(packed)
                weight = name
            else:
                for value, end in zip(values, ends, strict=True):
                    value[name] = added(_moved(access, k, end))
        if REDUCTIONS[einsum.reduce] is ADD and einsum.map == product_of(len(einsum.operands)):
            rest = [[value[operand_name(n)] for n in range(len(einsum.operands))] for value in values]
            expression: Expression = p.Product((scale, p.Sum(tuple(p.Product(tuple(factors)) for factors in rest))))
        else:
            both = [substitute(einsum.map, {**value, weight: p.Product((scale, value[weight]))}) for value in values]
            expression = REDUCTIONS[einsum.reduce].combined(*both)
        changed = dataclasses.replace(
            einsum, operands=tuple(operands), map=expression, sizes=self._sizes(cascade, einsum, {group: self.group, byte: self.group // 2})
        )
        return cascade.rewritten(tuple(changed if e is einsum else e for e in cascade.einsums), tensors, self)

    def _apart(self, cascade: AnyCascade, readers: list[Einsum]) -> AnyCascade:
        """The cascade with an Einsum that writes the numbers, and Einsums that read these."""
        names, tensors = self._tensors(cascade)
        taken = {*tensors, *(einsum.name for einsum in cascade.einsums)}
        name = _free(f"{self.tensor}_values", taken)
        shape = cascade.fixed_shape(self.tensor)
        groups, half = -(-shape[-1] // self.group), self.group // 2
        axes = [f"d{axis}" for axis in range(len(shape) - 1)]
        sizes = dict(zip([*axes, "group", "half", "byte"], [*shape[:-1], groups, 2, half], strict=True))
        outer = tuple(map(Affine.variable, axes))
        group, part, byte = (Affine.variable(v) for v in ("group", "half", "byte"))
        operands = (Access(names[1], (*outer, group)), Access(names[0], (*outer, group, byte)))
        scale, packed = (var(operand_name(n)) for n in range(2))
        value = p.Product((scale, p.If(p.Comparison(var("half"), "==", 0), _LOW(packed), _HIGH(packed))))
        dtype = cascade.tensors[self.tensor].dtype
        written = Access(name, (*outer, group, part, byte))
        unpacked = Einsum(name, written, operands, value, constantdict(sizes), accumulate="float32")
        tensors[name] = Tensor(name, tuple(sizes.values()), dtype)
        changed = {einsum.name: self._reader(cascade, einsum, name) for einsum in readers}
        einsums = tuple(changed.get(einsum.name, einsum) for einsum in cascade.einsums)
        return cascade.rewritten((unpacked, *einsums), tensors, self)

    def _reader(self, cascade: AnyCascade, einsum: Einsum, name: str) -> Einsum:
        """An Einsum that reads numbers by groups, their halves and the places in these."""
        k = self._variable(einsum)
        group, part, byte = (_free(f"{k}_{what}", einsum.sizes) for what in ("group", "half", "byte"))
        half = self.group // 2
        index = Affine.of({group: self.group, part: half, byte: 1})
        operands = []
        for access in einsum.operands:
            parts = tuple(map(Affine.variable, (group, part, byte)))
            operands.append(Access(name, (*access.indices[:-1], *parts)) if access.tensor == self.tensor else _moved(access, k, index))
        length = cascade.fixed_shape(self.tensor)[-1]
        guards = tuple(guard.substituted({k: index}) for guard in einsum.guards)
        if length % self.group:
            guards += (Affine((), length - 1) - index,)
        sizes = self._sizes(cascade, einsum, {group: self.group, part: 2, byte: half})
        return dataclasses.replace(einsum, operands=tuple(operands), sizes=sizes, guards=guards)

    def _sizes(self, cascade: AnyCascade, einsum: Einsum, parts: Mapping[str, int]) -> constantdict[str, Size]:
        """The extents of an Einsum, with these variables, the first of which counts groups, in place of the one along which groups lie."""
        sizes: dict[str, Size] = {}
        first = next(iter(parts))
        groups = -(-cascade.fixed_shape(self.tensor)[-1] // self.group)
        for v, size in einsum.sizes.items():
            sizes |= {**parts, first: groups} if v == self._variable(einsum) else {v: size}
        return constantdict(sizes)

    def _tensors(self, cascade: AnyCascade) -> tuple[tuple[str, str], dict[str, Tensor]]:
        """The names of packed tensor and factors, and all tensors of the cascade with these in place of what they stand for."""
        shape = cascade.fixed_shape(self.tensor)
        groups = -(-shape[-1] // self.group)
        tensors = {name: tensor for name, tensor in cascade.tensors.items() if name != self.tensor}
        packed = _free(f"{self.tensor}_packed", tensors)
        scales = _free(f"{self.tensor}_scales", tensors)
        tensors[packed] = Tensor(packed, (*shape[:-1], groups, self.group // 2), "uint8")
        tensors[scales] = Tensor(scales, (*shape[:-1], groups), "float32")
        return (packed, scales), tensors


def _moved(access: Access, variable: str, index: Affine) -> Access:
    """The access with an expression in place of a variable."""
    return Access(access.tensor, tuple(old.substituted({variable: index}) for old in access.indices))


def _free(name: str, taken: Container[str]) -> str:
    """The name, with as many underlines as tell it from those that are taken."""
    while name in taken:
        name += "_"
    return name
