"""``python -m benchmarks.ceiling [NAMES]``: hand-written kernels, our default mappings and NumPy, in turns in one process.

Times are seconds of all cores together (``time.process_time``): on a machine that is shared they say what a kernel costs, while the clock
on the wall says what else runs. They do not say whether all cores have work. NumPy's libraries are held to one thread, since their threads
wait busily. ``plain`` is ours without rewritings (``mappings.suited``) and without lanes along reductions. ``--mix`` shows what the inner
loop of each hand-written kernel and of ours consists of.
"""

from __future__ import annotations

import os
import sys

if "--clock" not in sys.argv:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Argument, Executable
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.runtime.loaded_executable import KernelValue, Loaded, queue_of
from feinsum_fuse.device.timing.harness import BoundProgram
from feinsum_fuse.device.timing.machine_share import Interference
from feinsum_fuse.mappings.choices import Given
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family

from ..suite.__main__ import peers
from .cases import CASES, Case
from .mixes import inner_loop

HERE = Path(__file__).parent
SAMPLE = 0.05
"""Seconds that a sample lasts at least: the system counts a process's time in ticks of 10 ms, or finer."""
PAUSE = 0.1
"""Seconds before a sample by the clock on the wall: threads of NumPy's libraries may go on waiting busily after its turn, in the next one's
time."""


@dataclass(frozen=True)
class HandWritten:
    """The kernels of a case with their arguments, which live as long as they do."""

    loaded: Loaded
    values: Mapping[str, KernelValue]
    queue: cl.CommandQueue

    def __call__(self) -> None:
        self.loaded.enqueue(self.queue)
        self.queue.finish()


def hand_written(case: Case, program: Program) -> HandWritten:
    """The kernels of a case, bound to the program's inputs and to an output of their own, after their result was checked."""
    source = (HERE / "vectors.h").read_text() + (HERE / f"{case.source or case.name}.cl").read_text()
    given = tuple(Argument(a.name, a.dtype, a.shape, a.role) for a in program.executable.arguments if a.role != "temporary")
    options = ("-cl-mad-enable", *(f"-D{name}={value}" for name, value in case.defines.items()))
    executable = Executable(source, options, (*given, *case.scratch), case.launches)
    queue = queue_of(program.device)
    loaded = Loaded(executable, queue.context)
    values: dict[str, KernelValue] = {a.name: loaded.buffer(a.name, padding=64) for a in executable.arguments}
    for tensor, array in program.example.inputs.items():
        cl.enqueue_copy(queue, values[tensor], np.ascontiguousarray(array))
    loaded.bind(values)
    kernels = HandWritten(loaded, values, queue)
    kernels()
    for tensor, expected in program.example.expected.items():
        found = np.empty(expected.shape, np.float32)
        cl.enqueue_copy(queue, found, values[tensor])
        scale = np.abs(expected).max()
        assert np.abs(found - expected).max() <= 1e-4 * scale, f"{case.name}: wrong"
    return kernels


def plain_program(case: Case, device: cl.Device) -> Program:
    """The cascade as it is written, with lanes along outputs alone."""
    to = target(device)
    family = Family(default_space(case.cascade(), target=to), to)
    return ff.compile(family.spec.replace(mapping=family.mapping(Given({"sums": False}))), device)


Clock = Callable[[], float]


def call_seconds(subjects: dict[str, Callable[[], object]], samples: int, clock: Clock) -> dict[str, list[float]]:
    """Seconds that one call takes, sampled in turns."""
    runs = {}
    for name, call in subjects.items():
        call()
        start = clock()
        call()
        runs[name] = max(1, math.ceil(SAMPLE / max(clock() - start, 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(samples):
        for name, call in subjects.items():
            time.sleep(PAUSE if clock is time.perf_counter else 0)
            call()  # with the caches as it leaves them
            start = clock()
            for _ in range(runs[name]):
                call()
            found[name].append((clock() - start) / runs[name])
    return found


def measured(case: Case, device: cl.Device, samples: int, clock: Clock, *, mix: bool, tune: float | None) -> str:
    """A row of the table."""
    program = ff.compile(ff.spec(case.cascade()), device) if tune is None else ff.tune(case.cascade(), device, seconds=tune).program
    inputs = program.example.inputs
    bound, plain = BoundProgram(program), BoundProgram(plain_program(case, device))
    subjects: dict[str, Callable[[], object]] = {"ours": lambda: bound.run(1), "plain": lambda: plain.run(1)}
    if case.launches:
        subjects["hand"] = hand = hand_written(case, program)
    if case.peer is not None:
        subjects["NumPy"] = case.peer(inputs)
    if case.peers is not None and clock is time.perf_counter:
        subjects |= peers(case.peers, inputs)
    seconds = call_seconds(subjects, samples, clock)
    middle = {name: statistics.median(times) for name, times in seconds.items()}
    peer = min(middle.keys() - {"hand", "ours", "plain"}, key=lambda name: middle[name], default="none")
    cells = []
    for name in ("hand", "ours", "plain", peer):
        if name not in middle:
            cells.append(f"{'':22}")
            continue
        low, _, high = statistics.quantiles(seconds[name], n=4)
        cells.append(f"{middle[name] * 1e3:9.3f} +- {(high - low) / middle[name]:4.0%} {case.operations / middle[name] * 1e-9:6.1f}")
    to_hand = f"{middle['hand'] / middle['ours']:6.2f}" if "hand" in middle else f"{'':6}"
    to_peer = f"{middle[peer] / middle['ours']:6.2f}" if peer in middle else f"{'':6}"
    unit = case.unit if clock is time.perf_counter else f"{case.unit} a core"
    row = f"{case.name:16}{'  '.join(cells)}  {to_hand}  {to_peer}  {peer:13} {unit}"
    if mix:
        texts = {"ours": (program.executable.source, program.executable.options)}
        if case.launches:
            texts = {"hand": (hand.loaded.executable.source, hand.loaded.executable.options), **texts}
        row += "".join(f"\n    {name:6}{inner_loop(*text, device)}" for name, text in texts.items())
    return row


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ceiling", description=__doc__)
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument("--device", default=None)
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--mix", action="store_true", help="the instructions of the inner loops (PoCL, and objdump)")
    parser.add_argument("--tune", type=float, metavar="SECONDS", help="ours is what a search finds in this time")
    parser.add_argument("--clock", action="store_true", help="seconds on the wall, on an idle machine")
    given = parser.parse_intermixed_args()
    device = find_device(given.device)
    clock, of = (time.perf_counter, "") if given.clock else (time.process_time, "core ")
    print(f"{device.name}; medians of {of}milliseconds, spread of the middle half, rate; then ours against hand and the best peer")
    print(f"{'':16}{'hand':>12}{'':12}{'ours':>12}{'':12}{'plain':>12}{'':12}{'peer':>12}{'':12}  hand   peer")
    watch = Interference()
    for case in CASES:
        if not given.names or case.name in given.names:
            try:
                print(measured(case, device, given.samples, clock, mix=given.mix, tune=given.tune), flush=True)
            except ff.Error as error:
                print(f"{case.name:16}{error}", flush=True)
    print(f"others used {watch.share() or 0:.0%} of the processors meanwhile")


if __name__ == "__main__":
    main()
