"""How neighbouring work-items reach memory: the lines that those which run in step touch with one access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import loopy as lp
import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.array import ComputedStrideArrayDimTag, FixedStrideArrayDimTag
from loopy.kernel.data import AddressSpace, LocalInameTag, TemporaryVariable, ValueArg
from loopy.kernel.instruction import InstructionBase, MultiAssignmentBase
from loopy.symbolic import TypeCast
from loopy.translation_unit import TranslationUnit
from pymbolic.mapper import WalkMapper
from pymbolic.mapper.evaluator import EvaluationMapper
from pymbolic.primitives import Subscript

from ..target import Target


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
        """Whether they lie on as few lines as they can; one more where the first does not begin one."""
        return self.lines <= self.least + 1


class _Subscripts(WalkMapper):  # type: ignore[misc]
    """Collects the elements of arrays that an expression reads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Subscript] = []

    def map_subscript(self, expr: Subscript) -> None:
        self.found.append(expr)
        self.rec(expr.index)

    def map_type_cast(self, expr: TypeCast) -> None:
        self.rec(expr.child)


def item_accesses(t_unit: TranslationUnit, target: Target) -> tuple[ItemAccess, ...]:
    """Each access of a kernel to main memory, as the first work-items of a group make it in the first iterations of all other loops.

    What vectors load is left out, and so is what one work-item does alone.
    """
    kernel = lp.expand_subst(t_unit).default_entrypoint
    arrays: dict[str, lp.ArrayArg | TemporaryVariable] = {a.name: a for a in kernel.args if not isinstance(a, ValueArg)}
    arrays |= {t.name: t for t in kernel.temporary_variables.values() if t.address_space == AddressSpace.GLOBAL}
    _, group = kernel.get_grid_size_upper_bounds_as_exprs(t_unit.callables_table)
    sizes = tuple(int(size) for size in group)
    return tuple(found for instruction in kernel.instructions for found in _of(kernel, instruction, arrays, sizes, target))


def _of(
    kernel: LoopKernel,
    instruction: InstructionBase,
    arrays: Mapping[str, lp.ArrayArg | TemporaryVariable],
    group: tuple[int, ...],
    target: Target,
) -> Iterator[ItemAccess]:
    if not isinstance(instruction, MultiAssignmentBase):
        return
    values = _values(kernel, instruction, group, target.items_in_step)
    if values is None:
        return
    reads = _Subscripts()
    reads.rec(instruction.expression)
    written = [(assignee, True) for assignee in instruction.assignees if isinstance(assignee, Subscript)]
    for subscript, is_write in (*((found, False) for found in reads.found), *written):
        array = arrays.get(subscript.aggregate.name)
        if array is None:
            continue
        size = np.dtype(array.dtype.numpy_dtype).itemsize
        places = _places(array, subscript, values)
        if places is None:
            continue
        elements = np.unique(places)
        lines, least = len(np.unique(elements * size // target.line_bytes)), -(-len(elements) * size // target.line_bytes)
        yield ItemAccess(array.name, instruction.id, is_write, len(elements), lines, least)


def _values(
    kernel: LoopKernel, instruction: InstructionBase, group: tuple[int, ...], count: int
) -> dict[str, np.ndarray | int] | None:
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


def _places(
    array: lp.ArrayArg | TemporaryVariable, subscript: Subscript, values: Mapping[str, np.ndarray | int]
) -> np.ndarray | None:
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
