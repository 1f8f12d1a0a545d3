"""Trees that differ in one node: which there are, and that nothing else changes."""

from __future__ import annotations

from collections import Counter

from feinsum_fuse.formats.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from feinsum_fuse.raising.neighbours import AddedNodes, neighbours

MAIN = Storage(("A", "B"), "Main")
TILE, LANES = Storage(("A",), "Near"), Spatial("m", 1, name="lane", component="Core")
ROWS, VALUES = Temporal("m", 2), Temporal("k", 1)
P, Q, R = (Compute(name, "Core") for name in "PQR")
CHOICES = AddedNodes(["Cache"], ["n"], [("Core", "lane")])


def around(*nodes: Node) -> list[tuple[Node, ...]]:
    """What comes below main memory in the neighbours of a tree."""
    found = list(neighbours(Mapping((MAIN, *nodes)), CHOICES))
    assert all(other.nodes[0] == MAIN for other in found)
    return [other.nodes[1:] for other in found]


def test_a_node_elsewhere_one_less_one_more_or_a_loop_bound_in_another_way() -> None:
    found = around(TILE, ROWS, VALUES, LANES, P)
    expected: list[tuple[Node, ...]] = [
        *((ROWS, TILE, VALUES, LANES, P), (LANES, TILE, ROWS, VALUES, P)),
        *((ROWS, VALUES, LANES, P), (TILE, ROWS, LANES, P)),
        *((TILE, Spatial("m", 2, name="lane", component="Core"), VALUES, LANES, P), (TILE, ROWS, VALUES, Temporal("m", 1), P)),
        *((TILE, ROWS, Temporal("n", 1), VALUES, LANES, P), (TILE, ROWS, Storage(("A",), "Cache"), VALUES, LANES, P)),
    ]
    places = [found.index(nodes) for nodes in expected]
    assert places == sorted(places)  # by kind, those that add a node last
    before = Counter((TILE, ROWS, VALUES, LANES, P))
    for nodes in found:
        assert (Counter(nodes) - before).total() <= 1 >= (before - Counter(nodes)).total() and nodes[-1] == P


def test_loops_of_several_values_and_the_operation_stay() -> None:
    assert all(nodes.count(P) == 1 and ROWS in nodes for nodes in around(TILE, ROWS, P) if not any(type(n) is Spatial for n in nodes))


def test_nodes_move_into_branches_and_out_of_them_and_branches_together() -> None:
    found = around(TILE, Sequential((P, Q, R)))
    assert (Sequential(tuple(Nested((TILE, one)) for one in (P, Q, R))),) in found
    assert (Sequential((P, Nested((TILE, Q)), R)),) in found
    assert (TILE, Sequential((P, Nested((Sequential((Q, R)),))))) in found
    out = around(Sequential((Nested((TILE, P)), Nested((TILE, Q)), R)))
    assert (TILE, Sequential((Nested((P,)), Nested((Q,)), Nested((R,))))) in out
    assert (Sequential((Nested((TILE, P)), Nested((Q,)), R)),) in out  # below the branches trees change in the same ways
