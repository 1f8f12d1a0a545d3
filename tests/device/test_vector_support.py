"""What registers a device's compiler writes for, by whom it is said and where that is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import platformdirs
import pyopencl as cl
import pytest

from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device import vector_support
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.runtime.loaded_executable import Loaded, queue_of
from feinsum_fuse.device.vector_support import INSTRUCTION_SETS, VectorRegisters, vector_registers
from feinsum_fuse.schedule.target import Target


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the user's, and nothing remembered by the process."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_: str(tmp_path))
    monkeypatch.setattr(vector_support, "_known", vector_support._known.__wrapped__)
    return tmp_path / "vectors"


def test_the_compiler_says_what_it_writes_for(cache: Path) -> None:
    """A kernel that runs sees the same macros; what it answers is kept for the next process."""
    device = find_device()
    found = vector_registers(device)
    lines = [f"#if {condition}\n  x[{k}] = 1;\n#endif" for k, (condition, _) in enumerate(INSTRUCTION_SETS)]
    queue = queue_of(device)
    program = Loaded(Executable("__kernel void seen(__global int *x) {\n" + "\n".join(lines) + "\n}", (), (), ()), queue.context).program
    held = np.zeros(len(INSTRUCTION_SETS), np.int32)
    buffer = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=held)
    cl.Kernel(program, "seen")(queue, (1,), (1,), buffer)
    cl.enqueue_copy(queue, held, buffer)
    assert found == next(registers for one, (_, registers) in zip(held, INSTRUCTION_SETS, strict=True) if one)
    (file,) = cache.iterdir()
    assert VectorRegisters(**json.loads(file.read_text())) == found
    assert (target(device).vector_bytes, target(device).vector_registers) == (found.size, found.count)


def test_what_is_kept_is_not_asked_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = find_device()
    vector_registers(device)
    (file,) = cache.iterdir()
    file.write_text(json.dumps({"size": 16, "count": 8}))
    monkeypatch.setattr(vector_support, "_compiled_for", lambda device: pytest.fail("asked again"))
    assert vector_registers(device) == VectorRegisters(16, 8)


@pytest.mark.parametrize("damaged", ["", "[]", "{}", '{"size": null, "count": 1}', "\x00"])
def test_a_damaged_file_is_written_anew(cache: Path, damaged: str) -> None:
    device = find_device()
    found = vector_registers(device)
    (file,) = cache.iterdir()
    file.write_text(damaged)
    assert vector_registers(device) == found
    assert VectorRegisters(**json.loads(file.read_text())) == found


class Reporting:
    """A device of a compiler that says nothing."""

    platform = type("Platform", (), {"name": "none"})
    name = driver_version = version = "none"

    def __init__(self, kind: int, lanes: int) -> None:
        self.type = kind
        self.native_vector_width_float = lanes


@pytest.mark.parametrize(("lanes", "size", "count"), [(16, 64, 32), (8, 32, 16), (4, 16, 16), (1, 32, 16), (0, 32, 16)])
def test_without_a_word_of_the_compiler_what_opencl_reports_counts(
    cache: Path, monkeypatch: pytest.MonkeyPatch, lanes: int, size: int, count: int
) -> None:
    monkeypatch.setattr(vector_support, "_compiled_for", lambda device: None)
    assert vector_registers(Reporting(cl.device_type.CPU, lanes)) == VectorRegisters(size, count)  # type: ignore[arg-type]
    assert not cache.exists()


def test_other_devices_keep_the_neutral_figures() -> None:
    assert vector_registers(Reporting(cl.device_type.GPU, 1)) == VectorRegisters(Target.vector_bytes, Target.vector_registers)  # type: ignore[arg-type]
