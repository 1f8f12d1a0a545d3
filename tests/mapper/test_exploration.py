"""Grids of architectures: each point is the search of its own architecture."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.arch import Memory
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mapper.enumeration.tables import Tables
from feinsum_fuse.mapper.failures import NoMappingError, UnsearchedError
from tests.sweeps import SLOW

from .specs import OUTER, arch, compute, memory, spec, two_memories, workload

CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m] = T[m,n] * C[n]"], M=4, K=2, N=2)
SPEC = spec(two_memories(200), CHAIN)
GRID = {"Buffer.size": [400.0, 64.0], "MAC.throughput_scale": [1.0, 0.5]}


def alone(size: float, scale: float) -> Spec:
    """The architecture of one point, made by hand."""
    assert SPEC.arch is not None
    nodes = []
    for node in SPEC.arch.components:
        if isinstance(node, Memory) and node.name == "Buffer":
            node = dataclasses.replace(node, size=size)
        nodes.append(dataclasses.replace(node, throughput_scale=scale) if node.name == "MAC" else node)
    return SPEC.replace(arch=dataclasses.replace(SPEC.arch, nodes=tuple(nodes)))


def test_each_point_is_its_own_search() -> None:
    found = ff.explore(SPEC, GRID, "latency")
    assert [tuple(p.setting.values()) for p in found.points] == [(s, t) for s in GRID["Buffer.size"] for t in GRID["MAC.throughput_scale"]]
    for point in found.points:
        best = ff.search(alone(*point.setting.values()), "latency").front[0]
        assert point.found is not None
        assert point.proved
        assert point.found.latency == pytest.approx(best.latency)
        assert ff.predict(point.found.spec).latency == point.found.latency
        assert point.found.spec.arch == alone(*point.setting.values()).arch


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_shared_tables_change_no_result(objective: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are no part of an energy, nor energies of a latency: with them the tables are those of the architecture before."""
    grid = {"Buffer.size": [150.0, 64.0], "MAC.throughput_scale": [1.0, 0.5], "Main.energy_scale": [1.0, 2.0]}
    made: list[object] = []
    blocks_of = Tables.blocks_of
    monkeypatch.setattr(Tables, "blocks_of", lambda tables, *asked: made.append(asked) or blocks_of(tables, *asked))
    alone = ff.explore(SPEC, grid, objective, share=False)
    count = len(made)
    together = ff.explore(SPEC, grid, objective)
    assert together == alone
    assert all(point.proved for point in together.points)
    assert len(made) - count < 0.75 * count


def test_tables_of_copies_are_shared_where_they_cost_the_same() -> None:
    copied = workload(
        [
            "{name: I, is_copy_operation: true, tensor_accesses: [{name: X, projection: [m]}, {name: I, projection: [m], output: true}]}",
            "Z[m,n] = I[m] * B[n]",
        ],
        M=4,
        N=2,
    )
    inside = spec(two_memories(200).replace("may_keep: All}", "may_keep: ~Intermediates}", 1), copied)
    grid = {"Main.energy_scale": [1.0, 0.5], "MAC.throughput_scale": [1.0, 2.0]}
    assert ff.explore(inside, grid) == ff.explore(inside, grid, share=False)


def test_any_executor_gives_the_same() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert ff.explore(SPEC, GRID, executor=pool) == ff.explore(SPEC, GRID)


@pytest.mark.parametrize("processes", [False, True] if SLOW else [False])
def test_a_cluster_of_dask_gives_the_same(processes: bool) -> None:
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.Client(processes=processes, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        assert ff.explore(SPEC, GRID, "edp", executor=client) == ff.explore(SPEC, GRID, "edp")


class Posted:
    """An executor that sends calls and answers as bytes, as those of other machines do."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        call, given = pickle.loads(pickle.dumps((function, arguments)))
        answer: Future[Any] = Future()
        answer.set_result(pickle.loads(pickle.dumps(call(*given))))
        return answer


def test_calls_and_answers_travel() -> None:
    grid = {"Buffer.size": [400.0]}
    assert ff.explore(SPEC, grid, executor=Posted()) == ff.explore(SPEC, grid)


def test_the_front_and_the_best() -> None:
    found = ff.explore(SPEC, GRID, "energy")
    figures = [(p.found.energy, p.found.latency) for p in found.points if p.found is not None]
    front = [(p.found.energy, p.found.latency) for p in found.front if p.found is not None]
    assert found.best.found is not None
    assert found.best.found.energy == min(energy for energy, _ in figures)
    for energy, latency in figures:
        assert any(e <= energy and t <= latency for e, t in front)
    assert found.table().count("\n") == len(found.points)


def test_an_architecture_that_nothing_fits_says_why() -> None:
    main, buffer = memory("Main", "inf", 64, tensors=OUTER), memory("Buffer", 200, 4, tensors="tensors: {keep: All}")
    kept = spec(arch(main, buffer, compute()), CHAIN)
    found = ff.explore(kept, {"Buffer.size": [1.0]})
    assert found.points[0].found is None
    assert found.points[0].reason
    with pytest.raises(NoMappingError, match="No mapping fits any of 1"):
        _ = found.best


@pytest.mark.parametrize(
    ("key", "said"), [("Bufer.size", "no component Bufer"), ("Buffer.sise", "does not have"), ("MAC", "does not have")]
)
def test_keys_that_the_architecture_lacks_are_refused(key: str, said: str) -> None:
    with pytest.raises(UnsearchedError, match=said):
        ff.explore(SPEC, {key: [1]})
