"""What is missing for a vendor's GPU is named: its driver's library, what that needs, the kernel's driver, or permission."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from feinsum_fuse.device.runtime import vendors
from feinsum_fuse.device.runtime.vendors import VENDORS, Vendor, complaints

NVIDIA, AMD, INTEL = VENDORS
PATIENCE = 600
"""Seconds: a machine in use by others takes longer to start a process."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine's buses, nodes and libraries, with nothing in them."""
    for name, at in (("PCI", "pci"), ("NODES", "dev")):
        (tmp_path / at).mkdir()
        monkeypatch.setattr(vendors, name, tmp_path / at)
    monkeypatch.setattr(vendors, "LOAD_SECONDS", PATIENCE)
    (tmp_path / "lib").mkdir()
    monkeypatch.setattr(vendors, "system_folders", lambda: iter([tmp_path / "lib"]))
    return tmp_path


def plug(machine: Path, vendor: Vendor, kind: str = "0x030200") -> None:
    device = machine / "pci" / "0000:01:00.0"
    device.mkdir(exist_ok=True)
    (device / "class").write_text(f"{kind}\n")
    (device / "vendor").write_text(f"{vendor.pci}\n")


def test_a_machine_without_a_gpu_lacks_nothing(machine: Path) -> None:
    assert list(complaints([])) == []
    plug(machine, NVIDIA, kind="0x020000")  # a network card
    assert list(complaints([])) == []


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_each_missing_thing_is_named(machine: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    plug(machine, vendor)
    if vendors.library(vendor) is not None:
        pytest.skip("the driver is installed here")
    assert list(complaints([f"{vendor.platform} of some version"])) == []
    (text,) = complaints(["Portable Computing Language"])
    assert text.startswith(f"{vendor.name}'s GPU is in this machine") and vendor.library in text and text.endswith(vendor.advice)
    library = machine / "lib" / vendor.library
    library.write_text("no library")
    (text,) = complaints([])
    assert f"{library} cannot be loaded: " in text and ("invalid ELF header" in text or "file too short" in text)
    monkeypatch.setattr(vendors, "loading_fault", lambda _: "")
    (text,) = complaints([])
    assert "the kernel's driver is not loaded" in text
    node = machine / "dev" / vendor.nodes[0].replace("[0-9]*", "0").replace("*", "128")
    node.parent.mkdir(exist_ok=True)
    node.touch()
    (text,) = complaints([])
    assert "lists no device" in text and all(part in text for part in vendor.parts if vendors.library(vendor, part) is None)


def test_a_driver_s_node_tells_of_a_gpu_where_the_bus_is_hidden(machine: Path) -> None:
    (machine / "dev" / "kfd").touch()
    (text,) = complaints([])
    assert text.startswith("AMD's GPU")


def test_a_library_that_loads_has_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import _ctypes

    monkeypatch.setattr(vendors, "ENTRY", "PyInit__ctypes")
    monkeypatch.setattr(vendors, "LOAD_SECONDS", PATIENCE)
    assert vendors.loading_fault(Path(_ctypes.__file__)) == ""
    assert "cannot open shared object file" in vendors.loading_fault(tmp_path / "libnothing.so")


def elf(folder: Path, *, bits: int) -> Path:
    """The head of a library for so many bits, with nothing behind it."""
    library = folder / "libheader.so"
    library.write_bytes(b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9) + bytes([3, 0, 3 if bits == 32 else 62, 0]) + bytes(4096))
    return library


def test_what_is_no_driver_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No OpenCL function in it, another word size, no permission, a crash and a hang as it is loaded."""
    import _ctypes

    monkeypatch.setattr(vendors, "LOAD_SECONDS", PATIENCE)
    assert f"undefined symbol: {vendors.ENTRY}" in vendors.loading_fault(Path(_ctypes.__file__))
    assert "wrong ELF class: ELFCLASS32" in vendors.loading_fault(elf(tmp_path, bits=32))
    answers: list[object] = [subprocess.CompletedProcess([], -signal.SIGSEGV, "", ""), subprocess.TimeoutExpired([], vendors.LOAD_SECONDS)]

    def run(*_: object, **__: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(subprocess, "run", run)
    assert "dies of SIGSEGV" in vendors.loading_fault(tmp_path / "crash.so")
    assert f"more than {vendors.LOAD_SECONDS} s" in vendors.loading_fault(tmp_path / "hang.so")
