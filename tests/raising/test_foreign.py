"""Kernels of others, raised: their loops become a LoopTree of the cascade that they compute."""

from __future__ import annotations

import loopy as lp
import pytest

import feinsum_fuse as ff
from benchmarks.foreign_cases import CASES, SCHEDULES, parallelised
from feinsum_fuse.errors import MatchError
from tests.sweeps import SLOW, sweep_size

NAMED = [(name, scheduled) for name in CASES for scheduled in (False, True)]
"""Kernels in the style of loopy, pytato, grudge, meshmode and feinsum, as they are written and on axes of a device."""


PROCESSOR = """
arch:
  nodes:
  - !Memory {name: MainMemory, size: inf, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Container {name: Core, spatial: [{name: core, fanout: 3}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
opencl: {memories: {MainMemory: global}, fanouts: {Core: group.0}}
"""


def kernel_of(name: str, *, scheduled: bool) -> lp.TranslationUnit:
    """A kernel of somebody else's."""
    kernel = CASES[name].kernel()
    return parallelised(kernel) if scheduled else kernel


def test_most_kernels_of_others_have_a_tree() -> None:
    count = sweep_size(len(NAMED))
    chosen = [NAMED[i * len(NAMED) // count] for i in range(count)]
    reasons = {}
    for name, scheduled in chosen:
        try:
            raised = ff.raise_mapping(kernel_of(name, scheduled=scheduled))
        except MatchError as error:
            reasons[name, scheduled] = str(error)
            continue
        assert raised.mapping is not None
        assert {c.einsum for c in raised.mapping.computes} == {e.name for e in raised.workload.einsums}
    assert len(reasons) <= count // 10, reasons


def test_cut_loops_and_axes_come_back() -> None:
    raised = ff.raise_mapping(kernel_of("product", scheduled=True))
    assert str(raised.mapping).splitlines()[2:] == [
        "│ spatial for i in tiles of 64, over Core.axis0",
        "│ spatial for j in tiles of 1, over Core.axis1",
        "│ spatial for i in tiles of 1, over WorkItem.axis0",
        "│ for k in tiles of 1",
        "└ MAC computes insn",
    ]
    assert ff.predict(raised).latency > 0


def test_on_a_processor_work_items_are_loops_and_groups_take_turns() -> None:
    """Its architecture has neither an axis for work-items nor one for each group."""
    onto = ff.loads(PROCESSOR)
    raised = ff.raise_mapping(kernel_of("product", scheduled=True), onto=onto)
    assert str(raised.mapping).splitlines()[2:] == [
        "│ for j in tiles of 1",
        "│ for i in tiles of 192",
        "│ spatial for i in tiles of 64, over Core.core",
        "│ for i in tiles of 1",
        "│ for k in tiles of 1",
        "└ MAC computes insn",
    ]
    assert ff.predict(raised).latency > 0


IN_VECTORS = PROCESSOR.replace("arch:", "arch:\n  variables: {items_in_a_vector: 16}").replace(
    "  - !Compute", "  - !Container {name: Lane, spatial: [{name: lane, fanout: 16}]}\n  - !Compute"
)
IN_VECTORS = IN_VECTORS.replace("fanouts: {", "fanouts: {Lane: vector, ")
"""Its runtime makes vectors of work-items, as a calibration has seen."""


def test_where_work_items_become_vectors_they_are_lanes() -> None:
    """Half as many of elements of 64 bits."""
    raised = ff.raise_mapping(kernel_of("product", scheduled=True), onto=ff.loads(IN_VECTORS))
    assert str(raised.mapping).splitlines()[4:-1] == [
        "│ spatial for i in tiles of 64, over Core.core",
        "│ for i in tiles of 16",
        "│ for k in tiles of 1",
        "│ spatial for i in tiles of 1, over Lane.lane",
    ]
    double = ff.raise_mapping(kernel_of("product_double", scheduled=True), onto=ff.loads(IN_VECTORS))
    assert "│ for i in tiles of 8" in str(double.mapping).splitlines()
    squares = ff.raise_mapping(SCHEDULES["squares"](CASES["product"].kernel()), onto=ff.loads(IN_VECTORS))
    assert [line for line in str(squares.mapping).splitlines() if " for j" in line] == [
        "│ for j in tiles of 48",
        "│ spatial for j in tiles of 16, over Core.core",
        "│ spatial for j in tiles of 1, over Lane.lane",
    ]


@pytest.mark.parametrize("name", list(CASES) if SLOW else ["four_modes", "divergence"])
def test_kernels_on_groups_have_a_tree_on_a_processor(name: str) -> None:
    assert ff.raise_mapping(kernel_of(name, scheduled=True), onto=ff.loads(PROCESSOR)).mapping is not None


def test_groups_of_groups_stay_below_them_on_a_processor() -> None:
    """The second axis, which it lacks, has parts of what each group of the first one takes."""
    kernel = lp.split_iname(CASES["product"].kernel(), "i", 128, outer_tag="g.0", inner_iname="i_part")
    kernel = lp.split_iname(kernel, "i_part", 16, outer_tag="g.1", inner_tag="l.0")
    lines = str(ff.raise_mapping(kernel, onto=ff.loads(PROCESSOR)).mapping).splitlines()
    tiles = [line.split("for ")[1] for line in lines if "for i" in line]
    assert tiles[-3:] == ["i in tiles of 128, over Core.core", "i in tiles of 16", "i in tiles of 1"]


def test_a_tile_larger_than_what_is_cut_comes_back() -> None:
    kernel = lp.split_iname(CASES["product"].kernel(), "j", 1024, outer_tag="g.0", inner_tag="l.0")
    assert "spatial for j in tiles of 1, over WorkItem.axis0" in str(ff.raise_mapping(kernel).mapping)


def test_order_and_tiles_are_those_of_the_schedule() -> None:
    kernel = lp.split_iname(CASES["product"].kernel(), "k", 32)
    kernel = lp.split_iname(kernel, "j", 16)
    kernel = lp.prioritize_loops(kernel, "j_outer,i,j_inner,k_outer,k_inner")
    raised = ff.raise_mapping(kernel)
    assert [line.removeprefix("│ for ") for line in str(raised.mapping).splitlines()[2:-1]] == [
        "j in tiles of 16",
        "i in tiles of 1",
        "j in tiles of 1",
        "k in tiles of 32",
        "k in tiles of 1",
    ]


def test_loops_that_einsums_share_are_shared() -> None:
    raised = ff.raise_mapping(kernel_of("softmax_numerator", scheduled=False))
    assert "one after another" in str(raised.mapping)
    assert str(raised.mapping).splitlines()[2] == "│ for i in tiles of 1"


def test_what_is_no_cascade_is_refused_with_the_reason() -> None:
    array = lp.GlobalArg("x", float, shape=(64,))
    kernel = lp.make_kernel("{[i]: 1 <= i < 8}", "y[i] = y[i-1] + x[i*i]", [array, ...], lang_version=(2018, 2))
    with pytest.raises(MatchError):
        ff.raise_mapping(kernel)
