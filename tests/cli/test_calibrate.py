"""``calibrate`` and ``devices``, and predictions for a calibrated device."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.calibration import calibration
from feinsum_fuse.device.calibration.device_file import calibrated, known_device
from feinsum_fuse.device.catalogue import find_device
from tests.cli.conftest import Invoke


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A device file, measured once."""
    file = tmp_path_factory.mktemp("devices") / "device.yaml"
    calibrated(find_device(), file, quick=True)
    return file


def test_devices_lists_what_can_be_chosen(invoke: Invoke) -> None:
    found = json.loads(invoke("devices", "--json").out)
    assert "Portable Computing Language" in found[0]["platform"]
    assert found[0]["name"] in invoke("devices").out


def test_a_device_file_is_an_ordinary_architecture(device: Path, root: Path) -> None:
    spec = ff.load(root / "examples" / "three_matmuls" / "workload.yaml", device)
    assert spec.arch is not None and spec.opencl is not None
    assert spec.opencl.memories["MainMemory"] == "global"


def test_the_demo_on_small_sizes(invoke: Invoke, device: Path, root: Path, tmp_path: Path) -> None:
    folder = root / "examples" / "three_matmuls"
    files = [device, *(folder / f"{name}.yaml" for name in ("workload", "mapping_unfused", "mapping_fused"))]
    rows = 517
    ended = invoke("run", *files, "--set", f"M={rows}", "--repeats", 1, "--url", tmp_path / "facts.sqlite3", "--json")
    assert ended.code == 0
    found = json.loads(ended.out)["mappings"]
    assert found["unfused"]["outcome"] == found["fused"]["outcome"] == "ok"
    # T1 and T2 are each written once and staged once in local memory.
    assert found["unfused"]["intermediate_bytes"] == found["unfused"]["predicted_intermediate_bytes"] == 4 * rows * 64 * 4
    assert found["fused"]["intermediate_bytes"] == found["fused"]["predicted_intermediate_bytes"] == 0
    assert all(figures["predicted_time_s"] > 0 for figures in found.values())


def test_an_output_that_cannot_be_written(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "device.yaml"
    ended = invoke("calibrate", "--output", target)
    assert (ended.code, ended.out) == (1, "")
    text = f"error: cannot write {target}: there is no folder {tmp_path / 'file'}\n  Give another place with --output.\n"
    assert ended.err == text


def test_a_data_folder_that_cannot_be_is_named_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(ff.DeviceError, match=r"there is no folder .*\n  Set XDG_DATA_HOME to a folder that may be written"):
        known_device(find_device())


def test_a_place_that_cannot_be_written_is_said_before_anything_is_measured(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a read-only file system is injected: the superuser may write to what is merely marked so."""

    def refused(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "touch", refused)
    monkeypatch.setattr(calibration, "calibrate", lambda *_, **__: pytest.fail("it was measured"))
    ended = invoke("calibrate", "--output", tmp_path / "arch.yaml")
    assert (ended.code, ended.out) == (1, "")
    assert f"error: cannot write {tmp_path}/arch.yaml: Read-only file system\n  Give another place with --output.\n" in ended.err
