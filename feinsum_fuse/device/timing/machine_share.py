"""What a measurement has of its machine: the processors' time that others use, and the cores that work at the same time."""

from __future__ import annotations

import functools
import os
import threading
import time
from pathlib import Path
from types import TracebackType

import numpy as np
import pyopencl as cl

from ..calibration.probes import Bench, Probe
from ..catalogue import DeviceInfo
from .measurement import LEAST_CORES

_STAT = Path("/proc/stat")
_IDLE = (3, 4)
"""The positions of idle and waiting time among the numbers of a processor's line."""


class Interference:
    """Watches from its making on; :meth:`share` is what other processes had of all processors since, from 0 to 1."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._busy = _busy_seconds()
        self._own = _own_seconds()

    def share(self) -> float | None:
        """The others' share, ``None`` where the system does not say or too little time has passed to tell (0.2 s)."""
        elapsed = time.perf_counter() - self._start
        busy = _busy_seconds()
        if self._busy is None or busy is None or elapsed < 0.2:
            return None
        others = (busy - self._busy) - (_own_seconds() - self._own)
        return round(min(1.0, max(0.0, others / (elapsed * (os.cpu_count() or 1)))), 3)


def _busy_seconds() -> float | None:
    """Seconds that all processors together have worked since the system started."""
    if not _STAT.exists():
        return None
    fields = [int(number) for number in _STAT.read_text().splitlines()[0].split()[1:9]]
    return sum(number for position, number in enumerate(fields) if position not in _IDLE) / float(os.sysconf("SC_CLK_TCK"))


def _own_seconds() -> float:
    """Seconds that this process has worked, its threads included."""
    return time.process_time()


EVERY_SECONDS = 0.25
"""Between two looks at the cores while something is timed: a look takes some 5 ms."""
LOOKS = 2
"""Looks before the first sample, and after the last."""
SHOWN_LANES = 4
"""Of the vectors that show how cores work together: those of every processor."""
GROUPS_A_CORE = 16
"""Work-groups for each core: the last to end keeps the others waiting for a sixteenth at the most."""
_ONE_LOOKS = threading.Lock()
"""The probes of a device are shared by all who watch it."""


class CoreWatch:
    """Watches how many cores of a processor work at the same time; a context, whose end is the last look.

    A look runs one group of multiply-adds, which needs nothing but registers, and then as many as keep all cores busy. On a machine that is
    shared with others, or whose cores are threads of fewer cores, all of them together do less than so many times what one does.
    """

    def __init__(self, device: cl.Device | None) -> None:
        """``None`` watches nothing, like a device that is no processor, or has one core."""
        self._probes = None if device is None else _probes(device)
        self._rates: list[tuple[float, float]] = []
        self._next = 0.0

    def __enter__(self) -> CoreWatch:
        self._look(LOOKS)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._look(LOOKS)

    def look(self) -> None:
        """Look once more, unless the last look was just now."""
        if time.perf_counter() >= self._next:
            self._look(1)

    def _look(self, times: int) -> None:
        if self._probes is None:
            return
        alone, together = self._probes
        with _ONE_LOOKS:
            for _ in range(times):
                self._rates.append((_rate(alone), _rate(together)))
        self._next = time.perf_counter() + EVERY_SECONDS

    @property
    def given(self) -> float | None:
        """Cores' worth of work that all cores did together, to a tenth; ``None`` where nobody watched."""
        return cores_given(self._rates) if self._rates else None


def cores_given(rates: list[tuple[float, float]]) -> float:
    """Cores' worth of work of all cores together: ``rates`` are what one did alone and what all did, at the same moments.

    What one does at best counts, and what all do as a rule: the mean without the quarters at both ends.
    """
    every = sorted(together for _, together in rates)
    cut = len(every) // 4
    return max(LEAST_CORES, round(float(np.mean(every[cut : len(every) - cut])) / max(alone for alone, _ in rates), 1))


def _rate(probe: Probe) -> float:
    """Multiply-adds a second, of one sample that is not kept."""
    seconds = probe.sample()
    probe.seconds.clear()
    return probe.work * probe.repeats / seconds


@functools.cache
def _probes(device: cl.Device) -> tuple[Probe, Probe] | None:
    """Multiply-adds by one core and by all; ``None`` for what is no processor with several."""
    units = DeviceInfo.of(device).units
    if not device.type & cl.device_type.CPU or units < 2:
        return None
    bench = Bench(device, "float32", SHOWN_LANES)
    try:
        return bench.sums(), bench.sums(GROUPS_A_CORE * units)
    except cl.Error:
        return None
