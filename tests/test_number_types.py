"""bfloat16 among the kinds of numbers, and as memory holds it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

from feinsum_fuse.arguments import element_type
from feinsum_fuse.cascades.terms import Tensor
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


ORDINARY = """
import sys
import numpy as np
import feinsum_fuse as ff
assert np.allclose(ff.einsum("ij,jk->ik", np.ones((3, 5), "float32"), np.ones((5, 4), "float32")), 5)
program = ff.compile("Z[m,n] = A[m,k] * B[k,n]", sizes={"M": 3, "K": 5, "N": 9})
assert "ml_dtypes" not in sys.modules
"""
NAMED = """
import numpy as np
import feinsum_fuse as ff
cascade = ff.cascade("Z[m,n] = A[m,k] * B[k,n]", sizes={"M": 3, "K": 5, "N": 9}, dtypes={"A": "bfloat16"})
program = ff.compile(cascade)
given = program.example.inputs
assert given["A"].dtype == "bfloat16"
assert np.allclose(program(**given)["Z"], given["A"].astype("float32") @ given["B"], rtol=1e-4)
"""
PICKLED = """
import pickle, sys
import numpy as np
assert np.dtype(pickle.loads(bytes.fromhex(sys.argv[1])).dtype).itemsize == 2
"""


def _end_of(*command: str) -> tuple[int, str]:
    """Of a new process: its exit status, and what it says of an error."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    ended = subprocess.run([sys.executable, "-c", *command], env=environment, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stderr


def test_ml_dtypes_is_not_waited_for_without_such_numbers() -> None:
    """Since 0.7 its import takes longer than all else that a program known from before needs."""
    assert _end_of(ORDINARY) == (0, "")


def test_names_of_bfloat16_are_known_wherever_they_come_from() -> None:
    """From a cascade, with nothing imported by the caller, the program found on disk the second time; from another process."""
    for _ in range(2):
        assert _end_of(NAMED) == (0, "")
    assert _end_of(PICKLED, pickle.dumps(Tensor("A", (3, 5), "bfloat16")).hex()) == (0, "")


def test_all_but_bfloat16_works_without_ml_dtypes(tmp_path: Path) -> None:
    """In a process, and children of it, to which the package is missing."""
    (tmp_path / "ml_dtypes.py").write_text("raise ImportError\n")
    paths = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": paths}
    ended = subprocess.run([sys.executable, "-c", PRODUCT], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
