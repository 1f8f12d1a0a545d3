"""``transforms``: what it lists and shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.patterns.registry import transforms
from tests.cli.conftest import Invoke

GELU = """
workload:
  rank_sizes: {M: 720, N: 928}
  bits_per_value: {All: 32}
  einsums: ["Y[m,n] = gelu(X[m,n]) + R[m,n]"]
"""


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "gelu.yaml"
    path.write_text(GELU)
    return str(path)


def test_all_are_listed_with_their_ideas(invoke: Invoke) -> None:
    """A row for each, with the names of its parameters."""
    ended = invoke("transforms")
    assert (ended.code, ended.err) == (0, "")
    for one in transforms().values():
        assert one.name in ended.out
        assert all(parameter in ended.out for parameter in one.parameters)


def test_those_of_a_workload_are_listed_with_values(invoke: Invoke, workload: str) -> None:
    ended = invoke("transforms", workload)
    assert (ended.code, ended.err) == (0, "")
    words = " ".join(ended.out.split())
    assert "networks.element_by_element" in words and "along written|read" in words and "groups rows|columns" in words
    assert "products." not in words


def test_one_is_shown_with_its_figure_and_source(invoke: Invoke, workload: str) -> None:
    ended = invoke("transforms", workload, "--name", "networks.element_by_element")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "networks.element_by_element"
    assert lines[2].startswith("One Einsum without a reduction: lanes along what lies together")
    assert "  for tiles of rows, or of lines of columns, on groups" in ended.out
    assert "for 1 or more operands, 0 contracted, 0 summed, 0 window" in lines
    assert any(line.startswith("tile: ") for line in lines) and lines[-1].startswith("source: blocked transposition")


def test_as_json(invoke: Invoke, workload: str) -> None:
    (found,) = json.loads(invoke("transforms", workload, "--json").out)
    (expected,) = ff.transforms_for(ff.cascade(ff.load(workload)))
    assert (found["name"], found["idea"], found["source"]) == (expected.name, expected.idea, expected.source)
    assert found["values"]["groups"] == ["rows", "columns"] and found["values"]["tile"][0] == 64
    everything = json.loads(invoke("transforms", "--json").out)
    assert [one["name"] for one in everything] == list(transforms()) and all(one["values"] is None for one in everything)


def test_what_does_not_apply_and_what_is_not_there(invoke: Invoke, workload: str) -> None:
    assert invoke("transforms", workload, "--name", "products.register_tiles").out == "No transform of the catalogue applies.\n"
    ended = invoke("transforms", "--name", "networks.nonesuch")
    assert ended.code == 1 and "there is no transform 'networks.nonesuch'" in ended.err and "networks.element_by_element" in ended.err
