"""The child process of :mod:`.measuring_process`: builds, verifies and times one program after another, until its input ends.

``python -m feinsum_fuse.device.timing.measuring_worker JOB PARENT``: JOB is a directory with ``job.json`` (the device, and the names of
inputs and outputs), the inputs as ``input-0.npy`` and so on, what is expected as ``expected-0-0.npy`` (alternative, output). Requests and
answers are lines of JSON; answers go to what standard output was, and whatever prints goes to standard error. Imports neither loopy nor
anything that does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyopencl as cl

from ...codegen.executable import Executable
from ..catalogue import DeviceInfo
from ..checking.verification import verify
from ..runtime.first_run import FirstRun, FirstRunFailure
from ..runtime.worker import die_with_parent, opened
from .effort import Effort
from .outcome import Outcome
from .resident import Resident, SharedBuffers
from .timing import LONG_RUN_NS

SLICE_GROUPS = 16
"""Work-groups for each compute unit in a slice, so that all units are busy and the last groups weigh little."""


class _Worker:
    """The programs that this process holds, by their keys."""

    def __init__(self, directory: Path, answers: TextIO) -> None:
        self.answers = answers
        job = json.loads((directory / "job.json").read_text())
        info = DeviceInfo.from_json(job["device"])
        self.inputs = {name: _array(directory / f"input-{k}.npy") for k, name in enumerate(job["inputs"])}
        self.expected, *self.others = (
            {name: _array(directory / f"expected-{n}-{k}.npy") for k, name in enumerate(job["outputs"])} for n in range(job["results"])
        )
        self.slice = SLICE_GROUPS * max(1, info.units)
        self.queue, self.sharing = opened(info)
        self.is_processor = bool(self.queue.device.type & cl.device_type.CPU)
        self.timing = cl.CommandQueue(self.queue.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.held: dict[int, Resident] = {}
        self.shared: SharedBuffers = {}
        """One program runs at a time: its arrays are those of the others."""

    def answer(self, **fields: object) -> None:
        """One line to the parent."""
        self.answers.write(json.dumps(fields) + "\n")
        self.answers.flush()

    def load(self, key: int, executable: str, tolerance: dict[str, float]) -> None:
        """Build a program, run it once, compare what it computed, and keep it for samples."""
        error = bound = None
        stage = "build"

        def reached(now: str) -> None:
            nonlocal stage
            stage = now
            self.answer(stage=now)

        try:
            first = FirstRun(Executable.from_parent(executable), self.inputs, self.queue, self.sharing, reached)
            loaded = first.run()
            reached("verify")
            outputs = {argument.name: argument.numbers(first.read(argument)) for argument in first.executable.outputs}
            check = verify(outputs, self.expected, tolerance, self.others)
            worst = max(check.tensors, key=lambda tensor: tensor.error / max(tensor.tolerance, 1e-300), default=None)
            error, bound = (float(worst.error), float(worst.tolerance)) if worst else (None, None)
            if not check.passed:
                raise FirstRunFailure(Outcome.wrong_result, str(check))
            del first, outputs
            reached("load")
            try:
                self.held[key] = Resident(loaded, self.timing, self.inputs, self.shared)
            except (cl.Error, MemoryError) as failure:
                raise FirstRunFailure(Outcome.launch_failed, str(failure)) from failure
        except FirstRunFailure as failure:
            self.answer(outcome=failure.outcome, stage=stage, message=str(failure), error=error, tolerance=bound)
        else:
            self.answer(outcome=Outcome.ok, stage="done", message="", error=error, tolerance=bound)

    def sample(self, key: int, runs: int, longest_ns: float, warm_ns: float) -> None:
        """Times of one run in ns, by host and by device; of a slice of the groups where all of them take longer than ``longest_ns``.

        The program runs for ``warm_ns`` before, at least once, but for one beside whose time filling the caches does not count.
        """
        resident = self.held[key]
        by_slice = resident.slice_ns(self.slice)
        if by_slice > longest_ns:
            self.answer(host_ns=by_slice, event_ns=by_slice, runs=1, sliced=True)
            return
        begin = time.perf_counter_ns()
        while by_slice < LONG_RUN_NS:
            resident.run(1)
            if time.perf_counter_ns() - begin >= warm_ns:
                break
        effort = Effort()
        start = time.perf_counter_ns()
        own = resident.run(runs)
        elapsed = time.perf_counter_ns() - start
        shared = {"processor_ns": effort.processor_ns / runs, "waited": effort.waited} if self.is_processor else {}
        self.answer(host_ns=elapsed / runs, event_ns=sum(own) / len(own) if own else None, runs=runs, sliced=False, **shared)

    def drop(self, key: int) -> None:
        """Give up a program, and the memory that it was the last to use."""
        self.held.pop(key, None)
        used = {id(value) for resident in self.held.values() for value in resident.values.values()}
        self.shared = {kind: buffer for kind, buffer in self.shared.items() if id(buffer) in used}
        self.answer(dropped=key)


def _array(file: Path) -> np.ndarray:
    array: np.ndarray = np.load(file, allow_pickle=False)
    return array


def main(directory: str, parent: str) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # compilers print, and so may kernels
    die_with_parent(int(parent))
    worker = _Worker(Path(directory), answers)
    worker.answer(ready=True)
    answers_to: dict[str, Callable[..., None]] = {"load": worker.load, "sample": worker.sample, "drop": worker.drop}
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        answers_to[request.pop("do")](**request)
    os._exit(0)  # runtimes have crashed in their own tear-down


if __name__ == "__main__":
    main(*sys.argv[1:])
