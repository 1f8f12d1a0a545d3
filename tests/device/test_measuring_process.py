"""Long-lived measuring processes: verdicts, samples, slices, and kernels that take their process with them."""

from __future__ import annotations

import dataclasses
import os
import selectors
import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking.example import Example
from feinsum_fuse.device.runtime.loaded_executable import Loaded, queue_of
from feinsum_fuse.device.timing import measuring_process
from feinsum_fuse.device.timing.measuring_process import Loading, MeasuringProcesses, ProcessDiedError
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.device.timing.resident import Resident, SharedBuffers

from .programs import program

pytestmark = pytest.mark.usefixtures("own_processes")
A = np.arange(1, 65, dtype=np.float32)
GOOD = program("C[i] = 2*A[i];")


@pytest.fixture(scope="module")
def processes() -> Iterator[MeasuringProcesses]:
    example = Example({"A": A}, {"C": 2.0 * A})
    with MeasuringProcesses(find_device("pocl"), example, 1) as made:
        yield made


def loading(key: int, executable: Executable) -> Loading:
    return Loading(key, executable, {"C": 1e-6})


def test_verdicts(processes: MeasuringProcesses) -> None:
    jobs = [
        loading(0, GOOD),
        loading(1, program("C[i] = 3*A[i];")),
        loading(2, program("C[i] = 2*A[i]; syntax error")),
        loading(3, program("*(__global volatile float *)(size_t)(8*i) = 1;")),
        loading(4, program("C[i] = A[i] + A[i];")),
    ]
    verdicts = processes.load(jobs, 60)
    outcomes = [verdicts[k].outcome for k in range(5)]
    assert outcomes == [Outcome.ok, Outcome.wrong_result, Outcome.build_failed, Outcome.crashed, Outcome.ok]
    assert verdicts[0].error == 0 and verdicts[0].tolerance == 1e-6
    assert "SIGSEGV" in verdicts[3].message or "SIGABRT" in verdicts[3].message


def test_a_program_whose_process_died_is_built_again(processes: MeasuringProcesses) -> None:
    assert processes.load([loading(10, GOOD)], 60)[10].outcome is Outcome.ok
    (process,) = processes._processes
    assert process is not None
    os.killpg(process.child.pid, signal.SIGKILL)
    with pytest.raises(ProcessDiedError, match="SIGKILL"):
        processes.sample(10, 1, longest_s=1, timeout_s=60)
    sample = processes.sample(10, 3, longest_s=1, timeout_s=60)
    assert sample.runs == 3 and sample.host_ns > 0 and not sample.sliced


def test_a_sample_in_the_process_that_is_asked_for_after_so_long_a_run_up() -> None:
    with MeasuringProcesses(find_device("pocl"), Example({"A": A}, {"C": 2.0 * A}), 2) as processes:
        assert processes.load([loading(60, GOOD)], 60)[60].outcome is Outcome.ok
        held = [60 in process.held for process in processes._processes if process is not None]
        start = time.perf_counter()
        assert processes.sample(60, 1, longest_s=1, timeout_s=60, warm_s=0.2, place=5).runs == 1
        assert time.perf_counter() - start >= 0.2
        assert held == [True, False] and [60 in process.held for process in processes._processes if process is not None] == [True, True]
        processes.drop(60)
        assert not any(process.held for process in processes._processes if process is not None)


def test_a_sample_says_what_a_run_takes_of_the_cores(processes: MeasuringProcesses) -> None:
    assert processes.load([loading(80, GOOD)], 60)[80].outcome is Outcome.ok
    sample = processes.sample(80, 200, longest_s=1, timeout_s=60)
    assert sample.processor_ns is not None and sample.processor_ns > 0 and 0 <= sample.waited <= 1


@pytest.mark.parametrize("asked", ["load", "sample", "drop"])
def test_an_answer_that_an_interrupt_kept_from_being_read_is_not_taken_for_the_next(
    processes: MeasuringProcesses, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    assert processes.load([loading(50, GOOD), loading(51, GOOD)], 60)[50].outcome is Outcome.ok
    (process,) = processes._processes
    assert process is not None

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as now:
        now.setattr(process, "answer", interrupted)
        now.setattr(process, "lines", interrupted)
        with pytest.raises(KeyboardInterrupt):
            if asked == "load":
                processes.load([loading(52, GOOD)], 60)
            elif asked == "sample":
                processes.sample(51, 1, longest_s=1, timeout_s=60)
            else:
                processes.drop(51)
    assert processes.sample(50, 2, longest_s=1, timeout_s=60).runs == 2
    assert processes.load([loading(53, program("C[i] = 3*A[i];"))], 60)[53].outcome is Outcome.wrong_result
    for key in (50, 51, 52):
        processes.drop(key)


def test_a_hung_kernel_is_killed(processes: MeasuringProcesses) -> None:
    endless = program("while (A[i] > 0) { if (C[i] == -1.0f) break; C[i] = 1; }")
    verdict = processes.load([loading(20, endless)], 2.5)[20]
    assert verdict.outcome is Outcome.timeout and "hung" in verdict.message


@pytest.mark.parametrize("asked", ["load", "sample"])
def test_who_stood_still_condemns_no_program(processes: MeasuringProcesses, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    """Whatever stops this process stops its children, too: they have their time once more."""
    lost = [0.0]

    class StandingStill(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if lost[0] or timeout is None:
                return super().select(timeout)
            lost[0] = timeout + 60
            return []

    if asked == "sample":
        assert processes.load([loading(70, GOOD)], 60)[70].outcome is Outcome.ok
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + lost[0])
    monkeypatch.setattr(measuring_process, "time", clock)
    monkeypatch.setattr(measuring_process, "selectors", SimpleNamespace(DefaultSelector=StandingStill, EVENT_READ=selectors.EVENT_READ))
    if asked == "sample":
        assert processes.sample(70, 2, longest_s=1, timeout_s=20).runs == 2
    else:
        assert processes.load([loading(70, GOOD)], 20)[70].outcome is Outcome.ok
    processes.drop(70)
    assert lost[0] > 60


def test_long_kernels_are_estimated_by_a_slice(processes: MeasuringProcesses) -> None:
    many = dataclasses.replace(
        GOOD, launches=tuple(dataclasses.replace(launch, local_size=(1,) * len(launch.local_size)) for launch in GOOD.launches)
    )
    assert processes.load([loading(30, many)], 60)[30].outcome is Outcome.ok
    assert processes.sample(30, 1, longest_s=1e-9, timeout_s=60).sliced
    assert not processes.sample(30, 1, longest_s=1, timeout_s=60).sliced
    processes.drop(30)
    with pytest.raises(KeyError):
        processes.sample(30, 1, longest_s=1, timeout_s=60)


def test_programs_share_their_arrays_as_long_as_one_of_them_is_held(processes: MeasuringProcesses) -> None:
    doubled = program("C[i] = A[i] + 1.0f * A[i];")
    verdicts = processes.load([loading(40, GOOD), loading(41, doubled)], 60)
    assert [verdicts[key].outcome for key in (40, 41)] == [Outcome.ok, Outcome.ok]
    processes.drop(40)
    assert processes.sample(41, 2, longest_s=1, timeout_s=60).host_ns > 0
    processes.drop(41)
    assert processes.load([loading(42, doubled)], 60)[42].outcome is Outcome.ok
    assert processes.sample(42, 2, longest_s=1, timeout_s=60).host_ns > 0
    processes.drop(42)


def test_a_resident_takes_the_buffers_of_another() -> None:
    device = find_device("pocl")
    queue = queue_of(device)
    shared: SharedBuffers = {}
    first, second = (Resident(Loaded(GOOD, queue.context), queue, {"A": A}, shared) for _ in range(2))
    own = Resident(Loaded(GOOD, queue.context), queue, {"A": A})
    assert len(shared) == 2 and all(first.values[name] is second.values[name] for name in "AC")
    assert own.values["A"] is not first.values["A"]
    second.run(1)
    assert (first.outputs()["C"] == 2 * A).all()
