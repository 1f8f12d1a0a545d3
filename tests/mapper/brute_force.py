"""The mapper's judge: it goes through every LoopTree of a small cascade and asks nothing but the model which is best.

Nothing here comes from the mapper, and none of its theorems is used. What is used is said by the model alone (accelforge.md, section 5):

- an Einsum's energy and latency are those of its own path, so a path is evaluated once and met again in every tree that has it;
- what is alive at a time never shrinks if one of its parts grows, so of two paths with one prefix the one that is worse in energy,
  latency and every peak can go.

Whole trees are then put together, cheapest first, and handed to :func:`feinsum_fuse.predict` with the real capacities: the first that it
takes is the optimum. :class:`Space` says what counts as a LoopTree of the space.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import feinsum_fuse as ff
from feinsum_fuse.formats import mapping as tree
from feinsum_fuse.formats.arch import Arch, ArchNode, Array, Compute, Fork, Hierarchical, Memory, Network, Toll
from feinsum_fuse.formats.relevance import Relevance, relevance, window
from feinsum_fuse.formats.sets import tensor_set
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.workload import WorkloadEinsum
from feinsum_fuse.model.prediction import Prediction

Figures = NDArray[np.float64]

OBJECTIVES: dict[str, Callable[[Figures, Figures], Figures]] = {
    "energy": lambda energy, latency: energy,
    "latency": lambda energy, latency: latency,
    "edp": lambda energy, latency: energy * latency,
}


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
class Optimum:
    """The best value of an objective and a mapping that has it; no value where nothing fits."""

    value: float = float("inf")
    mapping: tree.Mapping | None = None


class TooLarge(Exception):
    """The space has more paths than a brute force was to look at."""


@dataclass
class BruteForce:
    """Every LoopTree of a Spec without mapping.

    In the space: each memory holds any set of tensors that its ``keep`` and ``may_keep`` allow, in any order, one holder of a tensor
    in a memory; a memory's holders stand above those of the next; between two holders any loops, each variable once; loops above the
    home of an intermediate index it fully; spatial loops stand right above the first holder below their fanout, one per variable and
    dimension. Tiles divide the tile that they cut, or, if ``imperfect``, are any smaller number.
    """

    spec: Spec
    imperfect: bool = False
    places: float = float("inf")
    """So many places among an Einsum's loops in time may a memory's holders have; a holder's place is where its space is reserved."""
    every_order: bool = False
    """Try each order of loops between two holders, also those that can differ in no figure."""
    most: float = float("inf")
    """More paths than that end in :class:`TooLarge`."""
    evaluated: int = 0
    """Paths that the model was asked about."""
    whole: int = 0
    """Trees that the model was asked about."""
    _rows: dict[tuple[int, Prefix], dict[Prefix, list[Path]]] = field(default_factory=dict)

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

    # --- which tensors are where

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
                yield tuple(Holder(t, level) for t in einsum.tensors for level in held[t][1:])

    def all_homes(self) -> Iterator[dict[str, int]]:
        """Where the intermediates may live."""
        names = sorted(self.spec.workload.intermediates)
        for levels in itertools.product(range(len(self.levels)), repeat=len(names)):
            if all(isinstance(self.levels[level], Memory) for level in levels):
                yield dict(zip(names, levels, strict=True))

    # --- what Einsums share

    def frames(self, homes: Mapping[str, int]) -> Iterator[Frame]:
        """All prefixes: depths of the homes below the outermost memory, loops above them, their tiles."""
        inner = [t for t, level in homes.items() if level]
        deepest = max((len(e.bounds) for e in self.einsums), default=0)
        for depths in itertools.product(range(deepest + 1), repeat=len(inner)):
            depth = dict(zip(inner, depths, strict=True))
            shared = tuple(max((depth[t] for t in inner if self._live(t, b)), default=0) for b in range(len(self.einsums) - 1))
            for loops in self._loops(depth, shared, ()):
                own = [tuple((t, homes[t], depth[t]) for t in inner if t in e.tensors) for e in self.einsums]
                yield Frame(tuple(Prefix(*parts) for parts in zip(loops, own, strict=True)), shared)

    def _live(self, tensor: str, boundary: int) -> bool:
        touched = [tensor in e.tensors for e in self.einsums]
        return any(touched[: boundary + 1]) and any(touched[boundary + 1 :])

    def _loops(
        self, depth: Mapping[str, int], shared: Sequence[int], before: tuple[tuple[Loop, ...], ...]
    ) -> Iterator[tuple[tuple[Loop, ...], ...]]:
        """Extend the prefixes of the first Einsums by those of the rest."""
        number = len(before)
        if number == len(self.einsums):
            yield before
            return
        common = shared[number - 1] if number else 0
        length = max(common, shared[number] if number < len(shared) else 0)
        for loops in self._own_loops(number, depth, length, before[-1][:common] if before else ()):
            if self._agree(depth, shared, (*before, loops)):
                yield from self._loops(depth, shared, (*before, loops))

    def _own_loops(self, number: int, depth: Mapping[str, int], length: int, given: tuple[Loop, ...]) -> Iterator[tuple[Loop, ...]]:
        einsum = self.einsums[number]
        for variables in itertools.permutations(einsum.bounds, length):
            full = all(
                relevance(window(einsum.tensor_accesses, t), v) is Relevance.FULL
                for place, v in enumerate(variables)
                for t, loops in depth.items()
                if t in einsum.tensors and place < loops
            )
            tiles = [[given[place].tile] if place < len(given) else self.tiles(einsum.bounds[v]) for place, v in enumerate(variables)]
            if full and all(t < einsum.bounds[v] for v, ts in zip(variables, tiles, strict=True) for t in ts):
                for shape in itertools.product(*tiles):
                    yield tuple(Loop(v, t) for v, t in zip(variables, shape, strict=True))

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
                if not ties and other == last - 1 and a != b:
                    return False
        return True

    def tiles(self, tile: int) -> list[int]:
        """The smaller tiles that a tile may be cut into."""
        return [t for t in range(1, tile) if self.imperfect or tile % t == 0]

    # --- the paths of one Einsum

    def paths(self, number: int, prefix: Prefix) -> list[Path]:
        """The paths with a prefix that some tree may need."""
        key = (number, _open(prefix))
        if key not in self._rows:
            self._rows[key] = self._family(*key)
        return self._rows[key].get(prefix, [])

    def _family(self, number: int, prefix: Prefix) -> dict[Prefix, list[Path]]:
        """The paths with a prefix whose tiles are open, by its tiles."""
        einsum = self.einsums[number]
        homes = {t: level for t, level, _ in prefix.homes}
        groups: dict[tuple[Prefix, object], list[Path]] = {}
        for holders in self.storage(einsum, homes):
            for layout in self._layouts(prefix, holders):
                for slots in self._slots(einsum, layout):
                    for path in self._evaluated(number, layout, slots):
                        groups.setdefault((path.layout.prefix, layout.segments), []).append(path)
        result: dict[Prefix, list[Path]] = {}
        for (tiled, _), group in groups.items():
            result.setdefault(tiled, []).extend(_undominated(group))
        return result

    def _layouts(self, prefix: Prefix, holders: Sequence[Holder]) -> Iterator[Layout]:
        """Every place of the holders: at a depth of the prefix, or below it, in every order within a memory."""
        length = len(prefix.loops)
        for places in itertools.product(range(length + 2), repeat=len(holders)):
            lists: list[list[Holder]] = [[Holder(t, level) for t, level, d in prefix.homes if d == place] for place in range(length + 2)]
            deepest = max((h.level for h in lists[length]), default=0)
            if any(place == length and holder.level >= deepest for holder, place in zip(holders, places, strict=True)):
                continue  # The same as right below the prefix.
            homes = [list(row) for row in lists]
            for holder, place in zip(holders, places, strict=True):
                lists[place].append(holder)
            levels = [h.level for row in lists for h in sorted(row, key=lambda h: h.level)]
            if levels != sorted(levels):
                continue
            orders = [list(self._orders(row, home)) for row, home in zip(lists, homes, strict=True)]
            for rows in itertools.product(*orders):
                yield Layout(prefix, tuple(rows[:-1]), rows[-1])

    def _orders(self, row: list[Holder], homes: list[Holder]) -> Iterator[tuple[Holder, ...]]:
        by_level = []
        for level in sorted({h.level for h in row}):
            first = tuple(h for h in homes if h.level == level)
            rest = [h for h in row if h.level == level and h not in first]
            by_level.append([first + order for order in itertools.permutations(rest)])
        for parts in itertools.product(*by_level):
            yield tuple(h for part in parts for h in part)

    def _slots(self, einsum: WorkloadEinsum, layout: Layout) -> Iterator[list[Slot]]:
        """Holders and loops below the prefix, tiles still open."""
        active = [v for v, bound in einsum.bounds.items() if bound > 1]
        above = [h for row in layout.segments for h in row]
        holders = layout.branch
        spatial: list[tuple[int, list[tuple[str, str, str]]]] = []
        for depth, component, dimension, _ in self.fanouts:
            if any(h.level >= depth for h in above):
                continue  # Its loops would be shared; no random architecture has homes below a fanout.
            place = next((n for n, h in enumerate(holders) if h.level >= depth), len(holders))
            spatial.append((place, [(v, component, dimension) for v in active]))
        runs = [self._runs(einsum, active, [None, *above, *holders[:n]][-1], layout) for n in range(len(holders) + 1)]
        for chosen in itertools.product(*(_subsets(candidates) for _, candidates in spatial)):
            beside = [[s for (place, _), group in zip(spatial, chosen, strict=True) if place == n for s in group] for n in range(len(runs))]
            for *orders, ranked in itertools.product(*runs, itertools.product(*map(self._ranked, beside))):
                slots: list[Slot] = []
                for n, order in enumerate(orders):
                    slots += [*(Slot(v) for v in order), *(Slot(*s) for s in ranked[n])]
                    slots += [Slot(holder=holders[n])] if n < len(holders) else []
                yield from self._patterns(slots, layout)

    def _ranked(self, loops: list[tuple[str, str, str]]) -> list[tuple[tuple[str, str, str], ...]]:
        """The orders of loops in space that stand in one place: of each component's own, where networks carry tensors."""
        if not self.crossed:
            return [tuple(loops)]
        own = [[s for s in loops if s[1] == component] for component in dict.fromkeys(s[1] for s in loops)]
        return [tuple(s for group in groups for s in group) for groups in itertools.product(*map(itertools.permutations, own))]

    def _runs(self, einsum: WorkloadEinsum, active: list[str], above: Holder | None, layout: Layout) -> list[tuple[str, ...]]:
        """The orders of a run of loops below a holder: only what the holder's own space sinks through can differ (section 5.6)."""
        if self.every_order:
            return list(itertools.permutations(active))
        if above is None or (above.tensor, above.level) in {(t, level) for t, level, _ in layout.prefix.homes}:
            return [tuple(active)]
        kinds = {v: relevance(window(einsum.tensor_accesses, above.tensor), v) for v in active}
        full = [v for v in active if kinds[v] is Relevance.FULL]
        partial = [v for v in active if kinds[v] is Relevance.PARTIAL]
        none = [v for v in active if kinds[v] is Relevance.NONE]
        orders = [(*full, *none, *partial)]
        orders += [(*full, v, *(w for w in partial if w != v), *none) for v in partial]
        return orders

    def _patterns(self, slots: list[Slot], layout: Layout) -> Iterator[list[Slot]]:
        """The slots without those above each variable's outermost loop.

        With factors that divide, a loop of one iteration does no harm. Otherwise it may not be outermost: the outermost loop of a variable
        is the one whose trips are rounded up (section 5.3).
        """
        if not self.imperfect:
            yield slots
            return
        bound = {loop.variable for loop in layout.prefix.loops}
        loops = {v: [n for n, s in enumerate(slots) if s.variable == v] for s in slots if (v := s.variable) and v not in bound}
        for first in itertools.product(*loops.values()):
            absent = {n for own, start in zip(loops.values(), first, strict=True) for n in own if n < start and not slots[n].component}
            if all(slots[n].component == "" or n in first for own in loops.values() for n in own[:1]):
                yield [s for n, s in enumerate(slots) if n not in absent]

    def _evaluated(self, number: int, layout: Layout, slots: list[Slot]) -> Iterator[Path]:
        """The slots with every assignment of tiles, less what another of them makes useless."""
        bounds, loops = self.einsums[number].bounds, layout.prefix.loops
        columns: dict[int, Figures] = {}
        arrays: list[tuple[list[int], Figures]] = []
        for v in dict.fromkeys([*(loop.variable for loop in loops), *(s.variable for s in slots if s.variable)]):
            above = [place - len(loops) for place, loop in enumerate(loops) if loop.variable == v]
            own = above + [n for n, s in enumerate(slots) if s.variable == v]
            strict = [n < 0 or bool(slots[n].component) or (self.imperfect and n == own[0]) for n in own]
            chains = [c for c in self._chains(bounds[v], strict) if c[-1] == 1]
            if not chains:
                return
            arrays.append((own, np.array(chains, dtype=np.int64)))
        grid = np.indices([len(a) for _, a in arrays]).reshape(len(arrays), -1) if arrays else np.zeros((0, 1), dtype=np.int64)
        for (own, chain), pick in zip(arrays, grid, strict=True):
            columns.update({n: chain[pick, k] for k, n in enumerate(own)})
        fitting = self._spread(number, layout, slots, columns, grid.shape[1])
        columns = {n: column[fitting] for n, column in columns.items()}
        if not len(fitting):
            return
        try:
            energy, latency, legal, peaks = self._figures(number, layout, slots, columns, len(fitting))
        except ff.ModelError as error:
            assert "windows" in error.message, error.message
            return  # Loops in space move windows beyond a network, which no formula covers.
        self.evaluated += len(fitting)
        if self.evaluated > self.most:
            raise TooLarge(f"more than {self.most} paths")
        tiles = np.column_stack([columns[n] for n in range(-len(loops), 0)]) if loops else np.zeros((len(fitting), 0))
        table = np.column_stack([energy, latency, *peaks])
        for shape in np.unique(tiles, axis=0):
            same = np.flatnonzero(legal & np.all(tiles == shape, axis=1))
            tiled = [Loop(loop.variable, int(tile)) for loop, tile in zip(loops, shape, strict=True)]
            own_layout = dataclasses.replace(layout, prefix=dataclasses.replace(layout.prefix, loops=tuple(tiled)))
            for row in same[_front(table[same])]:
                below = [node for n, s in enumerate(slots) for node in self._node(s, int(columns[n][row]) if n in columns else None)]
                yield Path(own_layout, tuple(below), table[row][0], table[row][1], tuple(table[row][2:]))

    def _spread(self, number: int, layout: Layout, slots: list[Slot], columns: Mapping[int, Figures], count: int) -> NDArray[np.intp]:
        """The assignments whose loops in space fit their fanouts."""
        used = {(component, dimension): np.ones(count) for _, component, dimension, _ in self.fanouts}
        current: dict[str, Figures | int] = dict(self.einsums[number].bounds)
        loops = layout.prefix.loops
        current.update({loop.variable: columns[place - len(loops)] for place, loop in enumerate(loops)})
        for n, slot in enumerate(slots):
            if slot.variable:
                if slot.component:
                    used[slot.component, slot.dimension] *= -(-current[slot.variable] // columns[n])
                current[slot.variable] = columns[n]
        fits = [used[component, dimension] <= fanout for _, component, dimension, fanout in self.fanouts]
        fits += [self._places(number, layout, slots, columns, level) <= self.places for level in self._counted]
        return np.flatnonzero(np.all(fits, axis=0)) if fits else np.arange(count)

    @property
    def _counted(self) -> range:
        return range(1, len(self.levels)) if self.places < float("inf") else range(0)

    def _places(self, number: int, layout: Layout, slots: list[Slot], columns: Mapping[int, Figures], level: int) -> Figures:
        """Assignment by assignment, in how many places a memory's holders reserve space: below full loops (section 5.6)."""
        accesses = self.einsums[number].tensor_accesses
        depths = [depth for depth, row in enumerate(layout.segments) if any(h.level == level for h in row)]
        loops = layout.prefix.loops
        place = np.full(1, float(len(loops)))
        last = np.full(1, float(depths[-1]) if depths else -1.0)
        count = np.full(1, float(len(depths)))
        current: dict[str, Figures | int] = dict(self.einsums[number].bounds)
        current.update({loop.variable: columns[n - len(loops)] for n, loop in enumerate(loops)})
        for n, slot in enumerate(slots):
            if slot.variable:
                place = place + (current[slot.variable] != columns[n]) * (not slot.component)
                current[slot.variable] = columns[n]
            elif slot.holder is not None and slot.holder.level == level:
                own, sinks, tiles = place, np.full(1, True), dict(current)
                for m, below in enumerate(slots[n + 1 :], n + 1):
                    if not below.variable or below.component:
                        break
                    cuts = tiles[below.variable] != columns[m]
                    full = relevance(window(accesses, slot.holder.tensor), below.variable) is Relevance.FULL
                    own, sinks = own + (cuts & sinks & full), sinks & ~(cuts & (not full))
                    tiles[below.variable] = columns[m]
                count, last = count + (own != last), own
        return count

    def _chains(self, tile: int, strict: Sequence[bool]) -> Iterator[tuple[int, ...]]:
        if not strict:
            yield ()
            return
        options = self.tiles(tile) + ([] if strict[0] else [tile])
        for t in options:
            for rest in self._chains(t, strict[1:]):
                if rest or t == 1:
                    yield (t, *rest)

    def _node(self, slot: Slot, tile: int | None) -> list[tree.Node]:
        if slot.holder is not None:
            return [self._storage_node(slot.holder)]
        assert slot.variable is not None and tile is not None
        if slot.component:
            return [tree.Spatial(rank_variable=slot.variable, tile_shape=tile, name=slot.dimension, component=slot.component)]
        return [tree.Temporal(rank_variable=slot.variable, tile_shape=tile)]

    def _prefix_loop(self, loop: Loop) -> tree.Node:
        return tree.Temporal(rank_variable=loop.variable, tile_shape=loop.tile)

    def _storage_node(self, holder: Holder) -> tree.Node:
        leaf = self.levels[holder.level]
        kind = tree.Toll if isinstance(leaf, Toll) else tree.Storage
        return kind(tensors=(holder.tensor,), component=leaf.name)

    def _figures(
        self, number: int, layout: Layout, slots: list[Slot], columns: Mapping[int, Figures], count: int
    ) -> tuple[Figures, Figures, NDArray[np.bool_], list[Figures]]:
        """What the model says of one Einsum alone, for all assignments at once."""
        einsum, loops = self.einsums[number], layout.prefix.loops
        places: dict[int, int] = {}
        nodes: list[tree.Node] = self._top(einsum, layout)
        for place, row in enumerate(layout.segments):
            nodes += [self._storage_node(h) for h in row]
            if place < len(loops):
                places[place - len(loops)] = len(nodes)
                nodes.append(tree.Temporal(rank_variable=loops[place].variable, tile_shape=int(columns[place - len(loops)][0])))
        for n, slot in enumerate(slots):
            places[n] = len(nodes)
            nodes += self._node(slot, int(columns[n][0]) if n in columns else None)
        nodes.append(tree.Compute(einsum=einsum.name, component=self.compute))
        workload = dataclasses.replace(self.spec.workload, einsums=(einsum,))
        spec = self.spec.replace(workload=workload, arch=self.roomy, mapping=tree.Mapping(nodes=tuple(nodes)))
        if not columns:
            p = ff.predict(spec)
            return np.array([p.energy]), np.array([p.latency]), np.array([True]), [np.array([_peak(p, m)]) for m in self.finite]
        many = ff.predict_many(spec, {(places[n],): column for n, column in columns.items()})
        return many.energy, many.latency, many.legal, [many.peak.get(m, np.zeros(count)) for m in self.finite]

    def _top(self, einsum: WorkloadEinsum, layout: Layout) -> list[tree.Node]:
        inner = {t for t, _, _ in layout.prefix.homes}
        kept = tuple(t for t in einsum.tensors if t not in inner)
        return [tree.Storage(tensors=kept, component=self.levels[0].name)] if kept else []

    # --- whole trees

    def optima(self, objectives: Sequence[str] = tuple(OBJECTIVES), capacity: bool = True) -> dict[str, Optimum]:
        """The best tree for each objective; without ``capacity``, as if every memory were endless."""
        best = {name: Optimum() for name in objectives}
        frames = [frame for homes in self.all_homes() for frame in self.frames(homes)]
        for name in objectives:
            rated = []
            for frame in frames:
                lists = [self._fitting(self.paths(n, prefix), capacity) for n, prefix in enumerate(frame.prefixes)]
                if all(lists):
                    rated.append((self._values(lists, name), frame, lists))
            for values, frame, lists in sorted(rated, key=lambda item: float(item[0].min())):
                self._improve(best[name], values, frame, lists, capacity)
        return best

    def _fitting(self, paths: Sequence[Path], capacity: bool) -> list[Path]:
        """Without the paths that fit no memory even when they are alone: nothing that is alive besides them makes them smaller."""
        sizes = [leaf.size for leaf in self.levels if isinstance(leaf, Memory) and leaf.name in self.finite]
        return [p for p in paths if not capacity or all(bits <= size for bits, size in zip(p.peaks, sizes, strict=True))]

    def _values(self, lists: Sequence[Sequence[Path]], objective: str) -> Figures:
        """The objective of every combination of paths, one axis per Einsum."""
        sums = []
        for figure in ("energy", "latency"):
            total = np.zeros(())
            for rows in lists:
                total = np.add.outer(total, np.array([getattr(path, figure) for path in rows]))
            sums.append(total)
        return OBJECTIVES[objective](*sums)

    def _improve(self, best: Optimum, values: Figures, frame: Frame, lists: Sequence[Sequence[Path]], capacity: bool) -> None:
        flat = values.ravel()
        better = np.flatnonzero(flat < best.value * (1 - 1e-12) if best.value < float("inf") else flat < float("inf"))
        for index in better[np.argsort(flat[better], kind="stable")]:
            picks = np.unravel_index(index, values.shape)
            paths = [rows[int(k)] for rows, k in zip(lists, picks, strict=True)]
            mapping = self._tree(frame, paths)
            if mapping is None:
                continue
            self.whole += 1
            try:
                p = ff.predict(self.spec.replace(mapping=mapping, arch=self.arch if capacity else self.roomy))
            except ff.ModelError:
                continue
            whole = np.array([sum(path.energy for path in paths), sum(path.latency for path in paths)])
            assert np.allclose([p.energy, p.latency], whole, rtol=1e-9), (mapping, p.energy, p.latency, whole)
            best.value, best.mapping = float(flat[index]), mapping
            return

    def _tree(self, frame: Frame, paths: Sequence[Path]) -> tree.Mapping | None:
        """The tree of these paths; ``None`` if one would find on its way what only another wants."""
        homes = {h for path in paths for h in path.layout.prefix.homes}
        inner = {t for t, _, _ in homes}
        top = tuple(t for t in self.spec.workload.tensors if t not in inner)
        nodes = [tree.Storage(tensors=top, component=self.levels[0].name)] if top else []
        mapping = tree.Mapping(nodes=(*nodes, *self._group(frame, paths, 0, len(paths) - 1, 0, frozenset())))
        for path, einsum, found in zip(paths, self.einsums, mapping.paths(), strict=True):
            if self._seen(einsum, found) != self._meant(einsum, path):
                return None
        return mapping

    def _group(self, frame: Frame, paths: Sequence[Path], low: int, high: int, depth: int, done: frozenset[Holder]) -> list[tree.Node]:
        """The nodes of consecutive Einsums below the ``depth`` loops that they share."""
        if low == high and len(paths[low].layout.prefix.loops) == depth:
            rest = [h for h in paths[low].layout.segments[depth] if h not in done]
            return [*map(self._storage_node, rest), *paths[low].below, self._leaf(low)]
        cuts = [b for b in range(low, high) if frame.shared[b] == depth]
        wanted = dict.fromkeys(h for path in paths[low : high + 1] for h in path.layout.segments[depth] if h not in done)
        if cuts:
            crossing = {t for path in paths for t, _, d in path.layout.prefix.homes if d == depth and self._crosses(t, cuts)}
            level = max((h.level for h in wanted if h.tensor in crossing and self._is_home(paths, h)), default=-1)
            wanted = dict.fromkeys(h for h in wanted if h.level < level or (h.tensor in crossing and self._is_home(paths, h)))
        ordered = sorted(wanted, key=lambda h: (h.level, not self._is_home(paths, h)))
        nodes = [self._storage_node(h) for h in ordered]
        if not cuts:
            loop = self._shared_loop(paths, low, high, depth)
            return [*nodes, loop, *self._group(frame, paths, low, high, depth + 1, frozenset())]
        starts, ends = [low, *(b + 1 for b in cuts)], [*cuts, high]
        branches = [self._group(frame, paths, a, b, depth, done | wanted.keys()) for a, b in zip(starts, ends, strict=True)]
        return [*nodes, tree.Sequential(nodes=tuple(tree.Nested(nodes=tuple(branch)) for branch in branches))]

    def _crosses(self, tensor: str, cuts: Sequence[int]) -> bool:
        touched = [n for n, e in enumerate(self.einsums) if tensor in e.tensors]
        return any(touched[0] <= cut < touched[-1] for cut in cuts)

    def _is_home(self, paths: Sequence[Path], holder: Holder) -> bool:
        return any((holder.tensor, holder.level) == (t, level) for path in paths for t, level, _ in path.layout.prefix.homes)

    def _leaf(self, number: int) -> tree.Node:
        return tree.Compute(einsum=self.einsums[number].name, component=self.compute)

    def _shared_loop(self, paths: Sequence[Path], low: int, high: int, depth: int) -> tree.Node:
        loops = {self.einsums[n].name: paths[n].layout.prefix.loops[depth] for n in range(low, high + 1)}
        names = {name: loop.variable for name, loop in loops.items()}
        tile = next(iter(loops.values())).tile
        if len(set(names.values())) == 1:
            return tree.Temporal(rank_variable=next(iter(names.values())), tile_shape=tile)
        return tree.Temporal(rank_variable=names, tile_shape=tile)  # type: ignore[arg-type]

    def _seen(self, einsum: WorkloadEinsum, path: Sequence[tree.Placed]) -> list[tuple[str, ...]]:
        result: list[tuple[str, ...]] = []
        for placed in path:
            node = placed.node
            if isinstance(node, tree.Storage | tree.Toll):
                result += [(t, node.component) for t in node.tensors if t in einsum.tensors]
            elif isinstance(node, tree.Temporal):
                result.append((str(node.variable(einsum.name)), str(node.tile_shape), getattr(node, "name", "")))
        return result

    def _meant(self, einsum: WorkloadEinsum, path: Path) -> list[tuple[str, ...]]:
        nodes = self._top(einsum, path.layout)
        for place, row in enumerate(path.layout.segments):
            nodes += [self._storage_node(h) for h in row]
            nodes += [self._prefix_loop(loop) for loop in path.layout.prefix.loops[place : place + 1]]
        return self._seen(einsum, [tree.Placed((), node) for node in [*nodes, *path.below]])


@dataclass(frozen=True)
class Slot:
    """A holder, or a loop whose tile is open; spatial if it has a component."""

    variable: str | None = None
    component: str = ""
    dimension: str = ""
    holder: Holder | None = None


def _open(prefix: Prefix) -> Prefix:
    return dataclasses.replace(prefix, loops=tuple(Loop(loop.variable, 0) for loop in prefix.loops))


def _rank(einsum: WorkloadEinsum, tensor: str, variable: str) -> str | None:
    access = window(einsum.tensor_accesses, tensor)
    return next((rank for rank, index in access.projection.items() if variable in index.variables), None)


def _subsets(items: list[tuple[str, str, str]]) -> list[tuple[tuple[str, str, str], ...]]:
    return [chosen for count in range(len(items) + 1) for chosen in itertools.combinations(items, count)]


def _peak(prediction: Prediction, memory: str) -> float:
    return float(prediction.peak.entries.get((memory,), 0.0))


def _front(table: Figures) -> list[int]:
    """The rows that no other row equals or beats in every column; of equal rows the first."""
    order = np.lexsort(table.T[::-1])
    kept: list[int] = []
    for row in order:
        values = table[row] * (1 - 1e-12)
        if not kept or not np.any(np.all(table[kept] * (1 - 2e-12) <= values, axis=1)):
            kept.append(int(row))
    return kept


def _undominated(paths: list[Path]) -> list[Path]:
    if not paths:
        return []
    table = np.array([[path.energy, path.latency, *path.peaks] for path in paths])
    return [paths[row] for row in _front(table)]


def _endless(nodes: tuple[ArchNode, ...]) -> tuple[ArchNode, ...]:
    result: list[ArchNode] = []
    for node in nodes:
        if isinstance(node, Hierarchical | Fork | Array):
            result.append(dataclasses.replace(node, nodes=_endless(node.nodes)))
        else:
            result.append(dataclasses.replace(node, size=float("inf")) if isinstance(node, Memory) else node)
    return tuple(result)
