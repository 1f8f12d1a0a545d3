"""Sampling: turns, warm and cold, the clock's resolution, and what a measurement prints and stores."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pyopencl as cl
import pytest
from constantdict import constantdict

from feinsum_fuse.codegen.executable import Argument
from feinsum_fuse.device.calibration.caches import caches
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.timing import machine_share, timing
from feinsum_fuse.device.timing.harness import evicted_bytes
from feinsum_fuse.device.timing.machine_share import Interference
from feinsum_fuse.device.timing.measurement import Measurement, Provenance, interquartile_range, time_text
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.device.timing.timing import time_together
from feinsum_fuse.errors import DeviceError

pytestmark = pytest.mark.usefixtures("whole_samples")


class Clock:
    """Stands in for the module ``time``: it goes on by what is slept, and by 10 ns whenever somebody looks."""

    def __init__(self) -> None:
        self.ns = 0

    def sleep(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)

    def perf_counter_ns(self) -> int:
        self.ns += 10
        return self.ns

    def perf_counter(self) -> float:
        return self.perf_counter_ns() * 1e-9


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of what samples and those who sleep go by."""
    found = Clock()
    monkeypatch.setattr(timing, "time", found)
    return found


class Sleeper:
    """Sleeps for a known time and keeps a log of its turns."""

    def __init__(self, name: str, seconds: float, log: list[str]) -> None:
        self.name, self.seconds, self.log = name, seconds, log

    def run(self, times: int) -> Sequence[float]:
        self.log.append(self.name)
        timing.time.sleep(self.seconds * times)
        return [self.seconds * 1e9] * times


def test_samples_are_taken_in_turns() -> None:
    log: list[str] = []
    samples = time_together([Sleeper("a", 0.003, log), Sleeper("b", 0.004, log)], repeats=6)
    assert [len(s.host_ns) for s in samples] == [6, 6]
    turns = log[8:]  # after warming up and finding the number of runs; each turn is a run to fill the caches, and the sample
    assert all(turns[k] == turns[k + 1] for k in range(0, 24, 2))
    assert all({turns[k], turns[k + 2]} == {"a", "b"} for k in range(0, 24, 4))
    assert turns[0] != turns[4]
    assert samples[0].event_ns == pytest.approx([3e6] * 6)
    assert samples[0].host_ns == pytest.approx([3e6] * 6, rel=1e-4)


def test_what_follows_a_host_library_is_timed_once_its_threads_are_awake(clock: Clock) -> None:
    """It is slow for up to 0.1 s after the rest that the library's threads get; its neighbour, with the same text, is not."""
    rested_until = [0]

    class Woken(Sleeper):
        def run(self, times: int) -> Sequence[float]:
            for _ in range(times):
                slow = clock.ns < rested_until[0]
                super().run(2 if slow else 1)
            return []

    class Library(Woken):
        lingers = True

    def rest(seconds: float) -> None:
        clock.ns += round(seconds * 1e9)
        if seconds == timing.SETTLE:
            rested_until[0] = clock.ns + 100_000_000

    clock.sleep = rest  # type: ignore[method-assign]
    found = time_together([Woken("a", 3e-4, []), Woken("b", 3e-4, []), Library("c", 0.003, [])], repeats=6)
    assert [max(samples.host_ns) for samples in found] == pytest.approx([3e5, 3e5, 3e6], rel=1e-3)


def test_beside_a_host_library_all_run_for_equally_long_before_a_sample() -> None:
    """Of two programs whose data the last cache just holds, the one that ran longer is the faster one."""

    class Library(Sleeper):
        lingers = True

    log: list[str] = []
    time_together([Sleeper("a", 0.003, log), Sleeper("b", 0.003, log), Library("c", 0.003, log)], repeats=4)
    counts = [log.count(name) for name in "abc"]
    assert min(counts) > 4 * timing.WAKE / 0.003
    assert max(counts) - min(counts) <= 4


def test_short_programs_run_several_times_in_a_warm_sample() -> None:
    (samples,) = time_together([Sleeper("a", 1e-4, [])], repeats=2)
    assert samples.runs > 2
    assert samples.host_ns == pytest.approx([1e5] * 2, rel=1e-4)


def test_one_hiccup_does_not_make_a_short_program_long() -> None:
    class Hiccup(Sleeper):
        def run(self, times: int) -> Sequence[float]:
            slow = len(self.log) == 1
            return super().run(times * 50 if slow else times)

    (samples,) = time_together([Hiccup("a", 1e-4, [])], repeats=1)
    assert samples.runs > 2


def test_cold_evicts_before_each_sample_of_one_run() -> None:
    log: list[str] = []
    (samples,) = time_together([Sleeper("run", 1e-3, log)], repeats=3, evict=lambda: log.append("evict"))
    assert log == ["run", *["evict", "run"] * 3]
    assert samples.runs == 1


def test_a_gpu_s_caches_are_evicted_whatever_it_tells_of_them() -> None:
    told, whole, alloc = 4_325_376, 80 << 30, 20 << 30

    def device(kind: int, memory: int = whole) -> SimpleNamespace:
        return SimpleNamespace(
            type=kind, global_mem_cache_size=told, global_mem_cacheline_size=128, global_mem_size=memory, max_mem_alloc_size=alloc
        )

    assert evicted_bytes(device(cl.device_type.GPU)) == 1 << 30
    assert evicted_bytes(device(cl.device_type.GPU, 4 << 30)) == 128 << 20
    assert evicted_bytes(device(cl.device_type.GPU, 1 << 20)) == 3 * told
    assert evicted_bytes(find_device("pocl")) == 3 * max([1 << 20, *[cache.size for cache in caches(find_device("pocl"))]])


def test_time_near_the_clock_s_resolution_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "clock_resolution", lambda: 1e-3)
    with pytest.raises(DeviceError, match=r"is too short for a clock of .*\n  Measure it warm"):
        time_together([Sleeper("a", 1e-3, [])], repeats=1, evict=lambda: None)


def test_no_repeats_are_refused() -> None:
    with pytest.raises(DeviceError, match=r"^0 repeats measure nothing\n"):
        time_together([], repeats=0)


def test_repeats_are_a_number() -> None:
    with pytest.raises(DeviceError, match=r"^repeats is to be a whole number or None, not a value of type slice\n?"):
        time_together([], repeats=slice(3))  # type: ignore[arg-type]


def measurement(**changes: object) -> Measurement:
    """A success with known samples."""
    device = DeviceInfo("Platform", "Chip", 0, "Maker", "1.0", "OpenCL 3.0", "cpu", 2, 1, 1, 1)
    provenance = Provenance(device, constantdict(loopy="2025.2"), "ab" * 32, ("-cl-mad-enable",), 2, "2026-01-01T00:00:00+00:00")
    values = {"samples_ns": (1e6, 2e6, 4e6), "event_ns": (0.9e6, 1.9e6, 3.9e6), "error": 1e-7, "tolerance": 1e-5}
    success = Measurement(Outcome.ok, "done", "", provenance, **values)  # type: ignore[arg-type]
    return replace(success, **changes)  # type: ignore[arg-type]


def test_statistics() -> None:
    m = measurement()
    assert (m.median, m.minimum, m.spread, m.event_median) == pytest.approx((2e-3, 1e-3, 1.5e-3, 1.9e-3))
    assert interquartile_range((5.0,)) == 0


def test_measurement_prints_itself() -> None:
    assert str(measurement(label="fused")) == (
        "fused: median 2 ms, minimum 1 ms, spread 1.5 ms, device's own median 1.9 ms (warm, 3 samples; Chip on Platform, 2 threads); "
        "relative error 1.0e-07 of 1.0e-05 allowed"
    )
    failed = measurement(outcome=Outcome.timeout, stage="launch", message="killed after 3 s", samples_ns=(), event_ns=())
    assert str(failed) == "timeout in stage launch (Chip on Platform, 2 threads): killed after 3 s"


def test_failure_has_no_time() -> None:
    failed = measurement(outcome=Outcome.crashed, samples_ns=(), event_ns=(), error=None, tolerance=None)
    assert all(math.isnan(value) for value in (failed.median, failed.minimum, failed.spread, failed.event_median))
    assert "NaN" not in failed.to_json() and "Infinity" not in failed.to_json()


@pytest.mark.parametrize("changes", [{}, {"arguments": (Argument("A", "float32", (2, 3), "input", (1, 2)),), "cache_state": "cold"}])
def test_json_round_trip(changes: dict[str, object]) -> None:
    m = measurement(**changes)
    assert Measurement.from_json(m.to_json()) == m
    assert json.loads(m.to_json())["provenance"]["device"]["name"] == "Chip"


def test_provenance_of_now_names_the_packages() -> None:
    provenance = Provenance.now(DeviceInfo.of(find_device()), "hash", ("-O",))
    assert {"loopy", "islpy", "pyopencl", "numpy"} <= set(provenance.versions)
    assert provenance.threads >= 1


def test_too_short_a_time_says_nothing_about_others(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(machine_share, "time", SimpleNamespace(perf_counter=clock.perf_counter, process_time=lambda: 0.0))
    watch = Interference()
    assert watch.share() is None
    clock.sleep(1)
    assert watch.share() is not None


def test_other_processes_are_noticed() -> None:
    watch = Interference()
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(1.0)
        share = watch.share()
    finally:
        hog.kill()
        hog.wait()
    assert share is not None and 0 < share <= 1
    assert "other processes had 75% of the processors" in str(measurement(interference=0.75))


@pytest.mark.parametrize(("seconds", "text"), [(1.5, "1.5 s"), (2e-3, "2 ms"), (3.25e-6, "3.25 us"), (5e-9, "5 ns")])
def test_time_text(seconds: float, text: str) -> None:
    assert time_text(seconds) == text
