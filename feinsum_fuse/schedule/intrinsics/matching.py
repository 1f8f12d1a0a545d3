"""Whether an intrinsic computes a block, and with what arguments: indices are compared by their roles.

Source: Feng et al., TensorIR (ASPLOS 2023, arXiv 2207.04296), section 4.2: loops are mapped to those indices of the intrinsic that have the
same characteristic vector, and loops with one vector are joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from loopy.symbolic import IdentityMapper, TypeCast
from pymbolic.primitives import Product, Variable
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.opencl import MEMORIES
from ...formats.workload import operand_name
from ..refusals import IntrinsicError
from ..statement import Place, Statement
from ..tree.nest import For, Nest, NestItem
from .counts import IterationCount, counted, limits_of
from .intrinsic import BYTE_TYPES, IndexRole, TensorIntrinsic


@dataclass(frozen=True)
class MatchedProduct:
    """A block as a product of a tile of rows and columns.

    ``left`` has the rows, ``right`` the columns; ``deep`` is one loop over what is summed, or the loop over groups and that within one.
    """

    statement: Statement
    left: Place
    right: Place
    chain: tuple[For, ...]
    """All loops of the block."""
    row: For | None
    vector: For | None
    lane: For
    deep: tuple[For, ...]
    rows: IterationCount
    columns: IterationCount
    depth: IterationCount
    guards: tuple[Affine, ...]
    """What must be >= 0 for the block to run at all."""

    @property
    def lanes(self) -> int:
        """Columns in a vector."""
        return self.lane.extent or 0


def matched(nest: Nest, block: For, intrinsic: TensorIntrinsic) -> MatchedProduct:
    """How an intrinsic computes what stands in a loop; :class:`IntrinsicError` says why it does not."""
    chain, statement = perfect(block)
    _check_meaning(nest, statement, intrinsic)
    loops = tuple(loop for loop in chain if loop.extent != 1)
    if any(loop.extent is None for loop in loops):
        raise IntrinsicError("a loop of the block has a symbolic size", hint="Fix the kernel's parameters, or split the loop.")
    reasons: list[IntrinsicError] = []
    for left, right in (statement.operands, statement.operands[::-1]):
        try:
            return _oriented(nest, loops, chain, statement, left, right, intrinsic)
        except IntrinsicError as reason:
            reasons.append(reason)
    # The operands are tried in both orders: the one that came further says why.
    raise max(reasons, key=lambda reason: reason.reached)


_WIDE = 4
"""Bytes of the type in which products are taken."""
BY_ROLES, BY_LAYOUT, BY_LIMITS = 1, 2, 3
"""How far a match came: what it is refused for."""


def perfect(block: For) -> tuple[tuple[For, ...], Statement]:
    """The loops of a block, each straight inside the one before, and the statement; :class:`IntrinsicError` if more stands in it."""
    chain: list[For] = []
    node: NestItem = block
    while isinstance(node, For):
        if len(node.body) != 1:
            raise IntrinsicError(
                f"{len(node.body)} nodes stand side by side in the block", hint="Make a block of a loop with one statement in it."
            )
        chain.append(node)
        node = node.body[0]
    return tuple(chain), node


def role_of(loop: For, places: Sequence[Place]) -> IndexRole:
    """The characteristic vector of a loop: which places its iterations move."""
    return tuple(any(loop.name in index.variables for index in place.indices) for place in places)


def loops_by_index(
    loops: Sequence[For], places: Sequence[Place], roles: Mapping[str, IndexRole], meaning: str
) -> dict[str, tuple[For, ...]]:
    """Index of an intrinsic -> the loops that have its characteristic vector, in order."""
    names = {role: name for name, role in roles.items()}
    found: dict[str, list[For]] = {name: [] for name in roles}
    for loop in loops:
        role = role_of(loop, places)
        if role not in names:
            hint = "Make a block of a loop further in, or reorder the loops."
            if role[0]:
                column = f"one column of {places_moved((False, *role[1:]), places)}"
                hint = f"A call is for one iteration of it, {column}: make a block of a loop further in, or reorder the loops."
            raise IntrinsicError(
                f"{loop_name(loop)} indexes {places_moved(role, places)}, as no index of {meaning} does",
                hint=hint,
                reached=BY_ROLES,
            )
        found[names[role]].append(loop)
    return {name: tuple(own) for name, own in found.items()}


def _check_meaning(nest: Nest, statement: Statement, intrinsic: TensorIntrinsic) -> None:
    """:class:`IntrinsicError` unless the statement adds up products of two operands of the right types."""
    if statement.role != "update" or statement.reduce != "add":
        what = f"reduces by {statement.reduce}" if statement.reduce else "sums nothing up"
        raise IntrinsicError(f"the block {what}; {intrinsic} adds up", hint="Leave the block as it is.")
    types = tuple(nest.dtype_of(place.source) for place in (statement.target, *statement.operands))
    factors = _factors(statement.value, is_wide=not any(dtype in BYTE_TYPES for dtype in types))
    if factors is None or sorted(factors) != [operand_name(0), operand_name(1)] or len(statement.operands) != 2:
        shown = map_shown(nest, statement)
        raise IntrinsicError(f"the block computes {shown}, which is no product of two operands", hint="Leave it as it is.")
    if types not in intrinsic.types:
        known = ", ".join(sorted(f"{a} by {b} to {z}" for z, a, b in intrinsic.types))
        raise IntrinsicError(f"{types[1]} by {types[2]} to {types[0]} is none of the types of {intrinsic.name}", hint=f"It takes {known}.")
    if statement.first or statement.later:
        raise IntrinsicError("the block runs in some iterations only", hint="Make a block of a loop further in.")


class _WithoutConversions(IdentityMapper):  # type: ignore[misc]
    def map_type_cast(self, expr: TypeCast) -> Expression:
        return self.rec(expr.child)


def map_shown(nest: Nest, statement: Statement) -> str:
    """What a statement computes, of tensors by their names; conversions of types are left out."""
    shown = str(_WithoutConversions()(statement.value))
    for position, place in reversed(list(enumerate(statement.operands))):
        shown = shown.replace(operand_name(position), nest.tensor_of(place.source))
    return shown


def _factors(value: Expression, *, is_wide: bool) -> list[str] | None:
    """The operands that are multiplied; ``None`` for anything else. Bytes are converted before, so that no product of them wraps."""
    if isinstance(value, TypeCast) and isinstance(value.child, Variable):
        return [value.child.name] if np.dtype(value.type.numpy_dtype).itemsize >= _WIDE else None
    if isinstance(value, Variable):
        return [value.name] if is_wide else None
    if not isinstance(value, Product):
        return None
    parts = [_factors(child, is_wide=is_wide) for child in value.children]
    return None if any(part is None for part in parts) else [name for part in parts for name in part or ()]


def _oriented(
    nest: Nest, loops: tuple[For, ...], chain: tuple[For, ...], statement: Statement, left: Place, right: Place, intrinsic: TensorIntrinsic
) -> MatchedProduct:
    """The match with one of the operands as the left one."""
    by_role = loops_by_index(loops, (statement.target, left, right), intrinsic.roles, intrinsic.meaning)
    rows, columns, deep = (by_role[name] for name in ("m", "n", "k"))
    lane = columns[-1] if columns and columns[-1].binding == "vector" else None
    if lane is None:
        raise IntrinsicError(
            "no lanes run along the columns of the right operand",
            hint="Vectorize a loop over them first.",
            reached=BY_ROLES,
        )
    if len(rows) > 1 or len(columns) > 2:
        raise IntrinsicError(
            f"{len(rows)} loops over rows and {len(columns)} over columns",
            hint="Make a block of a loop further in.",
            reached=BY_ROLES,
        )
    row, vector = rows[0] if rows else None, columns[0] if len(columns) > 1 else None
    _check_tile(nest, statement.target, row, vector, lane)
    _check_columns(right, vector, lane)
    for place in (left, right):
        check_address(nest, place)
    groups = _groups(deep, intrinsic)
    joined = {"m": _joined(rows), "n": _joined_columns(vector, lane), "k": _joined_deep(groups)}
    inside = {loop.name for loop in loops}
    limits, guards = limits_of(chain, statement, inside)
    wanted, across, depth = (counted(by_role[name], index, limits, inside) for name, index in joined.items())
    if limits:
        shown = ", ".join(f"{limit} >= 0" for limit in limits)
        raise IntrinsicError(
            f"the condition {shown} is no count of rows, columns or what is summed",
            hint="Make a block further in.",
            reached=BY_LIMITS,
        )
    return MatchedProduct(statement, left, right, chain, row, vector, lane, groups, wanted, across, depth, tuple(guards))


def loop_name(loop: For) -> str:
    return str(loop.refs[0]) if loop.refs else f"the loop {loop.name}"


def places_moved(role: IndexRole, places: Sequence[Place]) -> str:
    return " and ".join(str(place) for place, is_there in zip(places, role, strict=True) if is_there) or "nothing"


def _check_tile(nest: Nest, target: Place, row: For | None, vector: For | None, lane: For) -> None:
    """The sums are vectors in registers, one after another along the columns."""
    tile = nest.tiles.get(target.source)
    if tile is None or not MEMORIES[tile.memory].is_register or tile.lanes != lane.extent:
        hint = "CacheWrite them to private memory, and vectorize the columns."
        raise IntrinsicError(f"the sums {target} are no vectors in registers", hint=hint, reached=BY_LAYOUT)
    last = target.indices[tile.axes[-1]]
    steps = last.coefficients
    right_lane = steps.get(lane.name) == 1 and all(lane.name not in target.indices[axis].variables for axis in tile.axes[:-1])
    if not right_lane or (vector is not None and steps.get(vector.name) != lane.extent):
        raise IntrinsicError(
            f"the columns of {target} do not lie one after another in vectors",
            hint="Split the columns by the lanes.",
            reached=BY_LAYOUT,
        )
    if row is not None and row.name in last.variables:
        raise IntrinsicError(
            f"rows and columns of {target} lie along one axis",
            hint="Leave the block as it is.",
            reached=BY_LAYOUT,
        )


def _check_columns(right: Place, vector: For | None, lane: For) -> None:
    """A vector's columns follow on those of the vector before, as lanes follow one another."""
    for index in right.indices:
        step = index.coefficients.get(lane.name, 0)
        if vector is not None and index.coefficients.get(vector.name, 0) != step * (lane.extent or 0):
            raise IntrinsicError(
                f"the vectors of {right} are not as far apart as their lanes",
                hint="Split the columns by the lanes.",
                reached=BY_LAYOUT,
            )


def check_address(nest: Nest, place: Place) -> None:
    """What is read is an element of an array, which has an address."""
    tile, source = nest.tiles.get(place.source), nest.sources.get(place.source)
    if tile is not None and tile.lanes == 1:
        return
    if tile is not None or source is None or (source.is_rule and not source.is_direct):
        raise IntrinsicError(f"{place} is no element of an array", hint="Copy the operand into an array first.", reached=BY_LAYOUT)


def _groups(deep: Sequence[For], intrinsic: TensorIntrinsic) -> tuple[For, ...]:
    """The loop over what is summed; or the loop over groups and that within one, which has as many iterations as are added up at once."""
    if len(deep) < 2:
        return tuple(deep)
    within = next((loop for loop in reversed(deep) if loop.extent == intrinsic.deep), None)
    if len(deep) > 2 or within is None or intrinsic.deep == 1:
        loops = ", ".join(map(loop_name, deep))
        hint = "Make a block of the innermost of them" + (f", or split one by {intrinsic.deep}." if intrinsic.deep > 1 else ".")
        raise IntrinsicError(f"{loops} are summed over, of which {intrinsic.name} does one", hint=hint, reached=BY_ROLES)
    return (*(loop for loop in deep if loop is not within), within)


def _joined(loops: Sequence[For]) -> Affine:
    return Affine.variable(loops[0].name) if loops else Affine(())


def _joined_columns(vector: For | None, lane: For) -> Affine:
    return Affine.of({lane.name: 1, **({vector.name: lane.extent or 0} if vector is not None else {})})


def _joined_deep(groups: tuple[For, ...]) -> Affine:
    if len(groups) < 2:
        return _joined(groups)
    group, within = groups
    return Affine.of({group.name: within.extent or 0, within.name: 1})
