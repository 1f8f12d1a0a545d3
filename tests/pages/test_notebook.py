"""Notebooks: what results show of themselves, what pandas gets, and that the example notebooks run."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.fact import Fact
from feinsum_fuse.archive.facts.question import Fit
from feinsum_fuse.archive.facts.recording import record_from
from feinsum_fuse.device.calibration.device_file import known_device
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.pages import notebook
from tests.archive.samples import HERE, measurement
from tests.conftest import ROOT
from tests.pages.documents import Elements
from tests.pages.hostile import NAMES
from tests.pages.test_report import matvecs

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def spec() -> Spec:
    return matvecs(ROOT)


@pytest.fixture(scope="module")
def prediction(spec: Spec) -> object:
    return ff.predict(spec)


def results(spec: Spec) -> Iterator[object]:
    """Results that need no device."""
    prediction = ff.predict(spec)
    yield from (prediction, prediction.per_component, ff.search(spec), measurement(), measurement(outcome="crashed"))
    yield Fact(Fit.exact, "", HERE, record_from(measurement()))
    yield Fact(Fit.nothing, "nothing alike", HERE)


def test_results_show_themselves_and_make_frames(spec: Spec) -> None:
    for result in results(spec):
        shown = Elements(result._repr_html_())  # type: ignore[attr-defined]
        assert shown.of("script") == [] and len(shown.text) > 10
        frame = result.to_frame()  # type: ignore[attr-defined]
        assert len(frame.columns) >= 2 or len(frame) == 0


def test_frames_have_numbers(spec: Spec) -> None:
    prediction = ff.predict(spec)
    frame = prediction.to_frame()
    assert frame["energy/J"].sum() == pytest.approx(prediction.dynamic_energy)
    assert len(frame) == len(prediction.actions)


def test_a_program_shows_its_tree_and_text(spec: Spec) -> None:
    program = ff.compile(spec)
    shown = Elements(program._repr_html_())
    assert "__kernel void" in shown.text and len(shown.of("svg")) == 1
    assert list(program.to_frame()["argument"]) == ["I", "WA", "WB", "B"]


def test_hostile_names_are_text_in_notebooks() -> None:
    bad = " ".join(NAMES)
    made = dataclasses.replace(measurement(outcome="crashed"), message=bad, label=bad)
    shown = Elements(made._repr_html_())
    assert shown.of("script") == [] and shown.of("img") == [] and shown.handlers() == [] and "alert(1)" in shown.text


def test_without_matplotlib_there_are_tables(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shown = Elements(ff.predict(spec)._repr_html_())
    assert shown.of("img") == [] and "by component" in shown.text


def test_without_pandas_a_frame_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ff.Error, match=r"feinsum_fuse\[frames\]"):
        measurement().to_frame()


def test_long_tables_are_cut_and_say_so(spec: Spec) -> None:
    assert len(ff.predict(spec).actions) > notebook.SHOWN
    assert "more rows: to_frame() has them all" in ff.predict(spec)._repr_html_()


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_an_example_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("FEINSUM_FUSE_DATABASE", str(tmp_path / "facts.sqlite3"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JUPYTER_PATH", os.path.join(sys.prefix, "share", "jupyter"))
    known_device(find_device())  # or each notebook that needs its file would measure the device anew
    book = nbformat.read(file, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "notebooks are kept without outputs"
    book.cells.insert(0, nbformat.v4.new_code_cell("from tests.brief import measure_briefly\n\nmeasure_briefly()"))
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(file.parent)}}).execute()
    shown = "".join(str(cell.get("outputs")) for cell in book.cells)
    assert "text/html" in shown and "data:image/svg+xml" in shown
