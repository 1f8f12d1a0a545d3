"""AccelForge's ``mapper`` key: each field bites, is refused by name, or is told to have no effect."""

from __future__ import annotations

import math
import warnings
from dataclasses import fields

import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import SpecError, SpecWarning
from feinsum_fuse.formats.mapper import METRICS, MapperSettings
from feinsum_fuse.mapper import Result, UnsearchedError
from feinsum_fuse.mapper.request.settings import WITHOUT_EFFECT

from .specs import OUTER, arch, compute, container, memory, spec, two_memories, workload

CHAIN = workload(["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"], M=8, K=4, N=6, P=4)
SMALL = workload(["T[m] = A[m]", "Z[m] = T[m]"], M=3)
PRODUCT = workload(["Z[m,n] = A[m,k] * B[k,n]"], M=5, K=7, N=4)
BITES = {
    "max_fused_loops: 0": (two_memories(120), CHAIN),
    "max_fused_loops_per_rank_variable: 0": (two_memories(120), CHAIN),
    "tiling_coarseness: 3": (two_memories(120), CHAIN),
    "explore_imperfect_temporal_loops: true": (two_memories(100), PRODUCT),
    "max_loops_per_spatial_dimension: 1": (
        arch(
            memory("Main", "inf", 64, rate=8, tensors=OUTER),
            container("PE", "{name: X, fanout: 8}"),
            memory("Buffer", 100, 4, rate=64, tensors="tensors: {may_keep: All}"),
            compute(),
        ),
        workload(["Z[m,n] = A[m,k] * B[k,n]"], M=4, K=4, N=2),
    ),
}
"""Field -> an architecture and a cascade that it changes the optimum of."""


def asked(setting: str, *texts: str) -> Result:
    return ff.search(spec(*texts, f"mapper: {{{setting}}}\n"))


@pytest.mark.parametrize("setting", BITES)
def test_a_setting_bites(setting: str) -> None:
    free, bound = ff.search(spec(*BITES[setting])), asked(setting, *BITES[setting])
    better = "imperfect" in setting
    assert bound.value < free.value if better else bound.value > free.value


def test_settings_are_those_of_the_arguments() -> None:
    files = two_memories(120), CHAIN
    assert asked("max_fused_loops: 0", *files).value == ff.search(spec(*files), fused=0).value
    assert ff.search(spec(*files, "mapper: {max_fused_loops: 1}\n"), fused=0).value == ff.search(spec(*files), fused=0).value
    assert asked("explore_imperfect_temporal_loops: true", two_memories(100), PRODUCT).value == (
        ff.search(spec(two_memories(100), PRODUCT), imperfect=True).value
    )


def test_metrics_choose_the_objective() -> None:
    files = two_memories(120), SMALL
    assert asked("metrics: 1", *files).objective == "latency"
    assert asked("metrics: ENERGY_DELAY_PRODUCT", *files).objective == "edp"
    assert asked("metrics: ENERGY", *files).objective == "energy"
    assert ff.search(spec(*files, "mapper: {metrics: LATENCY}\n"), "energy").objective == "energy"
    front = asked("metrics: ENERGY | RESOURCE_USAGE", *files).front
    assert [found.energy for found in front] == [
        found.energy for found in ff.search(spec(*files), pareto=("energy", "usage")).front
    ]
    assert len(front) > 1


def test_a_tolerance_and_a_time_limit_are_taken() -> None:
    loose = asked("objective_tolerance: 10", two_memories(120), CHAIN)
    assert loose.proved and loose.floor < loose.value
    assert ff.search(spec(two_memories(120), CHAIN)).proved
    assert not asked("time_limit: 1e-9", two_memories(120), CHAIN).proved


@pytest.mark.parametrize(
    "setting",
    [
        "max_fused_loops_per_rank_variable: 2",
        "max_loops_minus_ranks: 3",
        "metrics: DYNAMIC_ENERGY",
        "metrics: ENERGY | LEAK_ENERGY",
        "metrics: ACTIONS",
    ],
)
def test_what_is_not_covered_is_refused_by_name(setting: str) -> None:
    with pytest.raises(UnsearchedError, match=setting.split(":")[0]):
        asked(setting, two_memories(120), SMALL)


def test_imperfect_loops_in_space_are_refused_where_there_are_any() -> None:
    setting = "explore_imperfect_spatial_loops: true"
    assert asked(setting, two_memories(120), SMALL).proved
    with pytest.raises(UnsearchedError, match="explore_imperfect_spatial_loops"):
        asked(setting, *BITES["max_loops_per_spatial_dimension: 1"])


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_what_has_no_effect_is_told(name: str) -> None:
    default = getattr(MapperSettings(), name)
    other = "1" if name == "info_metrics" else str(not default).lower() if isinstance(default, bool) else "0.5"
    with pytest.warns(SpecWarning, match=name):
        asked(f"{name}: {other}", two_memories(120), SMALL)


def test_every_field_is_read_and_written_back() -> None:
    given = MapperSettings(("LATENCY", "ENERGY"), ("ACTIONS",), time_limit=2.5, max_fused_loops=3, explore_loop_orders=False)
    bare = spec(two_memories(120), SMALL)
    assert ff.loads(bare.replace(mapper=given).to_yaml()).mapper == given
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for item in fields(MapperSettings):
            value = "2" if item.name.endswith("metrics") else str(item.default).lower()
            assert spec(SMALL, f"mapper: {{{item.name}: {value}}}\n").mapper is not None
    assert math.isinf(MapperSettings().time_limit)
    assert sum(METRICS.values()) == 255


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("max_fused_lops: 1", "Did you mean max_fused_loops"),
        ("metrics: 512", "a sum of the numbers of metrics"),
        ("metrics: SPEED", "no metric.*\n.*LATENCY"),
        ("tiling_coarseness: 0.5", "at least 1"),
        ("time_limit: soon", "soon"),
        ("max_fused_loops: -1", "at least 0"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(setting: str, message: str) -> None:
    with pytest.raises(SpecError, match=rf"<text>:\d+:\d+: mapper(?s:.*){message}"):
        spec(SMALL, f"mapper: {{{setting}}}\n")
