"""Inline: an intermediate computed where it is read, on PoCL, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.schedule.refusals import NestOrderError, ProducerConsumerError, UnknownTensorError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.inline_steps import Inline
from feinsum_fuse.schedule.steps.loop_steps import ShareLoop, Split
from feinsum_fuse.schedule.tree.nest import LoopRef

from .runs import run, whole_numbers

SIZES = {"M": 13, "N": 7, "K": 5}


@pytest.mark.parametrize("sizes", [SIZES, {"M": 1, "N": 1, "K": 1}, {"M": 2, "N": 11, "K": 3}], ids=str)
@pytest.mark.parametrize(
    "texts",
    [
        ["T[m,k] = 2 * A[m,k] + m", "Z[m,n] = T[m,k] * B[k,n]"],
        ["T[k,m] = A[m,k] * A[m,k]", "Z[m,n] = T[k,m] * B[k,n] + T[k,m]"],
        ["T[m] = where(m >= 1, A[m], 3)", "Z[m,n] = T[m] * T[M: n]"],
        ["T[m] = A[m] - 1", "U[m] = max(T[m], 0)", "Z[m] = U[m] * T[m]"],
    ],
    ids="; ".join,
)
def test_same_results(texts: list[str], sizes: dict[str, int]) -> None:
    """What is computed at once equals what goes through an array, which is gone."""
    square = {**sizes, "N": sizes["M"]} if "T[M: n]" in texts[-1] else sizes
    used = {rank: size for rank, size in square.items() if any(rank.lower() in t for t in texts)}
    cascade = ff.cascade(texts, sizes=used)
    inputs = whole_numbers(cascade)
    schedule = Schedule((Explicate(), Inline("T")))
    assert "T" not in schedule.nest(cascade.kernel()).sources
    before, after = run(cascade, schedule.upto(1), inputs), run(cascade, schedule, inputs)
    np.testing.assert_array_equal(before["Z"], after["Z"])


def refused(error: type[Exception], texts: list[str], *steps: Step, einsum: str = "T") -> None:
    cascade = ff.cascade(texts, sizes={r: s for r, s in SIZES.items() if any(r.lower() in t for t in texts)})
    with pytest.raises(error, match="Inline"):
        Schedule((Explicate(), *steps, Inline(einsum))).nest(cascade.kernel())


def test_outputs_stay() -> None:
    """What a caller gets is written."""
    refused(UnknownTensorError, ["Z[m] = 2 * A[m]"], einsum="Z")


def test_reductions_stay() -> None:
    """A sum is not taken again at each read."""
    refused(NestOrderError, ["T[m] = A[m,k] * B[k]", "Z[m] = T[m]"])


def test_shared_loops_stay() -> None:
    """Inlining comes before sharing."""
    loops = (LoopRef("T", "m"), LoopRef("Z", "m"))
    refused(NestOrderError, ["T[m] = 2 * A[m]", "Z[m] = abs(T[m])"], ShareLoop(loops))


@pytest.mark.parametrize("texts", [["T[m] = 2 * A[m]", "Z[m] = abs(T[m])"], ["T[m,k] = A[m] * B[k]", "Z[m] = T[m,k]"]], ids="; ".join)
def test_loops_that_are_cut_stay(texts: list[str]) -> None:
    """Inlining comes before splitting: the loops are the tensor's axes."""
    refused(ProducerConsumerError, texts, Split(LoopRef("T", "m"), 4))


def test_recurrences_stay() -> None:
    """An Einsum that reads itself is stored."""
    recurrence = {"einsum": "T[m] = T[M: m-1] + A[m]", "operations": {"populate": 0}}
    cascade = ff.cascade([recurrence, "Z[m] = abs(T[m])"], sizes={"M": 13})
    with pytest.raises(NestOrderError, match="Inline"):
        Schedule((Explicate(), Inline("T"))).nest(cascade.kernel())
