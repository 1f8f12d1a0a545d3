"""Steps that place tiles: copies of inputs, accumulators of outputs, intermediates that shrink to what is alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from constantdict import constantdict
from loopy.symbolic import SubstitutionMapper, get_dependencies
from pymbolic import var
from pymbolic.mapper.substitutor import make_subst_func

from ...cascades.kernel.typed_map import cast_to
from ...formats.affine import Affine
from ...formats.opencl import MEMORIES, AddressSpace
from ...formats.workload import operand_name
from ...number_types import computed_in
from ..refusals import NestOrderError, ProducerConsumerError, ScopeError, UnknownTensorError
from ..statement import Place, Statement, StatementRole
from ..step import EinsumName, Keyword, Step, TensorName
from ..tree.accumulators import Later, can_wait, started
from ..tree.initial_values import initial_values, limits_of, sets_within
from ..tree.items import item_loops, items_first, own_items, shared_scope
from ..tree.loops import chain_of, find, inside, interval, is_reduction, with_body
from ..tree.nest import For, LoopRef, Nest, NestItem, PlacedStatement, Tile, rebuilt, statements, walk
from ..tree.regions import Region, Touch, check_dense, check_own, check_visible, moved_limits, region


def placed_at(nest: Nest, at: LoopRef | None, memory: AddressSpace, users: Sequence[str], step: Step) -> tuple[Nest, tuple[For, ...]]:
    """The nest, and its loops from the root down to the place of a tile, the last the innermost; none for the root.

    A local tile belongs to the whole group, so no loop over work-items encloses it: such loops move inwards. A private tile belongs to a
    work-item: loops over groups and work-items that stand right there, around all of its users, enclose it.
    """
    if at is None:
        return nest, ()
    loop = find(nest, at, step)
    names = [node.name for node in chain_of(nest, at.einsum, step)]
    depth = names.index(loop.name) + 1
    if MEMORIES[memory].is_shared_by_items:
        nest, depth = shared_scope(nest, at.einsum, depth, step)
    chain = chain_of(nest, at.einsum, step)
    others = [[other.name for other in chain_of(nest, user, step)] for user in users]
    own = MEMORIES[memory].is_hidden_from("local.0")
    while own and depth < len(chain) and MEMORIES[memory].is_hidden_from(chain[depth].binding):
        if any(names[depth : depth + 1] != [chain[depth].name] for names in others):
            break
        depth += 1
    return nest, chain[:depth]


@dataclass(frozen=True)
class Mover:
    """A nest of loops that moves or sets a tile, element by element."""

    nest: Nest
    tile: Tile
    region: Region
    parent: Place
    """An access to the parent array that touches the region."""
    above: tuple[For, ...]
    """The loops around that access."""
    scope: tuple[str, ...]
    items: tuple[For, ...] = ()
    """The loops over work-items below the scope, each of which moves its own part."""
    others: tuple[Touch, ...] = ()
    """The other accesses that touch it, with the loops around them, which may reach further."""

    def statement(
        self, einsum: str, role: StatementRole, value: float | int | None = None, **conditions: tuple[str, ...]
    ) -> tuple[NestItem, ...]:
        """Loops over the tile's stored axes around: fill from the parent, set to a value, or write to the parent."""
        names = [self.nest.fresh(f"{self.tile.name}_{role}_{axis}") for axis in range(len(self.tile.shape))]
        here = Place(self.tile.name, tuple(map(Affine.variable, names)))
        steps = [Affine.of({name: stride}) for name, stride in zip(names, self.region.strides, strict=True)]
        there = Place(self.parent.source, tuple(base + step for base, step in zip(self.region.base, steps, strict=True)))
        limits: list[tuple[Affine, ...]] = []
        is_limited = any(loop.limits for loop in self.above)
        for axis, name in enumerate(names):
            found = self._limits(axis, steps[axis]) if is_limited else ()
            bounds = self._bounds(axis, there.indices[axis], name) if value is None else ()
            ends = any(limit.coefficients.get(name, 0) < 0 for limit in found)
            limits.append((*found, *(bound for bound in bounds if not ends or bound == there.indices[axis])))
        statement = Statement(
            einsum,
            role,
            there if role == "drain" else here,
            _operand() if value is None else value,
            () if value is not None else ((here,) if role == "drain" else (there,)),
            **conditions,  # type: ignore[arg-type]
        )
        body: tuple[NestItem, ...] = (statement,)
        for axis in reversed(self.tile.axes):
            body = (For(names[axis], self.tile.shape[axis], body, limits[axis]),)
        for loop in reversed(self.items):
            body = (with_body(loop, body),)
        return body

    def _limits(self, axis: int, step: Affine) -> tuple[Affine, ...]:
        """What limits the elements along an axis that any of the accesses touches: what limits those of each of them."""
        found: list[tuple[Affine, ...]] = []
        for above, place in ((self.above, self.parent), *self.others):
            inner = place.indices[axis] - place.indices[axis].restricted(self.scope)
            moved = step + (self.region.base[axis].constant - inner.constant)
            found.append(tuple(moved_limits(above, self.scope, Affine(inner.terms), moved)))
        return tuple(limit for limit in found[0] if all(limit in other for other in found[1:]))

    def _bounds(self, axis: int, index: Affine, name: str) -> tuple[Affine, ...]:
        """Guards that keep an index inside the parent, where its loops alone do not."""
        parent = self.nest.tiles.get(self.parent.source)
        size = parent.shape[axis] if parent else self.nest.sources[self.parent.source].shape[axis]
        # What limits the loops further in says where the element is used, and not where it is moved.
        loops = [*(loop for loop in self.above if loop.name in self.scope), For(name, self.tile.shape[axis], ())]
        low, high = interval(index, loops)
        guards: tuple[Affine, ...] = ()
        if low is None or low < 0:
            guards += (index,)
        if size is not None and (high is None or high >= size):
            guards += (Affine((), size - 1) - index,)
        return guards


def _operand() -> object:
    return var(operand_name(0))


def tile_origin(nest: Nest, source: str, base: tuple[Affine, ...]) -> tuple[Affine, ...]:
    """The tensor element that a place in an array or tile is."""
    parent = nest.tiles.get(source)
    return base if parent is None else parent.element(base)


def tile_strides(nest: Nest, source: str, touched: Region) -> tuple[int, ...]:
    """How many of the tensor's elements lie from one element of the region to the next, per axis."""
    parent = nest.tiles.get(source)
    held = parent.strides if parent is not None and parent.strides else (1,) * len(touched.strides)
    return tuple(outer * inner for outer, inner in zip(held, touched.strides, strict=True))


def sum_dtype(nest: Nest, einsum: str, source: str) -> str:
    """The element type of what an Einsum holds before it is stored: its accumulator's, or that of the array or tile it goes to."""
    return nest.accumulators.get(einsum, nest.dtype_of(source))


def space_of(memory: str, step: Step) -> AddressSpace:
    """Where the tiles of a kind of memory lie; :class:`ScopeError` if it is none that a tile can live in."""
    if memory not in MEMORIES or MEMORIES[memory].is_cache:
        known = [kind for kind in MEMORIES if not MEMORIES[kind].is_cache]
        raise ScopeError(f"{step}: {memory!r} is no memory for a tile", hint=f"Use one of {', '.join(known)}.")
    return MEMORIES[memory].address_space


def stored_axes(rank: int, axes: tuple[int, ...], step: Step) -> tuple[int, ...]:
    """The storage order, by default row-major; :class:`UnknownTensorError` if it is no permutation of the axes."""
    if not axes:
        return tuple(range(rank))
    if sorted(axes) != list(range(rank)):
        raise UnknownTensorError(f"{step}: the storage order must name each of the {rank} axes once")
    return axes


def place_around(
    body: tuple[NestItem, ...], scope: Sequence[str], einsums: Sequence[str], before: Sequence[NestItem], after: Sequence[NestItem]
) -> tuple[NestItem, ...]:
    """The tree with nodes put before the first and after the last part of the scope that computes these Einsums."""
    if scope:
        return tuple(
            with_body(node, place_around(node.body, scope[1:], einsums, before, after))
            if isinstance(node, For) and node.name == scope[0] and inside(node, einsums[:1])
            else node
            for node in body
        )
    marks = [i for i, node in enumerate(body) if inside(node, einsums)]
    return (*body[: marks[0]], *before, *body[marks[0] : marks[-1] + 1], *after, *body[marks[-1] + 1 :])


def part_of(body: tuple[NestItem, ...], scope: Sequence[str], einsums: Sequence[str]) -> tuple[NestItem, ...]:
    """What :func:`place_around` puts nodes around."""
    if scope:
        node = next(n for n in body if isinstance(n, For) and n.name == scope[0] and inside(n, einsums[:1]))
        assert isinstance(node, For)
        return part_of(node.body, scope[1:], einsums)
    marks = [i for i, node in enumerate(body) if inside(node, einsums)]
    return body[marks[0] : marks[-1] + 1]


@dataclass(frozen=True)
class CacheRead(Step):
    """Copy the tile of a tensor that Einsums read below a loop into a memory there (TensorIR: cache_read).

    Before: ``for i: ... A[base(i) + inner] ...``. After: ``for i: tile[f] = A[base(i) + f]; ... tile[inner] ...``. Invariant: the tile
    holds every element that is read below the loop before the first of them is read. ``at`` is the loop (none: the kernel's start);
    ``axes`` is the order in which the tile stores the tensor's axes, for example transposed. Each distinct access gets its own tile.
    Where loops over work-items lie below a distributed tile, each work-item holds what it reads itself.
    """

    einsums: tuple[EinsumName, ...]
    tensor: TensorName
    at: LoopRef | None
    memory: Keyword
    axes: tuple[int, ...] = ()

    def apply(self, nest: Nest) -> Nest:
        memory = space_of(self.memory, self)
        nest, scope = placed_at(nest, self.at, memory, self.einsums, self)
        names = tuple(loop.name for loop in scope)
        nest, items = own_items(nest, self.memory, names, lambda s: self._reads(nest, s))
        inner = {*names, *(loop.name for loop in items)}
        groups: dict[tuple[str, tuple[Affine, ...]], list[Touch]] = {}
        for above, statement in nest.points:
            if statement.einsum not in self.einsums or statement.role not in {"update", "map"}:
                continue
            for place in statement.operands:
                if nest.tensor_of(place.source) == self.tensor:
                    if tuple(loop.name for loop in above[: len(names)]) != names:
                        raise NestOrderError(f"{self}: {statement.einsum} does not run under this loop")
                    key = place.source, tuple(Affine(index.restricted(inner).terms) for index in place.indices)
                    groups.setdefault(key, []).append((above, place))
        if not groups:
            raise UnknownTensorError(f"{self}: {', '.join(self.einsums)} read no tensor {self.tensor!r}")
        for (source, _), accesses in groups.items():
            check_visible(memory, accesses, inner, self)
            nest = self._cached(nest, source, accesses, names, items, memory)
        return nest

    def _reads(self, nest: Nest, statement: Statement) -> bool:
        if statement.einsum not in self.einsums or statement.role not in {"update", "map"}:
            return False
        return any(nest.tensor_of(place.source) == self.tensor for place in statement.operands)

    def _cached(
        self, nest: Nest, source: str, accesses: list[Touch], names: tuple[str, ...], items: tuple[For, ...], memory: AddressSpace
    ) -> Nest:
        touched = region(accesses, names, self, items)
        name = nest.fresh_tile(f"{self.tensor}_{memory}")
        axes = stored_axes(len(touched.shape), self.axes, self)
        origin, strides = tile_origin(nest, source, touched.base), tile_strides(nest, source, touched)
        tile = Tile(name, self.tensor, memory, touched.shape, nest.dtype_of(source), origin, axes, strides=strides)
        if any(s.target.source == source for _, s in statements(part_of(nest.body, names, self.einsums))):
            raise ProducerConsumerError(
                f"{self}: {source} is written below this loop, after the tile would have been fetched",
                hint="Place the tile further in, or let the tile of its producer serve.",
            )
        above, place = accesses[0]
        items = item_loops([around for around, _ in accesses], names) if items else ()
        own = (*names, *(loop.name for loop in items))
        others = tuple((items_first(around, names, items), other) for around, other in accesses[1:])
        mover = Mover(nest, tile, touched, place, items_first(above, names, items), own, items, others)
        fetch = mover.statement(self.einsums[0], "fetch")
        places = {p for _, p in accesses}

        def change(node: NestItem) -> tuple[NestItem, ...]:
            if isinstance(node, For) or node.einsum not in self.einsums or node.role not in {"update", "map"}:
                return (node,)
            return (node.changed(operands=tuple(touched.local(p, name) if p in places else p for p in node.operands)),)

        body = rebuilt(nest.body, change, source)
        readers = [e for e in self.einsums if any(s.einsum == e and name in {p.source for p in s.operands} for _, s in statements(body))]
        body = place_around(body, names, readers, fetch, ())
        return nest.replace(body=body, tiles=constantdict({**nest.tiles, name: tile}))


@dataclass(frozen=True)
class CacheWrite(Step):
    """Accumulate the output of an Einsum in a tile below a loop, and write the tile back (TensorIR: cache_write).

    Before: ``for i: init Z; for k: Z[base(i) + inner] += ...``. After: ``for i: tile = init; for k: tile[inner] += ...;
    Z[base(i) + f] = tile[f]``. Where a reduction loop encloses the tile, later iterations reload partial sums instead of setting the
    initial value. The tile has the type in which the Einsum accumulates; what leaves it is converted. Constant factors and masks of a sum
    are applied to what is stored, and factors undone in what is reloaded: ``tile += c * x`` becomes ``tile = Z[...] / c; tile += x;
    Z[...] = c * tile``.
    A distributed tile above loops over work-items is spread over them: ``for k: for j: for l [local.0]: Z[8*j + l] += ...`` becomes
    ``for l [local.0]: tile[f] = init; for k: for j: for l [local.0]: tile[j] += ...; for l [local.0]: Z[8*f + l] = tile[f]``; refused with
    :class:`ScopeError` where a work-item uses what another one writes.
    Invariant: an element is set once, before its first update, and the parent holds every finished sum after the loop.
    """

    effect = "reassociates"

    einsum: EinsumName
    at: LoopRef | None
    memory: Keyword
    axes: tuple[int, ...] = ()

    def apply(self, nest: Nest) -> Nest:
        memory = space_of(self.memory, self)
        nest, scope = placed_at(nest, self.at, memory, (self.einsum,), self)
        names = tuple(loop.name for loop in scope)
        chain = chain_of(nest, self.einsum, self)
        if tuple(loop.name for loop in chain[: len(names)]) != names:
            raise NestOrderError(f"{self}: {self.einsum} does not run under this loop")
        source = self._writing(nest, names)[1].target.source
        nest, items = own_items(nest, self.memory, names, lambda s: source in {p.source for p in (s.target, *s.operands)})
        above, update = self._writing(nest, names)
        place = update.target
        # What reads the sums before the tile is written back reads the tile.
        marked = part_of(nest.body, names, [self.einsum])
        readers = tuple([s for _, s in statements(marked) if s.role in {"update", "map"} and s.einsum != self.einsum])
        reads = [((*scope, *inner), p) for inner, s in statements(marked) if s in readers for p in s.operands if p.source == source]
        initial, reductions, late = self._starts(nest, place.source, chain, scope)
        held = self._held((above, place), initial, (*scope, *items))
        accesses = [held, (above, place), *reads]
        own = (*names, *(loop.name for loop in items))
        check_own([(above, place)], reads, names, items, self)
        check_visible(memory, accesses, own, self)
        touched = region(accesses, names, self, items)
        check_dense([held], own, self, touched)
        if reads and touched.shape != region([held, (above, place)], names, self, items).shape:
            raise ProducerConsumerError(
                f"{self}: more of {place} is read below this loop than is written there", hint="Place the tile further out."
            )
        name = nest.fresh_tile(f"{nest.tensor_of(place.source)}_{memory}")
        axes = stored_axes(len(touched.shape), self.axes, self)
        origin = tile_origin(nest, place.source, touched.base)
        dtype, strides = sum_dtype(nest, self.einsum, place.source), tile_strides(nest, place.source, touched)
        tile = Tile(name, nest.tensor_of(place.source), memory, touched.shape, dtype, origin, axes, strides=strides)
        inits = [s for _, s in initial]
        own_loops = item_loops([held[0]], names) if items else ()
        mover = Mover(nest, tile, touched, held[1], items_first(held[0], names, own_loops), own, own_loops)
        drain = mover.statement(self.einsum, "drain")
        keeps = late or self._leaves_partial_results(mover, drain)
        keeps = keeps or not all(self._is_covered(mover, drain, scope, p, reductions) for p in initial)
        init = inits[0] if inits and not keeps else None
        later = self._later(nest, update, tile, inits) if not reads else None

        def change(node: NestItem) -> tuple[NestItem, ...]:
            if isinstance(node, For) or (node.einsum != self.einsum and node not in readers):
                return (node,)
            if node in readers:
                return (_reading(nest, node, place.source, tile, touched),)
            if node in inits:
                return () if init is not None else (node,)
            if node.role in {"update", "map", "combine"} and node.target.source == place.source:
                value = later.of(node.value).inner if later is not None and node.role == "update" else node.value
                return (node.changed(target=touched.local(node.target, name), value=value),)
            return (node,)

        body = rebuilt(nest.body, change, place.source)
        before = self._loaded(mover, init, update, reductions, later)
        after = drain if later is None else rebuilt(drain, lambda node: (_finished(mover.nest, node, update, later),))
        body = place_around(body, names, [self.einsum], before, after)
        return nest.replace(body=body, tiles=constantdict({**nest.tiles, name: tile}))

    def _starts(
        self, nest: Nest, source: str, chain: Sequence[For], scope: Sequence[For]
    ) -> tuple[list[PlacedStatement], tuple[str, ...], bool]:
        """What sets the parent's initial values, the reduction loops around that carry sums on, and whether the values stay set there."""
        initial = initial_values(nest, self.einsum, source)
        # Partial results are set anew in each iteration of the loops around their place.
        anew = {loop.name for around, s in initial for loop in around if loop.name not in s.first}
        reductions = tuple(loop.name for loop in scope if is_reduction(nest, loop, self.einsum) and loop.name not in anew)
        # A reduction that does not start at 0 everywhere leaves no first iteration to set values in.
        late = any(limit.coefficients.get(r, 0) > 0 for r in reductions for loop in chain for limit in loop.limits)
        return initial, reductions, late

    def _held(self, written: Touch, initial: Sequence[PlacedStatement], around: tuple[For, ...]) -> Touch:
        """The access whose elements the tile has: that of the initial values, if they go further than what the sum's points reach."""
        if len(initial) != 1:
            return written
        ((above, init),) = initial
        further = limits_of(written[0]) - limits_of(above)
        return (above, init.target) if further and {loop.name for loop in around} <= {loop.name for loop in above} else written

    def _is_covered(
        self, mover: Mover, drain: tuple[NestItem, ...], scope: Sequence[For], initial: PlacedStatement, reductions: tuple[str, ...]
    ) -> bool:
        """Whether the tile, as it is written back the first time, brings an initial value to all elements that have one."""
        above, init = initial
        if limits_of(mover.above) <= limits_of(above):
            return True
        # Elements of a tile are set anew in each iteration of the loops around it.
        common = [loop.name for loop in scope if loop in above and loop.name not in reductions]
        stored = statements(drain, tuple(scope))
        return sets_within((above, init), [(around, s.changed(first=reductions)) for around, s in stored], common)

    def _leaves_partial_results(self, mover: Mover, drain: tuple[NestItem, ...]) -> bool:
        """Whether the tile is written back to some partial results only: the others, beyond a loop's end, are combined as well."""
        source = mover.parent.source
        partial = any(s.role == "combine" and source in {p.source for p in s.operands} for _, s in statements(mover.nest.body))
        return partial and any(isinstance(n, For) and n.limits for n in walk(drain))

    def _loaded(
        self, mover: Mover, init: Statement | None, update: Statement, reductions: tuple[str, ...], later: Later | None
    ) -> tuple[NestItem, ...]:
        """What sets the tile or loads it before it is computed."""
        before: tuple[NestItem, ...] = ()
        if init is not None:
            assert update.reduce is not None
            start = started(init.value, update.reduce, mover.nest.dtype_of(mover.parent.source), mover.tile.dtype)
            before += mover.statement(self.einsum, "init", cast(float, start), first=reductions)
            before += self._reloaded(mover, update, later, reductions) if reductions else ()
        elif update.reduce is not None:
            before += self._reloaded(mover, update, later)
        return before

    def _reloaded(self, mover: Mover, update: Statement, later: Later | None, after: tuple[str, ...] = ()) -> tuple[NestItem, ...]:
        """What goes on from stored sums: what was done to them when they were stored is undone."""
        nodes = mover.statement(self.einsum, "reload", later=after)
        if later is None:
            return nodes
        done = later.of(update.value)

        def undone(node: NestItem) -> tuple[NestItem, ...]:
            return (node if isinstance(node, For) else node.changed(value=done.goes_on_from(node.value)),)

        return rebuilt(nodes, undone)

    def _later(self, nest: Nest, update: Statement, tile: Tile, inits: Sequence[Statement]) -> Later | None:
        """What of a sum's values can wait until it is stored; masks are applied each time: what they make 0 was 0 from the start."""
        waits = update.role == "update" and can_wait(update.reduce, nest.dtype_of(update.target.source), tile.dtype)
        started_at_0 = len(inits) == 1 and np.isscalar(inits[0].value) and inits[0].value == 0
        return Later(_axes_of(nest, update)) if waits and started_at_0 else None

    def _writing(self, nest: Nest, scope: tuple[str, ...]) -> tuple[tuple[For, ...], Statement]:
        """What writes the Einsum's sums below this scope, or combines its partial results there, with the loops around it."""
        found = [
            (above, s)
            for above, s in nest.points
            if s.einsum == self.einsum and s.role in {"update", "map", "combine"} and tuple(n.name for n in above[: len(scope)]) == scope
        ]
        # Partial results of partial results are combined first.
        return next((pair for pair in reversed(found) if pair[1].role == "combine"), found[0])


def _axes_of(nest: Nest, update: Statement) -> dict[str, int]:
    """The rank variables that count along an axis of what a statement writes, and so do not change during a sum."""
    element = tile_origin(nest, update.target.source, update.target.indices)
    return {name: element.index(value) for name, value in update.values.items() if value in element}


def _finished(nest: Nest, node: NestItem, update: Statement, later: Later) -> NestItem:
    """A statement that stores sums, doing to them what was not done to each value."""
    if isinstance(node, For):
        return node
    element = tile_origin(nest, node.target.source, node.target.indices)
    value = later.of(update.value).of(node.value)
    values = {name: element[axis] for name, axis in later.fixed.items() if name in get_dependencies(value)}
    return node.changed(value=value, values=constantdict(values))


def _reading(nest: Nest, reader: Statement, source: str, tile: Tile, touched: Region) -> Statement:
    """A statement that reads sums from a tile before they are stored, as the values that will be stored."""
    held = {operand_name(k): p for k, p in enumerate(reader.operands) if p.source == source}
    operands = tuple(touched.local(p, tile.name) if p.source == source else p for p in reader.operands)
    target = touched.local(reader.target, tile.name) if reader.target.source == source else reader.target
    stored, value = nest.dtype_of(source), reader.value
    if computed_in(stored) != tile.dtype:
        value = SubstitutionMapper(make_subst_func({name: cast_to(computed_in(stored), var(name)) for name in held}))(value)
    return reader.changed(target=target, value=value, operands=operands)


@dataclass(frozen=True)
class ComputeAt(Step):
    """Shrink an intermediate to the tile that is alive below a loop, in that memory (TVM: compute_at with storage folding).

    Before: ``T`` whole in global memory; ``for i: T[base(i) + inner] = ...; ... T[base(i) + inner'] ...``. After: the same with
    ``tile[inner]`` and ``tile[inner']``; ``T`` is gone. Invariant: what is read in an iteration of the loop was written in it, in private
    memory by the same work-item.
    """

    tensor: TensorName
    at: LoopRef | None
    memory: Keyword
    axes: tuple[int, ...] = ()

    def apply(self, nest: Nest) -> Nest:
        memory = space_of(self.memory, self)
        source = next((s for s in nest.sources.values() if s.tensor == self.tensor and not s.is_rule), None)
        if source is None or source.name in nest.outputs:
            raise UnknownTensorError(f"{self}: {self.tensor!r} is no intermediate that can shrink")
        users = [s.einsum for _, s in nest.points if source.name in {p.source for p in (s.target, *s.operands)}]
        nest, scope = placed_at(nest, self.at, memory, users, self)
        chain = tuple(loop.name for loop in scope)
        nest, items = own_items(nest, self.memory, chain, lambda s: source.name in {p.source for p in (s.target, *s.operands)})
        writes = [(above, s.target) for above, s in nest.points if s.target.source == source.name]
        reads = [(above, p) for above, s in nest.points for p in s.operands if p.source == source.name]
        accesses = [*writes, *reads]
        for above, place in accesses:
            if tuple(loop.name for loop in above[: len(chain)]) != chain:
                raise ProducerConsumerError(f"{self}: {place} is used outside this loop", hint="Place it further out.")
        # One copy of a global tile serves all groups, so each group and work-item keeps an index of its own.
        still = [loop.name for loop in scope if MEMORIES[memory].hidden_from or not loop.is_over_grid]
        check_own(writes, reads, chain, items, self)
        check_visible(memory, accesses, [*chain, *(loop.name for loop in items)], self)
        touched = region(accesses, still, self, items)
        name = nest.fresh_tile(f"{self.tensor}_{memory}")
        axes = stored_axes(len(touched.shape), self.axes, self)
        tile = Tile(name, self.tensor, memory, touched.shape, source.dtype, touched.base, axes, strides=touched.strides)

        def change(node: NestItem) -> tuple[NestItem, ...]:
            if isinstance(node, For):
                return (node,)
            target = touched.local(node.target, name) if node.target.source == source.name else node.target
            operands = tuple(touched.local(p, name) if p.source == source.name else p for p in node.operands)
            return (node.changed(target=target, operands=operands),)

        sources = constantdict({key: s for key, s in nest.sources.items() if key != source.name})
        return nest.replace(body=rebuilt(nest.body, change, source.name), tiles=constantdict({**nest.tiles, name: tile}), sources=sources)
