"""Whole tiles where a tensor ends inside: the same results at awkward sizes, the tree and the text, when lowering asks for it, refusals."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.refusals import ScopeError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split, Unroll
from feinsum_fuse.schedule.steps.rounding_steps import RoundUp
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from feinsum_fuse.schedule.target import ANY_DEVICE, ANY_GPU, DeviceLimits, Target

from .runs import run
from .scripts import ref, refs

GPU = dataclasses.replace(ANY_GPU, units=2, items_in_step=16, limits=DeviceLimits(128, (128, 128, 64), 16 << 10, 128 << 10))
SIZES = [(13, 21, 9), (9, 17, 5), (23, 32, 4)]


def product(sizes: tuple[int, int, int], text: str = "Z[m,n] = A[m,k] * B[k,n]", dtype: str = "float32") -> Cascade:
    m, n, k = sizes
    return ff.cascade([text], sizes={"M": m, "N": n, "K": k}, dtypes={"All": dtype})


def tiled(copies: str = "AB", at: str | None = "Z.k/0", *more: Step) -> list[Step]:
    """Two by four work-items, each with four rows of four neighbours, and blocks of four of the reduction in local memory."""
    script: list[Step] = [Explicate(), Split(ref("Z.m"), 8), Split(ref("Z.n"), 16), Split(ref("Z.k"), 4), Split(ref("Z.m/1"), 4)]
    order = "Z.m/0 Z.n/0 Z.k/0 Z.m/1/0 Z.n/1/0 Z.k/1 Z.m/1/1 Z.n/1/1"
    script += [Split(ref("Z.n/1"), 4), Reorder("Z", refs(order)), Bind(ref("Z.m/0"), "group.0"), Bind(ref("Z.n/0"), "group.1")]
    script += [Bind(ref("Z.m/1/0"), "local.1"), Bind(ref("Z.n/1/0"), "local.0"), CacheWrite("Z", ref("Z.n/0"), "distributed")]
    script += [CacheRead(("Z",), tensor, None if at is None else ref(at), "local" if at else "global") for tensor in copies]
    return [*script, *more]


ROUNDED = (Vectorize(refs("Z.n/1/1")), RoundUp("Z"), Unroll(ref("Z.m/1/1")))
TEXTS = {
    "sum": ("Z[m,n] = A[m,k] * B[k,n]", "float32"),
    "maximum": ("Z[m,n] = max(A[m,k] * B[k,n])", "float32"),
    "minimum": ("Z[m,n] = min(A[m,k] + B[k,n])", "float64"),
    "whole numbers": ("Z[m,n] = A[m,k] * B[k,n]", "int32"),
    "function": ("Z[m,n] = exp(0 - abs(A[m,k] - B[k,n]))", "float32"),
    "mask": ("Z[m,n] = where(k <= m, A[m,k] * B[k,n], 0)", "float32"),
}


def inputs(cascade: Cascade) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {name: generator.integers(-9, 9, cascade.fixed_shape(name)).astype(cascade.tensors[name].dtype) for name in cascade.inputs}


@pytest.mark.parametrize(("name", "sizes"), [(name, SIZES[0]) for name in TEXTS] + [("sum", sizes) for sizes in SIZES[1:]], ids=str)
def test_the_same_values(name: str, sizes: tuple[int, int, int]) -> None:
    cascade = product(sizes, *TEXTS[name])
    given = inputs(cascade)
    found = run(cascade, Schedule(tuple(tiled("AB", "Z.k/0", *ROUNDED))), given)["Z"]
    np.testing.assert_allclose(found, cascade.reference(**given)["Z"], rtol=1e-5)


def test_tree_text(golden: Callable[[str, str], None]) -> None:
    """What stores the tile keeps its limits, and so does what a work-item has to do at all."""
    schedule = Schedule(tuple(tiled("AB", "Z.k/0", *ROUNDED)))
    golden("schedule_round_up", f"{schedule}\n\n{schedule.nest(product((13, 21, 9)).kernel())}")


def innermost(source: str) -> str:
    """The loop over a block of the reduction."""
    found = re.search(r"for \(int k_1[^\n]*\n(.*?)\n *barrier", source, re.DOTALL)
    assert found is not None
    return found[1]


def test_sums_stand_under_no_condition() -> None:
    scripts = (tiled("AB", "Z.k/0", ROUNDED[0], ROUNDED[2]), tiled("AB", "Z.k/0", *ROUNDED))
    cut, whole = (innermost(executable(Schedule(tuple(script)).apply(product((13, 21, 9)).kernel())).source) for script in scripts)
    assert "vindexge" in cut and "if (" in cut
    assert "vindexge" not in whole and "if (" not in whole and "?" not in whole and whole.count("+=") == 4


def test_all_blocks_but_the_last_have_as_many_terms() -> None:
    """The last one, which is shorter, stands apart: a compiler writes out a loop of so many iterations, and not one that may end early."""
    script = Schedule(tuple(tiled("AB", "Z.k/0", *ROUNDED)))
    cut, whole = (executable(script.apply(product((13, 21, k)).kernel(), target=GPU), target=GPU).source for k in (9, 12))
    assert re.findall(r"for \(int k_\d = 0; (.*?); ", cut) == ["k_0 < 2", "k_1 < 4"] and "?" not in cut.partition("__kernel")[2]
    assert re.findall(r"for \(int k_\d = 0; (.*?); ", whole) == ["k_0 < 3", "k_1 < 4"]


def rounded(cascade: Cascade, target: Target) -> list[str]:
    """The Einsums of which lowering rounds tiles up."""
    return [s.einsum for s in lower(default_spec(cascade, target=target), target=target).steps if isinstance(s, RoundUp)]


def test_lowering_asks_for_it() -> None:
    """Where work-items run in step and a tile is cut, and not on processors, which would take longer."""
    assert rounded(product((97, 131, 33)), GPU) == ["Z"]
    assert rounded(product((128, 128, 32)), GPU) == []
    assert rounded(product((97, 131, 33)), ANY_DEVICE) == []


@pytest.mark.parametrize("name", TEXTS)
def test_default_mappings_for_gpus_compute_the_same(name: str) -> None:
    cascade = product((97, 131, 33), *TEXTS[name])
    ff.compile(default_spec(cascade, target=GPU), "Portable")  # verifies


REFUSED: dict[str, tuple[list[Step], str]] = {
    "operands in global memory": (tiled("", None, RoundUp("Z")), "no limit of a loop around Z can be left out"),
    "copies that end where tensors do": (tiled("AB", None, RoundUp("Z")), "no limit of a loop around Z can be left out"),
    "sums in memory": ([Explicate(), Split(ref("Z.n"), 8), RoundUp("Z")], "Z adds nothing up in registers"),
}


def test_whole_tiles_stay() -> None:
    """A schedule of a product of any size is one of whole tiles, too."""
    nests = [Schedule(tuple(tiled("AB", "Z.k/0", *more))).nest(product((16, 32, 9)).kernel()) for more in ((), (RoundUp("Z"),))]
    assert nests[0] == nests[1]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    script, message = REFUSED[name]
    with pytest.raises(ScopeError, match=re.escape(message)):
        Schedule(tuple(script)).nest(product((13, 21, 9)).kernel())


def test_one_axis_may_be_copied_alone() -> None:
    """Of an operand in global memory the rows that are there are read, and no others."""
    nest = Schedule(tuple(tiled("B", "Z.k/0", RoundUp("Z")))).nest(product((13, 21, 9)).kernel())
    update = next(above for above, s in nest.points if s.role == "update")
    assert [bool(loop.limits) for loop in update if loop.name in {"m_Z_1_1", "n_Z_1_1"}] == [True, False]


def test_whole_numbers_are_not_divided() -> None:
    """By whatever lies behind the end of a tensor, which may be 0: so little is asked of functions of floating-point numbers only."""
    text = "Z[m,n] = abs(A[m,k] * B[k,n])"
    script = tuple(tiled("AB", "Z.k/0", RoundUp("Z")))
    Schedule(script).nest(product((13, 21, 9), text, "float32").kernel())
    with pytest.raises(ScopeError, match="can be left out"):
        Schedule(script).nest(product((13, 21, 9), text, "int32").kernel())
