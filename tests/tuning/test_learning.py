"""The learned correction: trees that rank, judged on workloads that were left out, from what an archive holds."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.record import Record
from feinsum_fuse.archive.facts.retrieval import facts_on, recorded
from feinsum_fuse.device.calibration.device_file import known_device
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target
from feinsum_fuse.device.timing.measurement import HARNESS
from feinsum_fuse.errors import ArchiveError, SearchError
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.tuning.learning import learning
from feinsum_fuse.tuning.learning.judgement import Judgement, judged, recall, regret
from feinsum_fuse.tuning.learning.lessons import MOST_BOOKS, LessonBook
from feinsum_fuse.tuning.learning.ranker import Lesson, Ranker, learned, ranker_of
from feinsum_fuse.tuning.preparation import predict_seconds
from feinsum_fuse.tuning.space import Space

from .spaces import Here, product, space

needs_lightgbm = pytest.mark.usefixtures("lightgbm")


@pytest.fixture
def lightgbm() -> None:
    pytest.importorskip("lightgbm")


def lessons(count: int, wrong: float, seed: int = 0) -> list[Lesson]:
    """Workloads of mappings that the model takes for ``exp(wrong)`` times too fast where they spill, and the rest of it is noise."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(count):
        predicted = generator.normal(-7 + number, 0.5, 60)
        spilled, other = generator.integers(0, 2, 60), generator.normal(0, 1, 60)
        measured = predicted + wrong * spilled + generator.normal(0, 0.05, 60)
        terms = [{"spilled": float(s), "other": float(o)} for s, o in zip(spilled, other, strict=True)]
        found.append(Lesson(f"workload {number}", terms, predicted, measured))
    return found


@needs_lightgbm
def test_what_the_model_is_wrong_about_everywhere_is_learned() -> None:
    found = judged(lessons(8, 1.0))
    assert found is not None and found.is_better and found.recall[1] > found.recall[0] + 0.05
    assert "is on" in str(found)


@needs_lightgbm
def test_where_there_is_nothing_to_learn_the_correction_is_off() -> None:
    found = judged(lessons(8, 0.0))
    assert found is not None and not found.is_better and "is off" in found.verdict


@needs_lightgbm
def test_a_workload_is_left_out_under_all_of_its_names() -> None:
    """Of two copies of each workload both are left out: what one has by chance would be known from the other."""
    rows = lessons(7, 0.0)
    generator = np.random.default_rng(3)
    chance = [
        Lesson(one.workload, [{"which": float(number)} for number in range(60)], one.predicted, one.predicted + generator.normal(0, 1, 60))
        for one in rows
    ]
    twice = judged([*chance, *chance])
    assert twice is not None and len(twice.each) == 14
    assert twice.recall[1] < 0.7


def test_few_workloads_judge_nothing_and_no_time_judges_none() -> None:
    found = judged(lessons(1, 1.0))
    assert found is not None and not found.is_better and "6 are needed" in found.verdict
    assert judged(lessons(8, 1.0), time.monotonic() - 1) is None


def test_figures() -> None:
    measured = np.log(np.arange(1.0, 21.0))
    assert recall(measured, measured) == 1 and regret(measured, measured) == 0
    assert recall(-measured, measured) == 0 and regret(-measured, measured) == pytest.approx(15)


@needs_lightgbm
def test_trees_are_read_back_as_they_were_written() -> None:
    some = lessons(4, 1.0)
    ranker = learned(some)
    again = ranker_of(json.loads(json.dumps(ranker.data)))
    assert np.allclose(again.corrected(some[0]), ranker.corrected(some[0]))
    slow, fast = ranker.factor({"spilled": 1.0, "other": 0.0}), ranker.factor({"spilled": 0.0, "other": 0.0})
    assert slow > 1.05 * fast


@pytest.mark.parametrize(
    "data", [{}, {"terms": ["a"], "trees": [[1, 0.5, 0, 0]]}, {"terms": ["a"], "trees": [["x"]]}, {"terms": 1, "trees": []}]
)
def test_what_are_no_trees_is_refused(data: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        ranker_of(data)


def test_without_lightgbm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    with pytest.raises(SearchError, match="LightGBM") as caught:
        learned(lessons(2, 1.0))
    assert "feinsum_fuse[tune]" in str(caught.value)


def test_predictions_are_multiplied() -> None:
    """By what the trees say of the candidate's terms: here half of the time for whatever has a block."""
    whole = space()
    spec, target = whole.defaults()[0].spec, whole.target
    alone = predict_seconds(spec, target)
    half = Ranker(("blocks",), ((0, 0.5, 0.0, math.log(2) / 0.2),))
    assert alone is not None and predict_seconds(spec, target, half) == pytest.approx(alone / 2)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp("learning") / "facts.sqlite3")
    ff.tune(product(), "pocl", seconds=600, measurements=3, url=url, executor=Here(), known=False)
    return url


@pytest.fixture(scope="module")
def machine() -> Machine:
    found = Machine.of(known_device(find_device("pocl")))
    assert found is not None
    return found


def test_facts_become_lessons_and_stay_so(archive: str, machine: Machine, tmp_path: Path) -> None:
    info = DeviceInfo.of(find_device("pocl"))
    facts = facts_on(info, archive)
    assert len(facts) >= 3
    book = LessonBook.of(tmp_path / "book.json", machine)
    book.add(recorded(facts, archive), machine, math.inf)
    (lesson,) = book.lessons()
    assert len(lesson.measured) >= 2 and all(terms["lanes"] > 0 for terms in lesson.terms)  # of scalars less than 1
    book.write()
    again = LessonBook.of(book.file, machine)
    assert set(again.notes) == set(facts) and np.allclose(again.lessons()[0].measured, lesson.measured)
    assert all(again.is_of_this_model(record, machine) for record in recorded(facts, archive))
    note = again.notes[facts[0]]
    assert note is not None
    again.notes[facts[0]] = type(note)(note.cascade, note.about, note.schedule, 2 * note.predicted, note.measured, note.terms)
    assert not again.is_of_this_model(recorded(facts[:1], archive)[0], machine)
    book.file.write_text("no book")
    assert not LessonBook.of(book.file, machine).notes


def test_their_prediction_is_that_of_the_search(archive: str, machine: Machine, tmp_path: Path) -> None:
    """A fact's schedule in canonical names is the program that the mapping was lowered to."""
    given, device = known_device(find_device("pocl")), find_device("pocl")
    facts = facts_on(DeviceInfo.of(device), archive)
    book = LessonBook.of(tmp_path / "book.json", machine)
    records = recorded(facts, archive)
    book.add(records, machine, math.inf)
    assert given.arch is not None and given.opencl is not None
    whole = Space(ff.cascade(product()), given.arch, given.opencl, target(device))
    for record in records:
        note = book.notes[record.id]
        spec = whole.families[""].spec.replace(mapping=ff.loads(record.mapping).mapping)
        assert note is not None and note.predicted == pytest.approx(predict_seconds(spec, whole.target), rel=0.01)


def test_what_cannot_be_learned_from_is_asked_for_once(
    archive: str, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record is damaged, one has a step of an older version, one a time that was taken in another way."""
    info = DeviceInfo.of(find_device("pocl"))
    damaged, old, early, *_ = facts = facts_on(info, archive)
    asked: list[str] = []

    def read(some: Sequence[str], url: str) -> list[Record]:
        asked.extend(some)
        if damaged in some:
            raise ArchiveError("the record is damaged")
        return [_of_earlier(record) if record.id == early else record for record in recorded(some, url) if record.id != old]

    monkeypatch.setattr(learning, "recorded", read)
    book = LessonBook.of(tmp_path / "book.json", machine)
    assert learning._read(book, machine, info, archive, math.inf)
    assert set(book.notes) == set(facts)
    assert [book.notes[fact] for fact in (damaged, old, early)] == [None] * 3
    assert any(note is not None for note in book.notes.values())
    asked.clear()
    assert not learning._read(book, machine, info, archive, math.inf)
    assert not {damaged, old, early} & set(asked)


def test_a_changed_model_is_noticed_whatever_the_last_fact_is(archive: str, machine: Machine, tmp_path: Path) -> None:
    info = DeviceInfo.of(find_device("pocl"))
    book = LessonBook.of(tmp_path / "book.json", machine)
    learning._read(book, machine, info, archive, math.inf)
    first, *_, last = facts_on(info, archive)
    note = book.notes[first]
    assert note is not None
    book.notes = {first: dataclasses.replace(note, predicted=2 * note.predicted), last: None}
    learning._read(book, machine, info, archive, math.inf)
    assert book.notes[first] == note and book.notes[last] is not None


def _of_earlier(record: Record) -> Record:
    provenance = dataclasses.replace(record.measurement.provenance, harness=HARNESS - 1)
    return dataclasses.replace(record, measurement=dataclasses.replace(record.measurement, provenance=provenance))


@needs_lightgbm
def test_lessons_that_lightgbm_does_not_take() -> None:
    generator = np.random.default_rng(0)
    times = generator.normal(0, 1, 10_001)
    with pytest.raises(SearchError, match="does not learn"):
        learned([Lesson("large", [{"a": float(k)} for k in range(10_001)], times, times)])


@needs_lightgbm
def test_what_was_judged_is_kept_and_used(archive: str, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of one workload is judged to be too small; where a judgement says that trees rank better, they are what a search gets."""
    monkeypatch.setattr(learning, "default_file", lambda device: tmp_path / "device.yaml")
    device = find_device("pocl")
    said: list[str] = []
    assert learning.correction(device, machine, archive, 60.0, lambda stage, done: said.append(stage)) == learning.NOTHING_LEARNED
    (file,) = tmp_path.glob("device-lessons-*.json")
    data = json.loads(file.read_text())
    assert said == ["learning from the archive"] and data["judged"]["mappings"] >= 2 and data["judged"]["ranker"] is None
    data["judged"]["ranker"] = {"terms": ["lanes"], "trees": [[0, 0.5, 0.0, 1.0]]}
    data["judged"]["each"] = [["a", 20, [0.5, 0.75], [0.02, 0.01]]]
    file.write_text(json.dumps(data))
    found = learning.correction(device, machine, archive, 60.0, lambda stage, done: None)
    assert found.ranker is not None and "recall@10 50% to 75%" in str(found)


def test_few_books_of_a_device_are_kept(machine: Machine, tmp_path: Path) -> None:
    for number in range(MOST_BOOKS + 3):
        file = tmp_path / f"device-lessons-{number:02}.json"
        LessonBook.of(file, machine).write()
        os.utime(file, (number, number))
    other = tmp_path / "device-2-lessons-a.json"
    other.touch()
    LessonBook.of(tmp_path / "device-lessons-02.json", machine).write()
    kept = {file.name for file in tmp_path.glob("device-lessons-*.json")}
    assert kept == {f"device-lessons-{number:02}.json" for number in (2, *range(4, MOST_BOOKS + 3))} and other.exists()


@needs_lightgbm
def test_an_archive_without_a_fact_leaves_no_book(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "default_file", lambda device: tmp_path / "device.yaml")
    learning.correction(find_device("pocl"), machine, str(tmp_path / "none.sqlite3"), 60.0, lambda stage, done: None)
    assert not list(tmp_path.glob("*.json"))


def test_nothing_judged_says_nothing() -> None:
    assert str(learning.NOTHING_LEARNED) == "" and not Judgement(()).is_better
