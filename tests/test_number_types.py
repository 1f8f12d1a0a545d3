"""bfloat16 among the kinds of numbers, and as memory holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

from feinsum_fuse.arguments import element_type
from feinsum_fuse.errors import UnsupportedTypeError
from feinsum_fuse.number_types import as_held, as_numbers, epsilon, held_as, kind_of, largest, memory_type, numbers_of, scalar

VALUES = np.array([0.0, -0.0, 1.0, 1.00390625, 1.01171875, -3.0e38, 1e-40, np.inf, -np.inf, np.nan], np.float32)


@pytest.mark.parametrize(("dtype", "kind"), [("bfloat16", "f"), ("float16", "f"), ("int8", "i"), ("complex64", "c"), ("bool", "b")])
def test_kinds(dtype: str, kind: str) -> None:
    assert kind_of(dtype) == kind_of(np.dtype(dtype)) == kind


def test_limits() -> None:
    assert epsilon("bfloat16") == 2.0**-7 and epsilon("float32") == np.finfo("float32").eps
    assert largest("bfloat16") == float.fromhex("0x1.fep127") and largest("float64") == np.finfo("float64").max


def test_a_number_is_the_float32_that_it_is_the_beginning_of() -> None:
    assert scalar("bfloat16", 1.00390625) == 1.0 and type(scalar("bfloat16", 1)) is np.float32
    assert type(scalar("int8", 1)) is np.int8


def test_memory_holds_bits() -> None:
    numbers = VALUES.astype(bfloat16)
    held = held_as(numbers, "bfloat16")
    assert held.dtype == memory_type("bfloat16") == np.uint16 and np.shares_memory(held, numbers)
    assert held_as(held, "bfloat16") is held
    np.testing.assert_array_equal(held_as(VALUES, "bfloat16"), held)
    np.testing.assert_array_equal(numbers_of(held, "bfloat16"), numbers.astype(np.float32))
    assert as_numbers(as_held(numbers, "bfloat16"), "bfloat16").dtype == bfloat16
    assert as_held(VALUES, "float32") is as_numbers(VALUES, "float32") is numbers_of(VALUES, "float32") is VALUES


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(value: object) -> None:
        raise TypeError(value)

    monkeypatch.setattr("feinsum_fuse.arguments.np.dtype", unknown)
    with pytest.raises(UnsupportedTypeError, match="Install ml_dtypes"):
        element_type("bfloat16", UnsupportedTypeError)


PRODUCT = """
import numpy as np
import feinsum_fuse as ff
program = ff.compile("Z[m,n] = A[m,k] * B[k,n]", sizes={"M": 3, "K": 5, "N": 9})
given = program.example.inputs
assert np.allclose(program(**given)["Z"], given["A"] @ given["B"], rtol=1e-4)
"""


def test_all_but_bfloat16_works_without_ml_dtypes(tmp_path: Path) -> None:
    """In a process, and children of it, to which the package is missing."""
    (tmp_path / "ml_dtypes.py").write_text("raise ImportError\n")
    paths = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": paths}
    ended = subprocess.run([sys.executable, "-c", PRODUCT], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
