"""Where the boxes and edges of a directed graph lie, by fast_sugiyama: in layers, no edge behind a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Places of nodes, and the places that each edge passes on its way, both in (pixels from the left, number of the layer)."""

    nodes: Mapping[int, Point]
    routes: Mapping[tuple[int, int], tuple[Point, ...]]
    """Edge -> the places between its ends, one for each layer that it crosses."""
    width: float
    layers: int


def layered(count: int, edges: Sequence[tuple[int, int]], spacing: float) -> Layout:
    """Nodes 0, 1, ... of an acyclic graph, each layer below what leads to it; ``spacing``: between the middles of neighbours, pixels.

    Parts that no edge connects stand side by side.
    """
    nodes: dict[int, Point] = {}
    routes: dict[tuple[int, int], tuple[Point, ...]] = {}
    left, layers = 0.0, 1
    from fast_sugiyama import from_edges  # compiled, for drawings alone: what draws nothing does without it

    for placed, width, height, lines in from_edges(list(dict.fromkeys(edges)), vertex_spacing=spacing, dummy_vertices=True):
        found = [(int(start), int(end)) for start, end in lines or ()]
        places = {int(node): (left + x + spacing / 2, round((height - y) / spacing)) for node, (x, y) in placed}
        nodes |= {node: place for node, place in places.items() if node < count}
        layers = max(layers, *(layer + 1 for _, layer in places.values()))
        bends = {start: end for start, end in found if start >= count}
        for start, end in [edge for edge in found if edge[0] < count]:
            passed: list[Point] = []
            while end >= count:
                passed.append(places[end])
                end = bends[end]
            routes[start, end] = tuple(passed)
        left += width + spacing
    for node in range(count):
        if node not in nodes:
            nodes[node] = (left + spacing / 2, 0)
            left += spacing
    return Layout(nodes, routes, left, layers)
