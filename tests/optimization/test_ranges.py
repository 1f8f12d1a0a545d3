"""One program for a range of lengths: right at every one, and told apart by the arrays that come."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.optimization.ranges import RangedProgram
from tests.cascades.randomness import largest_error, run

N, K = 40, 33


def product(text: str = "C[i,j] = sum(k, A[i,k]*B[k,j])") -> lp.TranslationUnit:
    shapes = {"A": ("M", K), "B": (K, N), "C": ("M", N)}
    arguments = [lp.GlobalArg(name, np.float32, shape=shape) for name, shape in shapes.items()]
    domain = f"[M] -> {{[i,j,k] : 0 <= i < M and 0 <= j < {N} and 0 <= k < {K}}}"
    return lp.make_kernel(domain, text, [*arguments, lp.ValueArg("M", np.int32)], assumptions="M >= 1", lang_version=(2018, 2))


@pytest.fixture(scope="module")
def program() -> RangedProgram:
    return ff.optimize_range(product(), find_device("portable"), {"M": (2, 300)}, points=2)


def operands(m: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(m)
    return {"A": generator.random((m, K), np.float32), "B": generator.random((K, N), np.float32)}


@pytest.mark.parametrize("m", [2, 3, 31, 129, 300])
def test_all_lengths_of_the_range_are_computed(program: RangedProgram, m: int) -> None:
    arrays = operands(m)
    assert largest_error(program(**arrays)["C"], arrays["A"].astype(float) @ arrays["B"]) < 1e-5


def test_the_nearest_points_kernel_is_taken_and_can_be_had(program: RangedProgram) -> None:
    points = sorted(point for part in program.parts for point in part.points)
    assert {(2,), (3,), (300,)} <= set(points)
    assert len(set(points)) == len(points)
    assert points[0] in program.part((2,)).points
    assert (300,) in program.part((250,)).points
    arrays = operands(77)
    assert largest_error(run(program.part((77,)).kernel, **arrays)["C"], arrays["A"].astype(float) @ arrays["B"]) < 1e-5
    assert repr(program).startswith("program for M in [2, 300] on ")


def test_one_build_serves_all_lengths(program: RangedProgram) -> None:
    first, second = program.ready((32,)), program.ready((33,))
    assert first is not second
    assert first.executable.source == second.executable.source
    assert program.ready((33,)) is second
    assert second.input_names == ("A", "B")
    arrays = operands(33)
    assert np.array_equal(program(**arrays, M=np.int32(33))["C"], second(arrays)["C"])  # what arrays tell may be given besides


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"A": np.ones((1, K), np.float32), "B": np.ones((K, N), np.float32)}, r"M is 1, and the program is for 2 to 300"),
        ({"A": np.ones((4, K + 1), np.float32), "B": np.ones((K, N), np.float32)}, r"A"),
        ({"B": np.ones((K, N), np.float32)}, r"array A, by whose axis 0 the length M is told, is missing"),
        ({"A": 1.0, "B": np.ones((K, N), np.float32)}, r"array A, by whose axis 0 the length M is told, is missing or has fewer"),
    ],
)
def test_what_is_no_call(program: RangedProgram, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ff.DeviceError, match=message):
        program(**arrays)


@pytest.mark.parametrize(
    ("kernel", "sizes", "message"),
    [
        (product(), {"N": (1, 2)}, "ranges of N are given, and the kernel's symbolic lengths are: M"),
        (product(), {}, "ranges of nothing are given"),
        (product(), {"M": (0, 4)}, "no range of lengths"),
        (product(), {"M": (8, 4)}, "no range of lengths"),
        (product(), {"M": (8,)}, "no range of lengths"),
        (product(), {"M": 8}, "no range of lengths"),
        (lp.fix_parameters(product(), M=4), {"M": (1, 4)}, "symbolic lengths are: none"),
    ],
)
def test_what_is_no_range(kernel: lp.TranslationUnit, sizes: dict[str, tuple[int, int]], message: str) -> None:
    with pytest.raises(ff.MatchError, match=message):
        ff.optimize_range(kernel, find_device("portable"), sizes)
