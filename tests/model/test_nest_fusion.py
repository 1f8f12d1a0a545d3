"""Loops that are one in the text are one in the model: what the second one reads is not loaded, nor fetched again."""

from __future__ import annotations

import re

import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.codegen.loops.loop_fusion import LoopFusion
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.mappings.random import random_mappings
from feinsum_fuse.model.kernel.compiler.nest_fusion import _NestFusion, as_fused
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.schedule.tree.nest import Nest
from tests.model.test_kernel_time import DEVICE

LANE = "      - !Spatial {rank_variable: p, tile_shape: 1, component: Lane, name: lane}"
VECTORS = ("- !Temporal {rank_variable: p, tile_shape: 8}", LANE)
SCALARS = ("- !Temporal {rank_variable: p, tile_shape: 1}",)


def two_passes(first: tuple[str, ...], second: tuple[str, ...], columns: int = 256) -> Spec:
    """Exponentials of rows, and their sums; each pass over a row with loops of its own."""

    def branch(einsum: str, loops: tuple[str, ...]) -> str:
        lines = "\n".join(loops)
        return f"    - !Nested\n      nodes:\n      {lines}\n      - !Compute {{einsum: {einsum}, component: MAC}}\n"

    text = f"""
mapping:
  nodes:
  - !Storage {{tensors: [S, L], component: Main}}
  - !Spatial {{rank_variable: m, tile_shape: 4, component: Core, name: core}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Storage {{tensors: [N], component: Local}}
  - !Sequential
    nodes:
{branch("N", first)}{branch("L", second)}"""
    head, _, _ = DEVICE.partition("workload:")
    workload = f"""workload:
  rank_sizes: {{M: 8, P: {columns}}}
  bits_per_value: {{All: 32}}
  einsums: ["N[m, p] = exp(S[m, p])", "L[m] = sum(N[m, p])"]
"""
    return ff.loads(head + workload + text)


def loops_of(nest: Nest) -> int:
    """Loops that turn, of one iteration or of vectors not."""
    return sum(loop.binding == "loop" and loop.extent != 1 for loop in nest.all_loops)


@pytest.mark.parametrize(
    "first, second, is_one",
    [
        (VECTORS, VECTORS, True),
        (SCALARS, SCALARS, False),  # compilers make calls on vectors of such exponentials
        (VECTORS, SCALARS, False),  # not the same elements in an iteration
    ],
)
def test_the_model_has_the_loops_of_the_text(first: tuple[str, ...], second: tuple[str, ...], is_one: bool) -> None:
    spec = two_passes(first, second)
    schedule, start = lower(spec), unscheduled(spec)
    nest = schedule.nest(start.kernel)
    assert (loops_of(as_fused(nest)) < loops_of(nest)) == is_one
    source = executable(schedule.apply(start.kernel)).source
    assert bool(re.search(r"// p .*\(N, L\)", source)) == is_one


def test_what_one_loop_hands_on_is_neither_loaded_nor_fetched_again() -> None:
    """Rows of twice the first cache: the text of the loop loads one vector of ``S``, and one of ``N`` that it has just stored. No compiler
    stores it: nothing else reads ``N``."""
    columns = 16384
    spec = two_passes(VECTORS, VECTORS, columns)
    machine = Machine.of(spec)
    assert machine is not None
    together, apart = (kernel_time(spec, machine, fused=fused) for fused in (True, False))
    loads = [sum(part.code.loads for part in time.parts) for time in (together, apart)]
    lines = [sum(part.lines["L2"] for part in time.parts) for time in (together, apart)]
    assert loads[1] - loads[0] == pytest.approx(8 * columns / 8)
    assert lines[1] - lines[0] == pytest.approx(2 * 8 * columns * 4 / 64)


def test_loops_that_hand_nothing_on_are_not_looked_at_and_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["X[m] = max(S[m, p])", "N[m, p] = exp(S[m, p] - X[m])", "L[m] = N[m, p]", "Z[m, p] = N[m, p] / L[m]"]
    texts.append("Y[m, p] = S[m, p] * B[p]")
    cascade = ff.cascade(texts, sizes={"M": 64, "P": 48})
    specs = [default := default_spec(cascade), *random_mappings(default, 8, seed=3)]
    nests = [lower(spec).nest(unscheduled(spec).kernel) for spec in specs]
    quickly = [as_fused(nest).body for nest in nests]
    monkeypatch.setattr(_NestFusion, "may_hand_on", LoopFusion.may_hand_on)
    assert quickly == [as_fused(nest).body for nest in nests]
    assert any(fused != nest.body for fused, nest in zip(quickly, nests, strict=True))
