"""The report: one page that fetches nothing, runs its own scripts alone, and links loops with lines."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.pages import listing
from feinsum_fuse.pages import report as module
from feinsum_fuse.pages.report import Report, page
from feinsum_fuse.pages.subject import Case, Course
from feinsum_fuse.report.run_prediction import Predicted
from feinsum_fuse.schedule.target import ANY_DEVICE
from tests.pages.documents import Elements
from tests.pages.hostile import NAMES

MOST_BYTES = 3_000_000
"""Half of what a report may have, which is of two mappings of two Einsums here."""


def matvecs(root: Path, name: str = "mapping") -> Spec:
    return ff.load(*(root / "examples" / "matvecs" / f"{part}.yaml" for part in ("workload", "arch", name)))


def reported(*specs: Spec, labels: tuple[str, ...] = (), **changes: object) -> Report:
    """Mappings that were predicted and not measured."""
    cascade = ff.cascade(specs[0])
    cases = tuple(
        Case(labels[n] if labels else f"number {n}", f"mapping-{n}", spec, cascade, Predicted.of(spec, cascade))
        for n, spec in enumerate(specs)
    )
    fields = {"title": "t", "cascade": cascade, "written": specs[0], "cases": cases, "device": "d", "target": ANY_DEVICE}
    return Report(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without plotly's script, which takes a while to read."""
    monkeypatch.setattr(module, "plotly", lambda: "")


@pytest.fixture(scope="module")
def whole() -> str:
    root = Path(__file__).resolve().parents[2]
    specs = [matvecs(root), matvecs(root, "mapping_unfused")]
    course = Course("course", ((2e-3, "default mapping"), (None, "random"), (1e-3, "neighbour")), 2e-3, 5e-4)
    return page(reported(*specs, labels=("fused", "unfused"), courses=[course]))


def test_the_page_is_one_file(whole: str) -> None:
    found = Elements(whole)
    assert len(whole.encode()) < MOST_BYTES
    addresses = [value for _, attributes in found.found for name, value in attributes.items() if name in ("src", "href", "action")]
    assert addresses and all(address.startswith(("#", "data:")) for address in addresses)
    assert not any("@import" in text or "url(" in text for text in found.inside["style"])


def test_only_its_own_scripts_run(whole: str) -> None:
    found = Elements(whole)
    (policy,) = [item["content"] for item in found.of("meta") if item.get("http-equiv") == "Content-Security-Policy"]
    inside = {item.get("type", ""): text for text, item in zip(found.inside["script"], found.of("script"), strict=True)}
    assert set(inside) == {"", "application/json", "application/gzip"}
    run = [gzip.decompress(base64.b64decode(inside["application/gzip"])).decode(), inside[""]]
    hashes = re.findall(r"'sha256-([^']*)'", policy)
    assert hashes == [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert found.handlers() == []


def test_every_chart_is_a_picture_a_figure_and_a_table(whole: str) -> None:
    found = Elements(whole)
    charts = json.loads(found.inside["script"][0])
    figures = [item["id"].removeprefix("chart-") for item in found.of("figure")]
    assert sorted(charts) == sorted(figures)
    assert len([item for item in found.of("img") if item["src"].startswith("data:image/svg+xml;base64,")]) == len(figures)
    assert {"times", "roofline", "course-0", "mapping-0-busy", "mapping-1-energy", "mapping-0-memory"} <= set(figures)


def test_anchors_are_there_and_are_each_one(whole: str) -> None:
    found = Elements(whole)
    names = [attributes["id"] for _, attributes in found.found if "id" in attributes]
    assert len(names) == len(set(names))
    links = [item["href"].removeprefix("#") for item in found.of("a")]
    assert set(links) <= set(names)


def test_a_loop_leads_to_its_line_and_back(root: Path, light: None) -> None:
    text = page(reported(matvecs(root)))
    assert len(text) < 1_000_000
    found = Elements(text)
    nodes = {item["id"]: item for item in found.of("div") if "-loop-" in item.get("id", "")}
    lines = [item["data-loops"].split() for item in found.of("code") if item.get("data-loops")]
    words = {word for node in nodes.values() for word in node["data-loops"].split()}
    assert len(nodes) == 3 and lines and all(set(line) <= words for line in lines)
    assert {item["href"].removeprefix("#") for item in found.of("a") if "-loop-" in item["href"]} <= set(nodes)
    assert "for nI in tiles of 1 trips 6" in found.text


def test_hostile_names_are_text(root: Path, light: None) -> None:
    name = " ".join(NAMES)
    found = Elements(page(reported(matvecs(root), labels=(name,), title=name, device=name)))
    assert found.handlers() == []
    assert len(found.of("svg")) == 1
    assert found.inside["title"] == [name, "Cascade of 2 Einsums"] and " ".join(name.split()) in found.text
    assert [item.get("type", "") for item in found.of("script")] == ["application/json", ""]


def test_a_mapping_that_becomes_no_kernel_says_why(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ff.LoweringError("the loop over q is bound twice")

    monkeypatch.setattr(listing, "lower", refuse)
    found = listing.listing(matvecs(root), ANY_DEVICE)
    assert (found.lines, found.note) == ((), "This mapping becomes no kernel: the loop over q is bound twice")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"device": 1, "default_median_s": 1.0, "floor_s": 1.0, "history": []}'])
def test_a_course_is_read_from_what_tune_prints_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tuned.json"
    file.write_text(text)
    with pytest.raises(ff.SearchError, match="tune --json"):
        Course.read(file)
    file.write_text('{"device": "d", "default_median_s": 2.0, "floor_s": 1.0, "history": [{"origin": "o", "measured": null, "x": 1}]}')
    assert Course.read(file).times == ((None, "o"),)
