"""Processors that PoCL's compiler does not know, or takes for others with fewer instructions."""

from __future__ import annotations

import ctypes

import pyopencl as cl
import pytest

from feinsum_fuse.device.catalogue import devices
from feinsum_fuse.device.runtime import pocl_processor
from feinsum_fuse.device.runtime.loaded_executable import context_of
from feinsum_fuse.device.runtime.pocl_processor import DESCRIPTION_BYTES, POCL_PLATFORM, VARIANTS, name_processor, variant_of

KERNEL = "__kernel void one(__global float *x) { x[0] = 1; }"


@pytest.mark.parametrize(
    ("known", "variant"),
    [(0, "x86-64"), (1, "corei7"), (2, "haswell"), (3, "skylake-avx512"), (4, "cascadelake")],
)
def test_the_variant_is_that_of_all_instructions_below_it_too(known: int, variant: str) -> None:
    flags = [flag for _, some in reversed(VARIANTS) for flag in some.split()]
    below = {flag for _, some in list(reversed(VARIANTS))[:known] for flag in some.split()}
    assert variant_of(frozenset(below)) == variant
    missing = frozenset(flags) - {"fma"}
    assert variant_of(missing) == "corei7"


def test_pocl_builds_on_a_processor_that_its_compiler_does_not_know() -> None:
    """On others this only says that a kernel is built."""
    some = [device for device in devices() if device.platform.name.strip() == POCL_PLATFORM]
    assert some
    for device in some:
        assert cl.Program(context_of(device), KERNEL).build().num_kernels == 1


class _Device:
    """What is asked of a device, with a description that is no PoCL's."""

    class platform:
        name = POCL_PLATFORM

    type = cl.device_type.CPU

    def __init__(self, processor: str, description: int) -> None:
        self.version = f"OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-{processor}"
        self.int_ptr = description


OLD = frozenset(["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"])
NEW = frozenset(" ".join(needed for _, needed in VARIANTS).split())


@pytest.mark.parametrize(
    ("processor", "flags", "names", "changed"),
    [
        ("generic", OLD, 1, "corei7"),
        ("generic", OLD, 2, ""),
        ("generic", frozenset(), 1, ""),
        ("znver3", OLD, 1, ""),
        ("znver3", NEW, 1, "cascadelake"),  # a Zen 4 to a compiler that knows none
        ("znver3", NEW - {"avx512vl"}, 1, "haswell"),  # a Zen 3: functions are compiled for an Intel processor with AVX2
        ("icelake-client", NEW - {"avx512vl"}, 1, ""),
        ("icelake-client", NEW, 1, "cascadelake"),  # a Xeon to some hosts; a name with a dash
        ("rocketlake", NEW, 1, "cascadelake"),  # LLVM says that it lacks an instruction of those for which functions were compiled
        ("znver4", NEW, 1, ""),
        ("icelake-server", NEW, 1, ""),
    ],
)
def test_the_name_of_an_unknown_processor_is_replaced_where_it_is_clear(
    processor: str, flags: frozenset[str], names: int, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pocl_processor, "instruction_sets", lambda: flags)
    name = ctypes.create_string_buffer(processor.encode())
    description = (ctypes.c_void_p * (DESCRIPTION_BYTES // 8))()
    triple = ctypes.create_string_buffer(b"x86_64-unknown-linux-gnu")
    for place in range(names):
        description[4 + 2 * place] = ctypes.addressof(triple)
        description[5 + 2 * place] = ctypes.addressof(name)
    description[11] = 1 << 62  # no pointer: nothing is there
    description[20] = ctypes.addressof(name)  # what another object left
    assert name_processor(_Device(processor, ctypes.addressof(description))) is bool(changed)  # type: ignore[arg-type]
    found = description[5]
    assert found is not None
    assert ctypes.string_at(found) == (changed or processor).encode()


def test_a_description_without_the_name_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a later PoCL keeps it elsewhere: memory that is not there ends nothing."""
    monkeypatch.setattr(pocl_processor, "instruction_sets", lambda: frozenset(["sse4_2"]))
    assert not name_processor(_Device("generic", 8))  # type: ignore[arg-type]
