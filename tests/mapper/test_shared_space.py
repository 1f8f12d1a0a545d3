"""Loops in space that Einsums share: where an intermediate lives below a fanout, each instance makes and reads its own part of it."""

from __future__ import annotations

from collections import Counter

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.mapping import Spatial
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mapper import Result

from .brute_force import BruteForce
from .specs import OUTER, arch, compute, container, memory, spec, workload

MAIN = memory("Main", "inf", 64, rate=8, tensors=OUTER)
CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], M=4, K=2, N=4, P=2)


def grid(size: float | str, dimensions: str = "{name: X, fanout: 2, may_reuse: All}", more: str = "") -> str:
    """Main memory, units with a memory each."""
    return arch(MAIN, container("PEs", dimensions), memory("Local", size, 2, rate=64), more, compute())


def shared(result: Result) -> int:
    """How many loops in space stand above several Einsums."""
    assert result.best.mapping is not None
    beside = Counter(p.position for path in result.best.mapping.paths() for p in path if isinstance(p.node, Spatial))
    return sum(count > 1 for count in beside.values())


SKIP = workload(["T[m] = A[m,k] * B[k]", "U[n] = C[n] * D[n]", "Z[m] = T[m] * U[n]"], M=2, K=2, N=2)
PASSED = workload(["T[m] = A[m,k] * B[k]", "U[m] = C[m] * D[m]", "Z[m] = T[m] * U[m]"], M=2, K=2)
OTHER_NAMES = workload(["T[m] = A[m,k] * B[k]", "{einsum: 'Z[p] = T[M: p] * C[M: p]', iteration_space_shape: [0 <= p < 4]}"], M=4, K=2)
MESH = "  - !Network {name: Mesh, topology: mesh, leak_power: 0, area: 0, actions: [{name: hop, energy: 1, latency: 1, throughput: 8}]}\n"
ONE_AXIS = "{name: X, fanout: 2, may_reuse: All}"
TWO_AXES = "{name: X, fanout: 2, may_reuse: All}, {name: Y, fanout: 2, may_reuse: All}"
COPIED = workload(
    [
        "{name: I, is_copy_operation: true, tensor_accesses: [{name: A, projection: [m]}, {name: I, projection: [m], output: true}]}",
        "Z[m] = I[m] * B[m]",
    ],
    M=4,
)
CASES = {
    "network": spec(arch(MAIN, MESH, container("PEs", ONE_AXIS), memory("Local", 64, 2, rate=64), compute()), OTHER_NAMES),
    "copy": spec(grid(64), COPIED),
    "copy before a network": spec(grid(64).replace("  - !Container", f"{MESH}  - !Container"), COPIED),
    "names": spec(grid(64), OTHER_NAMES),
    "passing": spec(grid(48), PASSED),
    "nothing to share": spec(grid(64), SKIP),
}


@pytest.mark.parametrize("name", CASES)
def test_small_cascades_against_brute_force(name: str) -> None:
    best = BruteForce(CASES[name]).optima()
    for objective in ("energy", "latency", "edp"):
        result = ff.search(CASES[name], objective)  # type: ignore[arg-type]
        assert result.proved
        assert not result.omitted
        assert result.value == pytest.approx(best[objective].value, rel=1e-9)


def test_an_intermediate_stays_in_the_units_that_make_it() -> None:
    result = ff.search(spec(grid(100), CHAIN))
    assert result.proved
    assert shared(result) == 1
    outside = spec(grid(100).replace("keep: ~Intermediates", "keep: All"), CHAIN)
    assert result.value < ff.search(outside).value


def test_sharing_halves_the_time_of_an_intermediate_inside() -> None:
    fast = grid("inf").replace("throughput: 8}", "throughput: 800}").replace("throughput: 4.0}", "throughput: 400}")
    wide, narrow = (ff.search(spec(fast.replace("fanout: 2", f"fanout: {n}"), CHAIN), "latency") for n in (2, 1))
    assert wide.proved and narrow.proved
    assert wide.value == narrow.value / 2


def two_fanouts() -> Spec:
    """Two fanouts one below the other; the intermediate lives below both, or between them."""
    inner = container("Lanes", "{name: Y, fanout: 2, may_reuse: All}") + memory("Register", 64, 0.5, rate=256)
    return spec(grid(128, more=inner), CHAIN)


@pytest.mark.parametrize("rule", ["dominance", "budget", "block", "free", "prefix", "floor"])
def test_rules_remove_no_optimum_before_a_network(rule: str) -> None:
    given = spec(arch(MAIN, MESH, container("PEs", TWO_AXES), memory("Local", 64, 2, rate=64), compute()), OTHER_NAMES)
    best = ff.search(given, "edp")
    assert shared(best) == 2
    assert ff.search(given, "edp", without=[rule]).value == pytest.approx(best.value, rel=1e-9)


@pytest.mark.parametrize("rule", ["dominance", "budget", "block", "free", "prefix", "floor", "merge"])
def test_rules_remove_no_optimum(rule: str) -> None:
    given = spec(grid(64, TWO_AXES), CHAIN)
    assert ff.search(given, without=[rule]).value == pytest.approx(ff.search(given).value, rel=1e-9)


def test_two_fanouts_may_be_shared() -> None:
    result = ff.search(two_fanouts(), "latency")
    assert result.proved
    assert result.value == ff.predict(result.best).latency


def test_merged_variables_are_split_below_shared_loops() -> None:
    heads = workload(["T[h,m,n] = A[h,m,k] * B[h,m,k,n]", "Z[h,m] = T[h,m,n] * C[n]"], H=2, M=4, K=2, N=2)
    given = spec(grid(64), heads)
    merged, single = ff.search(given), ff.search(given, without=["merge"])
    assert merged.value == pytest.approx(single.value, rel=1e-9)
    assert ff.predict(merged.best).energy == merged.value
