"""Storage choices in bulk: what each must cost at least, and searches among very many."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.mapper.driver.search_session import Session
from feinsum_fuse.mapper.einsum.einsum_space import objectives
from feinsum_fuse.mapper.options import Objective, Options

from .specs import OUTER, arch, compute, container, memory, spec, workload

PRODUCT = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=8, K=4, N=8)


def deep(count: int, *more: str, leak: float = 0) -> str:
    """So many memories, each cheaper and faster than the one above it, and what stands above the innermost."""
    inner = [memory(f"Level{n}", "inf", 64 / 4**n, rate=8 * 4**n).replace("leak_power: 0", f"leak_power: {leak}") for n in range(1, count)]
    return arch(memory("Main", "inf", 64, rate=8, tensors=OUTER), *inner[:-1], *more, inner[-1], compute())


@pytest.mark.parametrize("leak", [0, 3])
def test_the_least_of_all_choices_is_that_of_each(leak: float) -> None:
    case = spec(deep(3, container("PE", "{name: X, fanout: 4}"), leak=leak), PRODUCT)
    session = Session(case, case, Options())
    space = session.problem(session.figures("edp")).tables[0][0].space
    every = np.arange(len(space.spreads))
    assert len(space.options) == 64
    for option, least in zip(space.options, space.least, strict=True):
        assert least == pytest.approx(objectives(space, space.compulsory(option), every).min(axis=0))


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_a_search_among_thousands_of_choices_tries_few(objective: Objective) -> None:
    case = spec(deep(5), PRODUCT)
    result = ff.search(case, objective)
    assert result.proved
    assert result.space.evaluated < 20_000


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_choices_that_are_not_tried_are_no_better(objective: Objective) -> None:
    case = spec(deep(3).replace("size: inf", "size: 150").replace("size: 150", "size: inf", 1), PRODUCT)
    everything = ff.search(case, objective, without=["budget", "floor"])
    assert ff.search(case, objective).value == pytest.approx(everything.value)
