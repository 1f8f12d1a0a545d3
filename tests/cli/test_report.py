"""``report``: a page with and without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.cli.files import write
from tests.pages.documents import Elements


def test_a_page_of_mappings_that_ran(invoke: Invoke, root: Path, tmp_path: Path) -> None:
    files = [root / "examples" / "three_matmuls" / f"{name}.yaml" for name in ("workload", "mapping_fused", "mapping_unfused")]
    files.append(root / "examples" / "cpu.yaml")
    output = tmp_path / "page.html"
    options = ("--set", "M=64", "--set", "N=16", "--repeats", 3, "--url", tmp_path / "facts.sqlite3", "--json")
    ended = invoke("report", *files, "-o", output, *options)
    assert ended.code == 0
    told = json.loads(ended.out)
    assert told["mappings"] == ["fused", "unfused"] and told["bytes"] == output.stat().st_size
    found = Elements(output.read_text())
    assert "measured time, median" in found.text and "NumPy" in found.text
    figures = [item["id"] for item in found.of("figure")]
    assert figures[:3] == ["chart-times", "chart-agreement", "chart-roofline"]
    assert told["facts"] >= 2


def test_a_page_without_running(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = write(tmp_path)
    ended = invoke("report", *files, "--no-run", "--curve", "Buffer", "--url", "facts.sqlite3")
    assert (ended.code, ended.out) == (0, "")
    text = Elements((tmp_path / "report.html").read_text()).text
    assert "nothing was run" in text and "What a larger Buffer would bring" in text
    assert not (tmp_path / "facts.sqlite3").exists()


def test_where_no_page_can_be_nothing_is_measured(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = invoke("report", *write(tmp_path), "-o", "nowhere/page.html")
    assert (ended.code, ended.out) == (1, "")
    assert "there is no folder nowhere" in ended.err
