"""Searches end to end: what they return is what the model says, and no rule that cuts the space changes the optimum."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mapper.driver.optimum import Optimum
from feinsum_fuse.mapper.options import RULES, Objective
from feinsum_fuse.mapper.problem import Problem
from feinsum_fuse.mapper.result import Result

from .specs import spec, two_memories, workload

PRODUCT = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=8, K=6, N=4)
CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], M=8, K=4, N=6, P=4)
SKIP = workload(["T[m,n] = A[m,n]", "U[m,p] = T[m,n] * C[n,p]", "Z[m,p] = U[m,p] * D[m,p]", "Y[m,n] = T[m,n] * Z[m,p]"], M=4, N=4, P=4)
CASES = {
    "product": spec(two_memories(256), PRODUCT),
    "chain": spec(two_memories(400), CHAIN),
    "skip": spec(two_memories(300), SKIP),
}


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
@pytest.mark.parametrize("name", CASES)
def test_a_result_is_what_the_model_says_of_it(name: str, objective: Objective) -> None:
    result = ff.search(CASES[name], objective)
    prediction = ff.predict(result.best)
    assert result.proved
    assert result.front[0].energy == prediction.energy
    assert result.front[0].latency == prediction.latency
    assert result.value == pytest.approx(result.floor)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["product", "chain"])
def test_no_rule_changes_the_optimum(name: str, rule: str) -> None:
    best = ff.search(CASES[name])
    assert ff.search(CASES[name], without=[rule]).value == pytest.approx(best.value)


def test_without_the_floor_everything_is_searched() -> None:
    with_floor, without = ff.search(CASES["chain"]), ff.search(CASES["chain"], without=["floor"])
    assert {stage.floor for stage in without.log} == {0.0}
    assert without.proved
    assert without.space.kept > with_floor.space.kept


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_a_floor_is_raised_to_where_no_mapping_is_within_it(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    tight = spec(two_memories(180), CHAIN)
    best = ff.search(tight, objective)
    monkeypatch.setattr(Problem, "large", True)
    monkeypatch.setattr(Optimum, "_greedy", lambda *arguments: None)
    again = ff.search(tight, objective)
    assert again.proved
    assert again.value == best.value
    floors = [stage.floor for stage in again.log]
    assert floors == sorted(floors)
    assert floors[0] * 1.1 < best.value
    assert {"10% above the floor"} <= {stage.name for stage in again.log}


def test_a_larger_buffer_never_costs_more() -> None:
    values = [ff.search(spec(two_memories(size), CHAIN)).value for size in (100, 200, 400, 800)]
    assert values == sorted(values, reverse=True)


def test_a_result_reads_back(tmp_path: object) -> None:
    result = ff.search(CASES["chain"])
    assert Result.loads(result.to_yaml()) == result
    best: Spec = ff.loads(result.to_yaml())
    assert best.mapping == result.best.mapping
