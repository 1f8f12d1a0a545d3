"""``ff.tune`` as a whole: verified programs, facts, resumption, interrupts, and what it refuses."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import feinsum_fuse as ff
from feinsum_fuse.archive.tables import waiting
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program import building
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.measuring_process import Sample, Verdict
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import ArchiveError, CascadeError, DeviceError, SearchError, WaitingWarning
from feinsum_fuse.progress import Progress
from feinsum_fuse.schedule.target import ANY_GPU
from feinsum_fuse.tuning import ledger, tuner
from feinsum_fuse.tuning import task as tuning_task
from feinsum_fuse.tuning.helpers import Helpers
from feinsum_fuse.tuning.ledger import Ledger
from feinsum_fuse.tuning.measuring import Measured, Measuring
from feinsum_fuse.tuning.preparation import Prepared, prepare
from feinsum_fuse.tuning.task import NO_SKETCHES, Reporter, TuningTask
from feinsum_fuse.tuning.tuned import Tuned
from feinsum_fuse.tuning.tuning_run import is_gain, ordered

from .spaces import DEVICE_FILE, WORKLOAD, Here, product


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuning") / "facts.sqlite3"


@pytest.fixture(scope="module")
def tuned(database: Path) -> Tuned:
    """Of mappings alone: a fact that ships may be the fastest on some machine, and has a schedule in place of a mapping."""
    return ff.tune(product(), "pocl", seconds=600, measurements=4, url=str(database), executor=Here(), known=False)


def test_the_result_is_a_verified_program(tuned: Tuned) -> None:
    generator = np.random.default_rng(0)
    a, b = generator.random((48, 64), np.float32), generator.random((64, 40), np.float32)
    result = tuned.program(A=a, B=b)["Z"]
    assert isinstance(result, np.ndarray)
    assert np.allclose(result, a @ b, rtol=1e-4)
    assert tuned.spec is not None and tuned.spec.mapping is not None
    assert ff.compile(tuned.spec, "pocl").cascade.outputs == ("Z",)


def test_the_default_mapping_is_the_first_and_never_faster(tuned: Tuned) -> None:
    assert tuned.history[0].origin == "default" and not tuned.history[0].variant
    assert tuned.measurement.median <= tuned.default.median
    assert tuned.finalists[0][1] == tuned.measurement


def test_it_prints_and_draws_itself(tuned: Tuned) -> None:
    text = repr(tuned)
    assert "times as fast as the default mapping" in text and "LoopTree" in text
    assert "the tuner&#39;s course" in tuned._repr_html_()
    assert 0 < tuned.floor < tuned.measurement.median


def test_it_plots_its_course(tuned: Tuned) -> None:
    """Each candidate that ran, the best so far, the default mapping and the floor."""
    axes = Figure().add_subplot()
    assert tuned.plot(axes) is axes
    candidates, best, *_ = (np.asarray(line.get_ydata()) for line in axes.get_lines())
    assert list(candidates) == [tried.measured for tried in tuned.history if tried.measured]
    assert best[-1] == candidates.min()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["candidates", "best so far", "default mapping", "floor"]


def test_everything_measured_is_a_fact(tuned: Tuned, database: Path) -> None:
    run = [tried for tried in tuned.history if tried.outcome is not Outcome.rejected and not tried.equal and not tried.variant]
    facts = ff.query(ff.cascade(product()), find_device("pocl"), outcome=None, url=str(database))
    assert len(facts) >= len(run)
    assert tuned.fact is not None and tuned.fact.measurement.label == "tuned"


def test_resuming_measures_nothing_twice(tuned: Tuned, database: Path) -> None:
    numbers: Any = {"measurements": np.int64(3), "seed": np.uint8(0)}  # NumPy's are as good as Python's
    again = ff.tune(product(), "pocl", seconds=600, url=str(database), executor=Here(), resume=True, **numbers)
    before = {(tried.variant, str(tried.spec.mapping)) for tried in tuned.history if tried.outcome is Outcome.ok}
    for tried in again.history:
        known = (tried.variant, str(tried.spec.mapping)) in before
        assert tried.recorded == known or tried.equal or tried.origin in ("default", "fact")
    assert any(tried.recorded for tried in again.history)


def test_an_interrupt_keeps_the_best_so_far(database: Path) -> None:
    def stop(now: Progress) -> None:
        if now.stage.startswith("tuning: measured"):
            raise KeyboardInterrupt

    found = ff.tune(product(), "pocl", seconds=600, measurements=9, url=str(database), executor=Here(), progress=stop)
    assert found.interrupted and "interrupted" in repr(found)


@pytest.mark.parametrize("stage", ["tuning: comparing", "tuning: building", "tuning: generating"])
def test_an_interrupt_in_any_stage_keeps_what_was_measured(database: Path, stage: str) -> None:
    """In the second batch, or when the best are compared: then by the times of the search."""

    def stop(now: Progress) -> None:
        if now.stage.startswith(stage) and now.done:
            raise KeyboardInterrupt

    found = ff.tune(product(), "pocl", seconds=600, measurements=3, url=str(database), executor=Here(), progress=stop, known=False)
    assert found.interrupted and found.measurement.median > 0 and found.seconds < 60
    assert found.spec is not None and found.spec.mapping is not None


def test_a_search_on_a_gpu_begins_with_its_default_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes are work-items there, also in what the search is compared with."""
    for module in (tuning_task, building):
        monkeypatch.setattr(module, "target", lambda _: ANY_GPU)
    device = find_device("pocl")
    cascade = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes={"M": 64, "N": 256, "K": 8})
    task = TuningTask(cascade, None, device, Ledger(device, str(tmp_path / "facts.sqlite3")), Reporter(None, 0, 1), known=False)
    first = task.first[0].spec
    assert first.opencl is not None and "local.0" in first.opencl.fanouts.values()


def test_what_is_on_record_has_a_mapping_again(tuned: Tuned, database: Path) -> None:
    """A fact's schedule is raised to a LoopTree, so that it can be written to a file, also in other names."""
    renamed = WORKLOAD.replace("Z[m, n] = A[m, k] * B[k, n]", "C[i, j] = P[i, l] * Q[l, j]")
    spec = ff.loads(renamed.replace("M: 48, N: 40, K: 64", "I: 48, J: 40, L: 64") + DEVICE_FILE.read_text())
    device, cascade = find_device("pocl"), ff.cascade(spec)
    task = TuningTask(cascade, spec, device, Ledger(device, str(database)), Reporter(None, 0, 1), known=True)
    fact = task.ledger.best(cascade)
    assert fact.schedule is not None
    candidate = next(one for one in task.first if one == task.recorded("", fact.schedule, "a fact"))
    assert candidate.spec.mapping is not None and "computes C" in str(candidate.spec.mapping)
    texts = [prepare(candidate.spec, task.target, schedule) for schedule in (None, fact.schedule)]
    assert all(isinstance(text, Prepared) for text in texts)
    assert len({text.executable.source for text in texts if isinstance(text, Prepared)}) == 1


def test_an_archive_that_fails_on_the_way_costs_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ArchiveError("cannot write facts: the disk is full")

    database = str(tmp_path / "facts.sqlite3")
    with monkeypatch.context() as now:
        now.setattr(ledger, "insert_all", full)
        found = ff.tune(product(), "pocl", seconds=600, measurements=2, url=database, executor=Here(), known=False)
    assert found.measurement.median > 0 and found.fact is None
    assert found.unrecorded >= 2 and "not on record: cannot write facts: the disk is full" in repr(found)


def test_an_archive_that_others_hold_delays_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held from the first batch until the turns that decide: all is on record in the end, and the wait was said."""
    database = tmp_path / "facts.sqlite3"
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as other:

        def holding(now: Progress) -> None:
            if now.stage.startswith("tuning: choosing") and not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")
            if now.stage.startswith("tuning: recording"):
                other.execute("ROLLBACK")

        monkeypatch.setattr(ledger, "BRIEFLY_S", 0.2)
        monkeypatch.setattr(waiting, "SOON_S", 0.1)
        with pytest.warns(WaitingWarning, match="another thread of this process holds it"):
            found = ff.tune(
                product(), "pocl", seconds=600, measurements=2, url=str(database), executor=Here(), progress=holding, known=False
            )
    assert not found.unrecorded and not found.problem and found.fact is not None
    assert len(ff.query(ff.cascade(product()), find_device("pocl"), outcome=None, url=str(database))) >= 2


def test_an_executor_that_takes_no_tasks_is_refused_and_one_that_stops_ends_the_search_with_what_it_has(database: Path) -> None:
    executor = ThreadPoolExecutor(1)

    def closing(now: Progress) -> None:
        if now.done:
            executor.shutdown()

    found = ff.tune(product(), "pocl", seconds=600, measurements=9, url=str(database), executor=executor, progress=closing, known=False)
    assert found.measured and found.measurement.median > 0
    with pytest.raises(SearchError, match="the executor takes no tasks: cannot schedule new futures"):
        ff.tune(product(), "pocl", url=str(database), executor=executor)


def test_an_archive_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "facts.sqlite3"
    file.write_text("no database")
    stages: list[str] = []
    with pytest.raises(ArchiveError, match="no SQLite database"):
        ff.tune(product(), "pocl", url=str(file), executor=Here(), progress=lambda now: stages.append(now.stage))
    assert not stages


@pytest.mark.parametrize(
    ("what", "given", "error", "text"),
    [
        ("nothing", {}, SearchError, r"cannot be tuned\n.*ff.compile\(..., tune=True\)"),
        (ff.batched_einsum("ij,j->i", [[ff.array("A", ("n", 3)), ff.array("x", (3,))]]), {}, CascadeError, "not known"),
        (product(), {"measurements": 0}, SearchError, "measurements is to be a whole number from 1 on, not 0"),
        (product(), {"top": 0}, SearchError, "top is to be a whole number from 1 on"),
        (product(), {"seed": -1}, SearchError, "seed is to be a whole number from 0 on, not -1"),
        (product(), {"seconds": 0}, SearchError, "seconds is to be a number of seconds above 0, not 0"),
        (product(), {"executor": 3}, SearchError, "executor is to be an executor"),
    ],
)
def test_refusals(what: Any, given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ff.tune(what, "pocl", **given)


def test_behind_the_default_mapping_comes_what_does_not_beat_it() -> None:
    def run(*milliseconds: float) -> tuple[Any, list[Sample]]:
        return None, [Sample(ms * 1e6, None, 1, False) for ms in milliseconds]

    default, equal, lucky, faster = run(4, 8, 4), run(4, 8, 3.9), run(9, 2, 9), run(3, 6, 3)
    assert ordered([default, equal, lucky], 0)[0] is default
    assert ordered([equal, faster, default, lucky], 2)[:2] == [faster, default]
    assert ordered([equal, faster], None)[0] is faster


def test_where_others_have_a_part_of_the_cores_a_gain_is_one_in_processor_time_too() -> None:
    """The clock says by how much a program is slowed down by them, too."""

    def run(milliseconds: float, processor: float | None, waited: float) -> list[Sample]:
        own = None if processor is None else processor * 1e6
        return [Sample(milliseconds * 1e6 * (1 + k % 3 / 9), None, 1, False, own, waited) for k in range(9)]

    for waited, expected in ((0.02, True), (0.4, False)):
        assert is_gain(run(3, 8.1, waited), run(4, 8.0, waited), 3) is expected
        assert is_gain(run(3, 6.0, waited), run(4, 8.0, waited), 3)
        assert is_gain(run(3, None, waited), run(4, None, waited), 3)
        assert not is_gain(run(4, 6.0, waited), run(4, 8.0, waited), 3)  # it leaves a core idle


def test_what_is_slower_when_called_gives_way_to_the_default_mapping(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over arrays on the device the other mapping wins; a caller's arrays decide."""
    asked: list[bool] = []

    def called_faster(one: Program, other: Program) -> bool:
        asked.append(one.source != other.source)
        return True

    monkeypatch.setattr("feinsum_fuse.tuning.tuning_run.beats", lambda *_: True)
    monkeypatch.setattr("feinsum_fuse.tuning.tuner.called_faster", called_faster)
    cascade = ff.cascade(product())
    found = ff.tune(cascade, "pocl", seconds=600, measurements=3, url=str(database), executor=Here(), known=False, top=9)
    assert found.measurement is found.default and found.finalists[0] == (found.spec, found.default)
    assert found.program.executable.source_hash == found.default.provenance.source_hash
    assert len(found.finalists) > 1 and all(asked)


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), DeviceError("there is no memory for the results")])
def test_calls_that_end_early_leave_the_best(ending: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: object) -> bool:
        raise ending

    finals, run = finals_of_two(monkeypatch)
    monkeypatch.setattr(tuner, "called_faster", ended)
    assert tuner._chosen(finals, run) == ("best", finals)
    assert run.interrupted == isinstance(ending, KeyboardInterrupt)


def test_long_kernels_are_not_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few calls would tell nothing, and many would take minutes."""
    finals, run = finals_of_two(monkeypatch, Sample(2e9, None, 1, False))
    monkeypatch.setattr(tuner, "called_faster", lambda *_: pytest.fail("called"))
    assert tuner._chosen(finals, run) == ("best", finals)


@pytest.mark.parametrize(("count", "expected"), [(1, False), (4, False), (5, True)])
def test_few_calls_overrule_nothing(count: int, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = SimpleNamespace(runner=dict, example=SimpleNamespace(inputs={}))
    monkeypatch.setattr(tuner, "turns", lambda *_: [[1.0] * count, [2.0] * count])
    assert tuner.called_faster(program, program) == expected


def finals_of_two(monkeypatch: pytest.MonkeyPatch, *samples: Sample) -> tuple[Any, Any]:
    """Two finalists that need no building, the default mapping behind, and a search that they ended."""
    monkeypatch.setattr(tuner, "_built", lambda one, device, shapes: one.candidate)
    finals = [(SimpleNamespace(candidate=name, number=k), list(samples)) for k, name in enumerate(("best", "default"))]
    return finals, SimpleNamespace(interrupted=False, task=SimpleNamespace(first=["default"], device=None, asked=NO_SKETCHES))


def test_finalists_that_all_fail_are_refused_by_name(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(self: Measuring, finalists: Sequence[tuple[Measured, list[Sample]]], *_: object) -> None:
        for one, _ in finalists:
            one.verdict = Verdict(Outcome.crashed, "run", "the process died of SIGKILL\nmore")

    monkeypatch.setattr(Measuring, "finals", dying)
    with pytest.raises(SearchError, match=r"none of the 1 fastest candidates ran once more: the process died of SIGKILL$"):
        ff.tune(product(), "pocl", seconds=600, measurements=1, url=str(database), executor=Here(), known=False)


def test_helpers_call_elsewhere_and_survive_what_they_are_sent() -> None:
    with Helpers(1, timeout_s=20) as helpers:
        exits = helpers.submit(exec, "import os; os._exit(3)")
        fails = helpers.submit(operator.truediv, 1, 0)
        works = helpers.submit(operator.add, 1, 2)
        with pytest.raises(SearchError, match="ended"):
            exits.result(60)
        with pytest.raises(ZeroDivisionError):
            fails.result(60)
        assert works.result(60) == 3
