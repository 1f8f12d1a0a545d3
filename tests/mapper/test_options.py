"""Options that make the space smaller or count its memory otherwise, and cascades with copies, instances and leakage."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.checking.constraint_check import broken_by
from feinsum_fuse.formats.mapping import Placed, Storage, Temporal
from feinsum_fuse.mapper import Result, UnsearchedError
from feinsum_fuse.mapper.request.flips import roles
from tests.conftest import ROOT
from tests.sweeps import SLOW

from .brute_force import BruteForce
from .specs import OUTER, arch, compute, container, memory, spec, two_memories, workload

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


def test_a_copy_holds_nothing_on_the_way_whatever_must_be_kept_there() -> None:
    """Also where the architecture leaks and spreads: a copy has one cost, not one for each spread."""
    copied = workload(
        [
            "{name: I, is_copy_operation: true, tensor_accesses: [{name: X, projection: [m]}, {name: I, projection: [m], output: true}]}",
            "Z[m,n] = I[m] * B[n]",
        ],
        M=6,
        N=4,
    )
    main, buffer = memory("Main", "inf", 64, tensors=OUTER), memory("Buffer", 400, 4, tensors="tensors: {keep: All}")
    leaky = arch(main, buffer, container("PE", "{name: P, fanout: 4}"), compute()).replace("leak_power: 0", "leak_power: 1")
    kept = spec(leaky, copied)
    for objective in ("energy", "latency"):
        result = ff.search(kept, objective)  # type: ignore[arg-type]
        assert result.proved
        assert not broken_by(result.best)


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


def test_heads_apart_say_something_of_a_sum_alone() -> None:
    with pytest.raises(UnsearchedError, match="head_is_tiled_fusion"):
        ff.search(spec(two_memories(200), CHAIN), head_is_tiled_fusion=False)


def test_heads_apart_leave_their_space_to_the_next() -> None:
    """Everything is indexed by the head, so a sum over both Einsums counts what one head at a time never holds at once."""
    attention = workload(
        ["T[head,m,n] = Q[head,m,k] * K[head,n,k]", "Z[head,m,p] = T[head,m,n] * V[head,n,p]"], HEAD=4, M=4, K=4, N=4, P=4
    )
    bound = spec(two_memories(180), attention)
    exact, summed = ff.search(bound).value, ff.search(bound, footprint="sum").value
    assert summed > exact
    assert ff.search(bound, footprint="sum", head_is_tiled_fusion=False).value == exact


def test_a_batch_follows_the_heads() -> None:
    """What does not begin with a head and a batch, one by one, is left out; here the better mapping is."""
    sizes = {"HEAD": 2, "BATCH": 2, "M": 4, "K": 4, "P": 4}
    batched = workload(
        ["T[batch,head,m] = Q[batch,head,m,k] * K[batch,head,k]", "Z[batch,head,p] = T[batch,head,m] * V[batch,head,m,p]"], **sizes
    )
    endless = spec(two_memories("inf"), batched)
    result = ff.search(endless, fused="ffmr", head_first=True, without=["floor"])
    for path in result.front[0].mapping.paths():
        loops = [p.node for p in path if isinstance(p.node, Temporal)]
        above = [p.node for p in path[: next(n for n, p in enumerate(path) if isinstance(p.node, Storage) and "T" in p.node.tensors)]]
        fused = [loop for loop in loops if loop in above]
        assert [(loop.rank_variable, loop.tile_shape) for loop in fused[:2]] in ([], [("head", 1), ("batch", 1)])


@pytest.mark.parametrize("size", [80, 120])
def test_even_mappings_hold_a_memorys_tensors_in_two_places(size: int) -> None:
    bound = spec(two_memories(size), CHAIN)
    even = ff.search(bound, even=True)
    assert even.proved
    assert even.value > ff.search(bound).value
    for path in even.front[0].mapping.paths():
        assert len(places(path, "Buffer")) <= 2


def test_no_even_mapping_is_better() -> None:
    bound = spec(two_memories(80), CHAIN)
    assert ff.search(bound, even=True).value == BruteForce(bound, places=2).optima()["energy"].value


def places(path: Sequence[Placed], memory: str) -> set[int]:
    """How many loops stand above each of a memory's nodes on a path."""
    nodes = [p.node for p in path]
    return {
        sum(isinstance(above, Temporal) for above in nodes[:n])
        for n, node in enumerate(nodes)
        if isinstance(node, Storage) and node.component == memory
    }


ROLES = (
    "renames: {einsums: [{name: default, tensor_accesses: [{name: input, source: A}, {name: output, source: Outputs}, "
    "{name: weight, source: ~(input | output)}]}]}\n"
)


def test_operands_change_their_roles() -> None:
    product = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=16, K=8, N=4)
    rules = "tensors: {keep: input | output}"
    ports = arch(memory("Main", "inf", 64, rate=8, tensors=OUTER), memory("Buffer", 100, 4, rate=64, tensors=rules), compute())
    bound = spec(ports, product, ROLES)
    fixed, free = ff.search(bound, flip=False), ff.search(bound)
    assert fixed.best.workload == bound.workload
    assert free.value < fixed.value
    assert free.best.workload.einsums[0].renames["input"] == {"B"}
    assert not broken_by(free.best)
    assert Result.loads(free.to_yaml()).best == free.best


def test_roles_that_no_constraint_names_are_left_alone() -> None:
    product = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=4, K=4, N=4)
    assert len(roles(spec(two_memories(200), product, ROLES), spec(product, ROLES).workload.einsums[0])) == 1


def test_a_front_keeps_the_roles_of_each_mapping() -> None:
    product = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=8, K=4, N=2)
    ports = arch(
        memory("Main", "inf", 64, rate=8, tensors=OUTER),
        memory("Buffer", 150, 4, rate=64, tensors="tensors: {keep: input, may_keep: output}"),
        compute(),
    )
    result = ff.search(spec(ports, product, ROLES), pareto=("energy", "usage"))
    read = Result.loads(result.to_yaml())
    assert [found.spec for found in read.front] == [found.spec for found in result.front]
    assert len({found.spec.workload.einsums[0].renames["input"] for found in result.front}) == 2


def test_the_size_of_the_space_is_told() -> None:
    small, large = (ff.search(spec(two_memories(200), workload(["Z[m,n] = A[m,k] * B[k,n]"], M=m, K=4, N=4))).space for m in (4, 16))
    assert 2 < small.mappings < large.mappings
    assert small.evaluated > 0


@pytest.mark.parametrize("function", [ff.search, ff.curve, ff.explore])
def test_every_argument_is_told(function: Callable[..., object]) -> None:
    """On the page of the mapper, or, where its page in the reference is enough, in its own words."""
    page = (ROOT / "doc" / "mapper.rst").read_text()
    for name in inspect.signature(function).parameters:
        assert f"``{name}" in page or f"{name}=" in page or f"``{name}" in str(function.__doc__), name
