"""What query, retrieve and history answer, and in which order."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from feinsum_fuse.archive import Fit, history, query, record, retrieve
from feinsum_fuse.archive.facts.recording import record_from
from feinsum_fuse.device.timing.measurement import Measurement
from feinsum_fuse.errors import ArchiveError
from feinsum_fuse.model.prediction import Figures, Prediction
from feinsum_fuse.schedule.schedule import Schedule

from .samples import HERE, measurement, product, tiled


def prediction(latency: float = 1e-6) -> Prediction:
    empty = Figures((("einsum", frozenset({"Z"})),), {("Z",): 1.0})
    sizes = Figures((("component", frozenset({"DRAM"})),), {("DRAM",): float("inf")})
    return Prediction(1.0, latency, 0.5, 0.5, empty, empty, empty, empty, empty, empty, empty, sizes, empty)


def test_a_fact_says_for_which_sizes_it_was_the_best(url: str) -> None:
    for n, small, large in ((16, 1.0, 2.0), (32, 3.0, 2.0), (64, 4.0, 2.0)):
        for factor, time in ((4, small), (8, large)):
            record(measurement(product(n, n, n), tiled(factor=factor), median_ns=time), url=url)
    found = {len(fact.best_at): fact for fact in query(product(32, 32, 32), HERE, url=url, limit=2)}
    assert found[2].schedule == tiled(factor=8)
    assert (found[2].best_at, found[1].best_at) == (((32, 32, 32), (64, 64, 64)), ((16, 16, 16),))
    assert retrieve(product(40, 40, 40), HERE, url).best_at == ((32, 32, 32), (64, 64, 64))


def test_what_was_recorded_comes_back_whole(url: str) -> None:
    made = measurement(samples=[3.0, 1.0, 2.0], label="a 'label'\n", runs_per_sample=7)
    identifier = record(made, prediction(), url=url)
    (fact,) = query(product(), HERE, url=url)
    assert fact.known.id == identifier
    stored = fact.measurement
    names = {old.name: new.name for old, new in zip(made.arguments, stored.arguments, strict=True)}
    assert sorted(names.values()) == ["T0", "T1", "T2"]
    assert dataclasses.replace(stored, arguments=made.arguments) == made
    assert fact.prediction == prediction()
    assert fact.schedule == tiled()
    assert fact.source == url
    assert str(fact) == f"exact: {stored}"


def test_the_best_comes_first_and_limit_cuts(url: str) -> None:
    for factor, time in ((4, 30.0), (8, 10.0), (16, 20.0)):
        record(measurement(schedule=tiled(factor=factor), median_ns=time), url=url)
    record(measurement(product(m=65), median_ns=1.0), url=url)
    record(measurement(device=dataclasses.replace(HERE, units=64), median_ns=0.5), url=url)
    record(measurement(schedule=tiled(factor=32), median_ns=0.1, outcome="crashed"), url=url)
    facts = query(product(), HERE, url=url)
    assert [fact.measurement.samples_ns[0] for fact in facts] == [10.0, 20.0, 30.0, 1.0, 0.5]
    assert [fact.found for fact in facts] == [Fit.exact] * 3 + [Fit.nearest_sizes, Fit.device_family]
    assert query(product(), HERE, limit=2, url=url) == facts[:2]
    assert query(product(), HERE, limit=0, url=url) == ()
    assert retrieve(product(), HERE, url=url).schedule == tiled(factor=8)


def test_failures_are_recorded_and_found_when_asked_for(url: str) -> None:
    for outcome in ("rejected", "build_failed", "launch_failed", "timeout", "crashed", "wrong_result"):
        record(measurement(outcome=outcome), url=url)
    assert query(product(), HERE, url=url) == ()
    assert retrieve(product(), HERE, url=url).found is Fit.nothing
    (crash,) = query(product(), HERE, outcome="crashed", url=url)
    assert (crash.measurement.outcome, crash.measurement.stage) == ("crashed", "launch")
    assert crash.measurement.message == "it failed: 'why' \"and\" \n where"
    assert crash.measurement.samples_ns == ()
    assert len(query(product(), HERE, outcome=None, url=url)) == 6


def test_an_infinite_error_is_kept_as_unknown(url: str) -> None:
    record(measurement(outcome="wrong_result", error=float("inf"), tolerance=1e-5), url=url)
    (fact,) = query(product(), HERE, outcome="wrong_result", url=url)
    assert (fact.measurement.error, fact.measurement.tolerance) == (None, 1e-5)


def test_a_mapping_that_was_rejected_has_no_schedule(url: str) -> None:
    made = measurement(outcome="rejected")
    assert made.subject is not None
    record(dataclasses.replace(made, subject=dataclasses.replace(made.subject, schedule=None)), url=url)
    (fact,) = query(product(), HERE, outcome="rejected", url=url)
    assert fact.schedule is None


@pytest.mark.parametrize("outcome", ["crashed", "wrong_result", "timeout"])
def test_a_schedule_that_failed_later_is_passed_over(url: str, outcome: str) -> None:
    record(measurement(schedule=tiled(factor=4), median_ns=5.0), url=url)
    record(measurement(schedule=tiled(factor=8), median_ns=1.0), url=url)
    record(measurement(schedule=tiled(factor=8), outcome=outcome, date="2026-02-02T00:00:00+00:00"), url=url)
    assert retrieve(product(), HERE, url=url).schedule == tiled(factor=4)
    record(measurement(schedule=tiled(factor=8), median_ns=1.0, date="2026-03-03T00:00:00+00:00"), url=url)
    assert retrieve(product(), HERE, url=url).schedule == tiled(factor=8)


def test_schedules_are_compared_by_the_median_of_their_medians(url: str) -> None:
    for time in (1.0, 90.0, 100.0):
        record(measurement(schedule=tiled(factor=4), median_ns=time), url=url)
    for time in (50.0, 60.0, 70.0):
        record(measurement(schedule=tiled(factor=8), median_ns=time), url=url)
    best = retrieve(product(), HERE, url=url)
    assert best.schedule == tiled(factor=8)
    assert best.measurement.samples_ns == (60.0,)


def test_cold_and_warm_are_not_mixed(url: str) -> None:
    record(measurement(schedule=tiled(factor=4), median_ns=10.0), url=url)
    record(measurement(schedule=tiled(factor=8), median_ns=1.0, cache_state="cold"), url=url)
    assert [fact.measurement.cache_state for fact in query(product(), HERE, url=url)] == ["warm", "cold"]
    assert retrieve(product(), HERE, url=url).schedule == tiled(factor=4)
    assert history(measurement(schedule=tiled(factor=8), median_ns=2.0), url=url) == ()
    assert len(history(measurement(schedule=tiled(factor=8), median_ns=2.0, cache_state="cold"), url=url)) == 1


def test_a_schedule_that_is_not_legal_at_the_asked_sizes_is_passed_over(url: str) -> None:
    record(measurement(product(m=64), tiled(factor=64), median_ns=1.0), url=url)
    record(measurement(product(m=640), tiled(factor=8), median_ns=9.0), url=url)
    found = retrieve(product(m=60), HERE, url=url)
    assert found.detail == "recorded at m = 640 for 60"
    assert found.schedule == tiled(factor=8)
    nothing = retrieve(product(m=4), HERE, url=url)
    assert nothing.found is Fit.nothing
    assert "of 2 facts about this structure, none has a schedule that applies; recorded at m = 64 for 4: " in nothing.detail


def test_nothing_known_says_so(url: str, tmp_path: Path) -> None:
    nothing = retrieve(product(m=61), HERE, url=url)
    assert not nothing
    assert str(nothing) == f"nothing known: nothing of this structure on {HERE} or its family"
    with pytest.raises(ArchiveError, match="nothing is recorded: nothing of this structure"):
        nothing.apply(product().kernel())
    assert list(tmp_path.iterdir()) == []


def test_asking_leaves_the_file_as_it_is(url: str, tmp_path: Path) -> None:
    record(measurement(), url=url)
    before = hashlib.sha256(Path(url).read_bytes()).digest(), Path(url).stat().st_mtime_ns
    query(product(), HERE, url=url)
    retrieve(product(m=100), HERE, url=url)
    history(measurement(), url=url)
    assert [file.name for file in tmp_path.iterdir()] == ["facts.sqlite3"]
    assert (hashlib.sha256(Path(url).read_bytes()).digest(), Path(url).stat().st_mtime_ns) == before


def test_the_environment_names_the_database(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEINSUM_FUSE_DATABASE", url)
    record(measurement())
    assert query(product(), HERE)[0].source == url


def test_history_is_oldest_first_and_without_todays(url: str) -> None:
    old = [measurement(median_ns=float(day), date=f"2026-01-0{day}T00:00:00+00:00") for day in (3, 1, 2)]
    for made in old:
        record(made, url=url)
    record(measurement(median_ns=1.0, provenance=dataclasses.replace(old[0].provenance, harness=99)), url=url)
    record(measurement(outcome="crashed"), url=url)
    assert [earlier.samples_ns[0] for earlier in history(old[0], url=url)] == [1.0, 2.0]
    today = measurement(median_ns=9.0, date="2026-01-09T00:00:00+00:00")
    assert [earlier.samples_ns[0] for earlier in history(today, url=url)] == [1.0, 2.0, 3.0]


def test_a_measurement_that_does_not_say_of_what_is_refused(url: str) -> None:
    with pytest.raises(ArchiveError, match="the measurement 'numpy' does not say which cascade was measured"):
        record(measurement(subject=None, label="numpy"), url=url)
    assert not Path(url).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"outcome": "fine"}, "'fine' is no outcome"), ({"limit": -1}, "a limit of -1 facts makes no sense")],
)
def test_questions_that_mean_nothing_are_refused(url: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        query(product(), HERE, url=url, **arguments)  # type: ignore[arg-type]


def test_what_cannot_be_looked_up_is_refused(url: str) -> None:
    with pytest.raises(ArchiveError, match="a str cannot be looked up"):
        query("mk,kn->mn", HERE, url=url)  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match="3 is no device"):
        query(product(), 3, url=url)  # type: ignore[arg-type]


def test_the_record_of_a_record_is_the_same(url: str) -> None:
    made = record_from(measurement())
    again = record_from(dataclasses.replace(made.measurement, subject=type(measurement().subject)(made.cascade, made.schedule)))  # type: ignore[misc,call-arg]
    assert (again.key, again.cascade, again.schedule, again.measurement) == (made.key, made.cascade, made.schedule, made.measurement)


def test_the_empty_schedule_is_a_schedule(url: str) -> None:
    record(measurement(schedule=Schedule(())), url=url)
    assert retrieve(product(), HERE, url=url).schedule == Schedule(())
    assert isinstance(retrieve(product(), HERE, url=url).measurement, Measurement)
