"""How many bytes a generated kernel reads and writes of each array in main memory, counted exactly from its loops and guards."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import islpy as isl
import loopy as lp
import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.data import AddressSpace, TemporaryVariable, ValueArg
from loopy.kernel.instruction import InstructionBase, MultiAssignmentBase
from loopy.symbolic import Reduction, ResolvedFunction, TypeCast, condition_to_set
from loopy.translation_unit import TranslationUnit
from pymbolic import var
from pymbolic.mapper import WalkMapper
from pymbolic.primitives import Call, Comparison, If, LogicalNot, Subscript, Variable
from pymbolic.typing import Expression

from ...cascades.kernel.tags import TensorTag
from ...errors import LoweringError
from ...schedule.kernel.operations import parts
from .counting import count_points

_LANE = "lane_of_the_access"


@dataclass(frozen=True)
class ArrayTraffic:
    """Bytes that the instructions of a kernel load and store, whether or not a cache holds them."""

    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True)
class _Access:
    """An array element that is touched where all conditions hold; ``lanes`` neighbours of it, but only while the lane is below ``upto``."""

    array: str
    conditions: tuple[Expression, ...] = ()
    inames: frozenset[str] = frozenset()
    lanes: int = 1
    upto: tuple[Expression, ...] = ()


class _Reads(WalkMapper):  # type: ignore[misc]
    """Collects the accesses of an expression, with the conditions of the branches that they stand in.

    Not made from loopy's walk mappers, which visit equal expressions once and would count an access in two branches once.
    """

    def __init__(self, arrays: Collection[str]) -> None:
        super().__init__()
        self.arrays = arrays
        self.found: list[_Access] = []
        self.conditions: list[Expression] = []
        self.inames: frozenset[str] = frozenset()

    def note(self, name: str, lanes: int = 1, upto: tuple[Expression, ...] = ()) -> None:
        """An access under the conditions of this place."""
        if name in self.arrays:
            self.found.append(_Access(name, tuple(self.conditions), self.inames, lanes, upto))

    @contextmanager
    def under(self, condition: Expression) -> Iterator[None]:
        """What is walked here happens only where the condition holds."""
        self.conditions.append(condition)
        yield
        self.conditions.pop()

    def map_subscript(self, expr: Subscript) -> None:
        self.note(expr.aggregate.name)
        self.rec(expr.index)

    def map_variable(self, expr: Variable) -> None:
        self.note(expr.name)

    map_tagged_variable = map_variable

    def map_if(self, expr: If) -> None:
        self.rec(expr.condition)
        with self.under(expr.condition):
            self.rec(expr.then)
        with self.under(LogicalNot(expr.condition)):
            self.rec(expr.else_)

    def map_reduction(self, expr: Reduction) -> None:
        before = self.inames
        self.inames = before | frozenset(expr.inames)
        self.rec(expr.expr)
        self.inames = before

    def map_type_cast(self, expr: TypeCast) -> None:
        self.rec(expr.child)

    def map_call(self, expr: Call) -> None:
        lanes, upto, rest = _vector_access(expr)
        if lanes is None:
            for parameter in expr.parameters:
                self.rec(parameter)
            return
        address = expr.parameters[0]
        assert isinstance(address, Subscript)
        if _function(expr).startswith("vload"):
            self.note(address.aggregate.name, lanes, upto)
        for parameter in rest:
            self.rec(parameter)


def _function(call: Call) -> str:
    function = call.function
    return str(function.name) if isinstance(function, ResolvedFunction | Variable) else ""


def _vector_access(call: Call) -> tuple[int | None, tuple[Expression, ...], tuple[Expression, ...]]:
    """Lanes, their limits, and the parameters that are values, of an intrinsic that takes an element's address; no lanes for any other."""
    name = _function(call)
    if not name.startswith(("vload", "vstore")):
        return None, (), call.parameters
    what, _, lanes = parts(name)
    upto = _minima(call.parameters[-1]) if "upto" in what else ()
    return lanes, upto, call.parameters[1 : len(call.parameters) - bool(upto)]


def _minima(expression: Expression) -> tuple[Expression, ...]:
    """The arguments of nested minima: below the minimum is below each."""
    if isinstance(expression, Call) and _function(expression) == "min":
        return tuple(x for parameter in expression.parameters for x in _minima(parameter))
    return (expression,)


def traffic(t_unit: TranslationUnit) -> dict[str, ArrayTraffic]:
    """For each array in main memory, the bytes that one run of the kernel reads and writes.

    Counted are executions of loads and stores: the iterations of each instruction's loops, work-groups and work-items among them, at
    which its predicates and the conditions around the access hold. Raises :class:`~feinsum_fuse.errors.LoweringError` for symbolic sizes
    and for conditions that depend on data.
    """
    kernel = lp.expand_subst(t_unit).default_entrypoint
    arrays = {a.name: a for a in kernel.args if not isinstance(a, ValueArg)}
    arrays |= {t.name: t for t in kernel.temporary_variables.values() if _is_global(t)}
    sizes = {name: np.dtype(array.dtype.numpy_dtype).itemsize for name, array in arrays.items()}
    totals = {name: [0, 0] for name in arrays}
    for instruction in kernel.instructions:
        if not isinstance(instruction, MultiAssignmentBase):
            continue
        for position, accesses in enumerate(_accesses(instruction, arrays)):
            for access in accesses:
                totals[access.array][position] += sizes[access.array] * _executions(kernel, instruction, access)
    return {name: ArrayTraffic(*both) for name, both in totals.items()}


def _is_global(array: TemporaryVariable) -> bool:
    return bool(array.address_space == AddressSpace.GLOBAL)


def _accesses(instruction: MultiAssignmentBase, arrays: Collection[str]) -> tuple[list[_Access], list[_Access]]:
    """What an instruction reads, and what it writes; a stored vector is one write of all its lanes."""
    reads = _Reads(arrays)
    reads.rec(instruction.expression)
    written: list[_Access] = []
    expression = instruction.expression
    lanes, upto, _ = _vector_access(expression) if isinstance(expression, Call) else (None, (), ())
    is_store = lanes is not None and _function(expression).startswith("vstore")
    for assignee in instruction.assignees:
        if isinstance(assignee, Subscript):
            reads.rec(assignee.index)
        name = assignee.aggregate.name if isinstance(assignee, Subscript) else assignee.name
        if name in arrays:
            written.append(_Access(name, lanes=lanes or 1, upto=upto) if is_store else _Access(name))
    return reads.found, written


def _executions(kernel: LoopKernel, instruction: InstructionBase, access: _Access) -> int:
    """How many elements an access touches in one run, repeated ones counted again."""
    domain = isl.Set.from_basic_set(kernel.get_inames_domain(instruction.within_inames | access.inames))
    factor = access.lanes
    conditions = [*instruction.predicates, *access.conditions]
    if access.upto:
        factor = 1
        position = domain.dim(isl.dim_type.set)
        domain = domain.add_dims(isl.dim_type.set, 1).set_dim_name(isl.dim_type.set, position, _LANE)
        lane = var(_LANE)
        conditions += [Comparison(lane, ">=", 0), Comparison(lane, "<", access.lanes)]
        conditions += [Comparison(lane, "<", limit) for limit in access.upto]
    for condition in conditions:
        holds = condition_to_set(domain.space, condition)
        if holds is None:
            raise LoweringError(f"{instruction.id}: cannot count how often {condition} holds, since it depends on data")
        domain = domain & holds
    counted = instruction.within_inames | access.inames | {_LANE}
    for position in reversed(range(domain.dim(isl.dim_type.set))):
        if domain.get_dim_name(isl.dim_type.set, position) not in counted:
            domain = domain.project_out(isl.dim_type.set, position, 1)
    return factor * count_points(domain)


def intermediate_bytes(t_unit: TranslationUnit, intermediates: Collection[str]) -> int:
    """Bytes of these tensors that the kernel reads from and writes to main memory; 0 if they never leave the tiles that it holds."""
    kernel = t_unit.default_entrypoint
    counted = traffic(t_unit)
    total = 0
    for array in (*kernel.args, *kernel.temporary_variables.values()):
        if array.name in counted and any(tag.tensor in intermediates for tag in array.tags_of_type(TensorTag)):
            total += counted[array.name].total_bytes
    return total
