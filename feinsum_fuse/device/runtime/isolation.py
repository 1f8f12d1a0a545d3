"""Building and first running in a child process, so that no kernel can harm its caller."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyopencl as cl

from ... import __file__ as package
from ... import cache_folder
from ...codegen.executable import Argument, Executable
from ...errors import DeviceError
from ...number_types import held_as
from ..catalogue import DeviceInfo, quirks_of
from ..checking.verification import Verification, verify
from ..timing.outcome import Outcome
from . import compiler_cache, runtimes

TIMEOUT = 120.0
"""Seconds for building and the first run together."""
STEP_S = 1.0
"""Seconds of one wait for a child."""
TAIL = 2000
"""How many characters of what the process last printed go into a message."""


@dataclass(frozen=True)
class RunResult:
    """How a first run ended: ``stage`` is where (start, build, allocate, launch, check, verify, done), ``message`` why."""

    outcome: Outcome
    stage: str
    message: str = ""
    outputs: dict[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    verification: Verification | None = None


def run_isolated(
    executable: Executable,
    inputs: Mapping[str, np.ndarray],
    device: cl.Device | DeviceInfo,
    *,
    timeout_s: float = TIMEOUT,
    expected: Mapping[str, np.ndarray] | None = None,
    tolerance: Mapping[str, float] | float = 0.0,
    judge: Callable[[Mapping[str, np.ndarray]], Verification] | None = None,
) -> RunResult:
    """Build and run a program once in a child process, and compare its outputs with ``expected``, or by ``judge``, if given.

    What a judge has seen is not kept: the outputs are read from a file as they are asked for.

    Never raises for what a kernel does: it may fail to build, abort, overflow the stack, hang (the child's process group is killed after
    ``timeout_s`` seconds), leave an output unwritten or compute nonsense; each ends as its
    :class:`~feinsum_fuse.device.timing.outcome.Outcome`. Raises :class:`~feinsum_fuse.errors.DeviceError` for inputs that are missing or
    of the wrong shape.
    """
    with isolated(executable, inputs, device, judge is not None) as ended:
        result = ended(timeout_s)
        if judge is not None and result.outcome is Outcome.ok:
            return _judged(judge(result.outputs), {})
    if expected is None or result.outcome is not Outcome.ok:
        return result
    return _judged(verify(result.outputs, expected, tolerance), result.outputs)


@contextlib.contextmanager
def isolated(
    executable: Executable, inputs: Mapping[str, np.ndarray], device: cl.Device | DeviceInfo, is_mapped: bool = False
) -> Iterator[Callable[[float], RunResult]]:
    """A first run that has begun: what is yielded waits so many seconds for its end, and kills it then.

    Several may be under way at once. Outputs that are ``is_mapped`` are read from files, which are gone after the block. Raises as
    :func:`run_isolated`.
    """
    info = device if isinstance(device, DeviceInfo) else DeviceInfo.of(device)
    arrays = {argument.name: _input(argument, inputs) for argument in executable.inputs}
    with contextlib.ExitStack() as stack:
        try:
            name = tempfile.TemporaryDirectory(prefix="feinsum-fuse-", dir=cache_folder.scratch(), ignore_cleanup_errors=True)
            directory = Path(stack.enter_context(name))
            _write_job(directory, executable, arrays, info)
            own_cache = quirks_of(info.platform).half_written_cache
            child = _Child(directory, _identity(executable, info) if own_cache else None)
            stack.callback(child.kill)
        except OSError as error:
            failed = _not_started(error)
            yield lambda _: failed
            return
        yield lambda timeout_s: _ended(child, executable, info, timeout_s, is_mapped)


def _ended(child: _Child, executable: Executable, info: DeviceInfo, timeout_s: float, is_mapped: bool) -> RunResult:
    """The result of a child, with its outputs."""
    try:
        result = child.result(timeout_s)
        if result.outcome is not Outcome.ok:
            missing = runtimes.missing_part(info.platform)
            return replace(result, message=f"{result.message}\n{missing}") if missing else result
        mapped: Literal["r"] | None = "r" if is_mapped else None
        outputs = {
            a.name: a.numbers(np.load(child.directory / f"output-{k}.npy", mmap_mode=mapped, allow_pickle=False))
            for k, a in enumerate(executable.outputs)
        }
    except OSError as error:
        return _not_started(error)
    return replace(result, outputs=outputs)


def _not_started(error: OSError) -> RunResult:
    return RunResult(Outcome.launch_failed, "start", f"the child process could not be given its files, or not be started: {error}")


def _judged(verification: Verification, outputs: dict[str, np.ndarray]) -> RunResult:
    if verification.passed:
        return RunResult(Outcome.ok, "done", outputs=outputs, verification=verification)
    return RunResult(Outcome.wrong_result, "verify", str(verification), outputs, verification)


def compiled(executable: Executable, device: cl.Device, *, timeout_s: float = TIMEOUT) -> tuple[bytes, ...]:
    """The files of machine code that PoCL makes of a program, built and run once in a child process on inputs that are all 1; none of
    another runtime.

    Raises :class:`~feinsum_fuse.errors.DeviceError` for a program that fails.
    """
    info = DeviceInfo.of(device)
    inputs = {argument.name: np.ones(argument.shape, argument.held) for argument in executable.inputs}
    with exchanging(), tempfile.TemporaryDirectory(prefix="feinsum-fuse-", dir=cache_folder.scratch(), ignore_cleanup_errors=True) as name:
        directory = Path(name)
        _write_job(directory, executable, inputs, info)
        result = _Child(directory, None, own_cache=True).result(timeout_s)
        if result.outcome is not Outcome.ok:
            raise DeviceError(f"the kernel cannot be compiled to be looked at: {result.outcome} in stage {result.stage}: {result.message}")
        return tuple(file.read_bytes() for file in sorted((directory / "cache").rglob("*.so")))


@contextlib.contextmanager
def exchanging() -> Iterator[None]:
    """What the system refuses while files go to a child process and come back is a :class:`~feinsum_fuse.errors.DeviceError`."""
    try:
        yield
    except OSError as error:
        hint = f"Its files are in {cache_folder.scratch() or tempfile.gettempdir()}: free some space there, or set TMPDIR."
        raise DeviceError(f"a child process could not be given its files, or not be started: {error}", hint=hint) from error


def _input(argument: Argument, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """An input as memory holds its elements, C-contiguous."""
    if argument.name not in inputs:
        raise DeviceError(f"input {argument.name} is missing")
    array = held_as(np.asarray(inputs[argument.name]), argument.dtype)
    if array.shape != argument.shape:
        raise DeviceError(f"input {argument.name} has shape {array.shape}, expected {argument.shape}")
    return np.ascontiguousarray(array) if array.ndim else array


def _write_job(directory: Path, executable: Executable, arrays: Mapping[str, np.ndarray], info: DeviceInfo) -> None:
    for k, array in enumerate(arrays.values()):
        np.save(directory / f"input-{k}.npy", array)
    (directory / "job.json").write_text(json.dumps({"executable": executable.to_json(), "device": info.to_json()}))


def _identity(executable: Executable, info: DeviceInfo) -> str:
    """A hash of what is compiled, and of the compiler; not of the memory, which PoCL reports by what is free."""
    compiler = [info.platform, info.name, info.driver, info.version, info.processor]
    return hashlib.sha256("\0".join([executable.source_hash, *compiler]).encode()).hexdigest()


class _Child:
    """A child process that runs the job in a directory; ``program``: what compiles it into a cache of its own until it has survived.

    ``own_cache``: it does so in any case, and the cache stays in the directory.
    """

    def __init__(self, directory: Path, program: str | None, *, own_cache: bool = False) -> None:
        self.directory = directory
        self.program = program
        runtimes.prepare()
        path = os.pathsep.join([str(Path(package).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        # A child that is killed while it holds the lock of pyopencl's cache would block everybody else for a minute.
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "PYOPENCL_NO_CACHE": "1"}
        self.cache = directory / "cache"
        self.cache.mkdir()
        if own_cache or (program is not None and not compiler_cache.has_survived(program)):
            environment[compiler_cache.VARIABLE] = str(self.cache)
        # -P: modules of the caller's working directory are nothing to the child.
        command = [sys.executable, "-P", "-m", "feinsum_fuse.device.runtime.worker", str(directory), str(os.getpid())]
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        self.is_over = False

    def result(self, timeout_s: float) -> RunResult:
        """How it ended, without its outputs; it is killed if it has not ended after so many seconds, or is not waited for any longer."""
        try:
            code = _exit_code(self.process, timeout_s)
        finally:
            self.kill()
        result = _judge(self.directory, code, timeout_s)
        if self.program is not None and result.outcome is Outcome.ok:
            compiler_cache.hand_over(self.cache, self.program)
        return result

    def kill(self) -> None:
        """End it, and what it has started."""
        if not self.is_over:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.is_over = True


def _exit_code(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """How a process ended; ``None`` if it has not ended after so many seconds.

    It is waited for in short steps. One that takes longer since this process stood still meanwhile (stopped, or the machine asleep) counts
    as what it was meant to be: the other one stood still, too.
    """
    while timeout_s > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(STEP_S, timeout_s))
        timeout_s -= STEP_S
    return None


def _judge(directory: Path, code: int | None, timeout_s: float) -> RunResult:
    """The result of a child that ended with this exit code; ``None``: it was killed after the time limit."""
    path = directory / "status.json"
    status: dict[str, str] = json.loads(path.read_text()) if path.exists() else {"stage": "start", "outcome": "", "message": ""}
    stage = status["stage"]
    if status["outcome"]:
        return RunResult(Outcome(status["outcome"]), stage, status["message"])
    if code is None:
        return RunResult(Outcome.timeout, stage, _with_tail(directory, f"killed after {timeout_s:g} s in stage {stage}"))
    how = f"died of {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    why = cache_folder.fault(directory)
    place = f"; {directory.parent}, where its files are, cannot be used: {why}" if why else ""
    return RunResult(Outcome.crashed, stage, _with_tail(directory, f"the process {how} in stage {stage}{place}"))


def _with_tail(directory: Path, message: str) -> str:
    with (directory / "log").open("rb") as log:
        # A kernel may print without end.
        log.seek(max(0, log.seek(0, os.SEEK_END) - 4 * TAIL))
        text = log.read().decode(errors="replace").strip()
    return f"{message}; it printed last:\n{text[-TAIL:]}" if text else message
