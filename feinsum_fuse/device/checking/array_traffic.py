"""How many bytes a generated kernel reads and writes of each array in main memory, counted exactly from its loops and guards.

The integer points of ISL sets are counted exactly, without barvinok: a basic set falls apart into groups of variables that no constraint
links; their counts multiply. Within a group one variable is counted in closed form, as the length of an interval, for all values of the
others at once; if those are too many, one of them is fixed in turn, which usually takes the group apart.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
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
from ...schedule.kernel.intrinsics import operations_of
from ...schedule.kernel.operations import BlockFunction, Extent, VectorOperation, Verb

_LARGEST = 1 << 22
"""Points of the other variables that are looked at in one go."""


@dataclass(frozen=True)
class _Linear:
    """An integer combination of variables and of floors, by name, and a constant."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    def at(self, values: dict[str, np.ndarray | int]) -> np.ndarray | int:
        """The value where all variables and floors have one."""
        result: np.ndarray | int = self.constant
        for name, factor in self.terms:
            result = result + factor * values[name]
        return result

    def fixed(self, name: str, value: int) -> _Linear:
        """The combination where a variable has a value."""
        factors = dict(self.terms)
        factor = factors.pop(name, 0)
        return _Linear(tuple(factors.items()), self.constant + factor * value)


@dataclass(frozen=True)
class _Floor:
    """``name = floor(numerator / denominator)``."""

    name: str
    numerator: _Linear
    denominator: int


@dataclass(frozen=True)
class _Constraint:
    """``linear >= 0``, or ``= 0``."""

    linear: _Linear
    is_equality: bool


@dataclass(frozen=True)
class _System:
    """Points of a box under constraints; floors are defined before they are used."""

    box: tuple[tuple[str, int, int], ...]
    constraints: tuple[_Constraint, ...]
    floors: tuple[_Floor, ...]

    def variables_of(self, linear: _Linear) -> frozenset[str]:
        """The box's variables that a combination depends on, through floors too."""
        floors = {floor.name: floor for floor in self.floors}
        found: set[str] = set()
        for name, _ in linear.terms:
            found |= self.variables_of(floors[name].numerator) if name in floors else {name}
        return frozenset(found)

    def groups(self) -> Iterable[_System]:
        """The parts that no constraint links."""
        groups = [{name} for name, _, _ in self.box]
        for constraint in self.constraints:
            linked = self.variables_of(constraint.linear)
            touched = [group for group in groups if group & linked]
            if len(touched) > 1:
                groups = [group for group in groups if not group & linked] + [set().union(*touched)]
        for group in groups:
            box = tuple(entry for entry in self.box if entry[0] in group)
            constraints = tuple(c for c in self.constraints if self.variables_of(c.linear) & group)
            floors = tuple(floor for floor in self.floors if self.variables_of(floor.numerator) & group)
            yield _System(box, constraints, floors)

    def fixed(self, name: str, value: int) -> _System:
        """The points where a variable has a value."""
        box = tuple(entry for entry in self.box if entry[0] != name)
        constraints = tuple(_Constraint(c.linear.fixed(name, value), c.is_equality) for c in self.constraints)
        floors = tuple(_Floor(f.name, f.numerator.fixed(name, value), f.denominator) for f in self.floors)
        return _System(box, constraints, floors)

    def count(self) -> int:
        """The number of points."""
        loose = [c for c in self.constraints if not self.variables_of(c.linear)]
        if loose:
            floors: dict[str, np.ndarray | int] = {}
            for floor in self.floors:
                if not self.variables_of(floor.numerator):
                    floors[floor.name] = floor.numerator.at(floors) // floor.denominator
            if any(c.linear.at(floors) != 0 if c.is_equality else c.linear.at(floors) < 0 for c in loose):
                return 0
        return math.prod(group._count_linked() for group in self.groups())

    def _count_linked(self) -> int:
        """The number of points of variables that constraints link."""
        floored = frozenset().union(*(self.variables_of(floor.numerator) for floor in self.floors))
        free = [entry for entry in self.box if entry[0] not in floored]
        inner = max(free, key=lambda entry: entry[2] - entry[1], default=None)
        others = [entry for entry in self.box if entry != inner]
        if math.prod(last - first + 1 for _, first, last in others) <= _LARGEST:
            return self._count_inner(inner, others)
        degree = {name: sum(name in self.variables_of(c.linear) for c in self.constraints) for name, _, _ in others}
        name, first, last = min(others, key=lambda entry: (entry[2] - entry[1], -degree[entry[0]]))
        return sum(self.fixed(name, value).count() for value in range(first, last + 1))

    def _count_inner(self, inner: tuple[str, int, int] | None, others: list[tuple[str, int, int]]) -> int:
        """Sum the interval's length of one variable over all values of the others."""
        shape = (1,) * len(others)
        values: dict[str, np.ndarray | int] = {}
        for axis, (name, first, last) in enumerate(others):
            values[name] = np.arange(first, last + 1, dtype=np.int64).reshape((*shape[:axis], -1, *shape[axis + 1 :]))
        for floor in self.floors:
            values[floor.name] = floor.numerator.at(values) // floor.denominator
        name, first, last = inner or ("", 0, 0)
        low: np.ndarray | int = first
        high: np.ndarray | int = last
        holds: np.ndarray | bool = True
        for constraint in self.constraints:
            factor = dict(constraint.linear.terms).get(name, 0)
            rest = constraint.linear.fixed(name, 0).at(values)
            if factor == 0:
                holds = holds & (rest == 0 if constraint.is_equality else rest >= 0)
                continue
            if factor > 0 or constraint.is_equality:
                low = np.maximum(low, -(rest // factor) if factor > 0 else -((-rest) // -factor))
            if factor < 0 or constraint.is_equality:
                high = np.minimum(high, rest // -factor if factor < 0 else (-rest) // factor)
        counts = np.where(holds, np.maximum(np.asarray(high) - np.asarray(low) + 1, 0), 0)
        full = np.broadcast_to(counts, tuple(b - a + 1 for _, a, b in others))
        return int(full.sum(dtype=np.int64))


def count_points(points: isl.Set | isl.BasicSet) -> int:
    """The number of integer points of a bounded set without parameters; :class:`~feinsum_fuse.errors.LoweringError` for any other."""
    if isinstance(points, isl.BasicSet):
        points = isl.Set.from_basic_set(points)
    if points.dim(isl.dim_type.param) and points.involves_dims(isl.dim_type.param, 0, points.dim(isl.dim_type.param)):
        raise LoweringError(f"cannot count the points of {points}: it has parameters", hint="Fix all sizes.")
    if not points.is_bounded():
        raise LoweringError(f"cannot count the points of {points}: it is not bounded")
    return sum(_system(part).count() for part in points.make_disjoint().compute_divs().get_basic_sets() if not part.is_empty())


def _system(part: isl.BasicSet) -> _System:
    """The constraints of a basic set as plain integers."""
    whole = isl.Set.from_basic_set(part)
    names = [f"v{k}" for k in range(part.dim(isl.dim_type.set))]
    box = tuple((name, _integer(whole.dim_min_val(k)), _integer(whole.dim_max_val(k))) for k, name in enumerate(names))
    divs = [f"d{k}" for k in range(part.dim(isl.dim_type.div))]
    constraints = []
    for c in part.get_constraints():
        terms = [(name, _integer(c.get_coefficient_val(isl.dim_type.set, k))) for k, name in enumerate(names)]
        terms += [(name, _integer(c.get_coefficient_val(isl.dim_type.div, k))) for k, name in enumerate(divs)]
        linear = _Linear(tuple((name, factor) for name, factor in terms if factor), _integer(c.get_constant_val()))
        constraints.append(_Constraint(linear, c.is_equality()))
    space = part.get_local_space()
    floors = tuple(_floor(space.get_div(k), name, names, divs) for k, name in enumerate(divs))
    return _System(box, tuple(constraints), floors)


def _floor(aff: isl.Aff, name: str, names: list[str], divs: list[str]) -> _Floor:
    denominator = _integer(aff.get_denominator_val())
    scaled = aff.scale_val(aff.get_denominator_val())
    terms = [(n, _integer(scaled.get_coefficient_val(isl.dim_type.in_, k))) for k, n in enumerate(names)]
    terms += [(n, _integer(scaled.get_coefficient_val(isl.dim_type.div, k))) for k, n in enumerate(divs)]
    return _Floor(name, _Linear(tuple(t for t in terms if t[1]), _integer(scaled.get_constant_val())), denominator)


def _integer(value: isl.Val) -> int:
    assert value.is_int(), value
    return int(value.to_python())


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
class _Lanes:
    """So many elements, of which only those with numbers below ``upto``, and from ``first`` on, are touched."""

    lanes: int
    upto: tuple[Expression, ...] = ()
    first: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class _Access:
    """An array element that is touched where all conditions hold; elements that lie behind it along axes of their own."""

    array: str
    conditions: tuple[Expression, ...] = ()
    inames: frozenset[str] = frozenset()
    axes: tuple[_Lanes, ...] = ()


class _Reads(WalkMapper):  # type: ignore[misc]
    """Collects the accesses of an expression, with the conditions of the branches that they stand in.

    Not made from loopy's walk mappers, which visit equal expressions once and would count an access in two branches once.
    """

    def __init__(self, arrays: Collection[str], operations: Mapping[str, VectorOperation]) -> None:
        super().__init__()
        self.operations = operations
        self.arrays = arrays
        self.found: list[_Access] = []
        self.conditions: list[Expression] = []
        self.inames: frozenset[str] = frozenset()

    def note(self, name: str, axes: tuple[_Lanes, ...] = ()) -> None:
        """An access under the conditions of this place."""
        if name in self.arrays:
            self.found.append(_Access(name, tuple(self.conditions), self.inames, axes))

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
        operation = self.operations.get(_function(expr))
        if operation is not None and operation.verb is Verb.PRODUCT:
            self._product(expr)
            return
        if operation is not None and operation.called is not None:
            self._called(expr, operation.called)
            return
        if operation is None or not operation.spaces:
            for parameter in expr.parameters:
                self.rec(parameter)
            return
        axes, rest = _moved(expr, operation)
        if operation.verb is not Verb.STORE:
            address = expr.parameters[operation.addresses - 1]
            assert isinstance(address, Subscript)
            self.note(address.aggregate.name, axes)
        for parameter in rest:
            self.rec(parameter)

    def _product(self, call: Call) -> None:
        """A product reads rows of its left operand and columns of its right one; sums that it adds to are private."""
        rows, columns, deep = map(_counted, call.parameters[-3:])
        for address, axes in zip(call.parameters[1:3], ((rows, deep), (columns, deep)), strict=True):
            assert isinstance(address, Subscript)
            self.note(address.aggregate.name, axes)

    def _called(self, call: Call, function: BlockFunction) -> None:
        """A function reads each operand once, along its own indices, and the output if it adds to it."""
        first = 0 if function.adds else 1
        for address, axes in zip(call.parameters[first : len(function.axes)], _called_axes(call, function)[first:], strict=True):
            assert isinstance(address, Subscript)
            self.note(address.aggregate.name, axes)


def _called_axes(call: Call, function: BlockFunction) -> list[tuple[_Lanes, ...]]:
    """The elements that a function touches, of the output and of each operand."""
    indices = len({axis for axes in function.axes for axis in axes})
    counts = [_counted(count) for count in call.parameters[-indices:]]
    return [tuple(counts[axis] for axis in axes) for axes in function.axes]


def _counted(count: Expression) -> _Lanes:
    """As many as the least of these, of which one is a number."""
    every = _minima(count)
    most = min(n for n in every if isinstance(n, int))
    return _Lanes(most, tuple(n for n in every if not isinstance(n, int)))


def _function(call: Call) -> str:
    function = call.function
    return str(function.name) if isinstance(function, ResolvedFunction | Variable) else ""


def _moved(call: Call, operation: VectorOperation) -> tuple[tuple[_Lanes, ...], tuple[Expression, ...]]:
    """The lanes of an operation that moves a vector or a block, and the parameters that are values."""
    if operation.is_block:
        sides = (operation.block_rows, operation.lanes)
        return tuple(_Lanes(side, _minima(count)) for side, count in zip(sides, call.parameters[-2:], strict=True)), ()
    if operation.extent is Extent.WITHIN:
        _, start, length = call.parameters
        return (_Lanes(operation.lanes, tuple(n - start for n in _minima(length)), (-start,)),), ()
    upto = _minima(call.parameters[-1]) if operation.is_counted else ()
    return (_Lanes(operation.lanes, upto),), call.parameters[1 : len(call.parameters) - bool(upto)]


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
    operations = operations_of(t_unit)
    for instruction in kernel.instructions:
        if not isinstance(instruction, MultiAssignmentBase):
            continue
        for position, accesses in enumerate(_accesses(instruction, arrays, operations)):
            for access in accesses:
                totals[access.array][position] += sizes[access.array] * _executions(kernel, instruction, access)
    return {name: ArrayTraffic(*both) for name, both in totals.items()}


def _is_global(array: TemporaryVariable) -> bool:
    return bool(array.address_space == AddressSpace.GLOBAL)


def _accesses(
    instruction: MultiAssignmentBase, arrays: Collection[str], operations: Mapping[str, VectorOperation]
) -> tuple[list[_Access], list[_Access]]:
    """What an instruction reads, and what it writes; a stored vector is one write of all its lanes."""
    reads = _Reads(arrays, operations)
    reads.rec(instruction.expression)
    written: list[_Access] = []
    expression = instruction.expression
    stored = operations.get(_function(expression)) if isinstance(expression, Call) else None
    axes: tuple[_Lanes, ...] = ()
    if stored is not None and stored.called is not None:
        axes = _called_axes(expression, stored.called)[0]
    elif stored is not None and stored.is_store:
        axes = _moved(expression, stored)[0]
    for assignee in instruction.assignees:
        if isinstance(assignee, Subscript):
            reads.rec(assignee.index)
        name = assignee.aggregate.name if isinstance(assignee, Subscript) else assignee.name
        if name in arrays:
            written.append(_Access(name, axes=axes))
    return reads.found, written


def _executions(kernel: LoopKernel, instruction: InstructionBase, access: _Access) -> int:
    """How many elements an access touches in one run, repeated ones counted again."""
    domain = isl.Set.from_basic_set(kernel.get_inames_domain(instruction.within_inames | access.inames))
    factor = 1
    conditions = [*instruction.predicates, *access.conditions]
    lanes: list[str] = []
    for axis in access.axes:
        if not axis.upto:
            factor *= axis.lanes
            continue
        position = domain.dim(isl.dim_type.set)
        lane = var(f"{_LANE}_{len(lanes)}")
        lanes.append(lane.name)
        domain = domain.add_dims(isl.dim_type.set, 1).set_dim_name(isl.dim_type.set, position, lane.name)
        conditions += [Comparison(lane, ">=", 0), Comparison(lane, "<", axis.lanes)]
        conditions += [Comparison(lane, "<", limit) for limit in axis.upto]
        conditions += [Comparison(lane, ">=", limit) for limit in axis.first]
    for condition in conditions:
        holds = condition_to_set(domain.space, condition)
        if holds is None:
            raise LoweringError(f"{instruction.id}: cannot count how often {condition} holds, since it depends on data")
        domain = domain & holds
    counted = instruction.within_inames | access.inames | {*lanes}
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
