"""Random arguments on which kernels are tried: arrays are as long as offsets and other integers among the arguments ask for.

A kernel whose arrays begin at an offset that is an argument, or that has indices which hold other integers (``a[i + s]``, ``a[rows[i]]``),
reads beside arrays of exactly their shape. Such arrays are passed as flat buffers with room at their end; OpenCL C sees pointers alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel.array import ArrayBase
from loopy.preprocess import make_args_for_offsets_and_strides
from loopy.symbolic import SubstitutionRuleExpander, UncachedWalkMapper, get_dependencies
from pymbolic import primitives as p
from pymbolic import var
from pymbolic.mapper.evaluator import UnknownVariableError, evaluate
from pymbolic.typing import Expression

from ...codegen.arithmetic import Known, Range
from ...codegen.executable import Argument, Executable
from ...device.checking.room import check_trial
from ...device.checking.verification import LARGEST_INTEGER, random_array
from ...errors import LoweringError

DRAWN: Range = (0, LARGEST_INTEGER)
UNKNOWN: Range = (None, None)


@dataclass(frozen=True)
class BufferPlace:
    """Where an array lies in its buffer, both counted in scalars."""

    argument: Argument
    offset: int
    length: int

    def view(self, buffer: np.ndarray) -> np.ndarray:
        """The array in its buffer."""
        return self.argument.view(buffer[self.offset :])


@dataclass(frozen=True)
class TrialData:
    """Random arguments of a kernel, and which of its arrays lie in longer buffers."""

    inputs: Mapping[str, np.ndarray]
    """Of arrays in ``places`` the flat buffers."""
    places: Mapping[str, BufferPlace]
    is_bounded: bool
    """Whether all indices that hold integers of the arguments are known to stay in these arrays."""

    @classmethod
    def of(cls, unit: lp.TranslationUnit, program: Executable, seed: int) -> TrialData:
        """For a kernel whose sizes are numbers, and its program; arrays that the kernel writes are among the inputs.

        Raises :class:`~feinsum_fuse.device.checking.room.NoRoomError` for arrays that do not fit the memory.
        """
        generator = np.random.default_rng(seed)
        indices = DrawnIndices(unit.default_entrypoint)
        arguments = [a for a in program.arguments if a.role != "temporary"]
        check_trial(sum(a.nbytes for a in arguments))
        scalars = {a.name: _scalar(a, a.name in indices.offsets, generator) for a in arguments if a.by_value}
        places = {}
        for argument in arguments:
            offset = indices.offset(argument.name, scalars)
            room = indices.room(argument.name)
            if offset or room:
                lanes = dict(program.vectors).get(argument.name, 1)
                places[argument.name] = BufferPlace(argument, offset * lanes, argument.elements + (offset + room) * lanes)
        shapes = {a.name: (places[a.name].length,) if a.name in places else a.shape for a in arguments}
        arrays = {a.name: random_array(shapes[a.name], a.dtype, generator) for a in arguments if not a.by_value}
        return cls(constantdict({**scalars, **arrays}), constantdict(places), indices.are_bounded)

    def program(self, given: Executable) -> Executable:
        """The program of this kernel, or of one with the same arguments, that takes buffers."""
        arguments = tuple(
            dataclasses.replace(a, shape=(self.places[a.name].length,), strides=()) if a.name in self.places else a for a in given.arguments
        )
        return dataclasses.replace(given, arguments=arguments)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The inputs, each array as the kernel sees it."""
        return {name: self.places[name].view(value) if name in self.places else value for name, value in self.inputs.items()}

    def buffers(self, arrays: Mapping[str, np.ndarray], around: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays as the kernel sees them, each in its buffer; what they leave over is as it is in ``around``, and those of other shapes."""
        found = {}
        for name, array in arrays.items():
            buffer = found[name] = around[name].copy()
            whole = self.places[name].view(buffer) if name in self.places else buffer
            if whole.shape == array.shape:
                whole[...] = array
        return found


def _scalar(argument: Argument, is_offset: bool, generator: np.random.Generator) -> np.ndarray:
    """An offset is not 0: kernels that forget it would not be seen."""
    if not is_offset:
        return random_array((), argument.dtype, generator)
    return np.asarray(generator.integers(1, LARGEST_INTEGER + 1), argument.dtype)


class DrawnIndices:
    """The indices of a kernel that hold integers from its arguments."""

    def __init__(self, kernel: lp.LoopKernel) -> None:
        self.kernel = kernel = make_args_for_offsets_and_strides(kernel)
        self.are_bounded = True
        self._lengths: dict[str, dict[int, int]] = {}
        self._values: dict[str, Range] = {}
        expand = SubstitutionRuleExpander(kernel.substitutions)
        for insn in kernel.instructions:
            if isinstance(insn, lp.MultiAssignmentBase):
                walk = _Subscripts()
                for part in (*insn.assignees, insn.expression, *insn.predicates):
                    walk(expand(part))
                for element in walk.found:
                    self._add(element)

    @cached_property
    def offsets(self) -> frozenset[str]:
        """Arguments on which an array's offset depends."""
        found = (self._offset(name) for name in self.kernel.arg_dict)
        return frozenset(name for offset in found for name in get_dependencies(offset))

    def offset(self, array: str, scalars: Mapping[str, np.ndarray]) -> int:
        """Elements before an array in its buffer; :class:`~feinsum_fuse.errors.LoweringError` if no argument says how many."""
        try:
            return int(evaluate(self._offset(array), scalars))
        except UnknownVariableError as error:
            raise LoweringError(f"the offset of {array} depends on {error}, which is no argument") from error

    def _offset(self, array: str) -> Expression:
        found = getattr(self.kernel.arg_dict[array], "offset", 0)
        if isinstance(found, str):
            return var(found)
        return found if isinstance(found, int | np.integer | p.ExpressionNode) else 0

    def room(self, array: str) -> int:
        """Elements behind an array that an index can reach."""
        longer = self._lengths.get(array, {})
        tags = self.kernel.arg_dict[array].dim_tags if longer else ()
        return sum((length - int(self.kernel.arg_dict[array].shape[axis])) * int(tags[axis].stride) for axis, length in longer.items())

    def _add(self, element: p.Subscript) -> None:
        """Note what an element of an array asks for."""
        array = self.kernel.get_var_descriptor(element.aggregate.name)
        if not isinstance(array, ArrayBase) or not isinstance(array.shape, tuple):
            return
        for axis, (index, length) in enumerate(zip(element.index_tuple, array.shape, strict=True)):
            if get_dependencies(index) <= self.kernel.all_inames() and not self._is_drawn(index):
                continue
            low, high = self._range(index)
            if low is None or low < 0 or high is None or not isinstance(length, int):
                self.are_bounded = False
            elif high >= length:
                self.are_bounded &= array.name in self.kernel.arg_dict
                longer = self._lengths.setdefault(array.name, {})
                longer[axis] = max(longer.get(axis, 0), high + 1)

    def _is_drawn(self, index: Expression) -> bool:
        """Whether a loop in an index runs up to what is an argument, or is read from one."""
        names = get_dependencies(index) & self.kernel.all_inames()
        return any(set(self.kernel.get_inames_domain(frozenset((n,))).get_var_names(isl.dim_type.param)) for n in names)

    def _range(self, value: Expression) -> Range:
        names = {p.Variable(name): self._of_name(name) for name in get_dependencies(value)}
        walk = _Subscripts()
        walk(value)
        return Known({**names, **{element: self._of_name(element.aggregate.name) for element in walk.found}}).range(value)

    def _of_name(self, name: str) -> Range:
        """The range of a loop, an argument or a variable."""
        if name not in self._values:
            self._values[name] = UNKNOWN  # where it depends on itself
            self._values[name] = self._of_loop(name) if name in self.kernel.all_inames() else self._of_variable(name)
        return self._values[name]

    def _of_variable(self, name: str) -> Range:
        writers = self.kernel.writer_map().get(name, frozenset())
        if not writers:
            return DRAWN if name in self.kernel.arg_dict else UNKNOWN
        insn = self.kernel.id_to_insn[min(writers)]
        if len(writers) > 1 or name in self.kernel.arg_dict or not isinstance(insn, lp.Assignment) or insn.predicates:
            return UNKNOWN
        return self._range(SubstitutionRuleExpander(self.kernel.substitutions)(insn.expression))

    def _of_loop(self, name: str) -> Range:
        domain = self.kernel.get_inames_domain(frozenset((name,)))
        for position, parameter in enumerate(domain.get_var_names(isl.dim_type.param)):
            low, high = self._of_name(parameter)
            domain = domain if low is None else domain.lower_bound_val(isl.dim_type.param, position, isl.Val(low))
            domain = domain if high is None else domain.upper_bound_val(isl.dim_type.param, position, isl.Val(high))
        points = isl.Set.from_basic_set(domain)
        position = points.find_dim_by_name(isl.dim_type.set, name)
        ends = points.dim_min_val(position), points.dim_max_val(position)
        least, most = (int(end.to_python()) if end.is_int() else None for end in ends)
        return least, most


class _Subscripts(UncachedWalkMapper):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.found: list[p.Subscript] = []

    def map_subscript(self, expr: p.Subscript) -> None:
        self.found.append(expr)
        super().map_subscript(expr)
