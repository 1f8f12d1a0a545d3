"""The loops of a kernel that no schedule of ours has made, as paths of a LoopTree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.diagnostic import LoopyError
from loopy.kernel.data import AxisTag, GroupInameTag, IlpBaseTag, Iname, LocalInameTag, UnrollTag, VectorizeTag
from loopy.kernel.instruction import BarrierInstruction
from loopy.schedule import CallKernel, EnterLoop, LeaveLoop, RunInstruction
from loopy.symbolic import IdentityMapper, Reduction
from pymbolic.primitives import Expression, Subscript

from ..cascades.kernel.kernel import affine_expression
from ..cascades.matching.match import Match, match
from ..cascades.sequence import EinsumSequence
from ..errors import MatchError
from ..formats.affine import Affine, read_affine
from ..formats.opencl import FanoutKind
from ..schedule.statement import Place, Statement
from ..schedule.tree.nest import For, LoopRef
from .architecture import Machinery
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
            size = matched.cascade.einsum(einsum).sizes[owner]
            values.setdefault(owner, {})[name] = min(part.tile, size) if isinstance(size, int) else part.tile
            path = "1" * sum(ref.variable == owner for loop in loops for ref in loop.refs)
            loops.append(For(name, None, (), (), (LoopRef(einsum, owner, path),), _binding(kernel, iname)))
    moved = constantdict({variable: Affine.of(factors) for variable, factors in values.items()})
    return EinsumPath(einsum, tuple(loops), Statement(einsum, "map", Place("", ()), 0, (), moved))


def run_on(machinery: Machinery, paths: Sequence[EinsumPath], cascade: EinsumSequence) -> list[EinsumPath]:
    """The paths as an architecture runs them.

    One without work-items, such as a processor's, does those of a group one after another. Groups on axes that it lacks stand before the
    others, but for parts of what these take. Of more groups than it has units, as many as these run at once: ``i in tiles of 64`` on two
    cores becomes ``i in tiles of 128``, in time, around them. Where its runtime makes vectors of neighbouring work-items, lanes take
    these inside all loops: ``i in tiles of 16`` with ``spatial for i in tiles of 1, over Lane`` in place of ``i in tiles of 1``.
    """
    found = []
    for path in paths:
        einsum = cascade.einsum(path.einsum)
        width = machinery.items_in_a_vector(np.dtype(cascade.tensors[einsum.output.tensor].dtype).itemsize)
        found.append(_in_lanes(path, _run_on(machinery, path, einsum.sizes), einsum.sizes, width))
    return found


def _in_lanes(given: EinsumPath, path: EinsumPath, sizes: Mapping[str, object], width: int) -> EinsumPath:
    """The path with lanes for so many neighbours along the first axis of the work-items that were given, at the most."""
    items = next((loop.name for loop in given.loops if loop.binding == "local.0"), None)
    place = next((place for place, loop in enumerate(path.loops) if loop.name == items and loop.binding == "loop"), None)
    if width < 2 or place is None:
        return path
    loop = path.loops[place]
    tile, variable = path.tile(loop), loop.refs[0].variable
    around = [path.tile(other) for other in path.loops[:place] if other.refs[0].variable == variable]
    whole = around[-1] if around else sizes[variable]
    if not isinstance(whole, int) or any(other.refs[0].variable == variable for other in path.loops[place + 1 :]):
        return path  # lanes are the innermost part of what they take
    count = min(width, -(-whole // tile))
    lanes = For(f"{loop.name}_lanes", None, (), (), loop.refs, "vector")
    coefficients = {**path.statement.values[variable].coefficients, lanes.name: tile, loop.name: tile * count}
    kept = path.loops if tile * count < whole else (*path.loops[:place], *path.loops[place + 1 :])
    moved = {name: factor for name, factor in coefficients.items() if name != loop.name or loop in kept}
    values = constantdict({**path.statement.values, variable: Affine.of(moved)})
    return EinsumPath(path.einsum, (*kept, lanes), replace(path.statement, values=values))


def _run_on(machinery: Machinery, path: EinsumPath, sizes: Mapping[str, object]) -> EinsumPath:
    absent = [loop for loop in path.loops if (loop.is_over_groups or loop.is_over_items) and not machinery.has(loop.binding)]
    lacking = [loop for loop in absent if loop.is_over_groups and not _is_cut_on(machinery, path, loop)]
    left = {variable: size for variable, size in sizes.items() if isinstance(size, int)}
    loops: list[For] = []
    values = dict(path.statement.values)
    for loop in (*lacking, *(loop for loop in path.loops if loop not in lacking)):
        tile, variable = path.tile(loop), loop.refs[0].variable
        width = machinery.width(loop.binding) if loop.is_over_groups and machinery.has(loop.binding) else None
        if width is not None and left.get(variable, 0) > width * tile:
            turns = f"{loop.name}_turns"
            values[variable] = Affine.of({**values[variable].coefficients, turns: width * tile})
            loops.append(For(turns, None, (), (), loop.refs, "loop"))
        loops.append(loop.changed(binding="loop") if loop in absent and loop not in lacking else loop)
        left[variable] = tile
    return EinsumPath(path.einsum, tuple(loops), replace(path.statement, values=constantdict(values)))


def _is_cut_on(machinery: Machinery, path: EinsumPath, loop: For) -> bool:
    """Whether a loop is one over tiles of what an axis that there is has cut before: it cannot stand before that."""
    above = path.loops[: path.loops.index(loop)]
    return any(one.refs[0].variable == loop.refs[0].variable and one.is_over_groups and machinery.has(one.binding) for one in above)


def apart(paths: list[EinsumPath]) -> Iterator[EinsumPath]:
    """The paths with loops of their own each."""
    for path in paths:
        names = {loop.name: f"{loop.name}_{path.einsum}" for loop in path.loops}
        loops = tuple(For(names[n.name], n.extent, n.body, n.limits, n.refs, n.binding) for n in path.loops)
        values = {variable: value.renamed(names) for variable, value in path.statement.values.items()}
        statement = Statement(path.einsum, "map", path.statement.target, 0, (), constantdict(values))
        yield EinsumPath(path.einsum, loops, statement)


@dataclass(frozen=True)
class LoopPart:
    """One of the loops that a loop was cut into."""

    whole: str
    tile: int
    """How far the whole loop moves from one iteration to the next."""


@dataclass(frozen=True)
class Joined:
    """A kernel without cut loops, axes of the device and barriers, and what its loops were."""

    kernel: lp.TranslationUnit
    parts: Mapping[str, LoopPart] = field(default_factory=dict)
    """Loop of the given kernel -> its part of a loop of this one; loops that were not cut are missing."""


def joined(t_unit: lp.TranslationUnit) -> Joined:
    """The kernel with every pair of loops joined that occurs as ``tile*outer + inner`` alone, again and again.

    Raises :class:`MatchError` where loops cannot be told apart.
    """
    parts: dict[str, LoopPart] = {}
    kernel = t_unit.default_entrypoint
    kernel = kernel.copy(
        instructions=[_unbarred(insn, kernel) for insn in kernel.instructions if not isinstance(insn, BarrierInstruction)],
        inames={name: Iname(name, frozenset()) for name in kernel.inames},
        loop_priority=frozenset(),
    )
    while (pair := next(_pairs(kernel), None)) is not None:
        outer, inner, tile = pair
        whole = _fresh(outer, kernel)
        kernel = _with_joined(kernel, outer, inner, tile, whole)
        parts = {name: LoopPart(whole, part.tile) if part.whole == inner else part for name, part in parts.items()}
        parts = {name: LoopPart(whole, part.tile * tile) if part.whole == outer else part for name, part in parts.items()}
        parts |= {name: LoopPart(whole, step) for name, step in ((outer, tile), (inner, 1)) if name in t_unit.default_entrypoint.inames}
    return Joined(t_unit.with_kernel(kernel), parts)


def _unbarred(insn: lp.InstructionBase, kernel: lp.LoopKernel) -> lp.InstructionBase:
    """The instruction without dependencies on barriers, which pass on what these depend on."""
    barriers = {other.id: other for other in kernel.instructions if isinstance(other, BarrierInstruction)}
    needed = set(insn.depends_on)
    while found := needed & barriers.keys():
        needed = (needed - found) | {other for name in found for other in barriers[name].depends_on}
    return insn.copy(depends_on=frozenset(needed))


class _Indices(IdentityMapper):  # type: ignore[misc]
    """Collects the affine expressions by which arrays are read and written, and rewrites them."""

    def __init__(self, values: Mapping[str, Affine], inames: Mapping[tuple[str, str], str]) -> None:
        super().__init__()
        self.values = values
        self.inames = inames
        self.found: list[Affine] = []

    def map_subscript(self, expr: Subscript) -> Expression:
        indices = []
        for index in expr.index_tuple:
            affine = read_affine(index)
            if affine is None:
                indices.append(self.rec(index))
                continue
            self.found.append(affine)
            indices.append(affine_expression(affine.substituted(self.values)) if self.values else index)
        return Subscript(expr.aggregate, tuple(indices))

    def map_reduction(self, expr: Reduction) -> Expression:
        names = expr.inames
        for (outer, inner), whole in self.inames.items():
            if {outer, inner} <= set(names):
                names = tuple(whole if name == outer else name for name in names if name != inner)
        return Reduction(expr.operation, names, self.rec(expr.expr), expr.allow_simultaneous)


def _affines(kernel: lp.LoopKernel) -> list[Affine]:
    mapper = _Indices({}, {})
    for insn in kernel.instructions:
        insn.with_transformed_expressions(mapper)
    return mapper.found


def _pairs(kernel: lp.LoopKernel) -> Iterator[tuple[str, str, int]]:
    """Outer loop, inner loop and tile of what was one loop; in the order of their names, so that a tree's names are the same each time."""
    found = _affines(kernel)
    for inner in sorted(kernel.inames):
        uses = [affine.coefficients for affine in found if inner in affine.variables]
        extent = _extent(kernel, inner)
        if not uses or extent is None:
            continue
        for outer in sorted(kernel.inames):
            others = [affine.coefficients for affine in found if outer in affine.variables]
            if outer == inner or len(others) != len(uses):
                continue
            # One tile may be larger than all that is cut.
            least = uses[0].get(outer, 0) // uses[0][inner]
            tile = max(extent, least) if _extent(kernel, outer) == 1 else extent
            if all(use.get(outer) == use[inner] * tile for use in uses):
                yield outer, inner, tile


def _extent(kernel: lp.LoopKernel, iname: str) -> int | None:
    try:
        return int(kernel.get_constant_iname_length(iname))
    except Exception:  # loopy has no class of its own for a length that is no number
        return None


def _fresh(outer: str, kernel: lp.LoopKernel) -> str:
    wish = outer.removesuffix("_outer")
    taken = kernel.all_variable_names() | set(kernel.inames)
    return wish if wish not in taken else next(f"{wish}_{n}" for n in range(1, len(taken) + 2) if f"{wish}_{n}" not in taken)


def _with_joined(kernel: lp.LoopKernel, outer: str, inner: str, tile: int, whole: str) -> lp.LoopKernel:
    """The kernel with ``whole`` for ``tile*outer + inner``."""
    mapper = _Indices({inner: Affine.of({whole: 1, outer: -tile})}, {(outer, inner): whole})

    def names(old: frozenset[str]) -> frozenset[str]:
        return (old - {outer, inner}) | {whole} if {outer, inner} & old else old

    instructions = []
    for insn in kernel.instructions:
        new = insn.with_transformed_expressions(mapper)
        instructions.append(new.copy(within_inames=names(insn.within_inames)))
        if {outer, inner} & new.dependency_names():
            raise MatchError(f"Instruction {insn.id} uses {outer} or {inner} apart, which are the parts of one loop.")
    inames = {name: iname for name, iname in kernel.inames.items() if name not in {outer, inner}}
    domains = [_domain(domain, outer, inner, tile, whole) for domain in kernel.domains]
    return kernel.copy(instructions=instructions, domains=domains, inames={**inames, whole: Iname(whole, frozenset())})


def _domain(domain: isl.BasicSet, outer: str, inner: str, tile: int, whole: str) -> isl.BasicSet:
    names = domain.get_var_names(isl.dim_type.set)
    if outer not in names and inner not in names:
        return domain
    if not {outer, inner} <= set(names):
        raise MatchError(f"The loops {outer} and {inner} are the parts of one loop, and have domains that depend on one another.")
    position = len(names)
    domain = domain.add_dims(isl.dim_type.set, 1).set_dim_name(isl.dim_type.set, position, whole)
    constraint = isl.Constraint.eq_from_names(domain.space, {whole: -1, outer: tile, inner: 1})
    kept = [name for name in names if name not in {outer, inner}]
    found = domain.add_constraint(constraint).project_out_except([*kept, whole], [isl.dim_type.set]).remove_redundancies()
    if found.dim(isl.dim_type.div):
        found = found.to_set().simple_hull()
    return found
