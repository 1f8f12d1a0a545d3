"""How calls wait for kernels: both ways are tried, the faster one is taken, and given up where it has become slow."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field

import pyopencl as cl
import pytest

from feinsum_fuse.device.catalogue import devices
from feinsum_fuse.device.runtime import kernel_wait
from feinsum_fuse.device.runtime.kernel_wait import LONGEST, TRIALS, KernelWait, OffWorkersCores, asking, asleep, noting_workers
from feinsum_fuse.device.runtime.loaded_executable import Loaded, queue_of
from tests.device.programs import program

pytestmark = pytest.mark.skipif(KernelWait().chosen is not None, reason="this system has no call that lets others run")


@dataclass
class Kernel:
    """What stands for an event: its end comes once it was asked so many times, or it fails."""

    asked: int = 0
    ends_after: int = 3
    fails: bool = False
    slept: list[float] = field(default_factory=list)

    @property
    def command_execution_status(self) -> int:
        self.asked += 1
        if self.asked <= self.ends_after:
            return int(cl.command_execution_status.RUNNING)
        return -14 if self.fails else int(cl.command_execution_status.COMPLETE)

    def wait(self) -> None:
        self.slept.append(time.perf_counter())
        if self.fails:
            raise cl.RuntimeError("clWaitForEvents failed")


def test_asking_ends_with_the_kernel_and_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_wait, "LONGEST", 60.0)
    kernel = Kernel()
    asking(kernel)
    assert kernel.asked == 4 and len(kernel.slept) == 1
    with pytest.raises(cl.RuntimeError):
        asking(Kernel(fails=True))


def test_a_long_kernel_is_slept_for() -> None:
    kernel, start = Kernel(ends_after=10**9), time.perf_counter()
    asking(kernel)
    assert kernel.slept[0] - start >= LONGEST


def test_the_faster_way_is_taken_and_given_up_where_it_has_become_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, taken = [0.0], {asleep: 3.0, asking: 2.0}
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    way = KernelWait()

    def passing(name: str) -> object:
        original = {"asleep": asleep, "asking": asking}[name]
        return lambda event: clock.__setitem__(0, clock[0] + taken[original])

    ways = (passing("asleep"), passing("asking"))
    monkeypatch.setattr(kernel_wait, "asking", ways[1])
    way._ways = ways  # type: ignore[assignment]

    def calls(count: int) -> None:
        for _ in range(count):
            way.until_done(Kernel(), clock[0])

    calls(1 + 2 * TRIALS)
    assert way.chosen is ways[1]
    taken[asking] = 100.0
    calls(1)
    assert way.chosen is None
    calls(2 * TRIALS)
    assert way.chosen is ways[0]


def test_a_choice_that_the_first_calls_led_to_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that share a core at first make both ways slow."""
    clock, chosen = [0.0], list[object]()
    slow, later = {asleep: 6.4, asking: 5.8}, {asleep: 3.2, asking: 5.8}
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    way = KernelWait()

    def taking(original: object) -> object:
        return lambda event: clock.__setitem__(0, clock[0] + (slow if len(chosen) < 14 else later)[original])  # type: ignore[index]

    ways = (taking(asleep), taking(asking))
    monkeypatch.setattr(kernel_wait, "asking", ways[1])
    way._ways = ways  # type: ignore[assignment]
    for _ in range(400):
        way.until_done(Kernel(), clock[0])
        chosen.append(way.chosen)
    assert chosen[14] is ways[1] and chosen[40] is ways[0] and chosen[-1] is ways[0]
    assert chosen.count(None) <= 4 * (1 + 2 * TRIALS)


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
def test_kernels_have_ended_after_a_call(device: cl.Device) -> None:
    queue = queue_of(device)
    loaded = Loaded(program("C[i] = 2*A[i];"), queue.context)
    buffers = {name: loaded.buffer(name) for name in ("A", "C")}  # which have to live: arguments do not keep them
    loaded.bind(buffers)
    for _ in range(1 + 2 * TRIALS):
        loaded.run(queue)
    assert loaded._waiting.chosen in {asleep, asking}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) < 2, reason="there are no cores to choose from")
def test_a_thread_that_computes_keeps_off_the_cores_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that were started meanwhile and are bound to one core each; afterwards it may run where it did."""
    monkeypatch.setattr(kernel_wait, "_taken", {})
    usual, ends = os.sched_getaffinity(0), threading.Event()
    first = min(usual)

    def work(bound: set[int], begun: threading.Event) -> None:
        os.sched_setaffinity(0, bound)
        begun.set()
        ends.wait()

    def started(bound: set[int]) -> threading.Thread:
        thread = threading.Thread(target=work, args=(bound, begun := threading.Event()))
        thread.start()
        begun.wait()
        return thread

    device = devices()[0]
    others = [started({max(usual)})]
    try:
        with noting_workers(device):
            others += [started({first}), started(usual)]
        with OffWorkersCores(device):
            assert os.sched_getaffinity(0) == usual - {first}
        assert os.sched_getaffinity(0) == usual
        kernel_wait._taken[device] = set(usual)
        with OffWorkersCores(device):
            assert os.sched_getaffinity(0) == usual, "there is no other core"
    finally:
        ends.set()
        for thread in others:
            thread.join()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not say where threads may run")
@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
def test_a_call_leaves_the_thread_where_it_may_run(device: cl.Device) -> None:
    queue, usual = queue_of(device), os.sched_getaffinity(0)
    loaded = Loaded(program("C[i] = 2 * A[i];"), queue.context)
    buffers = {name: loaded.buffer(name) for name in ("A", "C")}
    loaded.bind(buffers)
    loaded.run(queue)
    assert os.sched_getaffinity(0) == usual
