"""From the tree to the instructions of a loopy kernel; what is not ours in the kernel stays as it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import islpy as isl
import loopy as lp
import numpy as np
from loopy.diagnostic import CannotBranchDomainTree
from loopy.kernel.data import Iname
from loopy.symbolic import SubstitutionMapper
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Comparison, LogicalAnd, LogicalOr
from pymbolic.typing import Expression

from ...cascades.kernel.tags import EinsumTag, TensorTag
from ...formats.affine import Affine
from ...formats.integer_sets import basic_set, within
from ...formats.language.reductions import REDUCTIONS
from ...formats.opencl import MEMORIES, AddressSpace, FanoutKind
from ...formats.workload import operand_name
from ..intrinsics.block_call import block_call
from ..intrinsics.registration import intrinsic_called
from ..refusals import NestOrderError
from ..statement import Place, Statement
from ..steps.vector_steps import is_transposed
from ..target import Quirks
from ..tree.loops import is_reduction, moves_private
from ..tree.nest import For, Nest, NestItem, Source, Tile, fused_chain, rebuilt, statements, walk
from ..tree.parallel import check_kernels, exchanged, kernel_starts, memory_of
from .intrinsics import registered, vector_dtype
from .naming import final_form
from .operations import VectorOperation
from .surroundings import apart, disjoint, foreign_instructions, in_order, inames_of, surrounded, variables_of
from .tagging import NormalFormTag, OwnedTag
from .vectors import VectorWriter, with_own_limits

_SPACES: dict[AddressSpace, lp.AddressSpace] = {
    "global": lp.AddressSpace.GLOBAL,
    "local": lp.AddressSpace.LOCAL,
    "private": lp.AddressSpace.PRIVATE,
}
_TAGS = {"unroll": "unr", **{f"group.{k}": f"g.{k}" for k in range(3)}, **{f"local.{k}": f"l.{k}" for k in range(3)}}


def written(t_unit: lp.TranslationUnit, nest: Nest, quirks: Quirks) -> lp.TranslationUnit:
    """The kernel with its instructions of ours written anew from the tree, which it then carries.

    Arguments, foreign instructions with their loops and the order of these, substitution rules and callees stay; see :func:`surrounded`.
    """
    check_kernels(nest)
    original = apart(t_unit.default_entrypoint, nest.ids)
    nest = disjoint(nest, original)
    final = final_form(nest, original)
    kernel, operations = _rewritten(original, nest, final, quirks, guarded=False)
    if not _has_domain_tree(kernel):
        kernel, operations = _rewritten(original, nest, final, quirks, guarded=True)
    kernel = surrounded(kernel, original, nest.ids)
    return registered(t_unit.with_kernel(kernel), operations, quirks)


def _rewritten(
    original: lp.LoopKernel, nest: Nest, final: Nest, quirks: Quirks, *, guarded: bool
) -> tuple[lp.LoopKernel, set[VectorOperation]]:
    """The kernel with the instructions of the final form of a nest, and the operations on vectors that they call."""
    foreign = foreign_instructions(original, nest)
    theirs = {name for insn in foreign for name in inames_of(insn)}
    text = _Text(final, {*(insn.id for insn in foreign), *original.all_variable_names()}, quirks, guarded=guarded)
    text.block(final.body, (), root=True)
    tiles = {tile.name: temporary(tile) for tile in final.tiles.values()}
    tiles |= {source.name: whole(source) for source in final.sources.values() if source.is_owned}
    touched = {name for insn in foreign for name in variables_of(insn, original)}
    gone = {n for n, t in original.temporary_variables.items() if t.tags_of_type(TensorTag) and n not in final.sources and n not in touched}
    kernel = original.copy(
        domains=[*_kept(original.domains, theirs), *text.domains] or [basic_set((), ())],
        instructions=[*foreign, *in_order(text.instructions, text.axes)],
        inames={**{n: i for n, i in original.inames.items() if n in theirs}, **text.inames},
        temporary_variables={**{n: t for n, t in original.temporary_variables.items() if n not in gone}, **tiles, **text.temporaries},
        loop_priority=frozenset({*(p for p in original.loop_priority if theirs.issuperset(p)), *text.priorities}),
        tags=frozenset({*(t for t in original.tags if not isinstance(t, NormalFormTag)), NormalFormTag(nest, final)}),
    )
    return kernel, text.operations


def _has_domain_tree(kernel: lp.LoopKernel) -> bool:
    """Whether loopy can relate the loops of every instruction: their domains must not branch below a common one."""
    try:
        for insn in kernel.instructions:
            kernel.get_leaf_domain_indices(insn.within_inames)
    except CannotBranchDomainTree:
        return False
    return True


def temporary(tile: Tile) -> lp.TemporaryVariable:
    """The array of a tile; its axes in stored order."""
    shape = [tile.shape[axis] for axis in tile.axes]
    if shape:
        shape[-1] = -(-(shape[-1] + tile.padding) // tile.lanes)
    return lp.TemporaryVariable(
        tile.name,
        np.dtype(tile.dtype) if tile.lanes == 1 else vector_dtype(tile.dtype, tile.lanes),
        shape=tuple(shape),
        address_space=_SPACES[tile.memory],
        tags=frozenset({OwnedTag(), TensorTag(tile.tensor)}),
    )


def whole(source: Source) -> lp.TemporaryVariable:
    """The array of a tensor that a step made."""
    space = lp.AddressSpace.GLOBAL
    tags = frozenset({OwnedTag(), TensorTag(source.tensor)})
    return lp.TemporaryVariable(source.name, np.dtype(source.dtype), shape=source.shape, address_space=space, tags=tags)


def expression(index: Affine) -> object:
    """An affine expression for loopy."""
    result: object = index.constant
    for name, factor in reversed(index.terms):
        term = var(name) if factor == 1 else factor * var(name)
        result = term if isinstance(result, int) and result == 0 else term + result
    return result


def _kept(domains: Sequence[isl.BasicSet], inames: set[str]) -> Iterator[isl.BasicSet]:
    """The domains of the loops that are not ours."""
    for domain in domains:
        names = domain.get_var_names(isl.dim_type.set)
        if keep := [name for name in names if name in inames]:
            yield domain.project_out_except(keep, [isl.dim_type.set]) if len(keep) < len(names) else domain


@dataclass(frozen=True)
class _Earlier:
    """A statement already written, for dependencies."""

    id: str
    reads: frozenset[str]
    writes: frozenset[str]
    separates: bool = False
    """A barrier between kernels: everything later depends on it, or it might be scheduled into an earlier kernel."""


def _conditioned(body: tuple[NestItem, ...], limits: tuple[Affine, ...]) -> tuple[NestItem, ...]:
    """The body with every statement under these limits; its loops run as often as without."""
    return rebuilt(body, lambda n: (n,) if isinstance(n, For) else (dataclasses.replace(n, guards=n.guards + limits),))


def _is_spread(node: NestItem) -> bool:
    return any(isinstance(n, For) and n.is_over_items and n.extent != 1 for n in walk((node,)))


class _Text:
    """Collects domains, inames and instructions while walking the tree.

    If ``guarded``, the statements that move tiles take the limits of their loops, which then run over the whole tile.
    """

    def __init__(self, nest: Nest, taken: set[str], quirks: Quirks, *, guarded: bool) -> None:
        self.nest = nest
        self.loops = {loop.name: (loop,) for loop in nest.all_loops} | {n.fused: fused_chain(n) for n in nest.all_loops if n.fused}
        self.has_items = any(map(_is_spread, nest.body))
        self.quirks = quirks
        self.guarded = guarded
        self.taken = taken
        self.domains: list[isl.BasicSet] = []
        self.inames: dict[str, Iname] = {}
        self.instructions: list[lp.InstructionBase] = []
        self.priorities: list[tuple[str, ...]] = []
        self.earlier: list[_Earlier] = []
        self.numbers: dict[str, int] = {}
        self.temporaries: dict[str, lp.TemporaryVariable] = {}
        self.operations: set[VectorOperation] = set()
        self.over_items: set[str] = set()
        self.axes: set[str] = set()
        self.limited: dict[str, frozenset[str]] = {}
        self.parameters: dict[str, list[str]] = {}
        self.digits: dict[str, Expression] = {}
        """What each of several loops that run as one is at."""

    def block(self, body: tuple[NestItem, ...], above: tuple[str, ...], *, root: bool = False) -> frozenset[str]:
        """The nodes of one body, with a barrier wherever groups or work-items exchange data; says in which memories what was exchanged may
        still be read at the end.
        """
        done: list[NestItem] = []
        starts = kernel_starts(self.nest) if root else ()
        fences: frozenset[str] = frozenset()
        for position, node in enumerate(body):
            memories = self._between_items(done, node)
            if position in starts:
                self.barrier("global", memories, above)
                done = []
            elif memories:
                self.barrier("local", memories, above)
                fences |= memories
                done = []
            if isinstance(node, For):
                fences |= self.loop(node, above)
            else:
                self.statement(node, above)
            done.append(node)
        return fences

    def _fenced(self, body: tuple[NestItem, ...]) -> bool:
        """Whether a barrier stands in this body."""
        done: list[NestItem] = []
        for node in body:
            if self._between_items(done, node) or (isinstance(node, For) and self._fenced(node.body)):
                return True
            done.append(node)
        return False

    def _between_items(self, before: Sequence[NestItem], node: NestItem) -> frozenset[str]:
        """The memories in which work-items exchange something with what stands before; what one work-item does alone is in order."""
        if not self.has_items:
            return frozenset()
        is_spread = _is_spread(node)
        spread = [other for other in before if is_spread or _is_spread(other)]
        memories = frozenset(memory_of(self.nest, s) for s in exchanged(self.nest, spread, (node,)))
        return frozenset(memory for memory in memories if not MEMORIES[memory].is_hidden_from("local.0"))

    def loop(self, loop: For, above: tuple[str, ...]) -> frozenset[str]:
        """A loop and what is in it; says what :meth:`block` says."""
        if loop.intrinsic:
            self.tensorized(loop, above)
            return frozenset()
        if loop.binding == "vector":
            for node in loop.body:
                if isinstance(node, Statement):
                    self.vector(node, loop, above)
                else:
                    self.transposed(loop, node, above)
            return frozenset()
        loop = self._one_of(fused_chain(loop)) if loop.fused else self._limited_first(loop)
        derived = tuple(limit for limit in loop.limits if self.digits.keys() & set(limit.variables))
        if derived:
            # loopy's domains are kept free of quotients.
            loop = self._without_limits(loop, derived)
        fenced = not loop.is_over_items and self._fenced(loop.body)
        if fenced and loop.extent is not None:
            # All work-items must reach a barrier: what they do not agree on are conditions of the statements. So are limits of loops over
            # groups: loopy makes conditions of these anyway, and puts none around a barrier.
            binding: FanoutKind = "loop" if loop.binding == "unroll" else loop.binding
            without_any = self.quirks.barrier_under_condition or loop.is_over_grid
            loop = self._without_limits(loop, loop.limits if without_any else self._uneven(loop))
            loop = dataclasses.replace(loop, binding=binding)
        if self.guarded and not loop.refs and loop.extent is not None:
            loop = self._without_limits(loop, loop.limits)
        if loop.is_over_grid:
            self.axes.add(loop.name)
        if loop.is_over_items:
            self.over_items.add(loop.name)
        elif loop.extent is not None and self.quirks.uneven_loops:
            loop = self._without_limits(loop, self._uneven(loop))
        outer = {v for limit in loop.limits for v in limit.variables} - {loop.name}
        # loopy wants one chain of domains: a loop whose limits have a variable in common with those of one above comes below it.
        related = frozenset(outer).union(*(self.limited.get(name, frozenset()) for name in outer))
        beside = [name for name in above if name not in outer and self.limited.get(name, frozenset()) & related]
        self.limited[loop.name] = related
        parameters = sorted({*outer, *beside[-1:]})
        if loop.is_over_items:
            # loopy, which narrows the domain of a work-item's number, takes loops further out for its own unless they are parameters.
            parameters = sorted(self._closure(parameters))
        self.parameters[loop.name] = parameters
        self.domains.append(basic_set([loop.name], [*within(loop.name, loop.extent), *loop.limits], parameters=parameters))
        tag = _TAGS.get(loop.binding)
        if tag is None and not loop.refs and moves_private(self.nest, loop):
            tag = "unr"
        tags = {OwnedTag()} | ({lp.kernel.data.parse_tag(tag)} if tag else set())
        self.inames[loop.name] = Iname(loop.name, frozenset(tags))
        fences = self.block(loop.body, (*above, loop.name))
        if fences and loop.extent != 1 and loop.binding in {"loop", "unroll"}:
            # What the next iteration overwrites has been read by all.
            self.barrier("local", fences, (*above, loop.name))
            return frozenset()
        return fences

    def _uneven(self, loop: For) -> tuple[Affine, ...]:
        """The limits by which a loop runs longer on one work-item than on another."""
        return tuple(limit for limit in loop.limits if self.over_items.intersection(limit.variables))

    @staticmethod
    def _without_limits(loop: For, limits: tuple[Affine, ...]) -> For:
        """The loop with some of its limits as conditions of the statements in it."""
        if not limits:
            return loop
        kept = tuple(limit for limit in loop.limits if limit not in limits)
        return dataclasses.replace(loop, limits=kept, body=_conditioned(loop.body, limits))

    def _closure(self, names: Sequence[str]) -> set[str]:
        """These loops and all that their domains are below."""
        return {*names}.union(*(self._closure(self.parameters.get(name, ())) for name in names))

    def _one_of(self, chain: tuple[For, ...]) -> For:
        """One loop in place of several: ``i`` and ``j`` become ``ij // J`` and ``ij % J``."""
        name, extents = chain[0].fused, [loop.extent or 0 for loop in chain]
        if len(chain) < 2 or chain[-1].fused:
            raise NestOrderError(
                f"{chain[-1].refs[0]} is fused with a loop that no longer stands alone inside it",
                hint="Hold tiles outside or inside both of the loops.",
            )
        for position, loop in enumerate(chain):
            below = prod(extents[position + 1 :])
            whole = var(name) // below if below > 1 else var(name)
            self.digits[loop.name] = whole % extents[position] if position else whole
        body = _conditioned(chain[-1].body, tuple(limit for loop in chain for limit in loop.limits))
        return For(name, prod(extents), body, (), chain[0].refs, chain[0].binding)

    def expression(self, index: Affine) -> object:
        """An affine expression for loopy, over the loops that are written."""
        return SubstitutionMapper(make_subst_func(self.digits))(expression(index)) if self.digits else expression(index)

    def _limited_first(self, loop: For) -> For:
        """The loop, or, if both are written out, a limited one inside around it: statements under one condition then stand together."""
        inner = loop.body[0] if len(loop.body) == 1 else None
        if not isinstance(inner, For) or not inner.limits or loop.limits or any(loop.name in limit.variables for limit in inner.limits):
            return loop
        if not all(self._is_written_out(node) for node in (loop, inner)):
            return loop
        return dataclasses.replace(inner, body=(self._limited_first(dataclasses.replace(loop, body=inner.body)),))

    def _is_written_out(self, loop: For) -> bool:
        """Whether the iterations become statements that may stand in any order."""
        if loop.refs:
            return loop.binding == "unroll" and not any(is_reduction(self.nest, loop, ref.einsum) for ref in loop.refs)
        return loop.binding == "loop" and moves_private(self.nest, loop)

    def barrier(self, kind: str, memories: frozenset[str], above: tuple[str, ...]) -> None:
        """Everything before it is done, and seen by all, before anything after it starts."""
        before = frozenset(e.id for e in self.earlier)
        everything = frozenset(s for e in self.earlier for s in e.reads | e.writes)
        for memory in sorted(memories) if kind == "local" else ["global"]:
            name = self._id(f"{kind}_barrier")
            self.instructions.append(
                lp.BarrierInstruction(
                    id=name,
                    depends_on=before,
                    depends_on_is_final=True,
                    within_inames=frozenset(above) - self.over_items,
                    within_inames_is_final=True,
                    synchronization_kind=kind,
                    mem_kind=memory,
                    tags=frozenset({OwnedTag()}),
                )
            )
            self.earlier.append(_Earlier(name, everything, everything, separates=kind == "global"))

    def statement(self, s: Statement, above: tuple[str, ...]) -> None:
        place = {operand_name(k): self.read(p) for k, p in enumerate(s.operands)}
        loops = {name: self.expression(value) for name, value in s.values.items()}
        value = SubstitutionMapper(make_subst_func({**loops, **place}))(s.value)
        target = self.read(s.target)
        if s.reduce is not None:
            value = REDUCTIONS[s.reduce].combined(target, value)
        self.assign(s, target, value, above)

    def transposed(self, outer: For, inner: For, above: tuple[str, ...]) -> None:
        """A statement that moves a block from an array, whose columns become rows."""
        (s,) = (statement for _, statement in statements((inner,)))
        for loop in (outer, inner):
            s, _ = with_own_limits(s, loop)
        rows, columns = (inner, outer) if is_transposed(self.nest, s, inner.name, outer.name) else (outer, inner)
        writer = self.writer(s, rows, above)
        value = writer.block(columns)
        first = {loop.name: Affine((), 0) for loop in (rows, columns)}
        self.assign(s, self.read(s.target.substituted(first)), value, above)
        self.operations.update(writer.operations.values())

    def tensorized(self, block: For, above: tuple[str, ...]) -> None:
        """A block that one call computes."""
        kept: list[str] = []

        def keep(wish: str, operation: VectorOperation, count: int) -> Expression:
            """The first of so many vectors, which live as long as the loop around the block."""
            kept.append(self._id(wish))
            self._declare(kept[-1], vector_dtype(operation.dtype, operation.lanes), (count,))
            first: Expression = var(kept[-1])[0]
            unconditional = dataclasses.replace(s, guards=(), first=(), later=(), reduce=None, operands=())
            self.assign(unconditional, first, var(operation.name)(0), above[:-1], target=kept[-1])
            self.operations.add(operation)
            return first

        (s,) = (statement for _, statement in statements((block,)))
        s, call = block_call(self.nest, block, intrinsic_called(block.intrinsic), self.read, self.expression, keep)
        self.assign(s, call.target, call.value, above, reads=frozenset(kept))
        self.operations.add(call.operation)

    def _declare(self, name: str, dtype: np.dtype[np.void], shape: tuple[int, ...]) -> None:
        space = lp.AddressSpace.PRIVATE
        self.temporaries[name] = lp.TemporaryVariable(name, dtype, shape=shape, address_space=space, tags=frozenset({OwnedTag()}))

    def vector(self, s: Statement, lane: For, above: tuple[str, ...]) -> None:
        """A statement whose iterations over ``lane`` are lanes of vectors. Limits that say nothing of lanes hold for all or for none."""
        s, lane = with_own_limits(s, lane)
        for case in self.writer(s, lane, above).cases():
            writer = self.writer(case, lane, above)
            value, target = writer.value(), writer.target()
            if isinstance(target, list):
                self.scatter(case, target, writer, value, above)
            else:
                self.assign(case, target, value if not writer.stores else writer.stored(target, value), above)
            self.operations.update(writer.operations.values())

    def writer(self, s: Statement, lane: For, above: tuple[str, ...]) -> VectorWriter:
        """What writes a statement on vectors."""
        around = [loop for name in above for loop in self.loops[name]]
        return VectorWriter(self.nest, lane, around, s, self.read, self.expression, lambda source: memory_of(self.nest, source))

    def scatter(self, s: Statement, places: list[Place], writer: VectorWriter, value: object, above: tuple[str, ...]) -> None:
        """A vector whose elements go to places that do not lie next to one another."""
        copy = self._id(f"{s.target.source}_vector")
        self._declare(copy, vector_dtype(writer.stored_type, writer.lanes), ())
        self.assign(s, var(copy), value, above, target=copy)
        for number, place in enumerate(places):
            single = dataclasses.replace(s, reduce=None, guards=(*s.guards, *writer.guards(number)), operands=())
            self.assign(single, self.read(place), writer.lane_of(var(copy), number), above, reads=frozenset({copy}))

    def assign(
        self, s: Statement, lhs: object, rhs: object, above: tuple[str, ...], *, target: str = "", reads: frozenset[str] = frozenset()
    ) -> None:
        """An assignment with the statement's conditions, after everything that it depends on."""
        writes = target or s.target.source
        touched = reads | frozenset(p.source for p in s.operands) | ({s.target.source} if s.reduce else frozenset())
        name, before = self._started(s, touched, frozenset({writes}))
        self.instructions.append(
            lp.Assignment(
                lhs,
                rhs,
                id=name,
                depends_on=before,
                depends_on_is_final=True,
                within_inames=frozenset(above),
                within_inames_is_final=True,
                predicates=frozenset(self.predicates(s)),
                # Groups and work-items wait for one another at the barriers that ``block`` writes, and nowhere else.
                no_sync_with=frozenset((i, "any") for i in (*before, name)),
                tags=frozenset({OwnedTag(), EinsumTag(s.einsum)}),
            )
        )
        if len(nested := tuple(loop for loop in above if loop not in self.axes)) > 1:
            self.priorities.append(nested)

    def _started(self, s: Statement, reads: frozenset[str], writes: frozenset[str]) -> tuple[str, frozenset[str]]:
        """A new instruction's id, and those of the earlier ones that it depends on."""
        name = self._id(f"{s.einsum}_{s.role}" if s.role in {"init", "update", "map"} else f"{s.role}_{s.target.source}")
        before = frozenset(e.id for e in self.earlier if e.separates or e.writes & (reads | writes) or e.reads & writes)
        self.earlier.append(_Earlier(name, reads, writes))
        return name, before

    def predicates(self, s: Statement) -> Iterator[object]:
        for guard in s.guards:
            yield Comparison(self.expression(guard), ">=", 0)
        if s.first:
            tests = tuple(Comparison(self.digits.get(name, var(name)), "==", 0) for name in s.first)
            yield tests[0] if len(tests) == 1 else LogicalAnd(tests)
        if s.later:
            tests = tuple(Comparison(self.digits.get(name, var(name)), ">", 0) for name in s.later)
            yield tests[0] if len(tests) == 1 else LogicalOr(tests)

    def read(self, place: Place) -> object:
        """The element: of an array, or a call of a substitution rule."""
        tile = self.nest.tiles.get(place.source)
        indices = place.indices if tile is None else tuple(place.indices[axis] for axis in tile.axes)
        arguments = tuple(map(self.expression, indices))
        if tile is None and self.nest.sources[place.source].is_rule:
            return var(place.source)(*arguments)
        return var(place.source)[arguments] if arguments else var(place.source)

    def _id(self, wish: str) -> str:
        wish = "".join(c if c.isalnum() else "_" for c in wish)
        number = self.numbers.get(wish, 0)
        while (name := f"{wish}_{number}" if number else wish) in self.taken:
            number += 1
        self.numbers[wish] = number + 1
        self.taken.add(name)
        return name
