"""Facts from elsewhere: kept, shown for what they are, and unable to spoil what is known here."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive import Fit, export_facts, import_facts, query, record, retrieve
from feinsum_fuse.archive.facts.question import Trust
from feinsum_fuse.archive.facts.recording import record_from
from feinsum_fuse.archive.facts.retrieval import is_plausible, least_seconds
from feinsum_fuse.archive.text import lines as texts
from feinsum_fuse.device.timing.measurement import Measurement
from feinsum_fuse.errors import ArchiveError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Split
from feinsum_fuse.schedule.tree.nest import LoopRef

from .samples import HERE, measurement, product, tiled

SLOW = 1e6
"""A time in ns that is possible for a small product."""


def exported(folder: Path, *measurements: Measurement) -> Path:
    """A file of facts that somebody else has recorded."""
    file = folder / "facts.jsonl"
    file.write_text("".join(f"{line}\n" for line in texts.lines_of(map(record_from, measurements))), encoding="utf-8")
    return file


def test_where_a_fact_is_from_is_visible(url: str, tmp_path: Path) -> None:
    file = exported(tmp_path, measurement(median_ns=SLOW))
    import_facts(file, url)
    record(measurement(schedule=tiled(factor=4), median_ns=2 * SLOW), url=url)
    found = {fact.trust: fact for fact in query(product(), HERE, url=url)}
    assert found.keys() == {Trust.imported, Trust.own}
    assert found[Trust.imported].known.origin == str(file)
    assert str(found[Trust.imported]).startswith(f"exact, imported from {file}: ")
    assert file.read_text(encoding="utf-8").strip() in list(export_facts(url))


def test_what_is_known_here_comes_before_what_others_say(url: str, tmp_path: Path) -> None:
    """Where nothing is known, they are believed."""
    import_facts(exported(tmp_path, measurement(median_ns=SLOW)), url)
    assert retrieve(product(), HERE, url).trust is Trust.imported
    record(measurement(schedule=tiled(factor=4), median_ns=2 * SLOW), url=url)
    assert retrieve(product(), HERE, url).schedule == tiled(factor=4)
    record(measurement(median_ns=1.5 * SLOW), url=url)
    assert retrieve(product(), HERE, url).schedule == tiled()


def test_impossible_times_are_kept_and_not_believed_until_measured_here(url: str, tmp_path: Path) -> None:
    large = product(m=4096, k=4096, n=4096)
    claimed = measurement(large, median_ns=1000.0)
    assert least_seconds(record_from(claimed)) == pytest.approx(4096**3 / (4e12 * HERE.units))
    import_facts(exported(tmp_path, claimed), url)
    (fact,) = query(large, HERE, url=url)
    assert not is_plausible(fact.known)
    assert retrieve(large, HERE, url).found is Fit.nothing
    record(measurement(large, median_ns=1e9), url=url)
    best = retrieve(large, HERE, url)
    assert best.trust is Trust.own
    assert best.measurement.median == 1.0


@pytest.mark.parametrize("text", ["Z[m] = where(p <= m, A[m,p], 0)", "Z[m,p] = A[m]"])
def test_what_may_be_left_out_does_not_count_as_work(text: str) -> None:
    cascade = ff.cascade([text], sizes={"M": 10**6, "P": 10**6}, dtypes={"All": "float32"})
    assert least_seconds(record_from(measurement(cascade, Schedule((Explicate(),))))) == 1e-8


def test_a_poisoned_file_of_a_hundred_facts_changes_no_answer(url: str, tmp_path: Path) -> None:
    """Times that nobody can reach, slow schedules that claim to be fast, and faults of the schedule that works here."""
    record(measurement(median_ns=SLOW), url=url)
    record(measurement(product(m=65), tiled(factor=4), median_ns=SLOW), url=url)
    before = [retrieve(product(m=m), HERE, url) for m in (64, 65, 66)]
    poison = []
    for number in range(25):
        poison += [
            measurement(schedule=tiled(factor=2 + number), median_ns=1e-3),
            measurement(schedule=tiled(variable="n", factor=2 + number), median_ns=0.9 * SLOW),
            measurement(outcome="wrong_result", date=f"2099-01-{number + 1:02d}T00:00:00+00:00"),
            measurement(median_ns=10 * SLOW, date=f"2098-01-{number + 1:02d}T00:00:00+00:00"),
        ]
    assert import_facts(exported(tmp_path, *poison), url).added == 100
    for m, known in zip((64, 65, 66), before, strict=True):
        found = retrieve(product(m=m), HERE, url)
        assert (found.known.id, found.schedule) == (known.known.id, known.schedule)


def test_a_schedule_that_is_illegal_on_its_own_cascade_is_not_imported(url: str, tmp_path: Path) -> None:
    good = exported(tmp_path, measurement(median_ns=SLOW))
    data = json.loads(good.read_text(encoding="utf-8"))
    data["schedule"].append(Split(LoopRef("E0", "i7"), 3).to_json())
    (tmp_path / "bad.jsonl").write_text(json.dumps({**data, "fact": uuid.uuid4().hex, "applicable": ""}))
    with pytest.raises(ArchiveError, match=r"bad\.jsonl: the schedule of fact .* is not legal on its own cascade: .*E0\.i7"):
        import_facts(tmp_path / "bad.jsonl", url)
    assert not Path(url).exists()
    rejected = {**data, "fact": uuid.uuid4().hex, "measurement": {**data["measurement"], "outcome": "rejected", "samples_ns": []}}
    (tmp_path / "rejected.jsonl").write_text(json.dumps(rejected))
    assert import_facts(tmp_path / "rejected.jsonl", url).added == 1


def test_files_without_an_end_are_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/dev/zero").exists():
        with pytest.raises(ArchiveError, match="/dev/zero:1: the line has 16777217 characters, more than 16777216"):
            import_facts("/dev/zero", url)
    (tmp_path / "blank.jsonl").write_text("\n" * 50)
    monkeypatch.setattr(texts, "MOST_LINES", 40)
    with pytest.raises(ArchiveError, match=r"blank\.jsonl:41: the import has not ended after 40 lines\n  Split the file"):
        import_facts(tmp_path / "blank.jsonl", url)
    monkeypatch.setattr(texts, "MOST_SECONDS", -1)
    with pytest.raises(ArchiveError, match="after -1 s of reading"):
        import_facts(tmp_path / "blank.jsonl", url)


def test_a_fact_of_too_many_einsums_is_refused(url: str, tmp_path: Path) -> None:
    line = json.loads(exported(tmp_path, measurement(median_ns=SLOW)).read_text(encoding="utf-8"))
    line["cascade"]["einsums"] *= texts.MOST_EINSUMS + 1
    (tmp_path / "huge.jsonl").write_text(json.dumps(line))
    with pytest.raises(ArchiveError, match=r"huge\.jsonl:1: the line is no fact: it has 201 Einsums, more than 200"):
        import_facts(tmp_path / "huge.jsonl", url)


@pytest.mark.parametrize("cuts", [False, True])
def test_a_fact_whose_schedule_would_take_minutes_is_refused(cuts: bool, url: str, tmp_path: Path) -> None:
    """Thousands of steps, and a loop that is cut a hundred times: neither is applied."""
    line = json.loads(exported(tmp_path, measurement(median_ns=SLOW)).read_text(encoding="utf-8"))
    path = "E0.i0" + "/0" * (texts.MOST_CUTS + 1)
    step = {"loop": path if cuts else "E0.i0", "step": "Split", "tile": 1, "version": 1}
    line["schedule"] += [step] * (1 if cuts else texts.MOST_STEPS)
    (tmp_path / "long.jsonl").write_text(json.dumps(line))
    message = r"cuts the loop E0\.i0 more than 32 times" if cuts else r"has 500\d steps, more than 5000"
    with pytest.raises(ArchiveError, match=rf"long\.jsonl:1: the line is no fact: its schedule {message}"):
        import_facts(tmp_path / "long.jsonl", url)
