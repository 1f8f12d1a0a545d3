"""Random LoopTrees that are legal by construction: every node in every memory, whether it makes sense or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from constantdict import constantdict

from feinsum_fuse.formats.arch import Action, Arch, Container, Fanout, Memory
from feinsum_fuse.formats.arch import Compute as ComputeUnit
from feinsum_fuse.formats.arch import Toll as TollUnit
from feinsum_fuse.formats.mapping import Compute, Mapping, Nested, Node, Pipeline, Sequential, Spatial, Split, Storage, Temporal, Toll
from feinsum_fuse.formats.opencl import FanoutKind, MemoryKind, OpenCL
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.workload import Workload

from .shared_loops import shareable, windows
from .workloads import KINDS, WorkloadKind

MEMORIES = ("MainMemory", "Cache", "Scratchpad", "Register")
"""From the outermost; global, cache, local and private."""
FANOUTS: dict[tuple[str, str], FanoutKind] = {
    ("Core", "X"): "group.0",
    ("Core", "Y"): "group.1",
    ("WorkItem", "X"): "local.0",
    ("WorkItem", "Y"): "local.1",
    ("Lane", "X"): "unroll",
    ("Lane", "Y"): "loop",
    ("Lane", "V"): "vector",
}
HIDDEN = {"Core": 2, "WorkItem": 3, "Lane": 4}
"""Fanout -> the outermost memory below it."""
UNITS = {"Core": 64, "WorkItem": 16, "Lane": 64}
"""Fanout -> how many iterations fit each of its dimensions."""
VECTOR = ("Lane", "V")
"""The dimension of lanes, which stand right above a Compute."""
WIDTHS = (2, 2, 4, 4, 8)
"""Lanes of a tree that has vectors."""
_BRANCHINGS = (Sequential, Pipeline, Split, Split)
"""Split, which has the fewest meanings, twice, so that it meets halos in every memory often enough."""


def _actions(*names: str) -> tuple[Action, ...]:
    return tuple(Action(name, energy=1.0) for name in names)


def architecture() -> Arch:
    """Four memories, with a fanout of cores, of work-items and of lanes between them, and a toll on the way."""

    def container(name: str) -> Container:
        return Container(name=name, spatial=tuple(Fanout(dimension, UNITS[name]) for component, dimension in FANOUTS if component == name))

    def memory(name: str) -> Memory:
        return Memory(name=name, actions=_actions("read", "write"))

    return Arch(
        (
            memory("MainMemory"),
            memory("Cache"),
            container("Core"),
            TollUnit(name="Bus", direction=constantdict({"All": "up_and_down"}), actions=_actions("read")),
            memory("Scratchpad"),
            container("WorkItem"),
            memory("Register"),
            container("Lane"),
            ComputeUnit(name="MAC", actions=(Action("compute", energy=1.0, throughput=1.0),)),
        )
    )


def bindings() -> OpenCL:
    """What the architecture's components are on a device."""
    fanouts = {f"{component}.{dimension}": kind for (component, dimension), kind in FANOUTS.items()}
    kinds: tuple[MemoryKind, ...] = ("global", "cache", "local", "private")
    memories = dict(zip(MEMORIES, kinds, strict=True))
    return OpenCL(constantdict(memories), constantdict(fanouts))


@dataclass(frozen=True)
class RandomTree:
    """A Spec with a random mapping, and how to make it again."""

    seed: int
    kind: str
    spec: Spec

    def __str__(self) -> str:
        return f"tree {self.seed}: {self.kind}\n{self.spec.mapping}"


def random_tree(seed: int, kind: WorkloadKind | None = None) -> RandomTree:
    """The tree of this seed: a workload of this kind (default: any) at random sizes, with a mapping that the validator accepts."""
    random = Random(seed)
    chosen = kind or KINDS[seed % len(KINDS)]
    workload = chosen.sized(random)
    spec = Spec(workload, architecture(), opencl=bindings())
    return RandomTree(seed, chosen.name, spec.replace(mapping=_Grower(workload, random).mapping()))


def random_trees(count: int, seed: int = 0) -> Iterator[RandomTree]:
    """``count`` trees, the kinds of workloads in turn."""
    for number in range(count):
        yield random_tree(seed * 1_000_003 + number, KINDS[number % len(KINDS)])


@dataclass(frozen=True)
class _State:
    """What lies above: tile shapes, device dimensions in use, and how deep each tensor is held."""

    tiles: constantdict[tuple[str, str], int]
    used: frozenset[tuple[str, str]] = frozenset()
    levels: constantdict[str, int] = field(default_factory=constantdict)
    deepest: int = 0
    """The innermost memory that holds a tile: below a local one no groups are bound, below a private one no work-items."""
    spread: frozenset[tuple[str, str]] = frozenset()
    """(Einsum, rank variable) that a loop in space runs over."""

    axis: tuple[str, str] | None = None
    """The dimension of the loop straight above, if one more may run on it."""
    filled: int = 1
    """How many iterations that dimension has so far."""
    windows: frozenset[tuple[str, str]] = frozenset()
    """(Einsum, rank variable) that a shared loop with a halo or a stride runs over; below it the Einsums' loops stand apart."""

    def cut(self, variables: dict[str, str], tile: int, dimension: tuple[str, str] | None) -> _State:
        """After a loop over these rank variables (Einsum -> variable), in time or over a fanout."""
        tiles = constantdict({**self.tiles, **dict.fromkeys(variables.items(), tile)})
        if dimension is None:
            return replace(self, tiles=tiles, axis=None)
        return replace(self, tiles=tiles, used=self.used | {dimension}, spread=self.spread | frozenset(variables.items()))

    def held(self, tensors: tuple[str, ...], level: int) -> _State:
        """After a Storage."""
        levels = constantdict({**self.levels, **dict.fromkeys(tensors, level)})
        return replace(self, levels=levels, deepest=max(self.deepest, level), axis=None)

    @property
    def is_over_lanes(self) -> bool:
        """Whether a loop over lanes stands above."""
        return any(component == "Lane" for component, _ in self.used)

    def is_open(self, dimension: tuple[str, str]) -> bool:
        """Whether a loop may be bound to this dimension here."""
        return dimension not in self.used and self.deepest < HIDDEN[dimension[0]]


class _Grower:
    def __init__(self, workload: Workload, random: Random) -> None:
        self.workload = workload
        self.random = random
        self.width = random.choice(WIDTHS) if random.random() < 0.35 else 1
        """Lanes of all vectors."""
        self.pairs = random.random() < 0.4
        """Whether Einsums put two loops on one axis where they can."""

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def mapping(self) -> Mapping:
        """The whole tree."""
        names = tuple(einsum.name for einsum in self.workload.einsums)
        tiles = {(e.name, v): size for e in self.workload.einsums for v, size in e.bounds.items()}
        segments = self.parts(names, whole=self.chance(0.6))
        fused = {t for segment in segments for t in self.exchanged(segment) if self.chance(0.75)}
        outside = tuple(t for t in self.workload.tensors if t not in fused)
        state = _State(constantdict(tiles)).held(outside, 0)
        nodes: list[Node] = [Storage(part, "MainMemory") for part in self.parts(outside, whole=self.chance(0.5))]
        if self.chance(0.35):
            held = (self.random.choice(outside),)
            nodes.append(Storage(held, "Cache"))
            state = replace(state, levels=state.held(held, 1).levels)
        if len(segments) == 1:
            return Mapping((*nodes, *self.below(names, state)))
        return Mapping((*nodes, self.branching(segments, state)))

    def parts(self, items: tuple[str, ...], *, whole: bool) -> list[tuple[str, ...]]:
        """The items cut into consecutive parts."""
        if whole or len(items) < 2:
            return [items]
        cuts = sorted({self.random.randrange(1, len(items)) for _ in range(self.random.randint(1, 2))})
        return [items[a:b] for a, b in zip((0, *cuts), (*cuts, len(items)), strict=True)]

    def exchanged(self, names: tuple[str, ...]) -> list[str]:
        """Tensors written and read by these Einsums and by no others."""
        return [
            t
            for t in self.workload.tensors
            if self.workload.producers(t)
            and self.workload.consumers(t)
            and set(self.workload.consumers(t)) <= set(names)
            and set(self.workload.producers(t)) <= set(names)
        ]

    def branching(self, segments: list[tuple[str, ...]], state: _State) -> Node:
        kind = self.random.choice(_BRANCHINGS)
        state = replace(state, axis=None)
        return kind(tuple(Nested(tuple(self.below(segment, state))) for segment in segments))

    def below(self, names: tuple[str, ...], state: _State) -> list[Node]:
        """The nodes from here to the Compute nodes of these Einsums."""
        return self.single(names[0], state) if len(names) == 1 else self.group(names, state)

    # -- several Einsums under common loops --------------------------------------------------------------------------------------------

    def group(self, names: tuple[str, ...], state: _State) -> list[Node]:
        """Shared loops, backing storage of what the Einsums exchange, and branches."""
        nodes: list[Node] = []
        waiting = [t for t in self.exchanged(names) if t not in state.levels]
        for _ in range(self.random.randint(0, 3)):
            loops, state = self.shared_loop(names, state, lanes=not waiting)
            nodes += loops
            if waiting and nodes and self.chance(0.3):
                backing, state = self.backing(waiting.pop(), state)
                nodes.append(backing)
            if self.chance(0.25):
                extra, state = self.storage(names, state)
                nodes += extra
        written = {t for t in self.workload.tensors if set(self.workload.producers(t)) & set(names)}
        passed = [t for t in written if set(self.workload.consumers(t)) & set(names)]
        if nodes and any(state.levels.get(t, 4) < 2 for t in passed):
            # Groups cannot wait for one another inside a kernel, so branches that exchange global data under a loop bind none.
            state = replace(state, used=state.used | {d for d in FANOUTS if d[0] == "Core"})
        segments = self.parts(names, whole=False)
        for tensor in waiting:
            inside = any(tensor in self.exchanged(segment) for segment in segments)
            if not (inside and self.chance(0.6)):
                backing, state = self.backing(tensor, state)
                nodes.append(backing)
        return [*nodes, self.branching(segments, state)]

    def shared_loop(self, names: tuple[str, ...], state: _State, *, lanes: bool) -> tuple[list[Node], _State]:
        """One loop over a rank variable that all of these Einsums have, if there is one that may be shared."""
        candidates = []
        for variables in shareable(self.workload, names):
            current = [state.tiles[item] for item in variables.items()]
            read = windows(self.workload, variables)
            if state.windows or (read and any(t not in state.levels for t in read)):
                continue
            if read and any(v not in self.output_variables(e) for e, v in variables.items()):
                continue
            if max(current) > 1 or (self.chance(0.05) and not state.spread.intersection(variables.items())):
                candidates.append((variables, min(current), bool(read)))
        if not candidates:
            return [], state
        variables, current_tile, windowed = self.random.choice(candidates)
        tile = self.tile(current_tile)
        reduced = [e for e, v in variables.items() if v not in self.output_variables(e)]
        name = next(iter(variables.values())) if len(set(variables.values())) == 1 else constantdict(variables)
        if windowed:
            # Later iterations read what earlier ones wrote, so they run one after another, and the rank is shared once.
            state = replace(state.cut(variables, tile, None), windows=state.windows | frozenset(variables.items()))
            return [Temporal(name, tile)], state
        open_ = state if lanes else replace(state, used=state.used | {d for d in FANOUTS if d[0] == "Lane"})
        nodes, after = self.loop(name, tile, variables, bool(reduced), open_)
        return nodes, replace(after, used=after.used - (open_.used - state.used))

    def loop(
        self,
        name: str | constantdict[str, str],
        tile: int,
        variables: dict[str, str],
        reduced: bool,
        state: _State,
        *,
        eager: bool = False,
    ) -> tuple[list[Node], _State]:
        """A loop over these rank variables (Einsum -> variable), in time or in space.

        The model moves a loop in space down to the memory below its fanout, and refuses to move it past a loop in time over the same
        variable: so whatever is not spread to single values is held right below.
        """
        iterations = max(-(-state.tiles[item] // tile) for item in variables.items())
        dimension = self.dimension(state, reduced=reduced, alone=len(variables) == 1, iterations=iterations, eager=eager)
        if dimension is None:
            return [Temporal(name, tile)], state.cut(variables, tile, None)
        level = HIDDEN[dimension[0]]
        indexed = [a.name for e, v in variables.items() for a in self.workload.einsum(e).tensor_accesses if v in a.rank_variables]
        missing = tuple(dict.fromkeys(t for t in indexed if state.levels.get(t, 0) < level)) if tile > 1 else ()
        if any(t not in state.levels for t in missing) or (missing and (level == len(MEMORIES) or state.is_over_lanes)):
            return [Temporal(name, tile)], state.cut(variables, tile, None)
        filled = state.filled * iterations if dimension == state.axis else iterations
        state = state.cut(variables, tile, dimension)
        state = replace(state, axis=None if reduced or dimension[0] == "Lane" else dimension, filled=filled)
        if reduced and dimension[0] == "WorkItem":
            # A group's work-items combine their sums inside the group.
            state = replace(state, used=state.used | {d for d in FANOUTS if d[0] == "Core"})
        nodes: list[Node] = [Spatial(name, tile, name=dimension[1], component=dimension[0])]
        if missing:
            nodes.append(Storage(missing, MEMORIES[level]))
            state = state.held(missing, level)
        return nodes, state

    def backing(self, tensor: str, state: _State) -> tuple[Node, _State]:
        """The outermost Storage of an intermediate that stays inside the kernel."""
        level = self.random.choice((1, 2, 2, 2, 3))
        return Storage((tensor,), MEMORIES[level]), replace(state.held((tensor,), level), deepest=max(state.deepest, level, 2))

    def storage(self, names: tuple[str, ...], state: _State) -> tuple[list[Node], _State]:
        """A further Storage for a tensor of these Einsums that is held above already."""
        if state.is_over_lanes:
            # The model keeps what all lanes use in a memory above them; a loop over lanes above the Storage would hold less.
            return [], state
        tensors = dict.fromkeys(t for name in names for t in self.workload.einsum(name).tensors if t in state.levels)
        places = [(t, n) for t in tensors for n in (1, 2, 2, 2, 3) if n > state.levels[t]]
        if not places:
            return [], state
        tensor, level = self.random.choice(places)
        return [Storage((tensor,), MEMORIES[level])], state.held((tensor,), level)

    # -- one Einsum --------------------------------------------------------------------------------------------------------------------

    def single(self, name: str, state: _State) -> list[Node]:
        """Loops down to tiles of one point, with storage between them; where there are lanes, their loop comes last."""
        nodes: list[Node] = []
        lane = self.lane(name, state)
        pair = self.pair(name, state, lane)
        for variable, tile in self.loops(name, state, lane, pair):
            first, second = (variable, tile) in pair[:1], (variable, tile) in pair[1:]
            extra, state = ([], state) if second else self.maybe_storage(name, state)
            nodes += extra
            reduced = variable not in self.output_variables(name)
            extra, state = self.loop(variable, tile, {name: variable}, reduced, state, eager=first or second)
            nodes += extra
        extra, state = self.maybe_storage(name, state)
        nodes += extra
        if lane is not None:
            nodes.append(Spatial(lane, 1, name=VECTOR[1], component=VECTOR[0]))
        return [*nodes, Compute(name, "MAC")]

    def lane(self, name: str, state: _State) -> str | None:
        """The rank variable whose innermost tile becomes the lanes of vectors, a reduction or not; none where no tile is long enough."""
        fitting = [v for v in self.workload.einsum(name).bounds if state.tiles[name, v] >= self.width > 1]
        return self.random.choice(fitting) if fitting and self.chance(0.8) else None

    def pair(self, name: str, state: _State, lane: str | None) -> list[tuple[str, int]]:
        """The last loops of two rank variables that are to run on one axis, or nothing."""
        fitting = [v for v in self.output_variables(name) if v != lane and state.tiles[name, v] > 1 and (name, v) not in state.windows]
        return [(v, 1) for v in self.random.sample(sorted(fitting), 2)] if self.pairs and len(fitting) > 1 else []

    def loops(self, name: str, state: _State, lane: str | None, pair: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """(rank variable, tile) from the outermost, each variable down to 1 or to the lanes, interleaved at random.

        The loops of a pair stand where the later of them would.
        """
        chains: list[list[tuple[str, int]]] = []
        for variable in self.workload.einsum(name).bounds:
            current = state.tiles[name, variable]
            chain: list[tuple[str, int]] = []
            last = self.width if variable == lane else 1
            while current > last or (not chain and last == 1 and (name, variable) not in state.spread and self.chance(0.2)):
                current = max(last, self.tile(current))
                chain.append((variable, current))
            if chain:
                chains.append(chain)
        result = []
        while chains:
            chain = self.random.choice(chains)
            result.append(chain.pop(0))
            chains = [c for c in chains if c]
        if not pair:
            return result
        place = max(map(result.index, pair))
        return [*(loop for loop in result[:place] if loop not in pair), *pair, *result[place + 1 :]]

    def tile(self, current: int) -> int:
        """A tile shape not above this one; often 1, so that trees end."""
        return 1 if current == 1 or self.chance(0.5) else self.random.randint(1, current - 1)

    def dimension(self, state: _State, *, reduced: bool, alone: bool, iterations: int, eager: bool) -> tuple[str, str] | None:
        """A fanout dimension for a loop, or none; ``eager``: groups or work-items if that is possible.

        Where both fit it may be the one of the loop straight above. A reduction runs on work-items where no other Einsum runs under it, and
        never on groups.
        """
        if state.axis is not None and not reduced and state.filled * iterations <= UNITS[state.axis[0]] and (eager or self.chance(0.5)):
            return state.axis
        parallel = {"Core", "WorkItem", "Lane"} if not reduced else {"WorkItem", "Lane"} if alone else {"Lane"}
        fitting = [d for d in FANOUTS if d != VECTOR and state.is_open(d) and d[0] in parallel and iterations <= UNITS[d[0]]]
        wide = [d for d in fitting if d[0] != "Lane"] if eager else []
        return self.random.choice(wide or fitting) if fitting and (wide or self.chance(0.4)) else None

    def maybe_storage(self, name: str, state: _State) -> tuple[list[Node], _State]:
        nodes: list[Node] = []
        if self.chance(0.3):
            nodes, state = self.storage((name,), state)
        if self.chance(0.1):
            tensor = self.random.choice(self.workload.einsum(name).tensors)
            if state.levels.get(tensor, 3) < 1:
                nodes.append(Toll((tensor,), "Bus"))
                # The bus lies below the cores: a loop over them that stood below it would change places with loops in time in the model.
                state = replace(state.held((tensor,), 1), deepest=max(state.deepest, HIDDEN["Core"]))
        return nodes, state

    def output_variables(self, name: str) -> frozenset[str]:
        return frozenset(v for access in self.workload.einsum(name).outputs for v in access.rank_variables)
