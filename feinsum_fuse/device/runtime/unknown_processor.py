"""PoCL on a processor that is younger than the compiler inside it.

PoCL compiles for the processor by its name. Where the compiler does not know the family it says ``generic``, which it then refuses itself:
every build fails with ``unknown target CPU 'generic'`` (PoCL 3.0 with LLVM 14 on AMD's family 26). No variable of the environment names
another one, so the function that asks for the name is replaced in memory, before PoCL looks for devices.

The name is that of the processor for which the library of OpenCL's functions was built that PoCL takes by the processor's features: those
functions are only inlined into code for a processor that has all features of theirs, and vectors are handed over alike.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from pathlib import Path

import pyopencl as cl
from constantdict import constantdict

ASKING = "pocl_get_llvm_cpu_name"
UNKNOWN = b"generic"
NAMES = constantdict(
    {
        b"skylake-avx512": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
        b"haswell": frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"}),
        b"x86-64": frozenset[str](),
    }
)
"""Name -> what a processor must have for it, as Linux lists it; the first that fits is taken."""
READ_EXECUTE, WRITE = 5, 2
"""Of ``mprotect``."""
PAGE = 4096

_named: list[bytes] = []
"""The name that PoCL is told, kept as long as the process runs."""


@cache
def name_processor() -> None:
    """Tell PoCL's compiler, if the wheel of it is installed, what to compile for where it does not know; once."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return
    for file in sorted(Path(cl.__file__).with_name(".libs").glob("libpocl*.so*")):
        try:
            library = ctypes.CDLL(str(file))
        except OSError:
            continue  # the OpenCL loader says so, too
        if asked(library) == UNKNOWN:
            _named.append(name_for(_features()))
            answer(library, _named[-1])


def name_for(features: frozenset[str]) -> bytes:
    """The name for a processor with these features."""
    return next(name for name, needed in NAMES.items() if needed <= features)


def asked(library: ctypes.CDLL) -> bytes:
    """The name for which a PoCL compiles; empty for one that has no such function."""
    try:
        function = getattr(library, ASKING)
    except AttributeError:
        return b""
    function.restype = ctypes.c_char_p
    return bytes(function() or b"")


def answer(library: ctypes.CDLL, name: bytes) -> bool:
    """Let the function return copies of ``name``, which must stay alive; false if the system does not let its code be changed."""
    system = ctypes.CDLL(None)
    address, copy = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (getattr(library, ASKING), system.strdup))
    text = ctypes.cast(ctypes.c_char_p(name), ctypes.c_void_p).value or 0
    # mov rdi, text; mov rax, copy; jmp rax
    code = b"\x48\xbf" + text.to_bytes(8, "little") + b"\x48\xb8" + copy.to_bytes(8, "little") + b"\xff\xe0"
    first = address - address % PAGE
    pages = ctypes.c_void_p(first), ctypes.c_size_t(address + len(code) - first)
    if system.mprotect(*pages, READ_EXECUTE | WRITE):
        return False
    ctypes.memmove(address, code, len(code))
    system.mprotect(*pages, READ_EXECUTE)
    return True


def _features() -> frozenset[str]:
    """What the first processor has, as Linux lists it; nothing where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())
