"""Finding devices, and telling the loader about runtimes that nobody announced."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyopencl as cl
import pytest

from feinsum_fuse.device import catalogue
from feinsum_fuse.device.calibration.caches import (
    FAR_LINE_COST,
    LAST_CACHE,
    LOAD_COST,
    OWN_LINE_COST,
    OWN_LINE_LOSS,
    SUMS_AT_ONCE,
    caches,
    shared_cache,
)
from feinsum_fuse.device.catalogue import DeviceInfo, device_of, find_device
from feinsum_fuse.device.runtime import runtimes
from feinsum_fuse.errors import DeviceError
from feinsum_fuse.schedule.target import Target


def test_default_is_pocl() -> None:
    assert find_device().platform.name == catalogue.POCL_PLATFORM


@pytest.mark.parametrize("name", ["portable", "POCL", "pthread"])
def test_device_by_part_of_a_name(name: str) -> None:
    assert find_device(name) == find_device()


def test_targets_have_the_caches_and_cores_that_there_are() -> None:
    device = find_device()
    found, own = catalogue.target(device), [cache.size for cache in caches(device) if not cache.shared]
    assert found.units == DeviceInfo.of(device).units
    assert not own or (found.nearest_cache_bytes, found.core_cache_bytes) == (own[-1], max(own))


def test_of_the_last_cache_counts_what_a_calibration_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest of a virtual machine is told of all of its host's cache."""
    device, file = find_device(), tmp_path / "device.yaml"
    monkeypatch.setattr(catalogue, "default_file", lambda device: file)
    told = shared_cache(device)
    assert catalogue.target(device).last_cache_bytes == told
    texts = {"{}": told, f"arch:\n  variables:\n    {LAST_CACHE}: 4096.0\n": min(told, 4096)}
    texts |= {f"    {LAST_CACHE}: {wrong}": told for wrong in ("1e+99", "e")}
    for text, share in texts.items():
        file.write_text(text)
        assert catalogue.target(device).last_cache_bytes == share
    file.write_bytes(b"\xff\xfe")
    assert catalogue.target(device).last_cache_bytes == told


@pytest.mark.parametrize("name", [LOAD_COST, FAR_LINE_COST, OWN_LINE_COST, OWN_LINE_LOSS, SUMS_AT_ONCE])
def test_lines_cost_what_a_calibration_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device, file = find_device(), tmp_path / "device.yaml"
    monkeypatch.setattr(catalogue, "default_file", lambda device: file)
    found = catalogue.target(device)
    usual = getattr(found, name)
    assert usual == getattr(Target, name) * (Target.vector_bytes / found.vector_bytes if name == OWN_LINE_COST else 1)
    for figure, cost in (("0.0", 0.0), ("1.7e-05", 1.7e-5), ("15.1", 15.1), ("-3.0", usual)):
        file.write_text(f"arch:\n  variables:\n    {name}: {figure}\n")
        assert getattr(catalogue.target(device), name) == cost


def test_unknown_device_lists_what_exists() -> None:
    with pytest.raises(DeviceError) as caught:
        find_device("abacus")
    message = str(caught.value)
    assert message.startswith("no OpenCL device matches 'abacus'\n  Give part of a platform's or device's name,")
    assert f"There are:\n    1  {DeviceInfo.of(find_device())}" in message


@pytest.mark.parametrize("text", [3, b"pocl", 1.0])
def test_what_is_no_text_names_no_device(text: object) -> None:
    with pytest.raises(DeviceError, match="is no name of a device"):
        find_device(text)  # type: ignore[arg-type]


def test_no_device_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> list[cl.Platform]:
        raise cl.LogicError("clGetPlatformIDs", -1001, "")

    monkeypatch.setattr(cl, "get_platforms", nothing)
    with pytest.raises(DeviceError) as caught:
        find_device()
    assert str(caught.value).startswith("no OpenCL device was found\n  ")


def test_description_round_trips_and_finds_its_device() -> None:
    info = DeviceInfo.of(find_device())
    assert DeviceInfo.from_json(info.to_json()) == info
    assert device_of(info) == find_device()
    assert info.kind == "cpu" and 1 <= info.units <= (os.cpu_count() or 1)


def announce_in_new_process(vendors: str | None, cache: Path) -> list[str]:
    """The platforms that a fresh process sees."""
    code = "import feinsum_fuse.device.catalogue as c; print(*dict.fromkeys(d.platform.name for d in c.devices()), sep='\\n')"
    environment = {k: v for k, v in os.environ.items() if k != runtimes.VENDORS} | {"XDG_CACHE_HOME": str(cache)}
    if vendors is not None:
        environment[runtimes.VENDORS] = vendors
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


INTEL_EXPECTED = ["Intel(R) OpenCL"] if runtimes.intel_library() else []


def test_both_runtimes_are_listed_pocl_first(tmp_path: Path) -> None:
    assert announce_in_new_process(None, tmp_path) == [catalogue.POCL_PLATFORM, *INTEL_EXPECTED]


def test_broken_icd_of_the_package_is_replaced(tmp_path: Path) -> None:
    broken = tmp_path / "vendors"
    broken.mkdir()
    (broken / "intel-cpu.icd").write_text("/opt/nowhere/lib/libintelocl.so\n")
    assert announce_in_new_process(str(broken), tmp_path) == [catalogue.POCL_PLATFORM, *INTEL_EXPECTED]


def test_library_of_a_driver_without_icd_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "lib" / runtimes.NVIDIA
    library.parent.mkdir()
    library.touch()
    system = tmp_path / "system"
    system.mkdir()
    (system / "other.icd").write_text("libother.so.1\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    monkeypatch.setenv(runtimes.VENDORS, str(system))
    directory = runtimes.announce(tmp_path / "cache")
    assert directory is not None and os.environ[runtimes.VENDORS] == str(directory)
    assert (directory / "feinsum-fuse-nvidia.icd").read_text() == f"{library}\n"
    assert (directory / "other.icd").read_text() == "libother.so.1\n"
    assert runtimes.announce(tmp_path / "cache") is None  # nothing is left to announce


def test_missing_compiler_of_a_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runtimes.missing_part(catalogue.POCL_PLATFORM) == ""
    if runtimes.nvidia_library(runtimes.NVIDIA_COMPILER) is None:
        expected = "libnvidia-nvvm.so.4 is not installed; NVIDIA's OpenCL compiler needs it."
        assert runtimes.missing_part("NVIDIA CUDA") == expected
    (tmp_path / runtimes.NVIDIA_COMPILER).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert runtimes.missing_part("NVIDIA CUDA") == ""


def test_a_user_s_choice_of_one_driver_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtimes.VENDORS, "libonly.so")
    assert runtimes.announce(tmp_path) is None
    assert os.environ[runtimes.VENDORS] == "libonly.so"


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    library = tmp_path / runtimes.NVIDIA
    library.touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv(runtimes.VENDORS, str(tmp_path))
    directory = runtimes.announce(blocked)
    assert directory is not None and (directory / "feinsum-fuse-nvidia.icd").exists()


@pytest.mark.parametrize(("all_of_them", "chosen", "found"), [(True, None, "1"), (False, None, None), (True, "0", "0")])
def test_threads_stay_on_cores_of_their_own(
    monkeypatch: pytest.MonkeyPatch, all_of_them: bool, chosen: str | None, found: str | None
) -> None:
    """Unless the user says otherwise, or the process may not use every processor, whose numbers PoCL would not know."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3} if all_of_them else {2, 3}, raising=False)
    monkeypatch.setenv(runtimes.AFFINITY, "")
    monkeypatch.delenv(runtimes.AFFINITY)
    if chosen is not None:
        monkeypatch.setenv(runtimes.AFFINITY, chosen)
    runtimes.prepare()
    assert os.environ.get(runtimes.AFFINITY) == found


def test_groups_of_two_are_loops_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(runtimes.REPLICATION, raising=False)
    runtimes.prepare()
    assert os.environ[runtimes.REPLICATION] == "1"
    monkeypatch.setenv(runtimes.REPLICATION, "2")
    runtimes.prepare()
    assert os.environ[runtimes.REPLICATION] == "2"


def test_another_thread_may_find_that_the_folder_is_to_be_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Expiring(tuple[str | None, str | None, float]):
        """Found good just now, and no longer known as soon as somebody has begun to read it."""

        def __getitem__(self, place: Any) -> Any:
            runtimes._seen = None
            return super().__getitem__(place)

    monkeypatch.setattr(runtimes, "_seen", Expiring((*runtimes._folders(), time.monotonic())))
    runtimes.enter()
