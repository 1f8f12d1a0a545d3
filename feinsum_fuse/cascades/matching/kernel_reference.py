"""What matched instructions write, by array of their kernel, computed with NumPy from the kernel's own arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel.function_interface import CallableKernel
from numpy.typing import ArrayLike, NDArray
from pymbolic.typing import Expression

from ...arguments import array_of
from ...errors import CascadeError
from ...formats.affine import Affine, read_affine
from ...formats.integer_sets import constraint_value
from ..cascade import Cascade
from ..kernel.tags import SeparateTag
from ..names import Names
from ..reference.jumps import has_jumps, leanings
from ..reference.reference import wide_type
from ..terms import SizeParam
from .preparation.draft import dependencies
from .rule import computed_values, value_at

KernelArrays = Mapping[str, ArrayLike]
_Stage = tuple[Cascade, tuple[lp.Assignment, ...]]


@dataclass(frozen=True)
class KernelReference:
    """A cascade, the prepared kernel that it was found in, and what its entities are called there.

    Where matching has put an Einsum's result into an array of its own (a *box*), from which another instruction writes what the kernel
    writes, that instruction is done here as well: elements that the kernel leaves alone keep their values.
    """

    cascade: Cascade
    names: Names
    prepared: lp.TranslationUnit
    computed: Mapping[str, Expression]
    """Tensors that no array holds -> the body of their rule."""

    def values(self, arguments: KernelArrays) -> dict[str, NDArray[Any]]:
        """Array -> what it holds afterwards; arrays that are written in part, and not given, hold zeros before."""
        sizes = self.sizes(arguments)
        if not self._writes:
            return self._by_array(self.cascade.reference(**self._operands(self.cascade, arguments, sizes)))
        held = dict(arguments)
        results: dict[str, NDArray[Any]] = {}
        for part, writes in self._stages(sizes):
            found = self._by_array(part.reference(**self._operands(part, held, sizes))) if part.einsums else {}
            results |= {array: value for array, value in found.items() if array in self._outputs}
            held |= found
            for insn in writes:
                self._write(insn, held, sizes)
                array = insn.assignee.aggregate.name
                results[array] = np.asarray(held[array])
        return results

    def alternatives(self, arguments: KernelArrays) -> tuple[dict[str, NDArray[Any]], ...]:
        """As :meth:`~.match.Match.alternatives`; none of what instructions write from boxes."""
        if not has_jumps(self.cascade):
            return ()
        sizes = self.sizes(arguments)
        if any(writes for _, writes in self._stages(sizes)[:-1]):
            return ()
        found = leanings(self.cascade, self._operands(self.cascade, arguments, sizes), sizes)
        return tuple(map(self._by_array, found)) + ((self.values(arguments),) if found else ())

    def sizes(self, arguments: KernelArrays) -> dict[str, int]:
        """Symbolic lengths, from arguments of these names or from the shapes of arrays; :class:`CascadeError` for missing arrays."""
        sizes = {name: int(np.asarray(arguments[name])) for name in self.cascade.size_parameters if name in arguments}
        for tensor in self.cascade.inputs:
            array = self.names.arrays.get(tensor)
            if array is None:
                continue
            if array not in arguments:
                if array in {insn.assignee.aggregate.name for insn in self._writes}:
                    continue
                raise CascadeError(f"the argument {array} is missing")
            shape, given = self.cascade.tensors[tensor].shape, array_of(arguments[array], f"the argument {array}", CascadeError).shape
            if len(given) != len(shape):
                raise CascadeError(f"the argument {array} has {len(given)} axes, and {len(shape)} are expected")
            for size, length in zip(shape, given, strict=True):
                if isinstance(size, SizeParam):
                    sizes.setdefault(size.name, length)
        return sizes

    def _by_array(self, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {self.names.arrays[tensor]: value for tensor, value in values.items()}

    def _operands(self, part: Cascade, arguments: KernelArrays, sizes: Mapping[str, int]) -> dict[str, ArrayLike]:
        """The inputs of the cascade or of a part of it, from the kernel's arrays."""
        values: dict[str, ArrayLike] = {}
        for tensor in part.inputs:
            shape = part.fixed_shape(tensor, sizes)
            if tensor in self.computed:
                values[tensor] = computed_values(self.computed[tensor], shape, arguments)
                continue
            name = self.names.arrays[tensor]
            if name not in arguments:
                raise CascadeError(f"the argument {name} is missing")
            array = np.asarray(arguments[name])
            values[tensor] = array[tuple(slice(0, length) for length in shape)]
        return values

    @cached_property
    def _kernel(self) -> lp.LoopKernel:
        """The one that has the matched instructions."""
        matched = set(self.names.instructions.values())
        known = (found.subkernel for found in self.prepared.callables_table.values() if isinstance(found, CallableKernel))
        return next(kernel for kernel in known if matched <= kernel.id_to_insn.keys())

    @cached_property
    def _outputs(self) -> frozenset[str]:
        """The arrays that hold results of the cascade, other than boxes."""
        return frozenset(self.names.arrays[tensor] for tensor in self.cascade.outputs) - {_box(insn) for insn in self._writes}

    @cached_property
    def _writes(self) -> tuple[lp.Assignment, ...]:
        """The instructions that write from boxes."""
        made = {self.names.arrays.get(einsum.output.tensor) for einsum in self.cascade.einsums}
        return tuple(insn for insn in self._kernel.instructions if insn.tags_of_type(SeparateTag) and _box(insn) in made)

    def _stages(self, sizes: Mapping[str, int]) -> list[_Stage]:
        """Einsums, and the instructions that write from boxes before the next Einsums run."""
        if not self._writes:
            return [(self.cascade, ())]
        before = dependencies(self._kernel)
        by_id = {self.names.instructions[einsum.name]: einsum.name for einsum in self.cascade.einsums}
        writes = {insn.id: insn for insn in self._writes}
        stages: list[tuple[set[str], list[lp.Assignment]]] = [(set(), [])]
        for name in sorted((*by_id, *writes), key=lambda name: len(before[name])):
            if name in writes:
                stages[-1][1].append(writes[name])
                continue
            if stages[-1][1]:
                stages.append((set(), []))
            stages[-1][0].add(by_id[name])
        return [(self._part(names, sizes), tuple(found)) for names, found in stages]

    def _part(self, names: Collection[str], sizes: Mapping[str, int]) -> Cascade:
        """Some Einsums of the cascade, all of whose results are kept; its lengths are numbers."""
        einsums = tuple(
            dataclasses.replace(
                einsum,
                sizes=constantdict({v: sizes[size.name] if isinstance(size, SizeParam) else size for v, size in einsum.sizes.items()}),
            )
            for einsum in self.cascade.einsums
            if einsum.name in names
        )
        used = {access.tensor for einsum in einsums for access in (einsum.output, *einsum.operands)}
        tensors = {
            tensor: dataclasses.replace(held, shape=self.cascade.fixed_shape(tensor, sizes))
            for tensor, held in self.cascade.tensors.items()
            if tensor in used
        }
        return self.cascade.changed(einsums, tensors, tuple(dict.fromkeys(einsum.output.tensor for einsum in einsums)))

    def _write(self, insn: lp.Assignment, held: dict[str, ArrayLike], sizes: Mapping[str, int]) -> None:
        """Do what an instruction does: a box's elements, where its loops and conditions let it write."""
        name, box = insn.assignee.aggregate.name, np.asarray(held[_box(insn)])
        array = self._before(name, held, sizes)
        starts = [_start(index) for index in insn.expression.index_tuple]
        places = {
            loop: (start + np.arange(length)).reshape([-1 if k == position else 1 for k in range(len(starts))])
            for position, ((loop, start), length) in enumerate(zip(starts, box.shape, strict=True))
        }
        known = {**held, **sizes, **places}
        inside = np.ones(box.shape, np.bool_)
        for condition, is_zero in _bounds(self._kernel, list(places)):
            value = sum((factor * np.asarray(known[v]) for v, factor in condition.terms), start=np.asarray(condition.constant))
            inside &= value == 0 if is_zero else value >= 0
        for predicate in insn.predicates:
            inside &= np.asarray(value_at(predicate, known)) != 0
        indices = [np.broadcast_to(value_at(index, places), box.shape)[inside] for index in insn.assignee.index_tuple]
        array[tuple(indices)] = box[inside]
        held[name] = array

    def _before(self, name: str, held: KernelArrays, sizes: Mapping[str, int]) -> NDArray[Any]:
        """A copy of what an array holds, as wide as references are."""
        described = self._kernel.get_var_descriptor(name)
        dtype = wide_type(described.dtype.numpy_dtype.name)
        if name in held:
            return np.array(held[name], dtype)
        return np.zeros([int(np.asarray(value_at(length, {**held, **sizes}))) for length in described.shape], dtype)


def _box(insn: lp.Assignment) -> str:
    """The array that an instruction writes from."""
    return str(insn.expression.aggregate.name)


def _start(index: Expression) -> tuple[str, int]:
    """The loop over an axis of a box, and at which value of it the axis begins."""
    found = read_affine(index)
    assert found is not None
    return found.variables[0], -found.constant


def _bounds(kernel: lp.LoopKernel, loops: Collection[str]) -> Iterator[tuple[Affine, bool]]:
    """What is >= 0 in the loops, or, where that is said, 0."""
    domain = kernel.get_inames_domain(frozenset(loops)).project_out_except(sorted(loops), [isl.dim_type.set])
    for constraint in domain.get_constraints():
        yield constraint_value(constraint), constraint.is_equality()
