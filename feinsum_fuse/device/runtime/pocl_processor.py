"""A name for a processor that PoCL's compiler does not know, or takes for one with fewer instructions.

PoCL asks LLVM which processor it runs on. LLVM tells AMD's by family, so of a later family it says ``generic``, which is no processor to
Clang on x86: no kernel is built (``unknown target CPU 'generic'``). No setting of PoCL names another. So where a device is to be compiled
for ``generic``, the name in PoCL's description of it is replaced.

So it is where LLVM takes a processor for an older one of its family that has no AVX-512: a Zen 4 is ``znver3`` to LLVM 14, which then
writes vectors of half the length for 16 registers of 32, and inlines none of the functions that PoCL has built with AVX-512. And so it is
where LLVM takes it for one with AVX-512 that lacks another instruction of the library's processor: a Xeon that says to be of a desktop's
family is ``rocketlake``, which to LLVM has no CLWB, and each ``fabs``, ``rsqrt`` and ``min`` is a call for that. A Zen 3 is ``znver3``, and
the library's variant for AVX2 is compiled for Intel's ``haswell``: each ``sqrt`` is a call.

By the name of which processor is a matter of speed. PoCL's library of functions comes in variants, each compiled for one processor,
and PoCL takes the one whose instructions this processor has. LLVM inlines a function only into code for a processor that has all features
of the function's own; a level of x86-64, ``x86-64-v4``, lacks some, so that each ``fma`` is a call (10 GFLOP/s in place of 130 to 280 on
two cores of a Zen 5). So the name is that of the library's variant, or of a processor that has all of its features and the dot products of
bytes besides (VNNI).
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import pyopencl as cl

from .host_processor import instruction_sets

POCL_PLATFORM = "Portable Computing Language"
MEMORY = Path("/proc/self/mem")
UNKNOWN = "generic"
TRIPLE = b"x86_64-"
"""How that begins which PoCL compiles for."""
AVX_512 = "avx512bw avx512cd avx512dq avx512f avx512vl"
VARIANTS = (
    ("cascadelake", "avx512_vnni"),
    ("skylake-avx512", AVX_512),
    ("haswell", "abm avx avx2 bmi1 bmi2 f16c fma movbe"),
    ("corei7", "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"),
)
"""The processor of a variant, and one that has more than the highest of them -> what Linux calls the instructions that it has besides those
of the processors below it."""
LOWEST = "x86-64"
LESSER = {
    **dict.fromkeys(("znver1", "znver2", "znver3"), ("cascadelake", "skylake-avx512", "haswell")),
    **dict.fromkeys(("cannonlake", "icelake-client", "rocketlake"), ("cascadelake", "skylake-avx512")),
}
"""What LLVM takes a processor for that lacks, to LLVM, some feature of the library's variant for it -> the variants of which that is so.
With AVX-512 AMD's lack all of that, and Intel's CLWB, of which no kernel makes use; with AVX2 AMD's lack something of ``haswell``."""
DESCRIPTION_BYTES = 4096
"""Of PoCL's description of a device those in which the name is looked for: that of PoCL 3.0 has it at 640."""
_POINTER = struct.Struct("=Q")


def variant_of(flags: frozenset[str]) -> str:
    """The highest variant all of whose instructions, and of those below it, a processor with these flags has."""
    found = LOWEST
    for name, needed in reversed(VARIANTS):
        if not flags.issuperset(needed.split()):
            break
        found = name
    return found


@functools.cache
def name_processor(device: cl.Device) -> bool:
    """Have PoCL compile for the processor of its library where it knows no better; whether anything was changed.

    Everything else is left alone: other platforms, processors that LLVM knows, and systems where memory cannot be looked at safely.
    """
    if device.platform.name.strip() != POCL_PLATFORM or not device.type & cl.device_type.CPU or "x86_64" not in device.version:
        return False
    told, flags = _told(device.version), instruction_sets()
    variant = variant_of(flags)
    if not flags or not told or variant not in LESSER.get(told, (variant,)):
        return False
    try:
        with MEMORY.open("rb", buffering=0) as memory:
            places = list(_places(memory, device.int_ptr, told.encode() + b"\0"))
    except OSError:
        return False
    if len(places) != 1:
        return False
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p
    ctypes.c_void_p.from_address(places[0]).value = libc.strdup(variant.encode())
    return True


def _told(version: str) -> str:
    """The name, if it is one to be replaced: it ends what is compiled for, and may have a dash in it as that has."""
    return next((name for name in (UNKNOWN, *LESSER) if version.strip().endswith(f"-{name}")), "")


def _places(memory: BinaryIO, description: int, told: bytes) -> Iterator[int]:
    """Where a description points to the name of the processor: behind the pointer to what is compiled for, since a pointer that
    some other object left near it may lead to such a name as well. Read as a file, memory that is not there is an error, no crash.
    """
    memory.seek(description)
    pointers = [pointer for (pointer,) in _POINTER.iter_unpack(_whole_pointers(memory.read(DESCRIPTION_BYTES)))]
    for number, pair in enumerate(pairwise(pointers), start=1):
        triple, name = (_text(memory, pointer, len(told)) for pointer in pair)
        if name == told and triple.startswith(TRIPLE):
            yield description + number * _POINTER.size


def _text(memory: BinaryIO, pointer: int, size: int) -> bytes:
    """The first bytes that a pointer leads to; none where it leads nowhere."""
    try:
        memory.seek(pointer)
        return memory.read(size)
    except (OSError, ValueError, OverflowError):
        return b""


def _whole_pointers(data: bytes) -> bytes:
    return data[: len(data) // _POINTER.size * _POINTER.size]
