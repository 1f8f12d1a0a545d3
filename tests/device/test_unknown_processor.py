"""PoCL is told a processor that its compiler knows."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from feinsum_fuse.device.runtime.unknown_processor import NAMES, name_for

POCL_HERE = pytest.mark.skipif((platform.machine(), platform.system()) != ("x86_64", "Linux"), reason="other machine code")
ASKS = """
import ctypes
from pathlib import Path
import pyopencl as cl
from feinsum_fuse.device.runtime import unknown_processor as unknown
libraries = list(Path(cl.__file__).with_name(".libs").glob("libpocl*.so*"))
if not libraries:
    print("absent")
    raise SystemExit
library = ctypes.CDLL(str(libraries[0]))
"""


def asked(lines: str) -> list[str]:
    """What a process of its own prints, in which PoCL is changed."""
    printed = subprocess.run([sys.executable, "-c", ASKS + lines], capture_output=True, text=True, check=True).stdout.split()
    if printed == ["absent"]:
        pytest.skip("PoCL's wheel is not installed")
    return printed


def test_names_follow_from_features() -> None:
    """Those of the oldest processor that has a name of its own, and of one that has more than the first."""
    assert name_for(frozenset()) == b"x86-64"
    assert name_for(NAMES[b"haswell"] | {"avx512f"}) == b"haswell"
    assert name_for(NAMES[b"haswell"] | NAMES[b"skylake-avx512"] | {"avx512vbmi"}) == b"skylake-avx512"


@POCL_HERE
def test_another_name_is_answered_each_time() -> None:
    """PoCL frees what it was answered."""
    lines = "name = b'some-name'\nassert unknown.answer(library, name)\nprint(*(unknown.asked(library).decode() for _ in range(3)))"
    assert asked(lines) == ["some-name"] * 3


@POCL_HERE
def test_no_generic_processor_is_left() -> None:
    """Whatever this machine is: its own name where the compiler knows it, another where it does not."""
    (own,) = asked("print(unknown.asked(library).decode())")
    (told,) = asked("unknown.name_processor()\nprint(unknown.asked(library).decode())")
    assert told != "generic"
    assert told == own or own == "generic"


@POCL_HERE
def test_a_library_without_the_function_is_left_alone() -> None:
    assert asked("print(unknown.asked(ctypes.CDLL(None)) == b'')") == ["True"]
