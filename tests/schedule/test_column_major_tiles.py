"""Tiles of column-major arrays: lanes along the columns, which lie next to one another, stay inside the loops along the rows."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from feinsum_fuse.schedule.tree.nest import LoopRef
from tests.cascades.randomness import largest_error
from tests.cascades.randomness import run as run_by_loopy


@pytest.mark.parametrize("order", ["F", "C"])
def test_every_column_is_fetched(order: str) -> None:
    """The loop over 17 columns was moved into the lanes, where it was lost."""
    arrays = [lp.GlobalArg("C", np.float64, shape=(17,)), lp.GlobalArg("b", np.float64, shape=(17,))]
    matrix = lp.GlobalArg("A", np.float64, shape=(17, 17), order=order)
    kernel = lp.make_kernel("{[i, k] : 0 <= i, k < 17}", "C[i] = sum(k, A[i, k]*b[k]) {id=C}", [*arrays, matrix])
    matched = ff.match(kernel)
    rows = LoopRef("C", "i")
    schedule = Schedule(
        (
            Explicate(),
            Split(rows, 16),
            Split(rows.inner, 8),
            Reorder("C", (rows.outer, LoopRef("C", "k"), rows.inner.outer, rows.inner.inner)),
            Bind(rows.outer, "group.0"),
            CacheRead(("C",), "A", rows.outer, "local"),
            CacheWrite("C", rows.outer, "private"),
            Vectorize((rows.inner.inner,)),
        )
    )
    transformed = schedule.apply(matched.prepared, matched.names)
    assert "vload_local_double8(A_local[" in executable(transformed).source
    generator = np.random.default_rng(6)
    given = {"A": np.asarray(generator.random((17, 17)), order=order), "b": generator.random(17)}
    assert largest_error(run_by_loopy(transformed, **given)["C"], given["A"] @ given["b"]) < 1e-13
