"""The file of a device, and what a calibration says of the one that was there."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from feinsum_fuse.device.calibration import device_file
from feinsum_fuse.device.calibration.device_file import calibrated, slower_than_before
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.formats.reading.load import load, loads
from feinsum_fuse.formats.spec import Spec
from tests.model.test_kernel_time import with_variables

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "fidelity" / "data"


def measured(folder: str) -> Spec:
    return load(DATA / folder / "device.yaml")


def test_operations_that_somebody_else_slowed_down_are_told_from_those_of_before() -> None:
    """Of two calibrations of one processor the later one had slow stores; of others one operation or none differs."""
    slow, before, other = (measured(name) for name in ("epyc_zen4_intel.16", "epyc_zen4_intel.15", "epyc_zen4_intel.14"))
    assert {"split_store", "issue", "vector_memory_update"} <= slower_than_before(before, slow).keys()
    assert len(slower_than_before(other, before)) < device_file.SEVERAL
    half = loads((DATA / "epyc_zen4_intel.15" / "device.yaml").read_text().replace("{name: lane, fanout: 16}", "{name: lane, fanout: 8}"))
    assert half.arch != before.arch and slower_than_before(half, slow) == {}, "operations on vectors of another length"


def test_a_calibration_that_is_much_slower_than_the_last_one_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "device.yaml"
    spec = measured("epyc_zen4_intel.15")
    monkeypatch.setattr(device_file, "calibrate", lambda *_, **__: spec)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrated(find_device(), file, quick=False)
        calibrated(find_device(), file, quick=False)
    assert spec.arch is not None
    slow = {f"{name}_seconds": 2 * float(spec.arch.variables[f"{name}_seconds"]) for name in ("store", "load", "split_store")}
    monkeypatch.setattr(device_file, "calibrate", lambda *_, **__: with_variables(spec, **slow))
    with pytest.warns(UserWarning, match="3 operations of a core take longer"):
        calibrated(find_device(), file, quick=False)
    file.write_text("arch: [")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrated(find_device(), file, quick=False)
    assert load(file).arch is not None
