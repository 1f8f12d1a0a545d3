"""What a machine gives to a measurement."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from constantdict import constantdict

from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.timing import machine_share
from feinsum_fuse.device.timing.harness import HostFunction, measure_together
from feinsum_fuse.device.timing.machine_share import CoreWatch, cores_given
from feinsum_fuse.device.timing.measurement import Measurement, Provenance, fewer_cores
from feinsum_fuse.device.timing.outcome import Outcome

DEVICE = DeviceInfo("Platform", "Chip", 0, "Maker", "1.0", "OpenCL 3.0", "cpu", 4, 1, 1, 1)
PROVENANCE = Provenance(DEVICE, constantdict(), "", (), 4, "2026-01-01T00:00:00+00:00")


def test_cores_given_are_what_all_do_as_a_rule_over_what_one_does_at_best() -> None:
    assert cores_given([(10.0, 40.0), (8.0, 36.0), (9.0, 38.0)]) == 3.8
    assert cores_given([(10.0, 40.0)] * 7 + [(1.0, 2.0)]) == 4.0, "one bad moment is none of the rule"
    assert cores_given([(10.0, 0.1)]) == 0.1, "a prediction of no core at all has no end"
    assert cores_given([(10.0, 10.0), (10.0, 11.0)]) == 1.1


def test_fewer_cores_are_said() -> None:
    assert fewer_cores(None, 4) == ""
    assert fewer_cores(3.7, 4) == ""
    assert fewer_cores(1.0, 2) == "the machine gave 1.0 of 2 cores while this was timed"


def test_a_measurement_keeps_its_cores() -> None:
    found = Measurement(Outcome.ok, "done", "", dataclasses.replace(PROVENANCE, cores=1.3), samples_ns=(1e6,))
    assert Measurement.from_json(found.to_json()) == found
    assert str(found).endswith("; the machine gave 1.3 of 4 cores while this was timed")
    assert "gave" not in str(dataclasses.replace(found, provenance=PROVENANCE))


def test_older_records_know_of_no_cores() -> None:
    text = Measurement(Outcome.ok, "done", "", PROVENANCE, samples_ns=(1e6,)).to_json()
    assert "cores" not in text
    assert Measurement.from_json(text).provenance.cores is None


def test_a_watch_looks_at_both_ends_and_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    with CoreWatch(None) as nothing:
        nothing.look()
    assert nothing.given is None
    monkeypatch.setattr(machine_share, "_probes", lambda device: (1, 2))
    monkeypatch.setattr(machine_share, "_rate", lambda probe: looks.append(probe) or float(probe))
    with CoreWatch(find_device()) as watch:
        watch.look()  # just now
        watch._next = 0.0
        watch.look()
    assert looks == [1, 2] * (2 * machine_share.LOOKS + 1)
    assert watch.given == 2.0


def test_cores_of_a_device() -> None:
    device = find_device()
    with CoreWatch(device) as watch:
        pass
    several = DeviceInfo.of(device).units > 1
    assert (watch.given is not None) is several
    assert watch.given is None or watch.given > 0


def test_what_runs_on_the_host_has_no_cores_of_the_device() -> None:
    (found,) = measure_together([HostFunction("NumPy", lambda: np.ones(1000))], repeats=1)
    assert found.provenance.cores is None
