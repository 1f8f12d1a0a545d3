"""Whether a registered function computes a block, and with what arguments: indices are compared by their roles, as for products.

Source: Feng et al., TensorIR (ASPLOS 2023, arXiv 2207.04296), section 4.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from loopy.symbolic import SubstitutionMapper, TypeCast
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import ExpressionNode, Product, Sum
from pymbolic.typing import Expression

from ...cascades.cascade import Cascade
from ...cascades.terms import Einsum, Size
from ...formats.affine import Affine
from ...formats.workload import operand_name
from ..refusals import IntrinsicError
from ..statement import Place, Statement
from ..steps.vector_steps import consecutive_axis, lane_axis
from ..tree.nest import For, Nest, NestItem, rebuilt
from ..tree.parallel import memory_of
from .counts import IterationCount, counted, limits_of
from .function_intrinsic import FunctionIntrinsic
from .matching import BY_LAYOUT, BY_LIMITS, BY_ROLES, check_address, loop_name, loops_by_index, map_shown, matched, perfect
from .registration import AnyIntrinsic, intrinsic_called, intrinsics


@dataclass(frozen=True)
class MatchedFunction:
    """A block as what a function computes."""

    intrinsic: FunctionIntrinsic
    statement: Statement
    places: tuple[Place, ...]
    """The output and the operands in the order of the intrinsic's."""
    chain: tuple[For, ...]
    """All loops of the block."""
    loops: Mapping[str, tuple[For, ...]]
    """Index -> the loops that it stands for, each inside the one before."""
    counts: Mapping[str, IterationCount]
    guards: tuple[Affine, ...]
    """What must be >= 0 for the block to run at all."""

    def innermost(self, index: str) -> For | None:
        """The loop whose iterations are neighbours along an index; ``None`` where there is one iteration."""
        return self.loops[index][-1] if self.loops[index] else None


def check_computed(nest: Nest, block: For, intrinsic: AnyIntrinsic) -> None:
    """:class:`IntrinsicError`, with the reason, unless an intrinsic computes what stands in a loop."""
    if isinstance(intrinsic, FunctionIntrinsic):
        matched_function(nest, block, intrinsic)
    else:
        matched(nest, block, intrinsic)


def matched_function(nest: Nest, block: For, intrinsic: FunctionIntrinsic) -> MatchedFunction:
    """How a function computes what stands in a loop; :class:`IntrinsicError` says why it does not."""
    chain, statement = perfect(block)
    _check_reduction(statement, intrinsic)
    lanes = next((loop for loop in chain if loop.binding == "vector"), None)
    if lanes is not None:
        raise IntrinsicError(f"{loop_name(lanes)} is lanes of vectors", hint="Leave the block's loops: the function has its own.")
    if any(loop.extent is None for loop in chain):
        raise IntrinsicError("a loop of the block has a symbolic size", hint="Fix the kernel's parameters, or split the loop.")
    reasons: list[IntrinsicError] = []
    for order in permutations(range(len(statement.operands))):
        try:
            return _ordered(nest, chain, statement, order, intrinsic)
        except IntrinsicError as reason:
            reasons.append(reason)
    # The operands are tried in all orders: the one that came furthest says why.
    raise max(reasons, key=lambda reason: reason.reached)


def pays(nest: Nest, block: For, intrinsic: FunctionIntrinsic) -> bool:
    """Whether a block that a function computes has iterations enough for it; raises as :func:`matched_function`."""
    counts = matched_function(nest, block, intrinsic).counts
    return all(counts[index].extent >= least for index, least in intrinsic.pays_from.items())


def as_taken(nest: Nest) -> Nest:
    """The nest with the blocks that functions on vectors compute as loops of such vectors: what the model counts."""

    def taken(node: NestItem) -> tuple[NestItem, ...]:
        if not isinstance(node, For) or not node.intrinsic:
            return (node,)
        intrinsic = intrinsic_called(node.intrinsic)
        if not isinstance(intrinsic, FunctionIntrinsic) or not intrinsic.lanes:
            return (node,)
        found = matched_function(nest, node, intrinsic)
        order = sorted(found.chain, key=lambda loop: (loop.name not in found.statement.target.loops, loop in found.loops[intrinsic.lanes]))
        vector = found.innermost(intrinsic.lanes)
        body: tuple[NestItem, ...] = (found.statement,)
        for loop in reversed(order):
            binding = "vector" if loop is vector else loop.binding
            body = (dataclasses.replace(loop, body=body, binding=binding, is_block=False, intrinsic=""),)
        return body

    return nest.replace(body=rebuilt(nest.body, taken))


def usual_function(cascade: Cascade, einsum: Einsum, tiles: Mapping[str, Size] | None = None) -> FunctionIntrinsic | None:
    """The function that ``lower`` asks for where it is to compute an Einsum, tensors lying where it takes them.

    ``tiles``: how many iterations of each rank variable a call is for, by default all.
    """
    for intrinsic in intrinsics().values():
        if isinstance(intrinsic, FunctionIntrinsic) and intrinsic.is_usual and _computes(intrinsic, cascade, einsum, tiles or einsum.sizes):
            return intrinsic
    return None


def _computes(intrinsic: FunctionIntrinsic, cascade: Cascade, einsum: Einsum, tiles: Mapping[str, Size]) -> bool:
    """Whether an Einsum is what a function means, of such types and sizes."""
    dtypes = tuple(cascade.tensors[access.tensor].dtype for access in (einsum.output, *einsum.operands))
    if not intrinsic.takes(dtypes) or (einsum.reduce if einsum.reduces else None) != intrinsic.reduce or einsum.guards:
        return False
    wanted, result = _form(intrinsic.map, dtypes[0]), dtypes[0]
    for order in permutations(range(len(einsum.operands))):
        names = {operand_name(position): var(operand_name(number)) for number, position in enumerate(order)}
        if _form(SubstitutionMapper(make_subst_func(names))(einsum.map), result) != wanted:
            continue
        accesses = (einsum.output, *(einsum.operands[position] for position in order))
        roles = {tuple(v in access.variables for access in accesses): tiles[v] for v in einsum.sizes}
        if len(roles) == len(einsum.sizes) and roles.keys() == set(intrinsic.roles.values()):
            sizes = {index: roles[role] for index, role in intrinsic.roles.items()}
            exact = all(sizes[index] == size for index, size in intrinsic.sizes.items())
            return exact and all(isinstance(n := sizes[index], int) and n >= least for index, least in intrinsic.pays_from.items())
    return False


def _check_reduction(statement: Statement, intrinsic: FunctionIntrinsic) -> None:
    """:class:`IntrinsicError` unless the statement reduces as the meaning does, in every iteration."""
    role = "map" if intrinsic.reduce is None else "update"
    if statement.role != role or statement.reduce != intrinsic.reduce:
        ours, theirs = (f"reduces by {by}" if by else "reduces nothing" for by in (statement.reduce, intrinsic.reduce))
        raise IntrinsicError(f"the block {ours}, and {intrinsic} {theirs}", hint="Leave the block as it is.")
    if statement.first or statement.later:
        raise IntrinsicError("the block runs in some iterations only", hint="Make a block of a loop further in.")
    if len(statement.operands) != len(intrinsic.parsed.inputs):
        count, wanted = len(statement.operands), len(intrinsic.parsed.inputs)
        raise IntrinsicError(
            f"the block reads {count} operands, and {intrinsic.name} has {wanted}: {intrinsic.meaning}", hint="Leave the block as it is."
        )


def _ordered(
    nest: Nest, chain: tuple[For, ...], statement: Statement, order: Sequence[int], intrinsic: FunctionIntrinsic
) -> MatchedFunction:
    """The match with the operands in an order."""
    places = (statement.target, *(statement.operands[position] for position in order))
    _check_map(nest, statement, order, intrinsic)
    repeated = [loop for loop in chain if loop.extent != 1]
    loops = loops_by_index(repeated, places, intrinsic.roles, intrinsic.meaning)
    for tensor, place in zip(intrinsic.tensors, places, strict=True):
        _check_place(nest, tensor, place, intrinsic)
    joined = {index: _joined(index, own, places) for index, own in loops.items()}
    inside = {loop.name for own in loops.values() for loop in own}
    limits, guards = limits_of(chain, statement, inside)
    counts = {index: counted(loops[index], value, limits, inside) for index, value in joined.items()}
    if limits:
        shown = ", ".join(f"{limit} >= 0" for limit in limits)
        raise IntrinsicError(f"the condition {shown} is no count of an index", hint="Make a block further in.", reached=BY_LIMITS)
    for index, wanted in intrinsic.sizes.items():
        count = counts[index]
        if count.extent != wanted or count.most:
            given = f"{'up to ' if count.most else ''}{count.extent}"
            hint = f"Split the loop by {wanted}, of a size that {wanted} divides."
            raise IntrinsicError(f"{intrinsic.name} takes {wanted} iterations of {index}, not {given}", hint=hint, reached=BY_LIMITS)
    found = MatchedFunction(intrinsic, statement, places, chain, loops, counts, tuple(guards))
    _check_layout(nest, found)
    return found


def _check_map(nest: Nest, statement: Statement, order: Sequence[int], intrinsic: FunctionIntrinsic) -> None:
    """:class:`IntrinsicError` unless the statement computes the meaning's map of the operands in this order."""
    names = {operand_name(position): var(operand_name(number)) for number, position in enumerate(order)}
    value = SubstitutionMapper(make_subst_func(names))(statement.value)
    result = nest.dtype_of(statement.target.source)
    if _form(value, result) == _form(intrinsic.map, result):
        return
    shown = map_shown(nest, statement)
    raise IntrinsicError(f"the block computes {shown}, which is not the map of {intrinsic}", hint="Leave the block as it is.")


def _form(value: Expression, result: str) -> object:
    """What equal expressions have in common: sums and products in any order, numbers of any type, conversions to the result's type."""
    if isinstance(value, TypeCast) and value.type.numpy_dtype.name == result:
        return _form(value.child, result)
    if isinstance(value, Sum | Product):
        kind = type(value)
        parts = [part for child in value.children for part in (child.children if isinstance(child, kind) else (child,))]
        return (kind.__name__, tuple(sorted((_form(part, result) for part in parts), key=repr)))
    if isinstance(value, ExpressionNode):
        return (type(value).__name__, tuple(_form(getattr(value, field.name), result) for field in dataclasses.fields(value)))
    if isinstance(value, tuple):
        return tuple(_form(part, result) for part in value)
    return value if isinstance(value, str) else complex(value)


def _check_place(nest: Nest, tensor: str, place: Place, intrinsic: FunctionIntrinsic) -> None:
    """:class:`IntrinsicError` unless a place is of the type and in the memory that the function takes."""
    dtype, memory = nest.dtype_of(place.source), memory_of(nest, place.source)
    if dtype != intrinsic.types[tensor]:
        raise IntrinsicError(
            f"{place} is of {dtype}, and {tensor} of {intrinsic.name} of {intrinsic.types[tensor]}",
            hint="Register the intrinsic for this type, too.",
            reached=BY_ROLES,
        )
    if memory != intrinsic.memories[tensor]:
        raise IntrinsicError(
            f"{place} lies in {memory} memory, and {tensor} of {intrinsic.name} in {intrinsic.memories[tensor]}",
            hint=f"Hold it in {intrinsic.memories[tensor]} memory, or register the intrinsic for this one.",
            reached=BY_LAYOUT,
        )
    check_address(nest, place)


def _joined(index: str, loops: Sequence[For], places: Sequence[Place]) -> Affine:
    """The loops of an index as one; :class:`IntrinsicError` where their elements do not follow one another."""
    steps: dict[str, int] = {}
    run = 1
    for loop in reversed(loops):
        steps[loop.name] = run
        run *= loop.extent or 1
    if loops:
        inner = loops[-1].name
        for axis in (axis for place in places for axis in place.indices):
            if any(axis.coefficients.get(name, 0) != step * axis.coefficients.get(inner, 0) for name, step in steps.items()):
                raise IntrinsicError(
                    f"{', '.join(map(loop_name, loops))} do not follow one another as one loop over {index}",
                    hint="Make a block of a loop further in.",
                    reached=BY_LAYOUT,
                )
    return Affine.of(steps)


def _check_layout(nest: Nest, found: MatchedFunction) -> None:
    """:class:`IntrinsicError` unless elements lie next to one another where the function counts on it."""
    for tensor, index in found.intrinsic.together.items():
        place = found.places[found.intrinsic.tensors.index(tensor)]
        loop = found.innermost(index)
        if loop is None or loop.name not in place.loops:
            continue
        axis = lane_axis(place, loop.name)
        if axis is None or axis != consecutive_axis(nest, place):
            raise IntrinsicError(
                f"{place} does not lie together along {index} ({loop_name(loop)}), as {tensor} of {found.intrinsic.name} has to",
                hint="Copy it into an array that does, or take another loop.",
                reached=BY_LIMITS,
            )
