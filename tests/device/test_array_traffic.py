"""Exact counts of points, and of the bytes that kernels move."""

from __future__ import annotations

import random

import islpy as isl
import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

from feinsum_fuse.cascades.reading.reader import cascade
from feinsum_fuse.device.checking.array_traffic import ArrayTraffic, count_points, intermediate_bytes, traffic
from feinsum_fuse.errors import LoweringError
from feinsum_fuse.formats.reading.load import loads
from feinsum_fuse.lowering import lower
from tests.device.test_program import CHAIN, FUSED, UNFUSED, chain
from tests.sweeps import SEED, sweep_size


def brute_force(points: isl.Set) -> int:
    """The number of points, one by one."""
    found: list[int] = []
    points.foreach_point(lambda _: found.append(1))
    return len(found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("{[i]: 5 <= i < 9}", 4),
        ("{[i]: 5 <= i < 5}", 0),
        ("{[o,i]: 0 <= i < 7 and 0 <= 7o + i < 30}", 30),
        ("{[i]: 0 <= i < 100 and (i mod 7) < 3}", 44),
        ("{[i,j]: 0 <= i < 4 and 0 <= j < 4 and (i < j or j <= i - 2)}", 9),
        ("{[o,i,n,k,q]: 0 <= i < 7 and 0 <= 7o + i < 1000003 and 0 <= n,k < 4096 and 0 <= q < 17}", 1000003 * 4096**2 * 17),
        ("{[p,q,r,s]: 0 <= p,q < 1000 and 0 <= r,s < 3 and 0 <= p+r-1 < 1000 and 0 <= q+s-1 < 1000}", 2998**2),
        ("{[a,b,c,d]: 0 <= a,b,c,d < 200 and a <= b <= c <= d}", 200 * 201 * 202 * 203 // 24),
    ],
)
def test_counts(text: str, count: int) -> None:
    assert count_points(isl.Set(text)) == count


def test_counts_of_random_sets() -> None:
    rng = random.Random(SEED)
    for _ in range(sweep_size(2000)):
        names = ["a", "b", "c", "e"][: rng.randint(1, 4)]
        conditions = [f"0 <= {name} < {rng.randint(1, 7)}" for name in names]
        for _ in range(rng.randint(0, 3)):
            linear = " + ".join(f"{rng.randint(-3, 3)}*{name}" for name in names).replace("+ -", "- ")
            kinds = [f"{linear} >= {rng.randint(-5, 5)}", f"({linear}) mod {rng.randint(2, 4)} = 1", f"floor(({linear})/3) <= 1"]
            conditions.append(rng.choice(kinds))
        points = isl.Set(f"{{[{','.join(names)}]: {' and '.join(conditions)}}}")
        assert count_points(points) == brute_force(points), points


def test_unbounded_and_symbolic_sets_are_refused() -> None:
    with pytest.raises(LoweringError, match="not bounded"):
        count_points(isl.Set("{[i]: 0 <= i}"))
    with pytest.raises(LoweringError, match="parameters"):
        count_points(isl.Set("[n] -> {[i]: 0 <= i < n}"))


def test_fused_intermediate_touches_no_main_memory() -> None:
    spec = chain(FUSED)
    kernel = lower(spec).apply(cascade(spec).kernel())
    assert intermediate_bytes(kernel, cascade(spec).intermediates) == 0


def test_unfused_intermediate_is_counted_access_by_access() -> None:
    spec = chain(UNFUSED)
    kernel = lower(spec).apply(cascade(spec).kernel())
    # Initialised, and read and written by each of 20 updates; then read by 6 columns.
    assert traffic(kernel)["T"] == ArrayTraffic(read_bytes=4 * 30 * 10 * (20 + 6), written_bytes=4 * 30 * 10 * (1 + 20))
    assert intermediate_bytes(kernel, cascade(spec).intermediates) == 4 * 30 * 10 * 47


def copy(text: str, domain: str = "{[i,j]: 0<=i<30 and 0<=j<5}") -> lp.TranslationUnit:
    """A kernel over A[30] and C[30]."""
    arrays = [lp.GlobalArg("A", np.float32, shape=(40,)), lp.GlobalArg("C", np.float64, shape=(30,), is_input=False)]
    return lp.make_kernel(domain, text, arrays, seq_dependencies=False)


def test_guarded_splits_predicates_branches_and_reductions() -> None:
    split = lp.split_iname(copy("C[i] = A[i]", "{[i]: 0<=i<30}"), "i", 7, outer_tag="g.0", inner_tag="l.0")
    assert traffic(split) == {"A": ArrayTraffic(120, 0), "C": ArrayTraffic(0, 240)}
    assert traffic(copy("C[i] = A[i] {if=i<11}", "{[i]: 0<=i<30}"))["A"] == ArrayTraffic(44, 0)
    assert traffic(copy("C[i] = if(i >= 20, A[i], A[i] + A[i+1])", "{[i]: 0<=i<30}"))["A"] == ArrayTraffic(4 * (10 + 40), 0)
    assert traffic(copy("C[i] = sum(j, A[i+j])")) == {"A": ArrayTraffic(600, 0), "C": ArrayTraffic(0, 240)}


def test_condition_on_data_is_refused() -> None:
    with pytest.raises(LoweringError, match="depends on data"):
        traffic(copy("C[i] = if(A[i] > 0, A[i+1], 0)", "{[i]: 0<=i<30}"))


@pytest.mark.parametrize("n", [32, 30])
def test_vectors_count_their_lanes(n: int) -> None:
    mapping = """
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, T, C, Z]}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: n, tile_shape: 8}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Storage {component: Register, tensors: [T]}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Spatial {rank_variable: n, tile_shape: 1, name: lane, component: Lane}
      - !Compute {einsum: First, component: MAC}
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Compute {einsum: Second, component: MAC}
"""
    nodes = "- !Memory {name: Register, component_class: Dummy, size: 1048576, actions: [{name: read}, {name: write}]}"
    nodes += "\n  - !Container {name: Lane, spatial: [{name: lane, fanout: 8}]}\n  - !Compute"
    text = CHAIN.replace("SIZE", "1048576").replace("- !Compute", nodes, 1).replace("N: 10", f"N: {n}")
    text = text.replace("Chip: local}", "Chip: local, Register: private}, fanouts: {Lane: vector}")
    spec = loads(text + mapping)
    kernel = lower(spec).apply(cascade(spec).kernel())
    counted = traffic(kernel)
    assert counted["T"] == ArrayTraffic(read_bytes=4 * 30 * n * 6, written_bytes=4 * 30 * n)
    assert counted["B"].read_bytes == 4 * 30 * 20 * n
