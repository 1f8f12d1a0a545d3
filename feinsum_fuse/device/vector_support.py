"""The vector registers that a device's compiler writes for.

The length that a driver reports is no guide: PoCL's was fixed when its package was built. What the compiler may use, it tells its
preprocessor. So a kernel is built whose work-group has as many items as a register has bytes, and its size is asked back. Nothing runs and
nothing is timed: the answer is the same under any load. It is kept on disk, for each device and driver.
"""

from __future__ import annotations

import functools
import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs
import pyopencl as cl

from ..codegen.executable import Executable
from ..schedule.target import Target
from ..whole_file import write_whole
from .runtime.host_processor import host_processor
from .runtime.loaded_executable import Loaded, context_of


@dataclass(frozen=True)
class VectorRegisters:
    """Of one core."""

    size: int
    """Bytes of one."""
    count: int


INSTRUCTION_SETS = (
    ("defined(__AVX512F__)", VectorRegisters(64, 32)),  # Intel SDM, volume 1, 15.2
    ("defined(__AVX__)", VectorRegisters(32, 16)),  # ... 14.1
    ("defined(__SSE__) && defined(__x86_64__)", VectorRegisters(16, 16)),  # ... 10.2
    ("defined(__ARM_NEON) && defined(__aarch64__)", VectorRegisters(16, 32)),  # Arm ARM, B1.2.1
    ("defined(__VSX__)", VectorRegisters(16, 64)),  # Power ISA, book I, 7.2.1
)
"""What the preprocessor defines -> what that instruction set has; the first that holds."""
_UNKNOWN = VectorRegisters(1, 1)


def vector_registers(device: cl.Device) -> VectorRegisters:
    """Those of a processor; of other devices, whose compilers decide on vectors themselves, a default target's."""
    if not device.type & cl.device_type.CPU:
        return VectorRegisters(Target.vector_bytes, Target.vector_registers)
    return _known(device)


@functools.cache
def _known(device: cl.Device) -> VectorRegisters:
    identity = (device.platform.name, device.name, device.driver_version, device.version, host_processor(), INSTRUCTION_SETS)
    digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    file = Path(platformdirs.user_cache_dir("feinsum_fuse")) / "vectors" / f"{digest}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):
        text = json.loads(file.read_text())
        return VectorRegisters(int(text["size"]), int(text["count"]))
    compiled = _compiled_for(device)
    if compiled is None:
        return _reported(device)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(asdict(compiled)))
    return compiled


def _compiled_for(device: cl.Device) -> VectorRegisters | None:
    """What the device's compiler says that it writes for; ``None`` if it says nothing that is known here."""
    cases = [
        f"#{'el' * bool(number)}if {condition}\n#define SHAPE {registers.size}, {registers.count}, 1\n"
        for number, (condition, registers) in enumerate(INSTRUCTION_SETS)
    ]
    otherwise = f"#else\n#define SHAPE {_UNKNOWN.size}, {_UNKNOWN.count}, 1\n#endif\n"
    kernel = "__kernel __attribute__((reqd_work_group_size(SHAPE)))\nvoid asked(__global int *x) { x[0] = 0; }\n"
    source = f"{''.join(cases)}{otherwise}{kernel}"
    try:
        program = Loaded(Executable(source, (), (), ()), context_of(device)).program
        shape = cl.Kernel(program, "asked").get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device)
    except cl.Error:
        return None
    found = VectorRegisters(int(shape[0]), int(shape[1]))
    return found if found in dict(INSTRUCTION_SETS).values() else None


def _reported(device: cl.Device) -> VectorRegisters:
    """By the lanes of float32 that OpenCL calls native. Only AVX-512 has registers of 64 bytes, of those sets that are known."""
    size = 4 * int(device.native_vector_width_float)
    found = next((registers for _, registers in INSTRUCTION_SETS if registers.size == size), None)
    return found or VectorRegisters(Target.vector_bytes, Target.vector_registers)
