"""A Dask cluster as the executor of a search: tasks anywhere, measurements on one worker that holds the device.

A worker says that it holds the device by a resource: ``dask worker ... --resources opencl=1``. It then measures for one search at a time,
since each measurement takes that resource. Times are taken on one worker as long as it lives, and on another one with the same device from
then on. What had been measured is known to the search, and is not measured again.
"""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeGuard, TypeVar

import pyopencl as cl

from ...archive.key.device_identity import device_identity
from ...archive.text.cascade_text import cascade_to_json
from ...cascades.cascade import Cascade
from ...device.catalogue import DeviceInfo
from ...device.timing.measuring_process import Loading, ProcessDiedError, Sample, Verdict
from ...errors import SearchError, WaitingWarning
from . import session
from .session import Opening, alone

T = TypeVar("T")
RESOURCE = "opencl"
"""Dask's resource that a worker holds which may measure."""
WORKER_S = 60.0
"""Seconds for which a search waits for a worker that holds the device, such as one that is started anew after it died."""
LOOK_S = 0.5
"""Between two looks at whether the worker of a task still lives."""
MOST_PROCESSES = 16
"""Tasks that are under way at the same time, at most."""


class Client(Protocol):
    """What is used of ``distributed.Client``."""

    def submit(self, function: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]: ...

    def scheduler_info(self, n_workers: int = ...) -> Mapping[str, Any]: ...


def is_cluster(executor: object) -> TypeGuard[Client]:
    """Whether an executor is a client of Dask's."""
    return callable(getattr(executor, "scheduler_info", None)) and callable(getattr(executor, "submit", None))


class _WorkerLostError(Exception):
    """The worker of a task is gone."""


class Cluster:
    """The executor."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def width(self) -> int:
        """Tasks that it can work on at the same time."""
        return max(1, min(MOST_PROCESSES, sum(int(worker["nthreads"]) for worker in self.workers().values())))

    def submit(self, function: Callable[..., T], /, *arguments: Any) -> Future[T]:
        """The call's result, from any worker. A worker takes up one such call at a time."""
        return self._client.submit(alone, function, *arguments, pure=False)

    @property
    def address(self) -> str:
        """Where its scheduler is."""
        return str(self._client.scheduler_info(n_workers=-1).get("address", "ADDRESS"))

    def workers(self) -> dict[str, Mapping[str, Any]]:
        """Address -> what the scheduler knows of it."""
        return dict(self._client.scheduler_info(n_workers=-1)["workers"])

    def on(self, worker: str, function: Callable[..., T], /, *arguments: Any) -> T:
        """The result of a call that takes the device of one worker. Raises :class:`_WorkerLostError` if that worker goes."""
        options: dict[str, Any] = {"workers": [worker], "allow_other_workers": False, "resources": {RESOURCE: 1}, "pure": False}
        future = self._client.submit(function, *arguments, **options)
        try:
            while True:
                try:
                    return future.result(LOOK_S)
                except TimeoutError:
                    if worker not in self.workers():
                        raise _WorkerLostError from None
                except Exception as error:
                    if worker not in self.workers():
                        raise _WorkerLostError from error
                    raise
        finally:
            future.cancel()

    def holders(self) -> list[str]:
        """The workers that hold a device."""
        return sorted(address for address, known in self.workers().items() if known.get("resources", {}).get(RESOURCE, 0) >= 1)


class RemoteProcesses:
    """The measuring processes of a worker, as :class:`~feinsum_fuse.device.timing.measuring_process.MeasuringProcesses` is used."""

    def __init__(self, cluster: Cluster, device: cl.Device, cascade: Cascade, count: int) -> None:
        self._cluster = cluster
        self._info = DeviceInfo.of(device)
        self._opening = Opening(uuid.uuid4().hex, self._info.to_json(), cascade_to_json(cascade), count)
        self._worker: str | None = None
        self._known: dict[int, Loading] = {}

    def __enter__(self) -> Self:
        self._worker = self._found()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._worker is not None and self._worker in self._cluster.workers():
            with suppress(_WorkerLostError):
                self._cluster.on(self._worker, session.close, self._opening.session)

    def load(self, jobs: Sequence[Loading], timeout_s: float) -> dict[int, Verdict]:
        """As :meth:`~feinsum_fuse.device.timing.measuring_process.MeasuringProcesses.load`."""
        verdicts = self._there(session.load, self._opening, list(jobs), timeout_s)
        self._known.update({job.key: job for job in jobs if verdicts[job.key].outcome == "ok"})
        return verdicts

    def sample(self, key: int, runs: int, *, longest_s: float, timeout_s: float, warm_s: float = 0.0, place: int | None = None) -> Sample:
        """As :meth:`~feinsum_fuse.device.timing.measuring_process.MeasuringProcesses.sample`."""
        found = self._there(session.sample, self._opening, self._known[key], runs, longest_s, timeout_s, warm_s, place)
        if isinstance(found, Verdict):
            raise ProcessDiedError(found)
        return found

    def drop(self, key: int) -> None:
        """Give up a program."""
        if self._known.pop(key, None) is not None:
            self._there(session.drop, self._opening, key)

    def _there(self, function: Callable[..., T], /, *arguments: Any) -> T:
        """A call on the worker; on another one if it is lost meanwhile."""
        while True:
            self._worker = self._worker or self._found()
            try:
                return self._cluster.on(self._worker, function, *arguments)
            except _WorkerLostError:
                self._worker = None

    def _found(self) -> str:
        """A worker that holds this very device. Raises :class:`~feinsum_fuse.errors.SearchError` if none comes."""
        wanted, others = device_identity(self._info), set[str]()
        hint = f"Start one with: dask worker {self._cluster.address} --resources {RESOURCE}=1"
        deadline, told = time.monotonic() + WORKER_S, False
        while True:
            for worker in self._cluster.holders():
                try:
                    found = self._cluster.on(worker, session.identity, self._opening.device)
                except _WorkerLostError:
                    continue
                if found == wanted:
                    return worker
                others.add(found or "no such device")
            if others or time.monotonic() > deadline:
                break
            if not told:
                told = True
                message = f"waiting for a worker of the cluster that holds {wanted} as a resource {RESOURCE!r}, at most {WORKER_S:.0f} s"
                warnings.warn(f"{message}\n  {hint}", WaitingWarning, stacklevel=2)
            time.sleep(LOOK_S)
        held = f": they have {', '.join(sorted(others))}" if others else ""
        raise SearchError(f"no worker of the cluster holds {wanted} as a resource {RESOURCE!r}{held}", hint=hint)
