"""``compare``: many mappings, predicted and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cli.compare import combinations
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing import harness
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from tests.cli.conftest import Invoke
from tests.tuning.spaces import DEVICE_FILE, WORKLOAD

TILED = """\
mapping:
  nodes:
  - !Storage {component: MainMemory, tensors: [T0, W0, T1]}
  - !Temporal {rank_variable: m, tile_shape: {{TM | default(8)}}}
  - !Storage {component: GlobalBuffer, tensors: [W0, T0, T1]}
  - !Temporal {rank_variable: n1, tile_shape: 1}
  - !Temporal {rank_variable: n0, tile_shape: 1}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Compute {einsum: Matmul0, component: MAC}
"""


@pytest.fixture
def files(root: Path, tmp_path: Path) -> list[Path]:
    """One matrix product, and a mapping with a tile that can be swept."""
    (tmp_path / "mapping_tiled.yaml").write_text(TILED)
    return [*(root / "examples" / "matmul" / f"{name}.yaml" for name in ("workload", "arch")), tmp_path / "mapping_tiled.yaml"]


def test_combinations_of_swept_variables() -> None:
    assert combinations(None) == [{}]
    assert combinations(["A=1,2", "B=x"]) == [{"A": 1, "B": "x"}, {"A": 2, "B": "x"}]


def test_compare_judges_the_model(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    ended = invoke("compare", *files, "--sweep", "TM=2,8,32,100", "--repeats", 2, "--url", tmp_path / "facts.sqlite3", "--json")
    assert ended.code == 0
    assert ended.err.startswith(
        "reading mappings ...\nleft out, TM=100: The tile shape 100 of m exceeds its bound, 64, in Einsum Matmul0.\n"
    )
    found = json.loads(ended.out)
    assert [one["mapping"] for one in found["mappings"]] == ["tiled TM=2", "tiled TM=8", "tiled TM=32"]
    assert found["left_out"] == {}
    ratios = [one["predicted_time_s"] / one["median_s"] - 1 for one in found["mappings"]]
    assert found["agreement"]["bias"] == pytest.approx(sum(ratios) / 3)
    assert found["agreement"]["count"] == 3


def test_compare_as_text(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    picture = tmp_path / "scatter.svg"
    ended = invoke("compare", *files, "--sweep", "TM=4,16", "--repeats", 2, "--no-record", "--svg", picture)
    assert ended.code == 0
    root = ElementTree.parse(picture).getroot()
    groups = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("id", "").startswith("comparison-")]
    assert sum(len(list(group.iter("{http://www.w3.org/2000/svg}use"))) for group in groups) == 2
    assert "2 mappings, " in ended.out
    assert "order: Spearman " in ended.out
    assert "noise: samples spread by " in ended.out


def test_random_mappings_are_drawn_by_seed_measured_and_kept(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    database, maps = tmp_path / "facts.sqlite3", tmp_path / "maps"
    workload, arch, tiled = files
    common = ("--set", "M=12", "--set", "K=6", "--set", "N=8", "--random", 1, "--repeats", 2, "--url", database, "--json")
    ended = invoke("compare", workload, arch, tiled, *common, "--set", "TM=4", "--save", maps, "--html", tmp_path / "page.html")
    assert ended.code == 0
    assert ended.err.startswith("drawing random mappings ...\n")
    found = json.loads(ended.out)
    labels = ["tiled", "random 0"]
    assert [one["mapping"] for one in found["mappings"]] == labels
    assert len({one["tree"] for one in found["mappings"]}) == 2
    assert sorted(file.name for file in maps.iterdir()) == sorted(f"mapping_{label.replace(' ', '_')}.yaml" for label in labels)

    alone = json.loads(invoke("compare", workload, arch, *common, "--seed", 0).out)
    assert [one["tree"] for one in alone["mappings"]] == [one["tree"] for one in found["mappings"][1:]]
    other = json.loads(invoke("compare", workload, arch, *common, "--seed", 7).out)
    assert {one["tree"] for one in other["mappings"]} != {one["tree"] for one in alone["mappings"]}
    assert other["seed"] == 7

    spec = ff.load(workload, arch, variables={"M": 12, "K": 6, "N": 8})
    facts = {fact.known.id: fact.known for fact in ff.query(spec, find_device(None), limit=100, url=database)}
    for one in found["mappings"]:
        known = facts[one["fact"]]
        assert known.measurement.median == one["median_s"]
        assert known.prediction is not None
        assert known.prediction.latency == pytest.approx(one["predicted_time_s"])
    # Facts that ship with the package are found as well.
    assert {one["fact"] for run in (found, alone, other) for one in run["mappings"]} <= set(facts)


def test_saved_mappings_run(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    workload, arch, _ = files
    sizes = ("--set", "M=12", "--set", "K=6", "--set", "N=8", "--repeats", 1, "--no-record")
    assert invoke("compare", workload, arch, *sizes, "--random", 1, "--save", tmp_path / "maps").code == 0
    assert invoke("run", workload, arch, tmp_path / "maps" / "mapping_random_0.yaml", *sizes).code == 0


def test_failures_are_recorded_with_their_outcome(
    invoke: Invoke, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, count = harness.build, iter(range(10))

    def second_hangs(*given: Any, **more: Any) -> Program:
        if next(count) == 1:
            raise KernelError(Outcome.timeout, "run", "the kernel hung", Executable("", (), (), ()))
        return build(*given, **more)

    monkeypatch.setattr(harness, "build", second_hangs)
    database = tmp_path / "facts.sqlite3"
    ended = invoke("compare", *files, "--sweep", "TM=4,16", "--repeats", 1, "--url", database, "--json")
    assert ended.code == 3
    found = json.loads(ended.out)
    assert found["left_out"] == {"tiled TM=16": "timeout: the kernel hung"}
    counts = json.loads(invoke("db", "stats", "--json", "--url", database).out)["by_device_and_outcome"]
    assert {row["outcome"]: row["facts"] for row in counts} == {"ok": 1, "timeout": 1}
    (failure,) = ff.query(ff.load(*files[:2]), find_device(None), outcome="timeout", url=database)
    assert failure.known.measurement.message == "the kernel hung"
    assert failure.prediction is not None and failure.prediction.latency > 0


@pytest.mark.parametrize(
    ("sweep", "text"), [("TM", "'TM' is not NAME=V1,V2,..."), ("TM=", "'TM=' is not NAME=V1,V2,..."), ("TM=1,,2", "'TM=1,,2' is not")]
)
def test_a_sweep_without_values_is_a_usage_error(invoke: Invoke, files: list[Path], sweep: str, text: str) -> None:
    ended = invoke("compare", *files, "--sweep", sweep)
    assert (ended.code, ended.out) == (2, "")
    assert text in ended.err


def test_places_that_cannot_be_written_are_refused_before_anything_is_measured(
    invoke: Invoke, files: list[Path], tmp_path: Path
) -> None:
    missing = tmp_path / "nonesuch"
    for option, place, reason in (
        ("--html", missing / "page.html", f"there is no folder {missing}"),
        ("--png", tmp_path, "it is a folder"),
    ):
        ended = invoke("compare", *files, option, place)
        assert (ended.code, ended.out, ended.err) == (1, "", f"error: cannot write {place}: {reason}\n")
    ended = invoke("compare", *files, "--save", files[0])
    assert (ended.code, ended.out, ended.err) == (1, "", f"error: cannot write into {files[0]}: it is no folder\n")


GROUPS = """
mapping:
  nodes:
  - !Storage {component: MainMemory, tensors: [A, B, Z]}
  - !Spatial {rank_variable: m, tile_shape: 24, component: Core, name: core}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""


def test_by_component_takes_each_mapping_apart(invoke: Invoke, tmp_path: Path) -> None:
    product, mapping = tmp_path / "product.yaml", tmp_path / "mapping_groups.yaml"
    product.write_text(WORKLOAD)
    mapping.write_text(GROUPS)
    ended = invoke("compare", product, DEVICE_FILE, mapping, "--by-component", "--repeats", 2, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert list(found) == ["groups"]
    rows = {row["without"]: row for row in found["groups"]["kernels"]}
    assert list(rows) == ["nothing", "far memory", "arithmetic", "other cores", "further iterations"]
    assert all(row["measured"] > 0 and row["predicted"] > 0 for row in rows.values())
    assert set(found["groups"]["left_out"]) == {"one cache alone"}
    assert set(found["groups"]["apart"]) <= set(rows) - {"nothing"}


def test_by_model_puts_the_formulas_beside(invoke: Invoke, tmp_path: Path) -> None:
    product, mapping = tmp_path / "product.yaml", tmp_path / "mapping_groups.yaml"
    product.write_text(WORKLOAD)
    mapping.write_text(GROUPS)
    ended = invoke("compare", product, DEVICE_FILE, mapping, "--by-model", "--repeats", 2, "--no-record", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["by_model"]
    (row,) = found["mappings"]
    assert row["mapping"] == "groups" and row["measured_s"] > 0
    assert row["AccelForge_s"] > row["with caches_s"] <= row["with a core_s"] < row["with launches_s"]
    assert row["kernel model_s"] > 0 and row["energy_J"] > 0


def test_by_component_needs_an_architecture_that_was_measured(invoke: Invoke, files: list[Path]) -> None:
    ended = invoke("compare", *files, "--by-component")
    assert (ended.code, ended.out) == (1, "")
    assert "this Spec is for an architecture that was not measured" in ended.err
