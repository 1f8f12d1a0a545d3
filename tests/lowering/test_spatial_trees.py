"""Random trees with lanes, sums over work-items and several loops on one axis that were once wrong or refused, cut down."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.schedule.refusals import HostLoopError

from .programs import outcome
from .test_mappings import CHAIN, MATMUL, spec_of

HELD = "- !Storage {component: MainMemory, tensors: [A, B, Z]}\n"
HELD_OF_CHAIN = "- !Storage {component: MainMemory, tensors: [A, B, C, Z]}\n"


def nodes(*lines: str) -> str:
    """Nodes, one a line: ``m 4``, ``m 1 WorkItem.X``, ``Scratchpad A Z``, ``= Z``."""
    texts = []
    for line in lines:
        first, *rest = line.split()
        if first == "=":
            texts.append(f"!Compute {{einsum: {rest[0]}, component: MAC}}")
        elif first[0].isupper():
            texts.append(f"!Storage {{component: {first}, tensors: [{', '.join(rest)}]}}")
        elif len(rest) == 1:
            texts.append(f"!Temporal {{rank_variable: {first}, tile_shape: {rest[0]}}}")
        else:
            component, name = rest[1].split(".")
            texts.append(f"!Spatial {{rank_variable: {first}, tile_shape: {rest[0]}, component: {component}, name: {name}}}")
    return "".join(f"- {text}\n" for text in texts)


def branches(*parts: str) -> str:
    """A Sequential node."""
    inner = "".join(f"  - !Nested\n    nodes:\n{''.join(f'    {line}' for line in part.splitlines(keepends=True))}" for part in parts)
    return f"- !Sequential\n  nodes:\n{inner}"


LANES_OF_A_CUT_ROW = HELD_OF_CHAIN + nodes("n 2", "Register T") + branches(
    nodes("k 4", "m 2", "k 1", "n 1", "m 1 Lane.V", "= T"), nodes("m 2", "n 1", "p 1", "m 1 Lane.V", "= Z")
)
"""The initial values of T run over two loops along the lanes: the inner one is cut into vectors."""
ITEMS_BELOW_A_SUM = HELD + nodes("k 1 WorkItem.Y", "n 4 WorkItem.X", "Register B Z", "Scratchpad A", "n 1", "m 1", "= Z")
"""The sum's initial value must not be set inside the loop that has partial results."""
ITEMS_AROUND_TILES = HELD_OF_CHAIN + nodes("m 1 WorkItem.X", "Scratchpad T") + branches(
    nodes("Scratchpad A", "k 1", "= T"), nodes("Scratchpad C", "= Z")
)
"""A loop over work-items that has been parted for one tile encloses another one."""
ONE_AXIS_ABOVE_ONE_ITERATION = HELD + nodes("n 4", "n 1 WorkItem.X", "m 1 WorkItem.X", "= Z")
"""A reduction of one iteration does not come between loops of one axis."""
BARRIER_INSIDE_ITEMS = HELD_OF_CHAIN + nodes("m 3", "m 2", "Scratchpad A", "m 1 WorkItem.Y", "Scratchpad T") + branches(
    nodes("n 5 WorkItem.X", "k 1", "n 1", "= T"), nodes("n 1", "p 4", "p 1 Lane.V", "= Z")
)
"""Work-items of one axis wait for each other inside a loop over those of another one, the last of which has less to do."""
TILE_OF_PARTIAL_SUMS = HELD_OF_CHAIN + nodes("n 4", "Scratchpad T") + branches(
    nodes("k 1", "m 1", "n 1", "= T"), nodes("m 2", "n 1 WorkItem.Y", "Scratchpad Z", "m 1", "p 1", "= Z")
)
"""Partial results beyond the end of the loop stay at their initial values, and are set anew in every iteration around them."""
AXES_OF_PARTIAL_SUMS = HELD + nodes("m 1 WorkItem.X", "k 4", "k 2 WorkItem.Y", "Register A B", "Scratchpad Z", "n 1", "k 1", "= Z")
"""A tile of partial results has one axis more than the tensor."""
LANES_UNDER_LIMITED_ITEMS = HELD + nodes("k 2 WorkItem.X", "Register A B", "k 1", "Scratchpad Z", "n 1 Lane.V", "= Z")
"""What a work-item loop leaves of the sum says nothing of how many lanes are inside the loop."""
SIZES = {"M": 5, "N": 11, "K": 9, "P": 10}
TREES = {
    "lanes of a cut row": spec_of(CHAIN, {**SIZES, "M": 4, "N": 3}, LANES_OF_A_CUT_ROW),
    "lanes of a cut row, imperfect": spec_of(CHAIN, SIZES, LANES_OF_A_CUT_ROW),
    "items below a sum": spec_of((MATMUL,), SIZES, ITEMS_BELOW_A_SUM),
    "items around tiles": spec_of(CHAIN, {"M": 5, "N": 1, "K": 9, "P": 1}, ITEMS_AROUND_TILES),
    "one axis above one iteration": spec_of((MATMUL,), {"M": 3, "N": 11, "K": 1}, ONE_AXIS_ABOVE_ONE_ITERATION),
    "barrier inside items": spec_of(CHAIN, {**SIZES, "M": 4}, BARRIER_INSIDE_ITEMS),
    "tile of partial sums": spec_of(CHAIN, SIZES, TILE_OF_PARTIAL_SUMS),
    "lanes under limited items": spec_of((MATMUL,), {"M": 1, "N": 4, "K": 3}, LANES_UNDER_LIMITED_ITEMS),
    "axes of partial sums": spec_of((MATMUL,), SIZES, AXES_OF_PARTIAL_SUMS),
}


@pytest.mark.parametrize("name", TREES)
def test_trees_run_and_agree(name: str) -> None:
    """On PoCL with the reference, and accepted by the model."""
    assert ff.predict(TREES[name]).latency > 0
    result = outcome(TREES[name])
    assert result.outcome.name == "ok", result.message


def test_groups_do_not_hand_over_under_a_loop_in_time() -> None:
    """A consumer that reads what groups write, beside them under one loop in time, would run before they are done."""
    held = "- !Storage {component: MainMemory, tensors: [A, B, T, C, Z]}\n"
    mapping = held + nodes("m 1") + branches(nodes("n 4 Core.X", "n 1", "k 1", "= T"), nodes("n 1", "p 1", "= Z"))
    with pytest.raises(HostLoopError, match="groups would have to wait"):
        ff.compile(spec_of(CHAIN, SIZES, mapping))
