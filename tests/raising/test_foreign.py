"""Kernels of others, raised: their loops become a LoopTree of the cascade that they compute."""

from __future__ import annotations

import loopy as lp
import pytest

import feinsum_fuse as ff
from benchmarks.foreign_cases import CASES, parallelised
from feinsum_fuse.errors import MatchError
from tests.sweeps import sweep_size

NAMED = [(name, scheduled) for name in CASES for scheduled in (False, True)]
"""Kernels in the style of loopy, pytato, grudge, meshmode and feinsum, as they are written and on axes of a device."""


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
