"""Long-lived processes that build, verify and time programs of one cascade: a kernel that crashes or hangs ends its process alone.

Starting a child for each program costs more than most programs: a child here meets many, one after another, and is replaced when it dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyopencl as cl

from ... import __file__ as package
from ... import cache_folder
from ...codegen.executable import Executable
from ...errors import DeviceError
from ...number_types import held_as
from ..catalogue import DeviceInfo
from ..checking.example import Example
from ..runtime import compiler_cache, runtimes
from ..runtime.isolation import exchanging
from .outcome import Outcome

START_S = 60.0
"""Seconds for a process to start and to open the device."""
STANDSTILL_S = 1.0
"""Seconds by which waiting may end late before this process is held to have been stopped meanwhile."""
TAIL = 500
"""Characters of what a process printed last that go into a message."""


@dataclass(frozen=True)
class Loading:
    """A program that is to be held, under a number of the caller's."""

    key: int
    executable: Executable
    tolerance: Mapping[str, float]
    """Relative, by output."""


@dataclass(frozen=True)
class Verdict:
    """How building and the first run ended; ``error`` and ``tolerance`` are relative, of the output that used most of its tolerance."""

    outcome: Outcome
    stage: str
    message: str = ""
    error: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class Sample:
    """One sample, in ns of one run; ``sliced``: estimated by some of the work-groups."""

    host_ns: float
    event_ns: float | None
    runs: int
    sliced: bool
    processor_ns: float | None = None
    """Of all cores together; ``None`` where the device is no processor."""
    waited: float = 0.0
    """The part of the time in which its threads waited for a core, since others had it, from 0 to 1."""


class ProcessDiedError(DeviceError):
    """The process that held a program is gone; ``verdict`` says how."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(f"{verdict.outcome} in stage {verdict.stage}: {verdict.message}")


class _Process:
    """One child."""

    def __init__(self, directory: Path, log: Path, cache: Path) -> None:
        runtimes.prepare()
        path = os.pathsep.join([str(Path(package).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "PYOPENCL_NO_CACHE": "1"}
        cache.mkdir(exist_ok=True)
        # A compiler that dies leaves half of an entry, which nobody else must find.
        environment[compiler_cache.VARIABLE] = str(cache)
        command = [sys.executable, "-P", "-m", "feinsum_fuse.device.timing.measuring_worker", str(directory), str(os.getpid())]
        self.log = log
        with log.open("wb") as output:
            self.child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=environment, start_new_session=True
            )
        assert self.child.stdin is not None and self.child.stdout is not None
        self.input, self.output = self.child.stdin, self.child.stdout
        self.stage = "start"
        self.held: set[int] = set()
        self._rest = b""

    def ask(self, **request: object) -> None:
        """Send a request; whether the child is still there shows at its answer."""
        with contextlib.suppress(OSError):
            self.input.write(json.dumps(request).encode() + b"\n")
            self.input.flush()

    def lines(self) -> list[dict[str, Any]]:
        """Answers that have come, stages left out. Raises :class:`ProcessDiedError` at the end of them."""
        data = os.read(self.output.fileno(), 1 << 16)
        if not data:
            code = self.child.wait()
            how = f"died of {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
            raise ProcessDiedError(Verdict(Outcome.crashed, self.stage, self._with_tail(f"the process {how} in stage {self.stage}")))
        *whole, self._rest = (self._rest + data).split(b"\n")
        answers = [json.loads(line) for line in whole]
        for answer in answers:
            if set(answer) == {"stage"}:
                self.stage = answer["stage"]
        return [answer for answer in answers if set(answer) != {"stage"}]

    def answer(self, deadline: float) -> dict[str, Any]:
        """The next answer. Raises :class:`ProcessDiedError`, also where none comes until ``deadline`` (of ``time.monotonic``)."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                start = time.monotonic()
                ready = selector.select(left)
                deadline += _time_given_again(start, left)
                if ready and (answers := self.lines()):
                    return answers[0]
        raise self.hung()

    def hung(self) -> ProcessDiedError:
        """Kill it, since it does not answer."""
        self.kill()
        return ProcessDiedError(Verdict(Outcome.timeout, self.stage, self._with_tail(f"killed in stage {self.stage}, where it hung")))

    def kill(self) -> None:
        """End it and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        for stream in (self.input, self.output):
            with contextlib.suppress(OSError):
                stream.close()

    def _with_tail(self, message: str) -> str:
        text = self.log.read_bytes()[-TAIL:].decode(errors="replace").strip()
        return f"{message}; it printed last:\n{text}" if text else message


class MeasuringProcesses:
    """Some processes with the example's arrays; a context, at whose end they are gone.

    Programs are built and verified by all of them at once, and timed one at a time, while the others wait. Not safe for threads.
    """

    def __init__(self, device: cl.Device, example: Example, count: int) -> None:
        with exchanging():
            self._folder = tempfile.TemporaryDirectory(prefix="feinsum-fuse-", dir=cache_folder.scratch(), ignore_cleanup_errors=True)
            self._directory = Path(self._folder.name)
            _write(self._directory, DeviceInfo.of(device), example)
        self._started = 0
        self._processes: list[_Process | None] = [None] * count
        self._known: dict[int, Loading] = {}

    def __enter__(self) -> Self:
        for place in range(len(self._processes)):
            self._processes[place] = self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._processes:
            if process is not None:
                process.kill()
        self._folder.cleanup()

    def load(self, jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]:
        """Build and verify programs, each within ``timeout_s`` seconds; those that pass are held until they are dropped."""
        return self._load_at(range(len(self._processes)), jobs, timeout_s)

    def _load_at(self, places: Sequence[int], jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]:
        """The same in some of the processes."""
        verdicts: dict[int, Verdict] = {}
        busy: dict[int, tuple[Loading, float]] = {}
        try:
            self._load(list(jobs), timeout_s, busy, verdicts, places)
        except BaseException:  # an interrupt: what was asked would be answered in place of the next request
            for place in busy:
                self._lost(place)
            raise
        return verdicts

    def _load(
        self,
        waiting: list[Loading],
        timeout_s: float,
        busy: dict[int, tuple[Loading, float]],
        verdicts: dict[int, Verdict],
        places: Sequence[int],
    ) -> None:
        """The verdicts one by one; ``busy``: place -> the program that the process there is building, and when its time is over."""
        while waiting or busy:
            for place in places:
                if waiting and place not in busy:
                    job = waiting.pop(0)
                    process = self._ready(place)
                    busy[place] = job, time.monotonic() + timeout_s
                    process.ask(do="load", key=job.key, executable=job.executable.to_json(), tolerance=dict(job.tolerance))
            for place in self._answering(busy):
                job, deadline = busy[place]
                verdict = self._verdict(place, deadline)
                if verdict is None:
                    continue
                del busy[place]
                verdicts[job.key] = verdict
                if verdict.outcome is Outcome.ok:
                    self._known[job.key] = job
                    self._ready(place).held.add(job.key)

    def _answering(self, busy: dict[int, tuple[Loading, float]]) -> list[int]:
        """The places of processes that have said something, or have had their time."""
        with selectors.DefaultSelector() as selector:
            for place in busy:
                selector.register(self._ready(place).output, selectors.EVENT_READ, place)
            start, wait = time.monotonic(), max(0.0, min(deadline for _, deadline in busy.values()) - time.monotonic())
            ready = [key.data for key, _ in selector.select(wait)]
        more = _time_given_again(start, wait)
        busy.update({place: (job, deadline + more) for place, (job, deadline) in busy.items()})
        return ready or [place for place, (_, deadline) in busy.items() if deadline <= time.monotonic()]

    def _verdict(self, place: int, deadline: float) -> Verdict | None:
        """What a process has to say of the program that it builds; ``None`` if nothing yet."""
        process = self._ready(place)
        try:
            if time.monotonic() >= deadline:
                raise process.hung()
            answers = process.lines()
        except ProcessDiedError as error:
            self._lost(place)
            return error.verdict
        if not answers:
            return None
        answer = answers[0]
        return Verdict(Outcome(answer["outcome"]), answer["stage"], answer["message"], answer["error"], answer["tolerance"])

    def sample(self, key: int, runs: int, *, longest_s: float, timeout_s: float, warm_s: float = 0.0, place: int | None = None) -> Sample:
        """One sample of a known program, of ``runs`` runs; estimated by a slice where one run takes longer than ``longest_s`` seconds.

        It runs for ``warm_s`` seconds before, at least once. ``place``: in which process, of any count; by default the one that holds it.
        Where it is not held there, or the process died meanwhile, it is built again. Raises :class:`ProcessDiedError` if the process dies
        of this one.
        """
        holding = [k for k, process in enumerate(self._processes) if process is not None and key in process.held]
        wanted = range(len(self._processes)) if place is None else [place % len(self._processes)]
        there = next((k for k in wanted if k in holding), None)
        if there is None:
            verdict = self._load_at(wanted, [self._known[key]], timeout_s)[key]
            if verdict.outcome is not Outcome.ok:
                raise ProcessDiedError(verdict)
            return self.sample(key, runs, longest_s=longest_s, timeout_s=timeout_s, warm_s=warm_s, place=place)
        process = self._ready(there)
        process.stage = "run"
        process.ask(do="sample", key=key, runs=runs, longest_ns=longest_s * 1e9, warm_ns=warm_s * 1e9)
        try:
            return Sample(**process.answer(time.monotonic() + timeout_s))
        except BaseException:  # it died; or an interrupt, after which its answer would be taken for that to the next request
            self._lost(there)
            raise

    def holds(self, key: int) -> bool:
        """Whether a program was loaded and not dropped since."""
        return key in self._known

    def drop(self, key: int) -> None:
        """Give up a program."""
        self._known.pop(key, None)
        for place, process in enumerate(self._processes):
            if process is not None and key in process.held:
                process.held.discard(key)
                process.ask(do="drop", key=key)
                try:
                    process.answer(time.monotonic() + START_S)
                except ProcessDiedError:
                    self._lost(place)
                except BaseException:
                    self._lost(place)
                    raise

    def _start(self) -> _Process:
        self._started += 1
        with exchanging():
            return _Process(self._directory, self._directory / f"log-{self._started}", self._directory / f"cache-{self._started}")

    def _ready(self, place: int) -> _Process:
        """The process at a place, a new one if the last one died."""
        process = self._processes[place] or self._start()
        self._processes[place] = process
        if process.stage == "start":
            try:
                process.answer(time.monotonic() + START_S)
            except BaseException:
                self._lost(place)
                raise
            process.stage = "ready"
        return process

    def _lost(self, place: int) -> None:
        process, self._processes[place] = self._processes[place], None
        if process is not None:
            process.kill()


def _time_given_again(start: float, wait: float) -> float:
    """Seconds that are added to a deadline after waiting from ``start`` on, for ``wait`` seconds at most.

    Where this process stood still (stopped, or the machine asleep), so did its children: nobody knows for how long of it, so that they have
    the whole wait once more.
    """
    lost = time.monotonic() - start - wait
    return lost + wait if lost > STANDSTILL_S else 0.0


def _write(directory: Path, info: DeviceInfo, example: Example) -> None:
    """What a worker reads when it starts."""
    results = (example.expected, *example.others)
    job = {"device": info.to_json(), "inputs": list(example.inputs), "outputs": list(example.expected), "results": len(results)}
    (directory / "job.json").write_text(json.dumps(job))
    for k, array in enumerate(example.inputs.values()):
        np.save(directory / f"input-{k}.npy", held_as(array, array.dtype.name))
    for n, outputs in enumerate(results):
        for k, name in enumerate(example.expected):
            np.save(directory / f"expected-{n}-{k}.npy", outputs[name])
