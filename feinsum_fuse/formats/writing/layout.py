"""Where the boxes and edges of a directed graph lie: in layers, with few crossings, and no edge behind a box.

The method of Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical system structures", 1981). Every edge goes from
one layer to the next: where it is longer, it has a place of its own in each layer that it crosses. Layers are ordered by the means of
neighbours, swept down and up; in the order that was found, places are the nearest in the least squares to those of their neighbours.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

Coordinates = tuple[float, float]
SWEEPS = 12
"""Down and up again; the order with the fewest crossings is kept."""
STRAIGHT = 4.0
"""How much more than a box what only passes a layer is kept below where it comes from."""


@dataclass(frozen=True)
class Layout:
    """Places of nodes, and the places that each edge passes on its way, both in (pixels from the left, number of the layer)."""

    nodes: Mapping[int, Coordinates]
    routes: Mapping[tuple[int, int], tuple[Coordinates, ...]]
    """Edge -> the places between its ends, one for each layer that it crosses."""
    width: float
    layers: int


@dataclass
class _Layers:
    """A graph in which every edge goes from a layer to the next: its nodes, and places where longer edges pass, numbered behind them."""

    rows: list[list[int]]
    above: dict[int, list[int]]
    below: dict[int, list[int]]
    chains: dict[tuple[int, int], list[int]]
    """Edge -> the places where it passes a layer."""

    @classmethod
    def of(cls, count: int, edges: Iterable[tuple[int, int]]) -> _Layers:
        """Each node below what leads to it, and those that nothing leads to right above what they lead to first."""
        pairs = list(dict.fromkeys(edges))
        into: dict[int, list[int]] = {node: [] for node in range(count)}
        out: dict[int, list[int]] = {node: [] for node in range(count)}
        for start, end in pairs:
            into[end].append(start)
            out[start].append(end)
        level: dict[int, int] = {}
        for node in TopologicalSorter(into).static_order():
            level[node] = 1 + max((level[other] for other in into[node]), default=-1)
        for node in range(count):
            if out[node] and not into[node]:
                level[node] = min(level[other] for other in out[node]) - 1
        found = cls([[] for _ in range(1 + max(level.values(), default=0))], {}, {}, {})
        for node in range(count):
            found._add(node, level[node])
        number = count
        for start, end in pairs:
            chain = list(range(number, number + level[end] - level[start] - 1))
            for place, passed in enumerate(chain, level[start] + 1):
                found._add(passed, place)
            for one, other in pairwise([start, *chain, end]):
                found.below[one].append(other)
                found.above[other].append(one)
            found.chains[start, end] = chain
            number += len(chain)
        return found

    def _add(self, node: int, layer: int) -> None:
        self.rows[layer].append(node)
        self.above[node], self.below[node] = [], []

    def order(self) -> None:
        """Give every layer an order with few crossings."""
        best, fewest = [list(row) for row in self.rows], self.crossings()
        for sweep in range(2 * SWEEPS):
            if not fewest:
                break
            downwards = sweep % 2 == 0
            for row in self.rows if downwards else reversed(self.rows):
                self._by_means(row, self.above if downwards else self.below)
            crossings = self.crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def _by_means(self, row: list[int], neighbours: Mapping[int, Sequence[int]]) -> None:
        """Sort a layer by the mean place of each node's neighbours; those without any keep theirs."""
        place = {node: number for other in self.rows for number, node in enumerate(other)}
        means = {node: sum(place[other] for other in found) / len(found) for node in row if (found := neighbours[node])}
        ordered = iter(sorted(means, key=lambda node: means[node]))
        row[:] = [next(ordered) if node in means else node for node in row]

    def crossings(self) -> int:
        """How many pairs of edges cross: pairs that are in another order below than above."""
        total = 0
        for row, following in pairwise(self.rows):
            place = {node: number for number, node in enumerate(following)}
            seen: list[int] = []
            for node in row:
                ends = sorted(place[other] for other in self.below[node])
                total += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total


def layered(widths: Sequence[float], edges: Sequence[tuple[int, int]], gap: float) -> Layout:
    """Nodes 0, 1, ... of an acyclic graph by their widths, each layer below what leads to it; ``gap``: between neighbours, pixels."""
    graph = _Layers.of(len(widths), edges)
    graph.order()
    wide = {node: widths[node] if node < len(widths) else 0.0 for node in graph.above}
    x = dict.fromkeys(wide, 0.0)
    for row in graph.rows:
        _space(row, dict.fromkeys(row, 0.0), x, wide, gap)
    for sweep in range(2 * SWEEPS + 1):
        downwards = sweep % 2 == 0
        for row in graph.rows if downwards else reversed(graph.rows):
            sides = (graph.above, graph.below) if sweep == 2 * SWEEPS else (graph.above if downwards else graph.below,)
            wished = {}
            for node in row:
                near = [x[other] for side in sides for other in side[node]]
                wished[node] = sum(near) / len(near) if near else x[node]
            _space(row, wished, x, wide, gap)
    left = min((x[node] - wide[node] / 2 for node in x), default=0.0)
    layer = {node: number for number, row in enumerate(graph.rows) for node in row}
    places = {node: (x[node] - left, float(layer[node])) for node in x}
    routes = {edge: tuple(places[passed] for passed in chain) for edge, chain in graph.chains.items()}
    width = max((at + wide[node] / 2 for node, (at, _) in places.items()), default=0.0)
    return Layout({node: places[node] for node in range(len(widths))}, routes, width, len(graph.rows))


def _space(row: Sequence[int], wished: Mapping[int, float], x: dict[int, float], wide: Mapping[int, float], gap: float) -> None:
    """Place a layer's nodes in their order, apart by half their widths and the gap, as near to what is wished as can be.

    With what lies left of each node taken off, places may only rise: an isotonic regression, by pooling adjacent violators (Barlow et al.,
    "Statistical Inference under Order Restrictions", 1972).
    """
    offsets = [0.0]
    for one, other in pairwise(row):
        offsets.append(offsets[-1] + (wide[one] + wide[other]) / 2 + gap)
    pools: list[tuple[float, float, int]] = []
    for node, offset in zip(row, offsets, strict=False):
        weight = 1.0 if wide[node] else STRAIGHT
        mean, count = wished[node] - offset, 1
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean, weight, count = (before * heavy + mean * weight) / (heavy + weight), heavy + weight, count + many
        pools.append((mean, weight, count))
    levels = [mean for mean, _, count in pools for _ in range(count)]
    x.update({node: level + offset for node, level, offset in zip(row, levels, offsets, strict=False)})


def leading_back(starts: Iterable[int], edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The edges that lead from a node back to one that led to it, on walks from ``starts`` in their order: without them, no circle is."""
    out: dict[int, list[int]] = {}
    for start, end in edges:
        out.setdefault(start, []).append(end)
    back: set[tuple[int, int]] = set()
    seen: set[int] = set()
    for first in starts:
        if first in seen:
            continue
        seen.add(first)
        path, waiting = [first], [iter(out.get(first, ()))]
        while path:
            following = next(waiting[-1], None)
            if following is None:
                path.pop()
                waiting.pop()
            elif following in path:
                back.add((path[-1], following))
            elif following not in seen:
                seen.add(following)
                path.append(following)
                waiting.append(iter(out.get(following, ())))
    return back
