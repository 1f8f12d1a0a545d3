"""``compare``: many mappings, predicted and measured."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from feinsum_fuse.cli.compare import combinations
from tests.cli.conftest import Invoke

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
    assert ended.err.startswith("left out, TM=100: The tile shape 100 of m exceeds its bound, 64, in Einsum Matmul0.\n")
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
    circles = [shape for shape in ElementTree.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}circle") if len(shape)]
    assert [shape[0].text.partition(":")[0] for shape in circles if shape[0].text] == ["tiled TM=4", "tiled TM=16"]
    assert "2 mappings, " in ended.out
    assert "order: Spearman " in ended.out
    assert "noise: samples spread by " in ended.out


def test_one_mapping_is_too_few_to_judge_by(invoke: Invoke, files: list[Path]) -> None:
    ended = invoke("compare", *files, "--repeats", 1, "--no-record")
    assert ended.code == 0
    assert ended.out.endswith("too few mappings to judge the model by\n")
