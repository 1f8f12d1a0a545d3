"""Who decides: a mapping, a search, a fact that wins here, the model, the rules; and never what is slower or wrong."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import loopy as lp
import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive import Fact, Fit, export_facts, import_facts
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.compilation import selection
from feinsum_fuse.device.catalogue import default_file, find_device
from feinsum_fuse.device.program.building import PLAIN, build
from feinsum_fuse.device.program.origin import ChosenBy
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing import turns
from feinsum_fuse.errors import ArchiveError, MatchError, SearchError
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.tuning import model_choice
from tests.sweeps import SLOW
from tests.tuning.spaces import DEVICE_FILE

SIZES = {"M": 160, "N": 64, "K": 48}


@pytest.fixture(scope="module")
def cascade() -> Cascade:
    return ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes=SIZES)


@pytest.fixture(scope="module")
def slow_facts(cascade: Cascade, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive that knows of one work-item doing all of it, measured here."""
    url = tmp_path_factory.mktemp("facts") / "slow.sqlite"
    ff.record(ff.measure(build(cascade, PLAIN, find_device("portable")), repeats=2), url=url)
    return url


def check(program: Program) -> None:
    a, b = np.ones((160, 48), "float32"), np.ones((48, 64), "float32")
    np.testing.assert_allclose(program(A=a, B=b)["Z"], a @ b)


def test_a_slower_fact_never_wins(cascade: Cascade, slow_facts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "least", lambda calls: (2.0, 1.0))
    program = ff.compile(cascade, url=slow_facts)
    assert program.origin.by is ChosenBy.default
    assert any("a recorded fact" in reason and "times as long" in reason for reason in program.origin.reasons)
    check(program)


def test_a_fact_that_lies_about_its_time_never_wins(
    cascade: Cascade, slow_facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "least", lambda calls: (2.0, 1.0))
    lines = tmp_path / "facts.jsonl"
    (line,) = export_facts(slow_facts)
    data = json.loads(line)
    data["measurement"] |= {"samples_ns": [2000.0, 2000.0], "event_ns": []}
    lines.write_text(json.dumps(data) + "\n")
    import_facts(lines, tmp_path / "other.sqlite")
    program = ff.compile(cascade, url=tmp_path / "other.sqlite")
    assert program.origin.by is ChosenBy.default and any("imported" in reason for reason in program.origin.reasons)


def test_a_fact_on_record_beside_the_default_mapping_needs_no_race(
    cascade: Cascade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = tmp_path / "facts.sqlite"
    usual = ff.measure(ff.compile(cascade), repeats=2)
    other = ff.measure(build(cascade, PLAIN, find_device("portable")), repeats=2)
    ff.record(dataclasses.replace(usual, samples_ns=tuple(10 * ns for ns in other.samples_ns)), url=url)
    ff.record(other, url=url)
    monkeypatch.setattr(selection, "least", lambda *_: pytest.fail("what is on record was measured again"))
    program = ff.compile(cascade, url=url)
    assert program.origin.by is ChosenBy.fact and program.schedule == PLAIN and not program.origin.reasons
    check(program)


def test_programs_are_compared_by_their_least_times(cascade: Cascade) -> None:
    program = ff.compile(cascade)
    call = partial(program.runner, program.example.inputs)
    first, second = turns.least([call, call])
    assert first > 0 and second > 0
    once = turns.turns([call], rounds=25, budget_s=0.0)
    assert [len(times) for times in once] == [1]


def test_a_fact_that_fails_is_passed_over(cascade: Cascade, slow_facts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = selection.made

    def fails(way: selection.Way, options: selection.BuildOptions) -> object:
        if way.origin.by is ChosenBy.fact:
            raise ff.ScheduleError("not here")
        return honest(way, options)

    monkeypatch.setattr(selection, "made", fails)
    program = ff.compile(cascade, url=slow_facts)
    assert program.origin.by is ChosenBy.default and "not here" in program.origin.reasons[0]


def test_facts_of_far_sizes_and_small_cascades_say_nothing(slow_facts: Path) -> None:
    near = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes=SIZES | {"M": 161})
    program = ff.compile(near, url=slow_facts)
    assert program.origin.by is ChosenBy.default and "the nearest fact says nothing here" in program.origin.detail


def test_a_given_mapping_asks_nobody(cascade: Cascade, slow_facts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ff.compile(cascade).spec
    assert spec is not None
    monkeypatch.setattr(selection, "retrieve", lambda *_, **__: pytest.fail("the archive was asked"))
    assert ff.compile(spec, url=slow_facts).origin.by is ChosenBy.mapping


def test_an_archive_that_cannot_be_read(cascade: Cascade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_text("no database at all, though long enough to be taken for one by its first bytes" * 20)
    with pytest.raises(ArchiveError):
        ff.compile(cascade, url=broken)
    monkeypatch.setenv("FEINSUM_FUSE_DATABASE", str(broken))
    program = ff.compile(cascade)
    assert program.origin.by is ChosenBy.default and "the archive cannot be asked" in program.origin.detail


@pytest.fixture
def calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A device file, measured somewhere, whatever other tests have measured here."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = default_file(find_device("portable"))
    file.parent.mkdir(parents=True)
    file.write_text(DEVICE_FILE.read_text())
    return file


@pytest.mark.usefixtures("calibrated")
def test_the_models_choice_has_to_win_too(cascade: Cascade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "SMALL_POINTS", 1)
    monkeypatch.setattr(selection, "SEARCH_S", 0.0)
    monkeypatch.setattr(selection, "convincing", lambda predicted, _: list(predicted)[-1])
    spec = ff.compile(cascade).spec
    assert spec is not None
    for times, by in (((1.0, 2.0), ChosenBy.model), ((2.0, 1.0), ChosenBy.default)):
        monkeypatch.setattr(selection, "least", lambda *_, times=times: times)
        program = ff.compile(cascade)
        assert program.origin.by is by and program.origin.reasons
        check(program)


@pytest.mark.usefixtures("calibrated")
def test_a_search_for_a_short_program_looks_at_some_candidates(cascade: Cascade, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as a round brings were the default mappings of its rewritings alone."""
    seen = 0

    def predicted(specs: Sequence[Spec], _: object) -> list[float]:
        nonlocal seen
        seen += len(specs)
        return [1e-6] * len(specs)

    monkeypatch.setattr(model_choice, "predict_all", predicted)
    monkeypatch.setattr(model_choice, "LEAST_SEEN", 40)
    model_choice.predictions(cascade, find_device("portable"), 60.0, runs=0.0)
    assert 40 <= seen <= 40 + 2 * model_choice.ROUND


@pytest.mark.usefixtures("calibrated")
def test_what_no_model_can_speak_of_runs_all_the_same(cascade: Cascade, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise SearchError("no words")

    monkeypatch.setattr(selection, "SMALL_POINTS", 1)
    monkeypatch.setattr(selection, "predictions", refuse)
    assert "no words" in ff.compile(cascade).origin.detail


@pytest.mark.skipif(not SLOW, reason="searches for seconds")
@pytest.mark.usefixtures("calibrated")
def test_a_tuned_program_is_found_by_the_next_call(cascade: Cascade, tmp_path: Path) -> None:
    url = tmp_path / "facts.sqlite"
    tuned = ff.compile(cascade, url=url, tune=4)
    assert tuned.origin.by is ChosenBy.tuned and "candidates measured" in tuned.origin.detail
    later = ff.compile(cascade, url=url)
    assert later.origin.by is ChosenBy.fact and not later.origin.reasons
    check(later)


def test_kernels_that_compute_on_the_way_in_are_refused() -> None:
    kernel = lp.make_kernel("{[i]: 0<=i<8}", "z[i] = a[i]*(i+1)", [lp.GlobalArg("z,a", np.float32, shape=(8,))], lang_version=(2018, 2))
    with pytest.raises((MatchError, ff.Error)):
        ff.compile(dataclasses.replace(kernel, entrypoints=frozenset()))


def test_einsum_sees_new_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = tmp_path / "facts.sqlite"
    asked: list[Fact] = []
    honest = selection.retrieve
    monkeypatch.setattr(selection, "retrieve", lambda *given, **named: asked.append(honest(*given, **named)) or asked[-1])
    a, b = np.ones((7, 5), "float32"), np.ones((5, 3), "float32")
    for _ in range(2):
        ff.einsum("ij,jk->ik", a, b, url=url)
    assert not any(fact.found is Fit.exact for fact in asked)
    before = len(asked)
    ff.record(ff.measure(ff.spec(ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 7, "N": 3, "K": 5})), repeats=2), url=url)
    monkeypatch.setattr("feinsum_fuse.numpy_einsum.LOOK_AGAIN_S", 0.0)
    ff.einsum("ij,jk->ik", a, b, url=url)
    assert len(asked) > before and asked[-1].found is Fit.exact
    known = len(asked)
    ff.einsum("ij,jk->ik", a, b, url=url)
    assert len(asked) == known
