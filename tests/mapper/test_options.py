"""Options that make the space smaller or count its memory otherwise, and cascades with copies, instances and leakage."""

from __future__ import annotations

import subprocess
import sys

import pytest

import feinsum_fuse as ff
from feinsum_fuse.mapper import UnsearchedError
from tests.sweeps import SLOW

from .specs import arch, compute, memory, spec, two_memories, workload

CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], M=8, K=4, N=6, P=4)
HEADS = workload(["T[head,m] = A[head,m,k] * B[head,k]", "Z[head,m,p] = T[head,m] * C[head,p]"], HEAD=4, M=6, K=2, P=3)


@pytest.mark.parametrize("size", [120, 200, 300] if SLOW else [200])
def test_restrictions_never_gain(size: int) -> None:
    chain = spec(two_memories(size), CHAIN)
    best = ff.search(chain).value
    assert ff.search(chain, fused="ffmr").value >= best
    assert ff.search(chain, footprint="sum").value >= best
    assert ff.search(chain, fused=0).value >= ff.search(chain, fused=1).value >= best


def test_ffmr_costs_something() -> None:
    """An intermediate above a part of the loops that its Einsums share is what FFMR lacks."""
    three = workload(["T[m,n] = A[m,k] * B[k,n]", "U[m,p] = T[m,n] * C[n,p]", "Z[m,q] = U[m,p] * D[p,q]"], M=8, K=4, N=4, P=4, Q=4)
    assert ff.search(spec(two_memories(250), three), fused="ffmr").value > 1.05 * ff.search(spec(two_memories(250), three)).value


def test_fused_loops_begin_with_heads() -> None:
    result = ff.search(spec(two_memories(60), HEADS), head_first=True)
    assert result.value >= ff.search(spec(two_memories(60), HEADS)).value


def test_a_copy_moves_once() -> None:
    copied = workload(
        [
            "{name: I, is_copy_operation: true, tensor_accesses: [{name: X, projection: [m]}, {name: I, projection: [m], output: true}]}",
            "Z[m,n] = I[m] * B[n]",
        ],
        M=6,
        N=4,
    )
    result = ff.search(spec(two_memories(400), copied))
    assert result.proved
    assert {p.node.tensors for path in result.front[0].mapping.paths() for p in path[:1]}  # type: ignore[union-attr]


def test_instances_and_leakage_count() -> None:
    once = spec(two_memories(200), CHAIN)
    often = spec(two_memories(200), CHAIN.replace("workload:\n", "workload:\n  n_instances: 3\n"))
    assert ff.search(often).value == pytest.approx(3 * ff.search(once).value)
    leaky = two_memories(200).replace("name: Buffer, size: 200, leak_power: 0", "name: Buffer, size: 200, leak_power: 50")
    assert ff.search(spec(leaky, CHAIN)).value > ff.search(once).value


def test_results_depend_on_no_hash_seed() -> None:
    code = f"import feinsum_fuse as ff; print(ff.search(ff.loads({two_memories(200) + CHAIN!r})).front[0].mapping)"
    texts = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        texts.add(done.stdout)
    assert len(texts) == 1


@pytest.mark.parametrize("arguments", [{"even": True}, {"head_is_tiled_fusion": False}, {"flip": False}, {"cache": "somewhere"}])
def test_what_is_not_covered_is_refused_by_name(arguments: dict[str, object]) -> None:
    with pytest.raises(UnsearchedError, match=next(iter(arguments))):
        ff.search(spec(two_memories(200), CHAIN), **arguments)  # type: ignore[arg-type]


def test_a_network_is_refused_by_name() -> None:
    actions = "actions: [{name: hop, energy: 1, latency: 0}]"
    network = f"  - !Network {{name: Mesh, topology: mesh, leak_power: 0, area: 0, total_latency: 0, {actions}}}\n"
    meshed = spec(arch(memory("Main", "inf", 64), network, memory("Buffer", 200, 4), compute()), CHAIN)
    with pytest.raises(UnsearchedError, match="Mesh"):
        ff.search(meshed)


def test_the_size_of_the_space_is_told() -> None:
    small, large = (ff.search(spec(two_memories(200), workload(["Z[m,n] = A[m,k] * B[k,n]"], M=m, K=4, N=4))).space for m in (4, 16))
    assert 2 < small.mappings < large.mappings
    assert small.evaluated > 0
