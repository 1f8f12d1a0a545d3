"""TensorIR's view of a kernel: each Einsum as a block with iterators, bindings and regions, and whether it is a valid program.

Source: Feng et al., TensorIR (ASPLOS 2023), sections 3.1 (blocks) and 3.3 (validation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import islpy as isl
from pymbolic import primitives as p

from ...formats.affine import Affine
from ...formats.integer_sets import Condition, Index, below, equal, integer_map, integer_set, within
from ...formats.opencl import MEMORIES
from ..kernel.surroundings import entrypoint
from ..kernel.tagging import NormalFormTag
from ..refusals import IteratorBindingError, NormalFormError, ProducerConsumerError, ReductionBindingError, ScopeError
from ..statement import Place, Statement
from ..steps.explicate import Explicate
from .loops import is_reduction
from .nest import For, Nest

if TYPE_CHECKING:
    import loopy as lp

IteratorKind = Literal["data-parallel", "reduction"]


@dataclass(frozen=True)
class BlockLoop:
    """A loop around a block: ``constraints`` are >= 0 in it, ``binding`` is ``loop`` or what runs its iterations at once."""

    name: str
    extent: int
    binding: str = "loop"
    constraints: tuple[Affine, ...] = ()


@dataclass(frozen=True)
class BlockIterator:
    """An iterator of a block: it takes each value of ``[0, extent)``, as a quasi-affine expression of the loops says."""

    name: str
    extent: int
    kind: IteratorKind
    binding: Index

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}({self.extent}) = {self.binding}"


@dataclass(frozen=True)
class Block:
    """What computes one Einsum."""

    name: str
    loops: tuple[BlockLoop, ...]
    iterators: tuple[BlockIterator, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    init: str | None = None
    conditions: tuple[Affine, ...] = ()
    """What is >= 0 at the points of the iterators' box that the Einsum has, over iterators."""

    def validate(self) -> None:
        """Raise :class:`IteratorBindingError` unless the bindings are one-to-one onto the iterators' domain, and
        :class:`ReductionBindingError` if a loop of a reduction runs in parallel.
        """
        limits = [c for loop in self.loops for c in within(loop.name, loop.extent)] + [c for loop in self.loops for c in loop.constraints]
        shown = ", ".join(f"{iterator.name} = {iterator.binding}" for iterator in self.iterators)
        names = [loop.name for loop in self.loops]
        bindings = integer_map(names, [iterator.binding for iterator in self.iterators], limits)
        box = [condition for iterator in self.iterators for condition in within(iterator.name, iterator.extent)]
        domain = integer_set([iterator.name for iterator in self.iterators], [*box, *self.conditions])
        hint = "Bind each iterator to loops of its own, which together take each of its values once."
        if not domain.subtract(bindings.range()).is_empty():
            raise IteratorBindingError(f"block {self.name}: the bindings {shown} do not reach all of the iterators' domain", hint=hint)
        if not bindings.range().is_subset(domain):
            raise IteratorBindingError(f"block {self.name}: the bindings {shown} leave the iterators' domain", hint=hint)
        if not bindings.is_injective():
            raise IteratorBindingError(f"block {self.name}: the bindings {shown} take a point more than once", hint=hint)
        for iterator in self.iterators:
            used = integer_map(names, [iterator.binding])
            for position, loop in enumerate(self.loops):
                parallel = loop.binding not in {"loop", "unroll"}
                if iterator.kind == "reduction" and parallel and used.involves_dims(isl.dim_type.in_, position, 1):
                    raise ReductionBindingError(
                        f"block {self.name}: the reduction iterator {iterator.name} is bound to {loop.name}, which runs on {loop.binding}",
                        hint="Insert RFactor, or bind a loop of a data-parallel iterator.",
                    )

    def __str__(self) -> str:
        lines = [f"block {self.name}"]
        for loop in self.loops:
            suffix = "" if loop.binding == "loop" else f" [{loop.binding}]"
            lines.append(f"  for {loop.name} in [0, {loop.extent}){suffix}" + "".join(f", {c} >= 0" for c in loop.constraints))
        lines += [f"  {iterator}" for iterator in self.iterators]
        lines += [f"  reads {read}" for read in self.reads] + [f"  writes {write}" for write in self.writes]
        return "\n".join([*lines, f"  init {self.init}"] if self.init else lines)


@dataclass(frozen=True)
class Blocks:
    """All blocks of a kernel, in order."""

    blocks: tuple[Block, ...]
    nest: Nest

    def validate(self) -> None:
        """Check each block, and that what is read was written, by a work-item that may see it.

        Raises as :meth:`Block.validate`; :class:`ProducerConsumerError` for a read that no write covers, :class:`ScopeError` for one that
        only another work-item's or group's write covers.
        """
        for block in self.blocks:
            block.validate()
        check_flow(self.nest)

    def __getitem__(self, einsum: str) -> Block:
        return next(block for block in self.blocks if block.name == einsum)

    def __str__(self) -> str:
        return "\n".join(map(str, self.blocks))


def blocks(t_unit: lp.TranslationUnit) -> Blocks:
    """The blocks of a tagged kernel, scheduled or not; :class:`NormalFormError` if its sizes are symbolic."""
    tags = [tag for tag in entrypoint(t_unit).tags if isinstance(tag, NormalFormTag)]
    nest = tags[0].nest if tags else Explicate().read(t_unit)
    found = [_block(nest, above, s) for above, s in nest.points if s.role in {"update", "map"}]
    return Blocks(tuple(found), nest)


def _block(nest: Nest, above: tuple[For, ...], statement: Statement) -> Block:
    space = {loop.name: loop for loop in nest.spaces[statement.einsum]}
    # A loop may be called like an iterator.
    names = {loop.name: f"_{loop.name}" for loop in above}
    iterators = []
    for name, value in statement.values.items():
        summed = statement.reduce is not None and not any(
            not is_reduction(nest, loop, statement.einsum) for loop in above if loop.name in value.variables
        )
        kind: IteratorKind = "reduction" if summed else "data-parallel"
        iterators.append(BlockIterator(name, _number(space[name].extent, name), kind, value.renamed(names)))
    init = next((str(s) for _, s in nest.points if s.einsum == statement.einsum and s.role == "init"), None)
    loops = tuple(
        BlockLoop(
            names[loop.name],
            _number(loop.extent, loop.name),
            loop.binding,
            tuple(limit.renamed(names) for limit in loop.limits),
        )
        for loop in above
    )
    guards = tuple(guard.renamed(names) for guard in statement.guards)
    if loops and guards:
        last = loops[-1]
        loops = (*loops[:-1], BlockLoop(last.name, last.extent, last.binding, last.constraints + guards))
    conditions = tuple(limit for loop in space.values() for limit in loop.limits)
    reads = tuple(map(str, statement.operands))
    return Block(statement.einsum, loops, tuple(iterators), reads, (str(statement.target),), init, conditions)


def _number(extent: int | None, name: str) -> int:
    if extent is None:
        raise NormalFormError(f"the size of {name} is symbolic", hint="Blocks are validated at given sizes: fix the kernel's parameters.")
    return extent


@dataclass(frozen=True)
class _Access:
    number: int
    above: tuple[For, ...]
    statement: Statement
    place: Place


def check_flow(nest: Nest) -> None:
    """Raise for a read of a tile or intermediate that no earlier write covers, or none that its work-item may see."""
    everything = [(n, above, s) for n, (above, s) in enumerate(nest.points)]
    writes = [_Access(n, above, s, s.target) for n, above, s in everything]
    for number, above, statement in everything:
        reads = [*statement.operands, *((statement.target,) if statement.reduce else ())]
        for place in reads:
            sources = [w for w in writes if w.place.source == place.source]
            if not sources:
                continue
            read = _Access(number, above, statement, place)
            if _uncovered(nest, read, sources, seen=True).is_empty():
                continue
            if _uncovered(nest, read, sources, seen=False).is_empty():
                raise ScopeError(
                    f"{statement.einsum} reads {place}, which another work-item or group wrote",
                    hint="Hold the tile in a memory that both see, or bind both alike.",
                )
            raise ProducerConsumerError(
                f"{statement.einsum} reads {place}, which nothing has written by then", hint="Write it before, or further out."
            )


def _uncovered(nest: Nest, read: _Access, writes: list[_Access], *, seen: bool) -> isl.Set:
    """The iterations of a read whose element no earlier write reaches; ``seen``: by a work-item whose memory it sees."""
    names = [f"r_{loop.name}" for loop in read.above]
    left = integer_set(names, _points(read, "r_"))
    for write in writes:
        for earlier in _earlier(write, read):
            conditions = [*_points(read, "r_"), *_points(write, "w_"), *earlier]
            for ours, theirs in zip(read.place.indices, write.place.indices, strict=True):
                conditions += equal(_prefixed(ours, "r_"), _prefixed(theirs, "w_"))
            conditions += _same_owner(nest, read, write) if seen else []
            left = left.subtract(integer_set(names, conditions, hidden=[f"w_{loop.name}" for loop in write.above]))
    return left


def _prefixed(index: Affine, prefix: str) -> Affine:
    return index.renamed({v: prefix + v for v in index.variables})


def _points(access: _Access, prefix: str) -> list[Condition]:
    conditions: list[Condition] = []
    for loop in access.above:
        conditions += within(prefix + loop.name, _number(loop.extent, loop.name))
        conditions += [_prefixed(limit, prefix) for limit in loop.limits]
    conditions += [_prefixed(guard, prefix) for guard in access.statement.guards]
    for name in access.statement.first:
        conditions += equal(Affine.variable(prefix + name), 0)
    if access.statement.later:
        conditions.append(p.LogicalOr(tuple(p.Comparison(p.Variable(prefix + name), ">", 0) for name in access.statement.later)))
    return conditions


def _earlier(write: _Access, read: _Access) -> list[list[Affine]]:
    """The ways for a write to come before a read, as conditions: in an earlier iteration of a common loop, or before it in the text."""
    common = []
    for one, other in zip(write.above, read.above, strict=False):
        if one is not other:
            break
        common.append(one)
    timed = [loop.name for loop in common if not loop.is_over_grid]
    both = {name: (Affine.variable(f"w_{name}"), Affine.variable(f"r_{name}")) for name in timed}

    def alike(names: Sequence[str]) -> list[Affine]:
        return [condition for name in names for condition in equal(*both[name])]

    cases = [[*alike(timed[:k]), below(both[name][0], f"r_{name}")] for k, name in enumerate(timed)]
    if write.number < read.number:
        cases.append(alike(timed))
    return cases


def _same_owner(nest: Nest, read: _Access, write: _Access) -> list[Affine]:
    """The conditions under which a write's work-item or group owns the copy of a tile that the read sees."""
    tile = nest.tiles.get(read.place.source)
    memory = MEMORIES[tile.memory if tile is not None else "global"]

    def owner(access: _Access, axis: str, prefix: str) -> Affine:
        value = Affine(())
        for loop in access.above:
            # Loops that are fused share an axis: the outer ones count whole runs of the inner ones.
            own = Affine.variable(prefix + loop.name)
            value = value * _number(loop.extent, loop.name) + own if loop.binding == axis else value
        return value

    axes = {loop.binding for access in (read, write) for loop in access.above if memory.is_hidden_from(loop.binding)}
    return [condition for axis in sorted(axes) for condition in equal(owner(read, axis, "r_"), owner(write, axis, "w_"))]
