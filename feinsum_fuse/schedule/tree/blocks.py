"""TensorIR's view of a kernel: each Einsum as a block with iterators, bindings and regions, and whether it is a valid program.

Source: Feng et al., TensorIR (ASPLOS 2023), sections 3.1 (blocks) and 3.3 (validation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import islpy as isl

from ...formats.affine import Affine
from ...formats.opencl import MEMORIES
from ..errors import IteratorBindingError, NormalFormError, ProducerConsumerError, ReductionBindingError, ScopeError
from ..kernel.tags import NormalFormTag
from ..steps.explicate import Explicate
from .loops import is_reduction
from .nest import For, Nest, Place, Statement, pretty_statement, statements

if TYPE_CHECKING:
    import loopy as lp

Kind = Literal["data-parallel", "reduction"]


@dataclass(frozen=True)
class BlockLoop:
    """A loop around a block: ``constraints`` are ISL conditions, ``binding`` is ``loop`` or what runs its iterations at once."""

    name: str
    extent: int
    binding: str = "loop"
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockIterator:
    """An iterator of a block: it takes each value of ``[0, extent)``, as a quasi-affine expression of the loops says."""

    name: str
    extent: int
    kind: Kind
    binding: str

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
    conditions: tuple[str, ...] = ()
    """What points of the iterators' box the Einsum has, as ISL conditions over iterators."""

    def validate(self) -> None:
        """Raise :class:`IteratorBindingError` unless the bindings are one-to-one onto the iterators' domain, and
        :class:`ReductionBindingError` if a loop of a reduction runs in parallel.
        """
        texts = [f"0 <= {loop.name} < {loop.extent}" for loop in self.loops] + [c for loop in self.loops for c in loop.constraints]
        shown = ", ".join(f"{iterator.name} = {iterator.binding}" for iterator in self.iterators)
        names = ", ".join(loop.name for loop in self.loops)
        values = ", ".join(iterator.binding for iterator in self.iterators)
        bindings = isl.Map(f"{{ [{names}] -> [{values}] : {' and '.join(texts) or 'true'} }}")
        box = [f"0 <= {iterator.name} < {iterator.extent}" for iterator in self.iterators]
        domain = isl.Set(f"{{ [{', '.join(i.name for i in self.iterators)}] : {' and '.join([*box, *self.conditions]) or 'true'} }}")
        hint = "Bind each iterator to loops of its own, which together take each of its values once."
        if not domain.subtract(bindings.range()).is_empty():
            raise IteratorBindingError(f"block {self.name}: the bindings {shown} do not reach all of the iterators' domain", hint=hint)
        if not bindings.range().is_subset(domain):
            raise IteratorBindingError(f"block {self.name}: the bindings {shown} leave the iterators' domain", hint=hint)
        if not bindings.is_injective():
            raise IteratorBindingError(f"block {self.name}: the bindings {shown} take a point more than once", hint=hint)
        for iterator in self.iterators:
            used = isl.PwAff(f"{{ [{names}] -> [{iterator.binding}] }}")
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
            lines.append(f"  for {loop.name} in [0, {loop.extent}){suffix}" + "".join(f", {c}" for c in loop.constraints))
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
    tags = [tag for tag in t_unit.default_entrypoint.tags if isinstance(tag, NormalFormTag)]
    nest = tags[0].nest if tags else Explicate().read(t_unit)
    found = [_block(nest, above, s) for above, s in statements(nest.body) if s.role in {"update", "map"}]
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
        kind: Kind = "reduction" if summed else "data-parallel"
        iterators.append(BlockIterator(name, _number(space[name].extent, name), kind, str(value.renamed(names))))
    init = next((pretty_statement(s) for _, s in statements(nest.body) if s.einsum == statement.einsum and s.role == "init"), None)
    loops = tuple(
        BlockLoop(
            names[loop.name],
            _number(loop.extent, loop.name),
            loop.binding,
            tuple(f"{limit.renamed(names)} >= 0" for limit in loop.limits),
        )
        for loop in above
    )
    guards = tuple(f"{guard.renamed(names)} >= 0" for guard in statement.guards)
    if loops and guards:
        last = loops[-1]
        loops = (*loops[:-1], BlockLoop(last.name, last.extent, last.binding, last.constraints + guards))
    conditions = tuple(f"{limit} >= 0" for loop in space.values() for limit in loop.limits)
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
    everything = [(n, above, s) for n, (above, s) in enumerate(statements(nest.body))]
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
    left = isl.Set(f"{{ [{', '.join(f'r_{loop.name}' for loop in read.above)}] : {' and '.join(_points(read, 'r_')) or 'true'} }}")
    for write in writes:
        for earlier in _earlier(write, read):
            texts = [*_points(read, "r_"), *_points(write, "w_"), *earlier]
            for ours, theirs in zip(read.place.indices, write.place.indices, strict=True):
                texts.append(f"{_prefixed(ours, 'r_')} = {_prefixed(theirs, 'w_')}")
            texts += _same_owner(nest, read, write) if seen else []
            inner = ", ".join(f"w_{loop.name}" for loop in write.above)
            condition = " and ".join(texts) or "true"
            exists = f"exists {inner}: {condition}" if inner else condition
            left = left.subtract(isl.Set(f"{{ [{', '.join(f'r_{loop.name}' for loop in read.above)}] : {exists} }}"))
    return left


def _prefixed(index: Affine, prefix: str) -> str:
    return str(index.renamed({v: prefix + v for v in index.variables}))


def _points(access: _Access, prefix: str) -> list[str]:
    texts = [f"0 <= {prefix}{loop.name} < {_number(loop.extent, loop.name)}" for loop in access.above]
    texts += [f"{_prefixed(limit, prefix)} >= 0" for loop in access.above for limit in loop.limits]
    texts += [f"{_prefixed(guard, prefix)} >= 0" for guard in access.statement.guards]
    texts += [f"{prefix}{name} = 0" for name in access.statement.first]
    if access.statement.later:
        texts.append("(" + " or ".join(f"{prefix}{name} > 0" for name in access.statement.later) + ")")
    return texts


def _earlier(write: _Access, read: _Access) -> list[list[str]]:
    """The ways for a write to come before a read, as conditions: in an earlier iteration of a common loop, or before it in the text."""
    common = []
    for one, other in zip(write.above, read.above, strict=False):
        if one is not other:
            break
        common.append(one)
    timed = [loop.name for loop in common if not loop.binding.startswith(("group.", "local."))]
    cases = [[*(f"w_{n} = r_{n}" for n in timed[:k]), f"w_{timed[k]} < r_{timed[k]}"] for k in range(len(timed))]
    if write.number < read.number:
        cases.append([f"w_{n} = r_{n}" for n in timed])
    return cases


def _same_owner(nest: Nest, read: _Access, write: _Access) -> list[str]:
    """The conditions under which a write's work-item or group owns the copy of a tile that the read sees."""
    tile = nest.tiles.get(read.place.source)
    memory = MEMORIES[tile.memory if tile is not None else "global"]

    def owner(access: _Access, axis: str, prefix: str) -> str:
        value = "0"
        for loop in access.above:
            # Loops that are fused share an axis: the outer ones count whole runs of the inner ones.
            value = f"{_number(loop.extent, loop.name)} * ({value}) + {prefix}{loop.name}" if loop.binding == axis else value
        return value

    axes = {loop.binding for access in (read, write) for loop in access.above if memory.is_hidden_from(loop.binding)}
    return [f"{owner(read, axis, 'r_')} = {owner(write, axis, 'w_')}" for axis in sorted(axes)]
