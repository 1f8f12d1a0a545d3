"""What a worker of a cluster does for a search: tasks of the other modules, one at a time, and measuring processes that stay between them.

The search calls these functions by name, with arguments that Dask carries: workers need this package, and nothing of the search's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from ...archive.key.device_identity import device_identity
from ...archive.text.cascade_text import cascade_from_json
from ...device.catalogue import DeviceInfo, device_of
from ...device.checking.example import example
from ...device.timing.measuring_process import Loading, MeasuringProcesses, ProcessDiedError, Sample, Verdict
from ...errors import DeviceError

P = ParamSpec("P")
R = TypeVar("R")
MOST_SESSIONS = 4
"""Searches for which a worker keeps processes; those of a search that ended without saying so go first."""

_ALONE = threading.RLock()
"""Integer sets and measuring processes bear one thread at a time, and a worker may have several."""
_sessions: dict[str, MeasuringProcesses] = {}


@dataclass(frozen=True)
class Opening:
    """What a worker has to know to measure for a search."""

    session: str
    device: str
    """The description, as JSON."""
    cascade: str
    """The cascade as given, as JSON: inputs and right results follow from it."""
    processes: int


def alone(function: Callable[P, R], /, *arguments: P.args, **keywords: P.kwargs) -> R:
    """A call while no other thread of this process makes one through here."""
    with _ALONE:
        return function(*arguments, **keywords)


def identity(device: str) -> str:
    """What decides how fast kernels run on this worker's device of that description; empty where it has none."""
    try:
        return device_identity(DeviceInfo.of(device_of(DeviceInfo.from_json(device))))
    except DeviceError:
        return ""


def load(opening: Opening, jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]:
    """Build and verify programs, and hold those that pass."""
    with _ALONE:
        return _processes(opening).load(jobs, timeout_s)


def sample(
    opening: Opening, job: Loading, runs: int, longest_s: float, timeout_s: float, warm_s: float, place: int | None
) -> Sample | Verdict:
    """One sample of a program that is held, or is built again where it is not; a verdict if it cannot be had."""
    with _ALONE:
        processes = _processes(opening)
        try:
            if not processes.holds(job.key):
                verdict = processes.load([job], timeout_s)[job.key]
                if verdict.outcome != "ok":
                    return verdict
            return processes.sample(job.key, runs, longest_s=longest_s, timeout_s=timeout_s, warm_s=warm_s, place=place)
        except ProcessDiedError as error:
            return error.verdict


def drop(opening: Opening, key: int) -> None:
    """Give up a program."""
    with _ALONE:
        if opening.session in _sessions:
            _sessions[opening.session].drop(key)


def close(session: str) -> None:
    """End the processes of a search."""
    with _ALONE:
        processes = _sessions.pop(session, None)
        if processes is not None:
            processes.__exit__(None, None, None)


def _processes(opening: Opening) -> MeasuringProcesses:
    """Those of a search, started with its first task here."""
    if opening.session not in _sessions:
        while len(_sessions) >= MOST_SESSIONS:
            close(next(iter(_sessions)))
        device = device_of(DeviceInfo.from_json(opening.device))
        processes = MeasuringProcesses(device, example(cascade_from_json(opening.cascade)), opening.processes)
        _sessions[opening.session] = processes.__enter__()
    return _sessions[opening.session]
