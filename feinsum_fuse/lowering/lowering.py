"""From a LoopTree to a schedule, with a warning of what a mapping hardly means: copies under a function's name, loops in space that run one
after another.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, pairwise

from ..arguments import HOOK, NOTHING, checked, instance
from ..cascades.cascade import Cascade
from ..cascades.rewriting.online import Online
from ..errors import LoweringError, SpecWarning
from ..formats.language.functions import FUNCTIONS
from ..formats.mapping import Position, Spatial, Storage, Temporal
from ..formats.opencl import FANOUTS, MEMORIES, FanoutKind, level_of, nearest_space
from ..formats.spec import Spec, expect_spec
from ..formats.workload import Workload
from ..progress import Hook, Stage
from ..schedule.refusals import ScopeError
from ..schedule.sameness import KEPT_WORKLOADS, Same
from ..schedule.schedule import Schedule
from ..schedule.step import Step
from ..schedule.steps.explicate import Explicate
from ..schedule.steps.factor_steps import RFactor
from ..schedule.steps.inline_steps import Inline
from ..schedule.steps.loop_steps import Bind, Fuse, Reorder, ShareLoop, Unroll
from ..schedule.steps.rolling_steps import RollingUpdate
from ..schedule.steps.tile_steps import CacheRead, CacheWrite, ComputeAt
from ..schedule.steps.vector_steps import Vectorize
from ..schedule.target import ANY_DEVICE, DeviceLimits, Target
from ..schedule.tree.nest import For, LoopRef, Nest, NestItem, statements
from ..schedule.tree.sizes import check_limits
from .binding import Bindings, followed
from .branch import EinsumBranch, accesses_of, aliased, check_order, parts_of, paths_of, stored_axes
from .grid_axes import waves
from .implied_steps import (
    factored,
    in_pieces,
    rounded_sums,
    rounded_up,
    side_by_side,
    skipped,
    tensorized,
    unrolled,
    with_accumulators,
)
from .lines_ahead import asked_ahead
from .starting_point import Unscheduled, unscheduled
from .streamed_stores import streamed

CUTS = 1024
"""Einsums whose loops were cut that are kept: two mappings of a search differ in a few decisions, and cut most Einsums alike."""


@checked(LoweringError, limits=instance("a DeviceLimits", DeviceLimits) | NOTHING, target=instance("a Target", Target), progress=HOOK)
def lower(
    spec: Spec,
    limits: DeviceLimits | None = None,
    *,
    target: Target = ANY_DEVICE,
    outputs: Iterable[str] | None = None,
    progress: Hook | None = None,
) -> Schedule:
    """The schedule that a mapping asks for, on a target: by default on the neutral one, which is no device.

    ``outputs`` are the tensors that somebody reads afterwards: by default those that no Einsum consumes.
    ``limits`` are checked before anything is built, in place of the target's if they are given. ``progress`` is told of each step.
    Raises :class:`LoweringError` for what cannot be lowered, and the :class:`ScheduleError` of the step that is not legal.
    """
    if expect_spec(spec).mapping is None:
        raise LoweringError("there is no mapping to lower", hint="Add a mapping, or take ff.default_mapping(cascade).")
    warn_of_plain_copies(spec)
    warn_of_unbound_loops(spec)
    with Stage("lowering", progress) as stage:
        return Lowering(spec, outputs).schedule(target if limits is None else dataclasses.replace(target, limits=limits), stage)


class _Steps:
    """The steps so far, and the nest that they lead to."""

    def __init__(self, first: Explicate, start: Unscheduled, stage: Stage) -> None:
        self.steps: list[Step] = [first]
        self.stage = stage
        self.nest = start.nest(first)

    def add(self, steps: Sequence[Step]) -> list[Step]:
        """Apply further steps; none is left then."""
        is_heard = self.stage.is_heard
        for step in steps:
            self.nest = step.apply(self.nest)
            self.steps.append(step)
            if is_heard:
                self.stage.advance()
        return []

    def take(self, steps: Iterable[tuple[Step, Nest]]) -> None:
        """Steps that were applied already, each with the nest that it leads to."""
        for step, nest in steps:
            self.nest = nest
            self.steps.append(step)
            self.stage.advance()

    def add_apart(self, steps: Sequence[tuple[str, Step]]) -> None:
        """Apply steps on Einsums that share no loop yet, each to its Einsum's own nodes: a step takes as long as its nest is large."""
        whole = self.nest
        own = _own_nodes(Same(whole))
        for einsum, step in steps:
            own[einsum] = _cut(Same(whole), own[einsum], step)
        body = tuple([node for nodes in own.values() for node in nodes.value])
        names = [loop.name for node in body if isinstance(node, For) for loop in node.loops]
        if len(set(names)) < len(names):
            # A part of a loop of ``E`` is called as a loop of ``E_1``: names are chosen in sight of all others.
            self.add([step for _, step in steps])
            return
        self.nest = whole.replace(body=body)
        self.steps += [step for _, step in steps]
        self.stage.advance(len(steps))


def _einsum_of(node: NestItem) -> str:
    """The one Einsum that a node is of, before loops are shared."""
    (einsum,) = {statement.einsum for _, statement in statements((node,))}
    return einsum


def _own_nodes(whole: Same[Nest]) -> dict[str, Same[tuple[NestItem, ...]]]:
    """Einsum -> its own nodes, in the order of the text."""
    return dict(_nodes(whole))


@lru_cache(KEPT_WORKLOADS)
def _nodes(whole: Same[Nest]) -> Mapping[str, Same[tuple[NestItem, ...]]]:
    found: dict[str, list[NestItem]] = {}
    for node in whole.value.body:
        found.setdefault(_einsum_of(node), []).append(node)
    return {einsum: Same(tuple(nodes)) for einsum, nodes in found.items()}


@lru_cache(CUTS)
def _cut(whole: Same[Nest], own: Same[tuple[NestItem, ...]], step: Step) -> Same[tuple[NestItem, ...]]:
    """An Einsum's own nodes after a further step on it alone; one object for all mappings whose first steps are the same."""
    return Same(step.apply(whole.value.replace(body=own.value)).body)


class Lowering:
    """One mapping on its way to a schedule."""

    def __init__(self, spec: Spec, outputs: Iterable[str] | None = None) -> None:
        assert spec.mapping is not None
        self.start = unscheduled(spec, None if outputs is None else tuple(outputs))
        self.cascade: Cascade = self.start.cascade
        self.bindings = Bindings(spec)
        paths = paths_of(spec.mapping, self.cascade)
        missing = [e.name for e in self.cascade.einsums if e.name not in paths]
        if missing:
            raise LoweringError(f"the mapping has no Compute for {', '.join(missing)}")
        accesses = {name: accesses_of(self.cascade.einsum(name), spec.workload) for name in paths}
        self.branches = [EinsumBranch.of(self.cascade, name, paths[name], accesses[name]) for name in paths]
        check_order(self.branches)
        self.order = tuple(paths)
        self.branches, self.copies = aliased(self.branches, self.cascade)
        self.online = tuple(r.maximum(self.cascade) for r in self.cascade.rewritings if isinstance(r, Online))

    def schedule(self, target: Target, stage: Stage) -> Schedule:
        """All steps, in the order: cut, order, skip what is masked, share, bind, place, unroll."""
        made = _Steps(Explicate(self.order), self.start, stage)
        uncut = made.nest
        made.add([*map(Inline, self.copies)])
        made.add_apart([*self.ordered()])
        made.take(skipped(made.nest, uncut, self.branches, self.bindings))
        steps = [*self.shared()]
        added: list[LoopRef] = []
        if self.rolled:
            steps = made.add(steps)
            added = self._added(made.nest, apart=True)
        steps += [step for given in self.bound() for step in followed(given, added)]
        if sums := rounded_sums(self.cascade):
            steps = made.add(steps)
            steps += with_accumulators(self.placed(), made.nest, sums, target)
        else:
            steps += self.placed()
        made.add(steps)
        made.add([*self.vectorized(made.nest)])
        made.add([*in_pieces(made.nest, target)])
        made.add([*rounded_up(made.nest, target)])
        made.add([*unrolled(made.nest)])
        made.add([*tensorized(made.nest, target)])
        made.add([*asked_ahead(made.nest, target)])
        made.add([*streamed(made.nest, target)])
        check_limits(made.nest, target.limits)
        return Schedule.leading_to(made.nest, self.start.kernel, tuple(made.steps))

    def ordered(self) -> Iterator[tuple[str, Step]]:
        """The steps that cut each Einsum's loops and put them in their order, with the Einsum."""
        for branch in self.branches:
            yield from ((branch.einsum.name, step) for step in branch.splits)
            if branch.order:
                yield branch.einsum.name, Reorder(branch.einsum.name, branch.order)

    @cached_property
    def _by_loop(self) -> dict[Position, list[tuple[EinsumBranch, LoopRef | None]]]:
        """Loop node -> the branches below it with their part of a rank variable, outermost loops first."""
        found: dict[Position, list[tuple[EinsumBranch, LoopRef | None]]] = {}
        for branch in self.branches:
            for placed in branch.path:
                if isinstance(placed.node, Temporal):
                    found.setdefault(placed.position, []).append((branch, branch.refs.get(placed.position)))
        return dict(sorted(found.items()))

    def shared(self) -> Iterator[Step]:
        """One step for each loop above several Einsums."""
        for members in self._by_loop.values():
            refs = [ref for _, ref in members if ref is not None]
            lacking = [i for i, (_, ref) in enumerate(members) if ref is None]
            having = [i for i, (_, ref) in enumerate(members) if ref is not None]
            if lacking and having and max(lacking) > min(having):
                branch = members[max(lacking)][0]
                raise LoweringError(
                    f"Einsum {branch.einsum.name} stands under a loop over a rank variable that it lacks, after an Einsum that has it",
                    hint="It would run again in every iteration. Move its branch out of the loop.",
                )
            if len(refs) > 1:
                maximum = self._rolling(refs)
                yield ShareLoop(tuple(refs)) if maximum is None else RollingUpdate(tuple(refs), maximum)

    @cached_property
    def rolled(self) -> frozenset[str]:
        """The maxima that are still being taken over a loop which their readers share."""
        return frozenset(step.maximum for step in self.shared() if isinstance(step, RollingUpdate))

    def _rolling(self, refs: list[LoopRef]) -> str | None:
        """The maximum that is still being taken over a loop which Einsums that read it share, if the cascade allows one pass."""
        for maximum in self.online:
            ref = next((r for r in refs if r.einsum == maximum), None)
            einsum = self.cascade.einsum(maximum)
            readers = {e.name for e in self.cascade.einsums if einsum.output.tensor in {a.tensor for a in e.operands}}
            if ref is not None and ref.variable in einsum.reduction_variables and readers & {r.einsum for r in refs}:
                return maximum
        return None

    def bound(self) -> Iterator[Step]:
        """One step for each Spatial loop that is a device axis, and for each loop in time above one that is bound to groups.

        A device runs more groups than it has units, one after another: a loop in time over independent iterations that stands above the
        groups becomes more groups, on an axis of its own.
        """
        nodes = {placed.position: placed.node for b in self.branches for placed in b.path}
        axes: dict[str, set[str]] = {}
        shared = {position for position, members in self._by_loop.items() if sum(ref is not None for _, ref in members) > 1}
        later: list[Step] = []
        fused: set[Position] = set()
        parted: set[Position] = set()
        for position, members in self._by_loop.items():
            node = nodes[position]
            refs = [ref for _, ref in members if ref is not None]
            if not isinstance(node, Spatial) or not refs or position in fused:
                continue
            kind = self.bindings.fanout(node)
            together = self._on_one_axis(position, kind)
            steps: list[Step] = [Fuse(outer, inner) for (_, outer), (_, inner) in reversed(list(pairwise(together)))]
            fused |= {place for place, _ in together}
            if len(refs) == 1 and level_of(kind) in {"local", "vector"}:
                own = next(branch for branch, ref in members if ref is not None)
                for step in factored(own, position, self.bindings, shared):
                    steps += [step, *(side_by_side(own, step) if kind == "vector" else ())]
            if kind == "unroll":
                steps.append(Unroll(refs[0]))
            elif FANOUTS[kind].is_axis:
                for branch, _ in members:
                    axes.setdefault(branch.einsum.name, set()).add(kind)
                steps.append(Bind(refs[0], kind))
            # Below a loop that has partial results nothing is bound before them: the sum's initial value would be set inside that loop.
            factors = {position} if any(isinstance(step, RFactor) for step in steps) else set()
            parted |= factors
            if factors or any(placed.position in parted for branch, _ in members for placed in branch.path):
                later += steps
            else:
                yield from steps
        yield from waves(self._by_loop, nodes, axes, self._has_groups_below)
        # Partial results are placed once it is known which loops around them run in parallel.
        yield from later

    def _on_one_axis(self, position: Position, kind: FanoutKind) -> list[tuple[Position, LoopRef]]:
        """The Spatial loops, this one and those straight below it in all of its branches, that are bound to one axis of the device."""
        by_loop = self._by_loop
        found: list[tuple[Position, LoopRef]] = []
        while True:
            members = [(branch, ref) for branch, ref in by_loop[position] if ref is not None]
            found.append((position, members[0][1]))
            if any(ref.variable in branch.einsum.reduction_variables for branch, ref in members):
                return found[:-1] or found
            following = {branch.loop_below(position) for branch, _ in members}
            (placed,) = following if len(following) == 1 else (None,)
            if placed is None or not isinstance(placed.node, Spatial) or not FANOUTS[kind].is_axis:
                return found
            below = [branch for branch, ref in by_loop[placed.position] if ref is not None]
            if self.bindings.fanout(placed.node) != kind or below != [branch for branch, _ in members]:
                return found
            position = placed.position

    def _has_groups_below(self, branch: EinsumBranch, position: Position) -> bool:
        start = next(i for i, placed in enumerate(branch.path) if placed.position == position)
        below = [placed.node for placed in branch.path[start + 1 :]]
        return any(isinstance(node, Spatial) and self.bindings.level(node) == "group" for node in below)

    def vectorized(self, nest: Nest) -> Iterator[Step]:
        """One step for all loops whose iterations are lanes of vectors; statements that steps have added follow their Einsum."""
        lanes = list(self._lanes())
        parts = {(ref.variable, ref.path) for ref in lanes}
        if lanes:
            yield Vectorize((*lanes, *(ref for ref in self._added(nest) if (ref.variable, ref.path) in parts)))

    def _added(self, nest: Nest, *, apart: bool = False) -> list[LoopRef]:
        """The loops of statements that steps have added; ``apart``: only those that no Einsum of the mapping runs under."""
        names = {branch.einsum.name for branch in self.branches}
        loops = [loop for loop in nest.loops.values() if not apart or names.isdisjoint(ref.einsum for ref in loop.refs)]
        return [ref for loop in loops for ref in loop.refs if ref.einsum not in names]

    def _lanes(self) -> Iterator[LoopRef]:
        for branch in self.branches:
            for placed in branch.path:
                if isinstance(placed.node, Spatial) and placed.position in branch.refs and self.bindings.fanout(placed.node) == "vector":
                    yield branch.refs[placed.position]

    def placed(self) -> Iterator[Step]:
        """The steps that realise Storage nodes, outermost first."""
        nodes: dict[Position, tuple[Storage, list[EinsumBranch]]] = {}
        for branch in self.branches:
            for placed in branch.path:
                if isinstance(placed.node, Storage):
                    nodes.setdefault(placed.position, (placed.node, []))[1].append(branch)
        for position, (node, below) in sorted(nodes.items()):
            for tensor in (*node.tensors, *self._parts_of(node)):
                users = [b for b in below if b.touches(tensor)]
                if users:
                    yield from self._storage(position, node, tensor, users)

    def _parts_of(self, node: Storage) -> Iterator[str]:
        """What a softmax held here expands to, where the mapping does not say otherwise."""
        for tensor in node.tensors:
            yield from (part for part in parts_of(self.cascade, tensor) if part not in self._held)

    @cached_property
    def _held(self) -> frozenset[str]:
        """The tensors that the mapping holds somewhere."""
        return frozenset(t for b in self.branches for placed in b.path if isinstance(placed.node, Storage) for t in placed.node.tensors)

    def _storage(self, position: Position, node: Storage, tensor: str, users: list[EinsumBranch]) -> Iterator[Step]:
        kind = self.bindings.memory(node.component)
        memory = MEMORIES[kind]
        index = {b.einsum.name: next(i for i, placed in enumerate(b.path) if placed.position == position) for b in users}
        backing = all((b.storages(tensor) or [index[b.einsum.name]])[0] == index[b.einsum.name] for b in users)
        spread = {self.bindings.fanout(n.node) for b in users for n in b.path[index[b.einsum.name] :] if isinstance(n.node, Spatial)}
        hidden = [f for f in sorted(spread) if memory.is_hidden_from(f)]
        if hidden:
            alike = [k for k, m in MEMORIES.items() if m.address_space == memory.address_space and not m.is_hidden_from(hidden[0])]
            other = f", or bind {node.component} as {alike[0]}" if alike else ""
            raise ScopeError(
                f"{tensor} in {node.component} ({kind} memory) would have to be seen across {hidden[0]}, which a Spatial below binds",
                hint=f"Move the Storage below that Spatial, or hold the tensor in a memory further out{other}.",
            )
        if backing and tensor in self.cascade.intermediates:
            branch = users[0]
            at = branch.scope(index[branch.einsum.name])
            if memory.holds_copies or memory.is_cache or at is not None:
                # What a cache keeps for one group is an array of that group's; if groups share it, it is in global memory.
                kind = nearest_space({*spread, "local.0"}) if memory.is_cache else kind
                axes = stored_axes(tensor, users, self.bindings) if MEMORIES[kind].is_shared_by_items else ()
                yield ComputeAt(tensor, at, kind, axes)
                for maximum in sorted(self.rolled):
                    if tensor == self.cascade.einsum(maximum).output.tensor:
                        yield ComputeAt(f"{maximum}.scale", at, kind, axes)
            return
        if not memory.holds_copies:
            return
        axes = stored_axes(tensor, users, self.bindings) if memory.is_shared_by_items else ()
        readers: dict[LoopRef | None, list[str]] = {}
        places: dict[LoopRef | None, LoopRef | None] = {}
        served: dict[LoopRef | None, EinsumBranch] = {}
        for branch in users:
            start = index[branch.einsum.name]
            first = branch.storages(tensor)[0] == start
            at = branch.scope(start if first else branch.reservation(start, tensor))
            if branch.einsum.output.tensor == tensor:
                # Partial results have one more axis, which comes first.
                yield CacheWrite(branch.einsum.name, at, kind, () if self._has_partial_results(branch) else axes)
                served[self._leader(at)] = branch
            elif (producer := served.get(self._leader(at))) is None or not self._interleaved(producer, branch, position):
                readers.setdefault(self._leader(at), []).append(branch.einsum.name)
                places.setdefault(self._leader(at), at)
        for leader, einsums in readers.items():
            # A loop over work-items may have been parted for another tile, so it is called as the reader calls it.
            at = places[leader] if self._is_over_items(leader) else leader
            yield CacheRead(tuple(einsums), tensor, at, kind, axes)

    def _has_partial_results(self, branch: EinsumBranch) -> bool:
        """Whether a loop over a reduction variable of the Einsum runs in parallel."""
        spatial = [(p.node, branch.refs[p.position]) for p in branch.path if isinstance(p.node, Spatial) and p.position in branch.refs]
        parallel = [ref for node, ref in spatial if self.bindings.level(node) in {"local", "vector"}]
        return any(ref.variable in branch.einsum.reduction_variables for ref in parallel)

    def _is_over_items(self, ref: LoopRef | None) -> bool:
        """Whether a loop of the mapping is bound to work-items."""
        nodes = (placed.node for b in self.branches for placed in b.path if ref is not None and b.refs.get(placed.position) == ref)
        return any(isinstance(node, Spatial) and self.bindings.level(node) == "local" for node in nodes)

    def _interleaved(self, producer: EinsumBranch, consumer: EinsumBranch, position: Position) -> bool:
        """Whether the two share a loop below a node: then the consumer runs before the producer's tile is written back, and reads it."""
        below = {placed.position for placed in producer.path if placed.position in producer.refs and placed.position > position}
        return any(placed.position in below and placed.position in consumer.refs for placed in consumer.path)

    def _leader(self, at: LoopRef | None) -> LoopRef | None:
        """One name for a loop that several Einsums share."""
        return at if at is None else self._leaders.get(at, at)

    @cached_property
    def _leaders(self) -> dict[LoopRef, LoopRef]:
        """The loops of all Einsums -> the first one of those that are one."""
        found: dict[LoopRef, LoopRef] = {}
        for members in self._by_loop.values():
            refs = [ref for _, ref in members if ref is not None]
            for ref in refs:
                found.setdefault(ref, refs[0])
        return found


_ACTIVATIONS = frozenset(["softmax", "relu", "gelu", "silu", "sigmoid", "tanh", "norm", "layernorm", "rmsnorm", "dropout"])
_NAMES = _ACTIVATIONS | {"mean"} | {f.name for f in FUNCTIONS.values() if f.arity == 1 or f.is_associative}


def warn_of_plain_copies(spec: Spec) -> None:
    """Warn of Einsums that copy their only input under a name such as ``QK_softmax``: AccelForge's files give no operation."""
    for text in _plain_copies(Same(spec.workload)):
        warnings.warn(text, SpecWarning, stacklevel=3)


@lru_cache(KEPT_WORKLOADS)
def _plain_copies(workload: Same[Workload]) -> tuple[str, ...]:
    """What there is to say of a workload's Einsums, once for all of its mappings."""
    found = []
    for einsum in workload.value.einsums:
        words = re.split(r"[^a-z]+", einsum.name.lower())
        named = next((word for word in words if word in _NAMES), None)
        plain = einsum.operation.map is None and len(einsum.inputs) == 1 and not einsum.is_copy_operation
        reduces = any(set(einsum.rank_variables) - set(access.rank_variables) for access in einsum.outputs)
        if named and plain and not reduces:
            source = einsum.inputs[0].name
            found.append(
                f"Einsum {einsum.name} has no operation and copies {source}, although its name says {named}. "
                f'Give it one, for example operations: {{map: "{named}({source})"}}, or is_copy_operation: True.'
            )
    return tuple(found)


def warn_of_unbound_loops(spec: Spec) -> None:
    """Warn if a mapping has loops in space and nothing says of any of them what it is on the device: all run one after another."""
    assert spec.mapping is not None
    bound = spec.opencl.fanouts if spec.opencl is not None else {}
    placed: dict[Position, Spatial] = {}
    for found in chain.from_iterable(spec.mapping.paths()):
        if isinstance(node := found.node, Spatial):
            if node.component in bound or f"{node.component}.{node.name}" in bound:
                return
            placed[found.position] = node
    if not placed:
        return
    nodes = [node for _, node in sorted(placed.items())]
    components = list(dict.fromkeys(node.component for node in nodes))
    loops = ", ".join(dict.fromkeys(f"{_variables(node)} over {node.component}" for node in nodes))
    lacking = "there is no opencl key" if spec.opencl is None else f"the opencl key binds {', '.join(bound) or 'no fanout'}"
    example = ", ".join(f"{name}: {kind}" for name, kind in zip(components, ("group.0", "local.0", "vector"), strict=False))
    warnings.warn(
        f"Every loop in space of the mapping runs one after another, in one work-item ({loops}): {lacking}. Load it with a file that says "
        f"what the components are on the device, for example opencl: {{fanouts: {{{example}}}}}; loop says that it is meant.",
        SpecWarning,
        stacklevel=3,
    )


def _variables(node: Spatial) -> str:
    names = (node.rank_variable,) if isinstance(node.rank_variable, str) else node.rank_variable.values()
    return " and ".join(dict.fromkeys(names))
