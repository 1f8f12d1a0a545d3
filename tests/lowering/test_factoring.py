"""Reductions on work-items and lanes: partial results, placed and combined."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.checking.verification import verify
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule.refusals import ReductionBindingError
from feinsum_fuse.schedule.steps.factor_steps import RFactor
from tests.schedule.runs import run

ACTIONS = "actions: [{name: read, energy: 1, throughput: 1e9}, {name: write, energy: 1, throughput: 1e9}]"
ARCH = f"""
arch:
  nodes:
    - !Memory {{name: MainMemory, size: inf, leak_power: 0, {ACTIONS}}}
    - !Container {{name: Core, leak_power: 0, spatial: [{{name: X, fanout: 65536}}]}}
    - !Memory {{name: Scratchpad, size: inf, leak_power: 0, {ACTIONS}}}
    - !Container {{name: WorkItem, leak_power: 0, spatial: [{{name: X, fanout: 64}}, {{name: Y, fanout: 64}}]}}
    - !Memory {{name: Register, size: inf, leak_power: 0, {ACTIONS}}}
    - !Container {{name: Lane, leak_power: 0, spatial: [{{name: X, fanout: 16}}]}}
    - !Compute {{name: MAC, leak_power: 0, actions: [{{name: compute, energy: 1, throughput: 1e9}}]}}
opencl:
  memories: {{MainMemory: global, Scratchpad: local, Register: private}}
  fanouts: {{Core.X: group.0, WorkItem.X: local.0, WorkItem.Y: local.1, Lane.X: vector}}
"""


def spec_of(einsums: list[str], sizes: Mapping[str, int], nodes: list[str]) -> Spec:
    """A Spec of these Einsums and mapping nodes."""
    bounds = ", ".join(f"{rank}: {size}" for rank, size in sizes.items())
    tree = "\n".join(f"  - {node}" for node in nodes)
    return ff.loads(
        f"workload:\n  rank_sizes: {{{bounds}}}\n  bits_per_value: {{All: 32}}\n  einsums: {json.dumps(einsums)}\n{ARCH}\n"
        f"mapping:\n  nodes:\n{tree}\n"
    )


def held(component: str, *tensors: str) -> str:
    """A Storage node."""
    return f"!Storage {{component: {component}, tensors: [{', '.join(tensors)}]}}"


def time(variable: str, tile: int) -> str:
    """A Temporal node."""
    return f"!Temporal {{rank_variable: {variable}, tile_shape: {tile}}}"


def space(variable: str, tile: int, component: str, dimension: str = "X") -> str:
    """A Spatial node."""
    return f"!Spatial {{rank_variable: {variable}, tile_shape: {tile}, component: {component}, name: {dimension}}}"


def computed(einsum: str) -> str:
    """A Compute node."""
    return f"!Compute {{einsum: {einsum}, component: MAC}}"


def branches(*parts: tuple[str, ...]) -> str:
    """A Sequential node."""
    return f"!Sequential {{nodes: [{', '.join('!Nested {nodes: [' + ', '.join(part) + ']}' for part in parts)}]}}"


def share(size: int, parts: int) -> int:
    """How many iterations each of so many work-items takes."""
    return -(-size // parts)


def product(m: int, k: int) -> Spec:
    """A matrix product whose sums are shared by the work-items of a row; each keeps its own in registers."""
    return spec_of(
        ["Z[m,n] = A[m,k]*B[k,n]"],
        {"M": m, "K": k, "N": 5},
        [
            *(held("MainMemory", "A", "B", "Z"), space("m", min(4, m), "Core"), time("k", min(k, 32)), held("Scratchpad", "A")),
            *(space("m", 1, "WorkItem", "Y"), space("k", min(8, k), "WorkItem"), held("Register", "Z")),
            *(time("n", 1), time("k", 1), computed("Z")),
        ],
    )


def product_in_tiles(m: int, k: int) -> Spec:
    """The same with the finished tile in the group's memory."""
    return spec_of(
        ["Z[m,n] = A[m,k]*B[k,n]"],
        {"M": m, "K": k, "N": 5},
        [
            *(held("MainMemory", "A", "B", "Z"), space("m", min(4, m), "Core"), held("Scratchpad", "Z"), time("k", min(k, 32))),
            *(space("k", min(8, k), "WorkItem"), time("n", 1), time("m", 1), time("k", 1), computed("Z")),
        ],
    )


def products_of_rows(m: int, k: int) -> Spec:
    """Dot products over work-items, and over the lanes of each."""
    lanes = 4 if k >= 4 else 1
    return spec_of(
        ["Z[m] = A[m,k]*B[m,k]"],
        {"M": m, "K": k},
        [
            *(held("MainMemory", "A", "B", "Z"), space("m", 1, "Core"), time("k", min(k, 64))),
            *(space("k", min(2 * lanes, k), "WorkItem"), time("k", lanes), space("k", 1, "Lane"), computed("Z")),
        ],
    )


def chains_of_rows(m: int, k: int) -> Spec:
    """Dot products over lanes, with up to four sums of each row side by side."""
    return spec_of(
        ["Z[m] = A[m,k]*B[k]"],
        {"M": m, "K": k},
        [
            *(held("MainMemory", "A", "B", "Z"), space("m", min(2, m), "Core"), time("k", min(k, 16)), time("k", min(k, 4)), time("m", 1)),
            *(space("k", 1, "Lane"), computed("Z")),
        ],
    )


def two_sums(m: int, k: int) -> Spec:
    """Two reductions, one over work-items and one over lanes."""
    return spec_of(
        ["Z[m] = A[m,k,j]*B[k,j]"],
        {"M": m, "K": k, "J": 6},
        [
            *(held("MainMemory", "A", "B", "Z"), space("m", 1, "Core"), space("k", share(k, 7), "WorkItem")),
            *(time("j", 2), time("k", 1), space("j", 1, "Lane"), computed("Z")),
        ],
    )


def two_axes(m: int, k: int) -> Spec:
    """Two reductions on two axes of work-items."""
    return spec_of(
        ["Z[m] = A[m,k,j]*B[k,j]"],
        {"M": m, "K": k, "J": 6},
        [
            *(held("MainMemory", "A", "B", "Z"), space("m", 1, "Core"), space("k", share(k, 7), "WorkItem")),
            *(space("j", 4, "WorkItem", "Y"), time("k", 1), time("j", 1), computed("Z")),
        ],
    )


def maxima(m: int, k: int) -> Spec:
    """The maximum of each row over lanes."""
    lanes = 8 if k >= 8 else 1
    nodes = [held("MainMemory", "A", "X"), space("m", 1, "Core"), time("k", lanes), space("k", 1, "Lane"), computed("X")]
    return spec_of(["X[m] = max(A[m,k])"], {"M": m, "K": k}, nodes)


def truths(m: int, k: int) -> Spec:
    """Whether a row holds anything positive, and whether all of it is, over work-items and their lanes."""
    lanes = 4 if k >= 4 else 1

    def branch(einsum: str) -> tuple[str, ...]:
        nodes = time("k", min(k, 64)), space("k", min(2 * lanes, k), "WorkItem"), time("k", lanes), space("k", 1, "Lane"), computed(einsum)
        return (space("m", 1, "Core"), *nodes)

    lines = ["X[m] = any(A[m,k] > 0)", "Y[m] = all(A[m,k] > -0.25)"]
    return spec_of(lines, {"M": m, "K": k}, [held("MainMemory", "A", "X", "Y"), branches(branch("X"), branch("Y"))])


def softmax(m: int, p: int) -> Spec:
    """All four parts of a softmax under one loop over rows, each over the work-items of a group."""
    items = space("p", share(p, 5), "WorkItem")
    return spec_of(
        ["X[m] = max(S[m,p])", "E[m,p] = exp(S[m,p]-X[m])", "D[m] = E[m,p]", "Y[m,p] = E[m,p]/D[m]"],
        {"M": m, "P": p},
        [
            *(held("MainMemory", "S", "Y"), space("m", 1, "Core"), held("Scratchpad", "X", "E", "D")),
            branches(
                *((items, time("p", 1), computed("X")), (items, time("p", 1), computed("E"))),
                *((items, held("Register", "D"), time("p", 1), computed("D")), (items, time("p", 1), computed("Y"))),
            ),
        ],
    )


def chain(m: int, k: int) -> Spec:
    """Two products under one loop: work-items share the sums of the first, lanes those of the second."""
    return spec_of(
        ["T[m,n] = A[m,k]*B[k,n]", "Z[m,q] = T[m,n]*C[n,q]"],
        {"M": m, "K": k, "N": 8, "Q": 3},
        [
            *(held("MainMemory", "A", "B", "C", "Z"), space("m", min(2, m), "Core"), held("Scratchpad", "T")),
            branches(
                (space("k", share(k, 4), "WorkItem"), time("k", 1), time("m", 1), time("n", 1), computed("T")),
                (time("m", 1), time("q", 1), time("n", 4), space("n", 1, "Lane"), computed("Z")),
            ),
        ],
    )


MAPPINGS = [product, product_in_tiles, products_of_rows, chains_of_rows, two_sums, two_axes, maxima, truths, softmax, chain]


@pytest.mark.parametrize("sizes", [(13, 131), (1, 7), (3, 16), (2, 1)], ids=str)
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_shared_sums_agree_with_the_reference(mapping: object, sizes: tuple[int, int]) -> None:
    """At sizes that nothing divides, at 1, and at dividing ones."""
    spec = mapping(*sizes)  # type: ignore[operator]
    cascade, schedule = ff.cascade(spec), ff.lower(spec)
    assert sizes[1] < 16 or any(isinstance(step, RFactor) for step in schedule.steps)
    trial = example(cascade)
    verification = verify(run(cascade, schedule, trial.inputs), trial.expected, cascade.tolerance())
    assert verification.passed, verification


def test_lanes_add_into_one_vector() -> None:
    """The source multiplies and adds whole vectors of both operands."""
    spec = products_of_rows(4, 64)
    source = ff.compile(spec).source
    assert "vload_global_float4(A[" in source
    assert "vload_global_float4(B[" in source


@pytest.mark.parametrize(("k", "sums"), [(64, 4), (32, 4), (48, 4), (56, 4), (62, 4), (17, 4), (4, 1)])
def test_sums_stand_side_by_side(k: int, sums: int) -> None:
    """A loop that is cut again around lanes has a vector for each iteration, and these are added up; the first ones take a rest."""
    spec = chains_of_rows(5, k)
    cascade, schedule = ff.cascade(spec), ff.lower(spec)
    assert sum(isinstance(step, RFactor) for step in schedule.steps) == (2 if sums > 1 else 1)
    source = ff.compile(spec).source
    assert ("float4 Z_partial2[4 * 2]" in source) == (sums > 1) and "pack_float4" not in source
    trial = example(cascade)
    assert verify(run(cascade, schedule, trial.inputs), trial.expected, cascade.tolerance()).passed


def test_groups_do_not_share_a_sum() -> None:
    """They cannot wait for one another."""
    nodes = [held("MainMemory", "A", "B", "Z"), time("m", 1), space("k", 1, "Core"), computed("Z")]
    with pytest.raises(ReductionBindingError, match=r"Z\.k is a reduction loop of Z"):
        ff.lower(spec_of(["Z[m] = A[m,k] * B[k]"], {"M": 3, "K": 8}, nodes))


def test_lanes_past_the_end_are_left_out() -> None:
    """They are not taken for zeros."""
    spec = maxima(3, 13)
    values = np.full((3, 13), -np.inf, np.float32)
    values[1, 12] = -5.0
    (result,) = ff.compile(spec)(A=values).values()
    np.testing.assert_array_equal(result, [-np.inf, -5.0, -np.inf])
