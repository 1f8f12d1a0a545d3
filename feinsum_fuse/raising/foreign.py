"""The loops of a kernel that no schedule of ours has made, as paths of a LoopTree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import loopy as lp
from constantdict import constantdict
from loopy.diagnostic import LoopyError
from loopy.kernel.data import AxisTag, GroupInameTag, IlpBaseTag, LocalInameTag, UnrollTag, VectorizeTag
from loopy.schedule import CallKernel, EnterLoop, LeaveLoop, RunInstruction

from ..cascades.matching.match import Match, match
from ..errors import MatchError
from ..formats.affine import Affine
from ..formats.opencl import FanoutKind
from ..schedule.tree.nest import For, LoopRef, Place, Statement
from .joined import Joined, LoopPart, joined
from .paths import EinsumPath


@dataclass(frozen=True)
class Stack:
    """The loops around an instruction, outermost first: a name for the loop as it stands there, and its iname."""

    loops: tuple[tuple[str, str], ...]


def foreign_paths(t_unit: lp.TranslationUnit) -> tuple[Match, list[EinsumPath]]:
    """What a scheduled kernel computes, and the loops around each Einsum. :class:`MatchError` with the reason if it is no cascade."""
    whole = joined(t_unit)
    matched = match(whole.kernel)
    stacks = _stacks(t_unit)
    paths = []
    for einsum in matched.cascade.einsums:
        insn = _longest(matched.names.instructions[einsum.name], stacks)
        if insn is None:
            raise MatchError(f"Einsum {einsum.name} of the kernel belongs to no single instruction.")
        paths.append(_path(matched, whole, t_unit.default_entrypoint, einsum.name, stacks[insn]))
    order = {name: place for place, name in enumerate(stacks)}
    paths.sort(key=lambda path: order[str(_longest(matched.names.instructions[path.einsum], stacks))])
    return matched, paths


def _longest(name: str, known: Mapping[str, object]) -> str | None:
    """What the matcher's name of an entity starts with: it appends to those of the kernel."""
    return max((other for other in known if name == other or name.startswith(f"{other}_")), key=len, default=None)


def _stacks(t_unit: lp.TranslationUnit) -> dict[str, Stack]:
    """Instruction -> the loops around it in the order in which loopy runs them, axes of the device first; in the order of execution."""
    kernel = t_unit.default_entrypoint
    try:
        linear = lp.linearize(lp.preprocess_program(t_unit)).default_entrypoint
    except (LoopyError, RuntimeError, ValueError) as error:
        raise MatchError(f"loopy finds no order for the loops of {kernel.name}: {error}") from error
    found: dict[str, Stack] = {}
    stack: list[tuple[str, str]] = []
    launch = 0
    for number, item in enumerate(linear.linearization or ()):
        match item:
            case CallKernel():
                launch = number
            case EnterLoop():
                stack.append((f"{item.iname}_{number}", item.iname))
            case LeaveLoop():
                stack.pop()
            case RunInstruction():
                insn = _longest(item.insn_id, {other.id: other for other in kernel.instructions})
                if insn is not None and (insn not in found or len(stack) > _sequential(found[insn], kernel)):
                    axes = [(f"{name}_{launch}", name) for name in _axes(kernel, insn)]
                    found[insn] = Stack((*axes, *stack))
    return found


def _sequential(stack: Stack, kernel: lp.LoopKernel) -> int:
    return sum(not kernel.iname_tags_of_type(name, AxisTag) for _, name in stack.loops)


def _axes(kernel: lp.LoopKernel, insn: str) -> list[str]:
    """The loops of an instruction on axes of the device, groups before work-items."""
    inames = sorted(kernel.id_to_insn[insn].within_inames | kernel.id_to_insn[insn].reduction_inames())
    groups = [name for name in inames if kernel.iname_tags_of_type(name, GroupInameTag)]
    return [*groups, *(name for name in inames if kernel.iname_tags_of_type(name, LocalInameTag))]


def _binding(kernel: lp.LoopKernel, iname: str) -> FanoutKind:
    for tag in kernel.inames[iname].tags:
        if isinstance(tag, GroupInameTag):
            return f"group.{tag.axis}"  # type: ignore[return-value]
        if isinstance(tag, LocalInameTag):
            return f"local.{tag.axis}"  # type: ignore[return-value]
        if isinstance(tag, VectorizeTag):
            return "vector"
        if isinstance(tag, UnrollTag | IlpBaseTag):
            return "unroll"
    return "loop"


def _path(matched: Match, whole: Joined, kernel: lp.LoopKernel, einsum: str, stack: Stack) -> EinsumPath:
    """The loops of an instruction as parts of the rank variables of its Einsum."""
    inames = {name: LoopPart(name, 1) for name in kernel.inames} | dict(whole.parts)
    known = {part.whole: part for part in inames.values()}
    variables: dict[str, str] = {}
    for variable in matched.cascade.einsum(einsum).variables:
        named = _longest(matched.names.inames.get((einsum, variable), ""), known)
        if named is not None:
            variables.setdefault(named, variable)
    loops: list[For] = []
    values: dict[str, dict[str, int]] = {}
    for name, iname in stack.loops:
        part = inames[iname]
        if (owner := variables.get(part.whole)) is not None:
            values.setdefault(owner, {})[name] = part.tile
            path = "1" * sum(ref.variable == owner for loop in loops for ref in loop.refs)
            loops.append(For(name, None, (), (), (LoopRef(einsum, owner, path),), _binding(kernel, iname)))
    moved = constantdict({variable: Affine.of(factors) for variable, factors in values.items()})
    return EinsumPath(einsum, tuple(loops), Statement(einsum, "map", Place("", ()), 0, (), moved))


def apart(paths: list[EinsumPath]) -> Iterator[EinsumPath]:
    """The paths with loops of their own each."""
    for path in paths:
        names = {loop.name: f"{loop.name}_{path.einsum}" for loop in path.loops}
        loops = tuple(For(names[n.name], n.extent, n.body, n.limits, n.refs, n.binding) for n in path.loops)
        values = {variable: value.renamed(names) for variable, value in path.statement.values.items()}
        statement = Statement(path.einsum, "map", path.statement.target, 0, (), constantdict(values))
        yield EinsumPath(path.einsum, loops, statement)
