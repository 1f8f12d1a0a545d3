"""The paths of one Einsum: its holders and loops in every order and with every tile, by what the model says of them alone."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import feinsum_fuse as ff
from feinsum_fuse.formats import mapping as tree
from feinsum_fuse.formats.checking.constraint_check import violations
from feinsum_fuse.formats.relevance import Relevance, relevance, window
from feinsum_fuse.formats.workload import WorkloadEinsum
from feinsum_fuse.model.prediction import Prediction

from .tree_space import Holder, Layout, Path, Prefix, TreeSpace

Figures = NDArray[np.float64]


class TooLarge(Exception):
    """The space has more paths than a brute force was to look at."""


@dataclass(frozen=True)
class Slot:
    """A holder, or a loop whose tile is open; spatial if it has a component."""

    variable: str | None = None
    component: str = ""
    dimension: str = ""
    holder: Holder | None = None


@dataclass
class TreePaths(TreeSpace):
    """The paths that may be part of a best tree."""

    places: float = float("inf")
    """So many places among an Einsum's loops in time may a memory's holders have; a holder's place is where its space is reserved."""
    every_order: bool = False
    """Try each order of loops between two holders, also those that can differ in no figure."""
    most: float = float("inf")
    """More paths than that end in :class:`TooLarge`."""
    evaluated: int = 0
    """Paths that the model was asked about."""
    _rows: dict[tuple[int, Prefix], dict[Prefix, list[Path]]] = field(default_factory=dict)

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
            if not all(self._beside(prefix, holder, place) for holder, place in zip(holders, places, strict=True)):
                continue
            lists: list[list[Holder]] = [[Holder(t, level) for t, level, d in prefix.homes if d == place] for place in range(length + 2)]
            deepest = max((h.level for h in lists[length]), default=0)
            if any(place == length and holder.level >= deepest for holder, place in zip(holders, places, strict=True)):
                continue  # The same as right below the prefix.
            homes = [list(row) for row in lists]
            for holder, place in zip(holders, places, strict=True):
                lists[place].append(holder)
            if not self.stacks(prefix, [h for row in lists for h in sorted(row, key=lambda h: h.level)]):
                continue
            orders = [list(self._orders(row, home)) for row, home in zip(lists, homes, strict=True)]
            for rows in itertools.product(*orders):
                if not self.loose or self.stacks(prefix, [h for row in rows for h in row]):
                    yield Layout(prefix, tuple(rows[:-1]), rows[-1])

    def _beside(self, prefix: Prefix, holder: Holder, place: int) -> bool:
        """Whether a holder stands below the shared loops in space of the fanouts above its memory, and above those of all others."""
        levels = {(component, dimension): level for level, component, dimension, _ in self.fanouts}
        return all(
            (n < place) == (holder.level >= levels[loop.component, loop.dimension]) for n, loop in enumerate(prefix.loops) if loop.component
        )

    def _orders(self, row: list[Holder], homes: list[Holder]) -> Iterator[tuple[Holder, ...]]:
        if self.loose:
            for order in itertools.permutations(row):
                if not any(b in homes and a not in homes and a.level == b.level for a, b in itertools.combinations(order, 2)):
                    yield order
            return
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
        levels = {(component, dimension): level for level, component, dimension, _ in self.fanouts}
        shared = [levels[loop.component, loop.dimension] for loop in layout.prefix.loops if loop.component]
        for depth, component, dimension, _ in self.fanouts:
            if any(level >= depth for level in (*(h.level for h in above), *shared)):
                continue  # Its loops are shared.
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
        if self.ruled:
            rows = ({n: int(column[row]) for n, column in columns.items()} for row in range(len(fitting)))
            legal = legal & [self._keeps(number, layout, slots, tiles) for tiles in rows]
        self.evaluated += len(fitting)
        if self.evaluated > self.most:
            raise TooLarge(f"more than {self.most} paths")
        tiles = np.column_stack([columns[n] for n in range(-len(loops), 0)]) if loops else np.zeros((len(fitting), 0))
        table = np.column_stack([energy, latency, *peaks])
        for shape in np.unique(tiles, axis=0):
            same = np.flatnonzero(legal & np.all(tiles == shape, axis=1))
            tiled = [dataclasses.replace(loop, tile=int(tile)) for loop, tile in zip(loops, shape, strict=True)]
            own_layout = dataclasses.replace(layout, prefix=dataclasses.replace(layout.prefix, loops=tuple(tiled)))
            for row in same[_front(table[same])]:
                below = [node for n, s in enumerate(slots) for node in self._node(s, int(columns[n][row]) if n in columns else None)]
                yield Path(own_layout, tuple(below), table[row][0], table[row][1], tuple(table[row][2:]))

    @cached_property
    def ruled(self) -> bool:
        """Whether memories have rules on tiles or on the order of their nodes."""
        return any(level.tensors.tile_shape or level.tensors.tensor_order_options for level in self.levels)

    def _keeps(self, number: int, layout: Layout, slots: list[Slot], tiles: Mapping[int, int]) -> bool:
        """Whether a path, without its loops of one iteration, keeps the rules of its memories."""
        einsum, loops = self.einsums[number], layout.prefix.loops
        nodes = self.top(einsum, layout)
        for place, row in enumerate(layout.segments):
            nodes += [self.storage_node(h) for h in row]
            if place < len(loops):
                nodes.append(self.prefix_loop(dataclasses.replace(loops[place], tile=tiles[place - len(loops)])))
        current = {**einsum.bounds, **{loop.variable: tiles[n - len(loops)] for n, loop in enumerate(loops)}}
        for n, slot in enumerate(slots):
            if not slot.variable or tiles[n] != current[slot.variable]:
                nodes += self._node(slot, tiles.get(n))
            if slot.variable:
                current[slot.variable] = tiles[n]
        mapping = tree.Mapping((*nodes, tree.Compute(einsum=einsum.name, component=self.compute)))
        return not violations(mapping, self.spec.workload, self.arch, {})

    def _spread(self, number: int, layout: Layout, slots: list[Slot], columns: Mapping[int, Figures], count: int) -> NDArray[np.intp]:
        """The assignments whose loops in space fit their fanouts."""
        used = {(component, dimension): np.ones(count) for _, component, dimension, _ in self.fanouts}
        current: dict[str, Figures | int] = dict(self.einsums[number].bounds)
        loops = layout.prefix.loops
        for place, loop in enumerate(loops):
            tile = columns[place - len(loops)]
            if loop.component:
                used[loop.component, loop.dimension] *= -(-current[loop.variable] // tile)
            current[loop.variable] = tile
        for n, slot in enumerate(slots):
            if slot.variable:
                if slot.component:
                    used[slot.component, slot.dimension] *= -(-current[slot.variable] // columns[n])
                current[slot.variable] = columns[n]
        fits = [used[component, dimension] <= fanout for _, component, dimension, fanout in self.fanouts]
        fits += [self._places(number, layout, slots, columns, level) <= self.places for level in self._counted]
        return np.flatnonzero(np.all(np.broadcast_arrays(np.ones(count, dtype=bool), *fits), axis=0))

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
            return [self.storage_node(slot.holder)]
        assert slot.variable is not None and tile is not None
        if slot.component:
            return [tree.Spatial(rank_variable=slot.variable, tile_shape=tile, name=slot.dimension, component=slot.component)]
        return [tree.Temporal(rank_variable=slot.variable, tile_shape=tile)]

    def _figures(
        self, number: int, layout: Layout, slots: list[Slot], columns: Mapping[int, Figures], count: int
    ) -> tuple[Figures, Figures, NDArray[np.bool_], list[Figures]]:
        """What the model says of one Einsum alone, for all assignments at once."""
        einsum, loops = self.einsums[number], layout.prefix.loops
        places: dict[int, int] = {}
        nodes: list[tree.Node] = self.top(einsum, layout)
        for place, row in enumerate(layout.segments):
            nodes += [self.storage_node(h) for h in row]
            if place < len(loops):
                places[place - len(loops)] = len(nodes)
                nodes.append(self.prefix_loop(dataclasses.replace(loops[place], tile=int(columns[place - len(loops)][0]))))
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


def _open(prefix: Prefix) -> Prefix:
    return dataclasses.replace(prefix, loops=tuple(dataclasses.replace(loop, tile=0) for loop in prefix.loops))


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
