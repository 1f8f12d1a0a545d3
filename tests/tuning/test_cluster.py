"""Clusters: measurements on one worker that holds the device, on another one when it dies; nothing measured twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.question import Fit
from feinsum_fuse.archive.key.device_identity import device_identity
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.timing.measuring_process import Loading, ProcessDiedError, Sample, Verdict
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import SearchError, WaitingWarning
from feinsum_fuse.progress import Progress
from feinsum_fuse.tuning.cluster import cluster as clusters
from feinsum_fuse.tuning.cluster import session
from feinsum_fuse.tuning.cluster.cluster import RESOURCE, Cluster, RemoteProcesses, is_cluster
from feinsum_fuse.tuning.helpers import Helpers
from tests.sweeps import SLOW

from .spaces import Here, product

OK = Verdict(Outcome.ok, "done")


class Answer:
    """A future: a result, an error, or nothing yet."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call

    def result(self, timeout: float | None = None, /) -> Any:
        return self.call()

    def cancel(self) -> None:
        """Too late."""


def never() -> object:
    raise TimeoutError


class Workers:
    """A client whose workers answer as a table says; a worker whose turn it is to die does so in the middle of a task."""

    def __init__(self, device: str, holders: int = 2) -> None:
        self.device = device
        self.alive = {f"tcp://{k}": {"nthreads": 2, "resources": {RESOURCE: 1.0} if k < holders else {}} for k in range(holders + 1)}
        self.calls: list[tuple[str, str]] = []
        self.dying: set[str] = set()

    def scheduler_info(self, n_workers: int = 5) -> Mapping[str, Any]:
        return {"workers": self.alive, "address": "tcp://scheduler:8786"}

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Answer:
        if function is session.alone:
            return Answer(lambda: function(*arguments))
        assert options == {"workers": options["workers"], "allow_other_workers": False, "resources": {RESOURCE: 1}, "pure": False}
        (worker,) = options["workers"]
        self.calls.append((worker, function.__name__))
        if function is not session.identity and worker in self.dying:
            del self.alive[worker]
            return Answer(never)
        answers: dict[str, Callable[[], object]] = {
            "identity": lambda: self.device,
            "load": lambda: {job.key: OK for job in arguments[1]},
            "sample": lambda: Sample(5.0, None, arguments[2], False) if arguments[1].key else Verdict(Outcome.crashed, "run"),
            "drop": lambda: None,
            "close": lambda: None,
        }
        return Answer(answers[function.__name__])


@pytest.fixture
def cascade() -> Cascade:
    return ff.cascade(product())


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(clusters, "WORKER_S", 0.0)
    return Workers(device_identity(DeviceInfo.of(find_device("pocl"))))


def jobs(*keys: int) -> list[Loading]:
    return [Loading(key, Executable("", (), (), ()), {}) for key in keys]


def test_one_worker_measures_until_it_dies(workers: Workers, cascade: Cascade) -> None:
    with RemoteProcesses(Cluster(workers), find_device("pocl"), cascade, 2) as there:
        assert there.load(jobs(1, 2), 5.0) == {1: OK, 2: OK}
        assert there.sample(1, 3, longest_s=1.0, timeout_s=5.0).runs == 3
        workers.dying = {"tcp://0"}
        assert there.sample(2, 4, longest_s=1.0, timeout_s=5.0).runs == 4
        there.drop(1)
        there.drop(1)
    zero, one = (f"tcp://{k}" for k in range(2))
    assert workers.calls == [
        *((zero, name) for name in ("identity", "load", "sample", "sample")),
        *((one, name) for name in ("identity", "sample", "drop", "close")),
    ]


def test_a_program_that_dies_is_said_to(workers: Workers, cascade: Cascade) -> None:
    with RemoteProcesses(Cluster(workers), find_device("pocl"), cascade, 2) as there:
        there.load(jobs(0), 5.0)
        with pytest.raises(ProcessDiedError, match="crashed"):
            there.sample(0, 1, longest_s=1.0, timeout_s=5.0)


def test_only_workers_that_hold_the_device_measure(workers: Workers, cascade: Cascade) -> None:
    workers.alive = {"tcp://2": workers.alive["tcp://2"]}
    with pytest.raises(SearchError, match=r"no worker of the cluster holds .*Portable") as caught:
        RemoteProcesses(Cluster(workers), find_device("pocl"), cascade, 1).__enter__()
    assert f"dask worker tcp://scheduler:8786 --resources {RESOURCE}=1" in str(caught.value)


def test_that_no_worker_holds_the_device_yet_is_said_at_once(workers: Workers, cascade: Cascade, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to start; the search goes on with the worker that comes."""
    monkeypatch.setattr(clusters, "WORKER_S", 60.0)
    late, workers.alive = workers.alive, {}
    monkeypatch.setattr(clusters.time, "sleep", lambda _: workers.alive.update(late))
    start = r"at most 60 s\n  Start one with: dask worker tcp://scheduler:8786 "
    with pytest.warns(WaitingWarning, match=f"waiting for a worker .*{start}") as told:
        there = RemoteProcesses(Cluster(workers), find_device("pocl"), cascade, 1).__enter__()
    assert len(told) == 1 and there.load(jobs(1), 5.0) == {1: OK}


def test_another_device_is_none(workers: Workers, cascade: Cascade) -> None:
    workers.device = "another"
    with pytest.raises(SearchError, match="they have another"):
        RemoteProcesses(Cluster(workers), find_device("pocl"), cascade, 1).__enter__()


def test_tasks_go_anywhere(workers: Workers) -> None:
    cluster = Cluster(workers)
    assert cluster.width == 6
    assert cluster.submit(divmod, 7, 2).result(1) == (3, 1)
    assert is_cluster(workers) and not is_cluster(Here()) and not is_cluster(Helpers(1))


def test_a_session_builds_again_what_its_worker_never_had(cascade: Cascade) -> None:
    """The functions that workers call, in this process: a worker that comes late knows nothing of what was loaded."""
    program = ff.compile(ff.spec(cascade), "pocl")
    opening = session.Opening("a", DeviceInfo.of(program.device).to_json(), clusters.cascade_to_json(cascade), 1)
    assert session.identity(opening.device) == device_identity(DeviceInfo.of(program.device))
    job = Loading(7, program.executable, cascade.tolerance())
    try:
        found = session.sample(opening, job, 2, 1.0, 30.0, 0.0, None)
        assert isinstance(found, Sample) and found.host_ns > 0
        assert session.load(opening, [Loading(8, program.executable, {"Z": 0.0})], 30.0)[8].outcome is Outcome.wrong_result
        session.drop(opening, 7)
    finally:
        session.close("a")
    session.close("a")
    assert session.identity(DeviceInfo.of(program.device).to_json().replace("Portable", "Immobile")) == ""


@pytest.mark.skipif(not SLOW, reason="starts processes that import everything")
def test_a_killed_worker_costs_nothing_but_time(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    url, killed = tmp_path / "facts.sqlite", []
    settings = {"threads_per_worker": 1, "dashboard_address": None, "resources": {RESOURCE: 1}}
    with distributed.LocalCluster(n_workers=2, **settings) as local, distributed.Client(local) as client:

        def kill_whoever_measures(progress: Progress) -> None:
            if progress.done >= 2 and not killed:
                worker = Cluster(client).holders()[0]
                killed.append(client.run(os.getpid, workers=[worker])[worker])
                os.kill(killed[0], signal.SIGKILL)

        settings = {"seconds": 600, "measurements": 6, "url": url, "executor": client, "top": 20}
        tuned = ff.tune(product(), "pocl", progress=kill_whoever_measures, **settings)
    assert killed and tuned.measured == 6
    facts = ff.query(ff.cascade(product()), find_device("pocl"), outcome=None, url=url)
    times = Counter(fact.known.key.schedule for fact in facts if fact.found is Fit.exact)
    # Each once, and once more if it took the decisive turns; two may have one schedule.
    assert max(times.values()) <= 2
    assert sum(times.values()) - len(tuned.finalists) in (5, 6)
    a, b = np.ones((48, 64), "float32"), np.ones((64, 40), "float32")
    np.testing.assert_allclose(tuned.program(A=a, B=b)["Z"], a @ b)
