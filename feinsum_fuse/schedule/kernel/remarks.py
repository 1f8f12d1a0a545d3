"""What a reader of the generated code is told: what each loop is, which names nests may share, where groups start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import loopy as lp
from constantdict import constantdict

from ...cascades.names import identifier
from ...formats.opencl import FANOUTS
from ..tree.nest import For, Nest, fused_chain, statements, walk
from .naming import moved, wishes
from .tagging import NormalFormTag

DeviceAxis = tuple[str, int]
"""A device axis, such as ``("gid", 0)``."""
Group = tuple[tuple[DeviceAxis, int], ...]
"""(device axis, factor), sorted: where a group's part of a rank variable starts."""


@dataclass(frozen=True)
class AxisRemark:
    """A loop that is bound to a device axis, what it is, and the arrays that the statements in it write; ``moves``: it only moves tiles."""

    axis: DeviceAxis
    remark: str
    writes: tuple[str, ...]
    moves: bool


@dataclass(frozen=True)
class GroupStart:
    """A sum of group numbers that says where a group's part of a rank variable starts, its name, and the arrays that are written so."""

    group: Group
    name: str
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Description:
    """What the generated code of a kernel says of it.

    ``remarks``: loop -> what it is. ``names``: loop -> what it may be called in C where no loop around it is called so.
    ``starts``: where parts of rank variables start. Kernels of one program may divide different rank variables alike.
    """

    remarks: Mapping[str, str] = constantdict()
    axes: tuple[AxisRemark, ...] = ()
    names: Mapping[str, str] = constantdict()
    starts: tuple[GroupStart, ...] = ()


def described(kernel: lp.LoopKernel) -> Description:
    """What there is to say of a kernel; nothing of kernels that are not ours."""
    tags = list(kernel.tags_of_type(NormalFormTag))
    if not tags:
        return Description()
    nest = tags[0].final
    loops = [node for node in walk(nest.body) if isinstance(node, For)]
    remarks = {node.name: remark(nest, node) if node.refs else _moving(nest, node) for node in loops}
    remarks |= {node.fused: "; ".join(remarks[member.name] for member in fused_chain(node)) for node in loops if node.fused}
    axes = tuple(
        AxisRemark(axis, remarks[n.name], tuple(sorted({s.target.source for _, s in statements((n,))})), not n.refs)
        for n in loops
        if (axis := _axis(n)) is not None and (n.refs or moved(nest, n)[1])
    )
    return Description(remarks, axes, shared_names(nest, kernel), group_starts(nest))


def shared_names(nest: Nest, kernel: lp.LoopKernel) -> dict[str, str]:
    """Loop -> what it may be called in C where no loop around it is called so."""
    wanted = wishes(nest)
    others = {node.name for node in walk(nest.body) if isinstance(node, For) and node.name not in wanted}
    taken = {*kernel.arg_dict, *kernel.temporary_variables, *nest.tiles, *nest.sources, *others}
    return {name: wish for name, wish in wanted.items() if name != wish and wish not in taken}


def group_starts(nest: Nest) -> tuple[GroupStart, ...]:
    """Where groups' parts of rank variables start that are cut by several axes."""
    bound = {n.name: n for n in walk(nest.body) if isinstance(n, For) and n.refs and n.is_over_groups}
    found: dict[tuple[Group, str], dict[str, None]] = {}
    for _, statement in nest.points:
        for value in statement.values.values():
            loops = [name for name in value.variables if name in bound]
            if len(loops) > 1:
                group = tuple(sorted((axis, value.coefficients[name]) for name in loops if (axis := _axis(bound[name])) is not None))
                name = identifier(f"{bound[loops[0]].refs[0].variable}_start")
                found.setdefault((group, name), {})[statement.target.source] = None
    return tuple(GroupStart(group, name, tuple(writes)) for (group, name), writes in found.items())


def _axis(loop: For) -> DeviceAxis | None:
    bound = FANOUTS[loop.binding]
    return None if bound.axis is None else ("gid" if bound.level == "group" else "lid", bound.axis)


def remark(nest: Nest, loop: For) -> str:
    """Which part of which rank variable a loop is, for example ``m in tiles of 64 (Matmul1, Matmul2)``."""
    variables = list(dict.fromkeys(ref.variable for ref in loop.refs))
    einsums = ", ".join(dict.fromkeys(ref.einsum for ref in loop.refs))
    size = step_of(loop)
    tiles = f" in tiles of {size}" if size > 1 else ""
    return f"{' and '.join(variables)}{tiles} ({einsums})"


def step_of(loop: For) -> int:
    """The elements of its rank variables that an iteration of a loop steps over."""
    return next((v.coefficients[loop.name] for _, s in statements((loop,)) for v in s.values.values() if loop.name in v.variables), 1)


_MOVES = {
    "fetch": "fetch", "reload": "read back", "drain": "write back",
    "init": "initialise", "populate": "initialise", "combine": "add up",
}  # fmt: skip
"""What a statement that belongs to a tile does."""


def _moving(nest: Nest, loop: For) -> str:
    """What a loop that is no part of a rank variable does, for example ``Storage of A: fetch k (Matmul1)``."""
    _, statement = next(statements((loop,)))
    tensor, variables = moved(nest, loop)
    tiled = any(place.source in nest.tiles for place in (statement.target, *statement.operands))
    what = f"{'Storage of ' if tiled else ''}{tensor}: {_MOVES.get(statement.role, statement.role)}"
    return f"{what} {' and '.join(variables)} ({statement.einsum})" if variables else f"{what} ({statement.einsum})"
