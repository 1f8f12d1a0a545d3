"""The child process that meets a new kernel first: ``python -m feinsum_fuse.device.runtime.worker JOB PARENT``.

JOB is a directory that holds ``job.json`` (executable and device) and the inputs as ``input-0.npy`` and so on. At each stage
``status.json`` is replaced, so that the parent knows where a process was when it died; at the end it holds the outcome, and
``output-0.npy`` and so on the results. The process imports neither loopy nor anything that does.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

from ...codegen.executable import Executable
from ...errors import DeviceError
from ...executors import end_with
from ..catalogue import DeviceInfo, device_of, target
from ..timing.outcome import Outcome
from .first_run import FirstRun, FirstRunFailure
from .host_memory import HostArguments
from .loaded_executable import context_of


class _Job:
    """One first run, from the files in a directory to the files in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        job = json.loads((directory / "job.json").read_text())
        self.executable = Executable.from_parent(job["executable"])
        self.info = DeviceInfo.from_json(job["device"])
        self.arrays = {a.name: np.load(directory / f"input-{k}.npy", allow_pickle=False) for k, a in enumerate(self.executable.inputs)}

    def status(self, stage: str, outcome: Outcome | None = None, message: str = "") -> None:
        """Record where we are; an outcome ends the job."""
        self.stage = stage
        scratch = self.directory / "status.new"
        scratch.write_text(json.dumps({"stage": stage, "outcome": outcome or "", "message": message}))
        scratch.replace(self.directory / "status.json")

    def run(self) -> None:
        """The first run, and its outputs as files; raises :class:`~.first_run.FirstRunFailure`."""
        self.status("start")
        queue, sharing = opened(self.info)
        first = FirstRun(self.executable, self.arrays, queue, sharing, self.status)
        first.run()
        for k, argument in enumerate(self.executable.outputs):
            np.save(self.directory / f"output-{k}.npy", first.read(argument))


def opened(info: DeviceInfo) -> tuple[cl.CommandQueue, HostArguments | None]:
    """A queue on a device, and the memory that it shares with the host; raises :class:`~.first_run.FirstRunFailure`."""
    try:
        device = device_of(info)
        queue = cl.CommandQueue(context_of(device))  # which keeps the context: a queue of Intel's runtime does not
        return queue, HostArguments(queue.context) if target(device).shares_host_memory else None
    except (DeviceError, cl.Error) as error:
        raise FirstRunFailure(Outcome.launch_failed, str(error)) from error


def die_with_parent(parent: int) -> None:
    """Leave no core file, do not outlive a parent that was killed, and be the first to go if memory runs out."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    end_with(parent)


def main(directory: str, parent: str) -> None:
    """Do the job in this directory; its failures end as outcomes in ``status.json``, anything else as a traceback."""
    die_with_parent(int(parent))
    job = _Job(Path(directory))
    try:
        job.run()
    except FirstRunFailure as failure:
        job.status(job.stage, failure.outcome, str(failure))
    else:
        job.status("done", Outcome.ok)
    sys.stdout.flush()
    os._exit(0)  # runtimes have crashed in their own tear-down, which would hide the result


if __name__ == "__main__":
    main(*sys.argv[1:])
