"""How work-items reach memory: the lines that those which run in step touch with one access, and vectors that are moved at once.

``vload4`` may be given any element's address, so that a compiler for GPUs reads four elements one by one. Arrays begin at multiples of the
longest vector, or are asked to (``Executable.alignment``); so does a vector in one if its distance from the first element is a multiple of
its length, whatever the loops are at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd

import loopy as lp
import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.array import ComputedStrideArrayDimTag, FixedStrideArrayDimTag
from loopy.kernel.data import AddressSpace, LocalInameTag, TemporaryVariable, ValueArg
from loopy.kernel.instruction import InstructionBase, MultiAssignmentBase
from loopy.symbolic import IdentityMapper, ResolvedFunction, TypeCast
from loopy.translation_unit import TranslationUnit
from pymbolic import var
from pymbolic.mapper import WalkMapper
from pymbolic.mapper.evaluator import EvaluationMapper
from pymbolic.primitives import Call, Product, Remainder, Subscript, Sum, Variable
from pymbolic.typing import Expression

from ..target import Target
from .intrinsics import operations_of, registered
from .operations import Extent, VectorOperation, Verb


@dataclass(frozen=True)
class ItemAccess:
    """An access of an instruction to an array in main memory, by the work-items that run in step."""

    array: str
    instruction: str
    is_write: bool
    elements: int
    """Different elements that they touch."""
    lines: int
    """Lines that these lie on."""
    least: int
    """Lines that as many elements would lie on, were they neighbours."""

    @property
    def is_coalesced(self) -> bool:
        """Whether they lie on as few lines as they can, one more where the first does not begin one; or fill half of each.

        Rows of half a line, as blocks of an operand have, are moved in the parts of lines that memory answers with.
        """
        return self.lines <= max(self.least + 1, 2 * self.least)


class _Subscripts(WalkMapper):  # type: ignore[misc]
    """Collects the elements of arrays that an expression reads, each with how many from there on."""

    def __init__(self, operations: Mapping[str, VectorOperation]) -> None:
        super().__init__()
        self.operations = operations
        self.found: list[tuple[Subscript, int]] = []

    def map_subscript(self, expr: Subscript) -> None:
        self.found.append((expr, 1))
        self.rec(expr.index)

    def map_call(self, expr: Call) -> None:
        moved = _moved(expr, self.operations)
        if moved is not None and moved.verb is not Verb.STORE:
            place = expr.parameters[0]
            self.found.append((place, moved.reach))
            self.rec(place.index)
        for parameter in expr.parameters[0 if moved is None else 1 :]:
            self.rec(parameter)

    def map_type_cast(self, expr: TypeCast) -> None:
        self.rec(expr.child)


def _moved(expression: Expression, operations: Mapping[str, VectorOperation]) -> VectorOperation | None:
    """The operation that loads or stores a vector at an element; ``None`` for anything else."""
    called = operations.get(_name(expression))
    if called is None or called.verb not in {Verb.LOAD, Verb.ELEMENT, Verb.STORE}:
        return None
    return called if isinstance(expression.parameters[0], Subscript) else None


def item_accesses(t_unit: TranslationUnit, target: Target) -> tuple[ItemAccess, ...]:
    """Each access of a kernel to main memory, as the first work-items of a group make it in the first iterations of all other loops.

    What one work-item does alone is left out.
    """
    kernel = lp.expand_subst(t_unit).default_entrypoint
    arrays: dict[str, lp.ArrayArg | TemporaryVariable] = {a.name: a for a in kernel.args if not isinstance(a, ValueArg)}
    arrays |= {t.name: t for t in kernel.temporary_variables.values() if t.address_space == AddressSpace.GLOBAL}
    _, group = kernel.get_grid_size_upper_bounds_as_exprs(t_unit.callables_table)
    sizes = tuple(int(size) for size in group)
    operations = operations_of(t_unit)
    return tuple(found for one in kernel.instructions for found in _of(kernel, one, arrays, operations, sizes, target))


def _of(
    kernel: LoopKernel,
    instruction: InstructionBase,
    arrays: Mapping[str, lp.ArrayArg | TemporaryVariable],
    operations: Mapping[str, VectorOperation],
    group: tuple[int, ...],
    target: Target,
) -> Iterator[ItemAccess]:
    if not isinstance(instruction, MultiAssignmentBase):
        return
    values = _values(kernel, instruction, group, target.items_in_step)
    if values is None:
        return
    reads = _Subscripts(operations)
    reads.rec(instruction.expression)
    moved = _moved(instruction.expression, operations)
    stored = moved.lanes if moved is not None and moved.is_store else 1
    written = [(assignee, stored, True) for assignee in instruction.assignees if isinstance(assignee, Subscript)]
    for subscript, lanes, is_write in (*((*found, False) for found in reads.found), *written):
        array = arrays.get(subscript.aggregate.name)
        if array is None:
            continue
        size = np.dtype(array.dtype.numpy_dtype).itemsize
        places = _places(array, subscript, values)
        if places is None:
            continue
        elements = np.unique(places[:, None] + np.arange(lanes))
        lines, least = len(np.unique(elements * size // target.line_bytes)), -(-len(elements) * size // target.line_bytes)
        yield ItemAccess(array.name, instruction.id, is_write, len(elements), lines, least)


def _values(kernel: LoopKernel, instruction: InstructionBase, group: tuple[int, ...], count: int) -> dict[str, np.ndarray | int] | None:
    """Loop -> its value on each of the first work-items that run the instruction; ``None`` if it has no loop over them."""
    axes: dict[str, int] = {}
    for iname in instruction.within_inames:
        for tag in kernel.inames[iname].tags_of_type(LocalInameTag):
            axes[iname] = tag.axis
    if 0 not in axes.values():
        return None
    items = np.arange(count)
    own = []
    for size in group:
        own.append(items % size)
        items = items // size
    runs = items == 0
    for iname, axis in axes.items():
        runs &= own[axis] < kernel.get_constant_iname_length(iname)
    values: dict[str, np.ndarray | int] = dict.fromkeys(kernel.all_inames(), 0)
    return values | {iname: own[axis][runs] for iname, axis in axes.items()}


def _places(array: lp.ArrayArg | TemporaryVariable, subscript: Subscript, values: Mapping[str, np.ndarray | int]) -> np.ndarray | None:
    """The elements' distances from the array's first, in elements; ``None`` where an index depends on data."""
    evaluate = EvaluationMapper(dict(values))
    total: np.ndarray | int = 0
    for index, tag in zip(subscript.index_tuple, array.dim_tags, strict=True):
        if not isinstance(tag, FixedStrideArrayDimTag | ComputedStrideArrayDimTag) or not isinstance(tag.stride, int | np.integer):
            return None
        try:
            total = total + evaluate(index) * int(tag.stride)
        except (KeyError, TypeError, ValueError, NotImplementedError):
            return None
    return np.atleast_1d(np.asarray(total))


_SHARED = {("global",), ("local",)}
"""Where vectors lie whose places matter: a compiler sees those of private ones."""


def aligned(t_unit: lp.TranslationUnit, target: Target) -> lp.TranslationUnit:
    """The program, its rules expanded, with loads and stores of vectors that are seen to lie at multiples of their length called so.

    Before: ``vload_global_float4(B[512*k + 4*lane])``. After: ``vloadaligned_global_float4(B[512*k + 4*lane])``. Invariant: the same
    elements are moved.
    """
    if not target.moves_aligned:
        return t_unit
    kernel = t_unit.default_entrypoint
    operations = operations_of(t_unit)
    mapper = _Aligned(kernel, operations)
    kernel = kernel.copy(instructions=[instruction.with_transformed_expressions(mapper) for instruction in kernel.instructions])
    if not mapper.found:
        return t_unit
    begun = vectors_in(kernel, {operation.name: operation for operation in mapper.found})
    tiles = {name: lanes for name, lanes in begun.items() if name in kernel.temporary_variables}
    own = {name: _begun(tile, tiles[name]) if name in tiles else tile for name, tile in kernel.temporary_variables.items()}
    return registered(t_unit.with_kernel(kernel.copy(temporary_variables=own)), mapper.found, target.quirks)


def _begun(tile: TemporaryVariable, lanes: int) -> TemporaryVariable:
    """A tile in local memory that begins at a multiple of so many elements; arrays in global memory are passed, and asked to."""
    local = tile.address_space == AddressSpace.LOCAL
    return tile.copy(alignment=lanes * tile.dtype.numpy_dtype.itemsize) if local else tile


def vectors_in(kernel: LoopKernel, operations: Mapping[str, VectorOperation]) -> dict[str, int]:
    """Array -> the elements of whose multiple it has to begin at, of those in which vectors are moved at once."""
    found: dict[str, int] = {}

    class Moved(IdentityMapper):  # type: ignore[misc]
        def map_call(self, expr: Call) -> Expression:
            moved = _moved(expr, operations)
            if moved is not None and moved.extent is Extent.ALIGNED:
                array = expr.parameters[0].aggregate.name
                found[array] = max(found.get(array, 1), moved.lanes)
            return super().map_call(expr)

    moved = Moved()
    for instruction in kernel.instructions:
        instruction.with_transformed_expressions(moved)
    return found


class _Aligned(IdentityMapper):  # type: ignore[misc]
    """Calls movers of vectors by what is known of their places; ``found``: those that are called then."""

    def __init__(self, kernel: LoopKernel, operations: Mapping[str, VectorOperation]) -> None:
        super().__init__()
        self.operations = operations
        self.arrays: dict[str, lp.ArrayArg | TemporaryVariable] = {a.name: a for a in kernel.args if isinstance(a, lp.ArrayArg)}
        self.arrays |= {t.name: t for t in kernel.temporary_variables.values() if t.address_space != AddressSpace.PRIVATE}
        self.found: set[VectorOperation] = set()

    def map_call(self, expr: Call) -> Expression:
        moved = _moved(expr, self.operations)
        if moved is None or moved.extent is not Extent.WHOLE or moved.spaces not in _SHARED:
            return super().map_call(expr)
        if not self._is_multiple(expr.parameters[0], moved.lanes):
            return super().map_call(expr)
        called = dataclasses.replace(moved, extent=Extent.ALIGNED)
        self.found.add(called)
        return var(called.name)(*map(self.rec, expr.parameters))

    def _is_multiple(self, place: Subscript, lanes: int) -> bool:
        array = self.arrays.get(place.aggregate.name)
        if array is None or array.offset or array.dim_tags is None:
            return False
        total = 0
        for index, tag in zip(place.index_tuple, array.dim_tags, strict=True):
            if not isinstance(tag, FixedStrideArrayDimTag) or not isinstance(tag.stride, int):
                return False
            total = gcd(total, divisor(index) * tag.stride)
        return total % lanes == 0


def _name(expression: Expression) -> str:
    """The name of the function that is called; none for anything else."""
    function = expression.function if isinstance(expression, Call) else None
    return str(function.name) if isinstance(function, ResolvedFunction | Variable) else ""


def divisor(index: Expression) -> int:
    """A number by which an index can be divided whatever its variables are; 0 if it is always 0."""
    if isinstance(index, int):
        return abs(index)
    if isinstance(index, Sum):
        return gcd(*map(divisor, index.children))
    if isinstance(index, Product):
        result = 1
        for child in index.children:
            result *= divisor(child)
        return result
    if isinstance(index, Remainder):
        return gcd(divisor(index.numerator), divisor(index.denominator))
    return 1
