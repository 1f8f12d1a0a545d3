"""The LoopTrees of a small cascade that brute force goes through: where tensors live, and which loops Einsums share."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from feinsum_fuse.formats import mapping as tree
from feinsum_fuse.formats.arch import Arch, ArchNode, Array, Compute, Fork, Hierarchical, Memory, Network, Toll
from feinsum_fuse.formats.relevance import Relevance, relevance, window
from feinsum_fuse.formats.sets import tensor_set
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.workload import WorkloadEinsum


@dataclass(frozen=True)
class Holder:
    """One tensor in one memory; ``level`` counts memories from the outermost."""

    tensor: str
    level: int


@dataclass(frozen=True)
class Loop:
    """A loop of a prefix, which Einsums share, as one of them calls it."""

    variable: str
    tile: int
    component: str = ""
    """Of a loop in space, with the dimension that it lies along."""
    dimension: str = ""


@dataclass(frozen=True)
class Prefix:
    """What is fixed of an Einsum's path before its own holders are placed."""

    loops: tuple[Loop, ...]
    homes: tuple[tuple[str, int, int], ...]
    """(tensor, level, loops above it) of each tensor that lives below the outermost memory."""


@dataclass(frozen=True)
class Layout:
    """An Einsum's holders in order: a list for each depth of the prefix, and those below it."""

    prefix: Prefix
    segments: tuple[tuple[Holder, ...], ...]
    branch: tuple[Holder, ...]


@dataclass(frozen=True)
class Path:
    """A layout with all loops: what stands below the prefix is a list of nodes."""

    layout: Layout
    below: tuple[tree.Node, ...]
    energy: float
    latency: float
    peaks: tuple[float, ...]


@dataclass(frozen=True)
class Frame:
    """What a whole tree fixes for all Einsums: the prefix of each, and how many loops consecutive ones share."""

    prefixes: tuple[Prefix, ...]
    shared: tuple[int, ...]


@dataclass
class TreeSpace:
    """Every LoopTree of a Spec without mapping.

    In the space: each memory holds any set of tensors that its ``keep`` and ``may_keep`` allow, in any order, one holder of a tensor
    in a memory; a memory's holders stand above those of the next; between two holders any loops, each variable once; loops above the
    home of an intermediate index it fully; spatial loops stand right above the first holder below their fanout, one per variable and
    dimension. So Einsums share them where a tensor that lives below the fanout is alive; all loops of that fanout and of those above it are
    shared then. A copy holds each of its tensors where it lives alone. Tiles divide the tile that they cut, or, if ``imperfect``, are any
    smaller number.
    """

    spec: Spec
    imperfect: bool = False

    @property
    def einsums(self) -> tuple[WorkloadEinsum, ...]:
        return self.spec.workload.einsums

    @property
    def arch(self) -> Arch:
        assert self.spec.arch is not None
        return self.spec.arch

    @cached_property
    def compute(self) -> str:
        return next(leaf.name for leaf in self.arch.components if isinstance(leaf, Compute))

    @cached_property
    def levels(self) -> tuple[Memory | Toll, ...]:
        return tuple(leaf for leaf in self.arch.path(self.compute) if isinstance(leaf, Memory | Toll))

    @cached_property
    def finite(self) -> tuple[str, ...]:
        return tuple(leaf.name for leaf in self.levels if isinstance(leaf, Memory) and leaf.size != float("inf"))

    @cached_property
    def roomy(self) -> Arch:
        """The architecture with endless memories: paths are kept whatever they need."""
        return dataclasses.replace(self.arch, nodes=_endless(self.arch.nodes))

    @cached_property
    def fanouts(self) -> tuple[tuple[int, str, str, int], ...]:
        """(number of memories above, component, dimension, fanout)."""
        result, above = [], 0
        for leaf in self.arch.path(self.compute):
            result += [(above, leaf.name, dimension.name, dimension.fanout) for dimension in leaf.spatial]
            above += isinstance(leaf, Memory | Toll)
        return tuple(result)

    @cached_property
    def crossed(self) -> bool:
        """Whether a network carries tensors: then the order of loops in space counts."""
        return any(isinstance(leaf, Network) for leaf in self.arch.path(self.compute))

    @cached_property
    def loose(self) -> frozenset[tuple[int, int]]:
        """(outer, inner) levels without a fanout between them whose holders may stand in any order."""
        everywhere = self.spec.mapper is not None and not self.spec.mapper.force_memory_hierarchy_order
        own = [not level.tensors.force_memory_hierarchy_order or everywhere for level in self.levels]
        pairs = itertools.combinations(range(1, len(own)), 2)
        parted = {(a, b) for a, b in itertools.combinations(range(len(own)), 2) for f in self.fanouts if f[3] > 1 and a < f[0] <= b}
        return frozenset(pair for pair in pairs if (own[pair[0]] or own[pair[1]]) and pair not in parted)

    def stacks(self, prefix: Prefix, holders: Sequence[Holder]) -> bool:
        """Whether holders may stand in this order."""
        homes = {(t, level) for t, level, _ in prefix.homes}
        return all(
            a.level <= b.level or (a.tensor != b.tensor and (a.tensor, a.level) not in homes and (b.level, a.level) in self.loose)
            for a, b in itertools.combinations(holders, 2)
        )

    def choices(self, einsum: WorkloadEinsum, level: int) -> list[frozenset[str]]:
        """The sets of tensors that the constraints let a memory hold."""
        rules = self.levels[level].tensors
        may_keep = rules.may_keep or ("All" if rules.keep is None else "Nothing")
        keep, may = (tensor_set(text, self.spec.workload, einsum.name) for text in (rules.keep or "Nothing", may_keep))
        free = sorted(may - keep)
        return [keep | set(more) for count in range(len(free) + 1) for more in itertools.combinations(free, count)]

    def storage(self, einsum: WorkloadEinsum, homes: Mapping[str, int]) -> Iterator[tuple[Holder, ...]]:
        """The holders below each tensor's home, for every choice with these homes."""
        for sets in itertools.product(*(self.choices(einsum, level) for level in range(len(self.levels)))):
            held = {t: [level for level, names in enumerate(sets) if t in names] for t in einsum.tensors}
            if all(held[t] and held[t][0] == homes.get(t, 0) for t in einsum.tensors):
                if einsum.is_copy_operation:
                    yield ()
                    return
                yield tuple(Holder(t, level) for t in einsum.tensors for level in held[t][1:])

    def all_homes(self) -> Iterator[dict[str, int]]:
        """Where the intermediates may live."""
        names = sorted(self.spec.workload.intermediates)
        for levels in itertools.product(range(len(self.levels)), repeat=len(names)):
            if all(isinstance(self.levels[level], Memory) for level in levels):
                yield dict(zip(names, levels, strict=True))

    def frames(self, homes: Mapping[str, int]) -> Iterator[Frame]:
        """All prefixes: depths of the homes below the outermost memory, loops above them, their tiles."""
        inner = [t for t, level in homes.items() if level]
        wide = [f for f in self.fanouts if f[3] > 1 and any(level >= f[0] for level in homes.values())]
        deepest = max((len(e.bounds) * (1 + len(wide)) for e in self.einsums), default=0)
        for depths in itertools.product(range(deepest + 1), repeat=len(inner)):
            depth = dict(zip(inner, depths, strict=True))
            shared = tuple(max((depth[t] for t in inner if self._live(t, b)), default=0) for b in range(len(self.einsums) - 1))
            for loops in self._loops(homes, depth, shared, ()):
                own = [tuple((t, homes[t], depth[t]) for t in inner if t in e.tensors) for e in self.einsums]
                yield Frame(tuple(Prefix(*parts) for parts in zip(loops, own, strict=True)), shared)

    def _live(self, tensor: str, boundary: int) -> bool:
        touched = [tensor in e.tensors for e in self.einsums]
        return any(touched[: boundary + 1]) and any(touched[boundary + 1 :])

    def _loops(
        self, homes: Mapping[str, int], depth: Mapping[str, int], shared: Sequence[int], before: tuple[tuple[Loop, ...], ...]
    ) -> Iterator[tuple[tuple[Loop, ...], ...]]:
        """Extend the prefixes of the first Einsums by those of the rest."""
        number = len(before)
        if number == len(self.einsums):
            yield before
            return
        common = shared[number - 1] if number else 0
        length = max(common, shared[number] if number < len(shared) else 0)
        for loops in self._own_loops(number, homes, depth, length, before[-1][:common] if before else ()):
            if self._agree(depth, shared, (*before, loops)):
                yield from self._loops(homes, depth, shared, (*before, loops))

    def _own_loops(
        self, number: int, homes: Mapping[str, int], depth: Mapping[str, int], length: int, given: tuple[Loop, ...]
    ) -> Iterator[tuple[Loop, ...]]:
        einsum = self.einsums[number]
        alive = [t for t in depth if t in einsum.tensors or (self._live(t, number - 1) and self._live(t, number))]
        lowest = max((homes[t] for t in alive), default=0)
        beside = [(v, c, d) for level, c, d, n in self.fanouts for v in einsum.bounds if n > 1 and level <= lowest]
        candidates = [*((v, "", "") for v in einsum.bounds), *beside]
        for kinds in self._orders_of(number, homes, depth, alive, length, candidates, ()):
            yield from self._tiled(einsum, kinds, given, ())

    def _orders_of(
        self,
        number: int,
        homes: Mapping[str, int],
        depth: Mapping[str, int],
        alive: Sequence[str],
        length: int,
        candidates: Sequence[tuple[str, str, str]],
        before: tuple[tuple[str, str, str], ...],
    ) -> Iterator[tuple[tuple[str, str, str], ...]]:
        """The loops of a prefix in every order; one that is of no use is not gone on with."""
        place = len(before)
        if place == length:
            yield before
            return
        einsum = self.einsums[number]
        for kind in candidates:
            v = kind[0]
            kinds = (*before, kind)
            below = [t for t, loops in depth.items() if t in einsum.tensors and place < loops]
            full = all(relevance(window(einsum.tensor_accesses, t), v) is Relevance.FULL for t in below)
            often = sum(other == v for other, _, _ in kinds) <= self._cuts(einsum.bounds[v])
            if kind not in before and full and often and self._placed_well(number, homes, depth, alive, kinds):
                yield from self._orders_of(number, homes, depth, alive, length, candidates, kinds)

    def _cuts(self, tile: int) -> int:
        """How many loops may cut a tile, each into smaller ones."""
        return max((1 + self._cuts(t) for t in self.tiles(tile)), default=0)

    def _tiled(
        self, einsum: WorkloadEinsum, kinds: Sequence[tuple[str, str, str]], given: Sequence[Loop], before: tuple[Loop, ...]
    ) -> Iterator[tuple[Loop, ...]]:
        """The loops with every tile; the first ones have those of the neighbour."""
        place = len(before)
        if place == len(kinds):
            yield before
            return
        variable, component, dimension = kinds[place]
        current = next((loop.tile for loop in reversed(before) if loop.variable == variable), einsum.bounds[variable])
        for tile in self.tiles(current):
            if place >= len(given) or (tile, component, dimension) == (given[place].tile, given[place].component, given[place].dimension):
                yield from self._tiled(einsum, kinds, given, (*before, Loop(variable, tile, component, dimension)))

    def _placed_well(
        self, number: int, homes: Mapping[str, int], depth: Mapping[str, int], alive: Sequence[str], kinds: Sequence[tuple[str, str, str]]
    ) -> bool:
        """Whether loops in space stand below what lives above their fanout, above what lives below it, if anything does, and together.

        Those of one component stand dimension by dimension, or in any order where networks carry tensors.
        """
        levels = {(c, d): level for level, c, d, _ in self.fanouts}
        components = list(dict.fromkeys(c for _, c, _, _ in self.fanouts))
        order = {(c, d): components.index(c) if self.crossed else n for n, (_, c, d, _) in enumerate(self.fanouts)}
        found = [(place, c, d) for place, (_, c, d) in enumerate(kinds) if c]
        if [order[c, d] for _, c, d in found] != sorted(order[c, d] for _, c, d in found):
            return False
        for (one, c, d), (other, e, f) in itertools.pairwise(found):
            if levels[c, d] == levels[e, f] and other != one + 1:
                return False
        own = [t for t in depth if t in self.einsums[number].tensors]
        for place, c, d in found:
            if any((depth[t] > place) != (homes[t] >= levels[c, d]) for t in own):
                return False
            if not any(depth[t] > place and homes[t] >= levels[c, d] for t in alive):
                return False
        return True

    def _agree(self, depth: Mapping[str, int], shared: Sequence[int], loops: tuple[tuple[Loop, ...], ...]) -> bool:
        """Whether the last Einsum's loops are those of the others that run under them: the same ranks of what they share."""
        last = len(loops) - 1
        for other in range(last):
            for place in range(min(shared[other:last])):
                a, b = loops[other][place].variable, loops[last][place].variable
                first, second = self.einsums[other], self.einsums[last]
                ties = [t for t, d in depth.items() if d > place and t in first.tensors and t in second.tensors]
                if any(_rank(first, t, a) != _rank(second, t, b) for t in ties) or first.bounds[a] != second.bounds[b]:
                    return False
                one, two = loops[other][place], loops[last][place]
                if (one.component, one.dimension) != (two.component, two.dimension):
                    return False
                if not ties and other == last - 1 and a != b:
                    return False
        return True

    def tiles(self, tile: int) -> list[int]:
        """The smaller tiles that a tile may be cut into."""
        return [t for t in range(1, tile) if self.imperfect or tile % t == 0]

    def prefix_loop(self, loop: Loop) -> tree.Node:
        return loop_node(loop.variable, loop)

    def storage_node(self, holder: Holder) -> tree.Node:
        leaf = self.levels[holder.level]
        kind = tree.Toll if isinstance(leaf, Toll) else tree.Storage
        return kind(tensors=(holder.tensor,), component=leaf.name)

    def top(self, einsum: WorkloadEinsum, layout: Layout) -> list[tree.Node]:
        inner = {t for t, _, _ in layout.prefix.homes}
        kept = tuple(t for t in einsum.tensors if t not in inner)
        return [tree.Storage(tensors=kept, component=self.levels[0].name)] if kept else []


def loop_node(variable: str | Mapping[str, str], loop: Loop) -> tree.Node:
    """A loop of a prefix, by what its Einsums call its variable."""
    if loop.component:
        return tree.Spatial(variable, loop.tile, name=loop.dimension, component=loop.component)  # type: ignore[arg-type]
    return tree.Temporal(variable, loop.tile)  # type: ignore[arg-type]


def _rank(einsum: WorkloadEinsum, tensor: str, variable: str) -> str | None:
    access = window(einsum.tensor_accesses, tensor)
    return next((rank for rank, index in access.projection.items() if variable in index.variables), None)


def _endless(nodes: tuple[ArchNode, ...]) -> tuple[ArchNode, ...]:
    result: list[ArchNode] = []
    for node in nodes:
        if isinstance(node, Hierarchical | Fork | Array):
            result.append(dataclasses.replace(node, nodes=_endless(node.nodes)))
        else:
            result.append(dataclasses.replace(node, size=float("inf")) if isinstance(node, Memory) else node)
    return tuple(result)
