"""Where boxes and edges lie: in layers, apart from each other, with few crossings; circles are found."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feinsum_fuse.formats.writing.layout import Layout, layered, leading_back

GAP = 10.0


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int]]]:
    widths = draw(st.lists(st.floats(1, 200), min_size=0, max_size=14))
    nodes = range(len(widths))
    pairs = [(one, other) for one in nodes for other in nodes if one < other]
    return widths, draw(st.lists(st.sampled_from(pairs), max_size=30)) if pairs else []


def apart(found: Layout, widths: list[float]) -> bool:
    """Whether what lies in one layer, edges that pass it included, is apart by the gap."""
    rows: dict[float, list[tuple[float, float]]] = {}
    for node, (x, layer) in found.nodes.items():
        rows.setdefault(layer, []).append((x - widths[node] / 2, x + widths[node] / 2))
    for passed in found.routes.values():
        for x, layer in passed:
            rows.setdefault(layer, []).append((x, x))
    return all(one[1] + GAP <= other[0] + 1e-6 for row in rows.values() for one, other in pairwise(sorted(row)))


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_everything_has_a_place_of_its_own(graph: tuple[list[float], list[tuple[int, int]]]) -> None:
    widths, edges = graph
    found = layered(widths, edges, GAP)
    assert set(found.nodes) == set(range(len(widths))) and set(found.routes) == set(edges)
    assert apart(found, widths)
    for (start, end), passed in found.routes.items():
        layers = [found.nodes[start][1], *(layer for _, layer in passed), found.nodes[end][1]]
        assert all(other == one + 1 for one, other in pairwise(layers))
    for node, (x, layer) in found.nodes.items():
        assert x - widths[node] / 2 >= -1e-6 and x + widths[node] / 2 <= found.width + 1e-6 and 0 <= layer < found.layers


def test_edges_do_not_cross_where_they_need_not() -> None:
    found = layered([40.0] * 6, [(0, 5), (1, 4), (2, 3)], GAP)
    assert all(found.nodes[start][0] == pytest.approx(found.nodes[end][0]) for start, end in found.routes)


def test_what_nothing_leads_to_stands_right_above_what_it_leads_to() -> None:
    found = layered([40.0] * 4, [(0, 1), (1, 2), (3, 2)], GAP)
    assert found.nodes[3][1] == found.nodes[1][1]


def test_circles_are_opened_where_they_return() -> None:
    assert leading_back([0, 1], [(0, 1), (1, 2), (2, 0), (0, 2)]) == {(2, 0)}
    assert leading_back([0], [(0, 0)]) == {(0, 0)}
    assert leading_back([0, 1], [(0, 1), (0, 2), (1, 2)]) == set()
