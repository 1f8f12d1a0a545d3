"""From drawn mappings to times: written and verified one by one, then timed in turns from the texts alone, in slots of a given length.

Writing and building take most of the time and may run beside other work; a slot is short, so that it can be run while the machine is quiet.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.program.building import build, lowered
from feinsum_fuse.device.runtime.loaded_executable import KernelValue, Loaded, queue_of
from feinsum_fuse.device.timing.outcome import KernelError
from feinsum_fuse.device.timing.timing import time_together

from .cases import Device

TOGETHER = 10
"""Mappings that are timed in turns, those of like times together."""
SECONDS = 0.6
"""Of one mapping's runs in a slot."""
LEAST, MOST = 7, 30
"""Runs of a mapping in a slot."""
ENOUGH = 20
"""Runs without which no time is believed."""
SLOTS, MOST_SLOTS = 2, 4
"""Slots without which no time is believed, since on a shared host a slow minute is as steady as a fast one, and after which there are no
more."""
NOISE = 0.05
"""A mapping is timed again until its lower quartile, and the fastest run of another slot, are within this part of its fastest run."""


def draw(device: Device, case: str, count: int, kept: int) -> None:
    """Draw so many mappings, of which so many are kept (0: all)."""
    device.draw(case, target(find_device(device.opencl_device)), count)
    if kept:
        device.keep(case, kept)


def prepare(device: Device, case: str, work: Path, count: int) -> None:
    """Write, build and verify the first so many mappings that were drawn (0: all); what fails is kept with its reason."""
    found = find_device(device.opencl_device)
    folder = work / device.name / case
    folder.mkdir(parents=True, exist_ok=True)
    for number, spec in enumerate(device.mapped(case)[: count or None]):
        file = folder / f"{number}.json"
        if file.exists():
            continue
        try:
            mapped, schedule = lowered(spec, found)
            program = build(cascade_of(mapped), schedule, found, spec=mapped)
            Loaded(program.executable, queue_of(found).context)  # compiled for this process, too: a slot is for running
            file.write_text(program.executable.to_json())
        except (KernelError, ff.Error) as error:
            file.write_text("")
            print(f"{case} {number}: {error}", flush=True)


def is_noisy(slots: list[list[float]]) -> bool:
    """Whether more runs are wanted of a mapping that had these in each slot."""
    samples = [sample for slot in slots for sample in slot]
    if len(slots) < SLOTS or len(samples) < ENOUGH:
        return True
    return len(slots) < MOST_SLOTS and (disagree(slots) or noise(samples) > NOISE)


def disagree(slots: list[list[float]]) -> bool:
    """Whether a mapping's fastest run has none in another slot that is about as fast: one of both was slowed down, and maybe steadily."""
    fastest = sorted(map(min, slots))
    return len(fastest) > 1 and fastest[1] / fastest[0] - 1 > NOISE


def noise(samples: list[float]) -> float:
    """How much slower than the fastest run the lower quartile is: others only ever slow a kernel down."""
    return statistics.quantiles(samples, n=4, method="inclusive")[0] / min(samples) - 1


def seconds(samples: list[float]) -> float:
    """The fastest run, as a calibration takes the fastest tenth of its samples."""
    return min(samples)


class Runnable:
    """A written program with random inputs."""

    def __init__(self, text: str, device: cl.Device) -> None:
        executable = Executable.from_json(text)
        self.queue = queue_of(device)
        self.loaded = Loaded(executable, self.queue.context)
        self.values: dict[str, KernelValue] = {}
        chance = np.random.default_rng(0)
        for argument in executable.arguments:
            buffer = self.loaded.buffer(argument.name)
            if argument.nbytes:
                data = chance.uniform(0.5, 1, argument.nbytes // np.dtype(argument.dtype).itemsize).astype(argument.dtype)
                cl.enqueue_copy(self.queue, buffer, data)
            self.values[argument.name] = buffer
        self.loaded.bind(self.values)

    def run(self, times: int) -> tuple[float, ...]:
        for _ in range(times):
            self.loaded.enqueue(self.queue)
        self.queue.finish()
        return ()


def once(program: Runnable) -> float:
    """Seconds of one run, the faster of two."""
    found = []
    for _ in range(2):
        start = time.perf_counter()
        program.run(1)
        found.append(time.perf_counter() - start)
    return min(found)


def slot(device: Device, cases: tuple[str, ...], work: Path, limit: float) -> int:
    """Time each mapping that is still noisy once, until this many seconds have passed; how many are left."""
    found = find_device(device.opencl_device)
    end = time.monotonic() + limit
    for case, numbers in _wanted(device, cases, work):
        loaded = {number: Runnable((work / device.name / case / f"{number}.json").read_text(), found) for number in numbers}
        shortest = {number: once(one) for number, one in loaded.items()}
        ordered = sorted(shortest, key=lambda number: shortest[number])
        while ordered and time.monotonic() < end:
            some, ordered = ordered[:TOGETHER], ordered[TOGETHER:]
            repeats = max(LEAST, min(MOST, round(SECONDS / shortest[some[len(some) // 2]])))
            for number, samples in zip(some, time_together([loaded[number] for number in some], repeats=repeats), strict=True):
                device.add_samples(case, number, list(samples.host_ns))
        if time.monotonic() > end:
            break
    return sum(len(numbers) for _, numbers in _wanted(device, cases, work))


def _wanted(device: Device, cases: tuple[str, ...], work: Path) -> Iterator[tuple[str, list[int]]]:
    for case in cases:
        done = device.slots(case)
        files = sorted((work / device.name / case).glob("*.json"), key=lambda file: int(file.stem))
        yield case, [int(f.stem) for f in files if os.stat(f).st_size and is_noisy(done.get(int(f.stem), []))]
