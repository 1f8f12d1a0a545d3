"""Loops that a scheduled kernel of somebody else was cut into, put together again, so that the kernel can be matched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import islpy as isl
import loopy as lp
from loopy.kernel.data import Iname
from loopy.kernel.instruction import BarrierInstruction
from loopy.symbolic import IdentityMapper, Reduction
from pymbolic.primitives import Expression, Subscript

from ..cascades.kernel.kernel import affine_expression
from ..errors import MatchError
from ..formats.affine import Affine, read_affine


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
    """Outer loop, inner loop and tile of what was one loop."""
    found = _affines(kernel)
    for inner in kernel.inames:
        uses = [affine.coefficients for affine in found if inner in affine.variables]
        extent = _extent(kernel, inner)
        if not uses or extent is None:
            continue
        for outer in kernel.inames:
            others = [affine.coefficients for affine in found if outer in affine.variables]
            if outer != inner and len(others) == len(uses) and all(use.get(outer) == use[inner] * extent for use in uses):
                yield outer, inner, extent


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


