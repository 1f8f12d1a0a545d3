"""Where rounding decides on which side of a jump a value falls, both sides are right, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.reference.jumps import has_jumps, leanings
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.checking.verification import Verification, verify
from feinsum_fuse.mappings.default_mapping import default_spec

M = 1 << 17


def cascade_of(*einsums: str, dtype: str = "float32") -> Cascade:
    return ff.cascade(list(einsums), sizes={"M": M, "K": 4}, dtypes={"All": dtype})


FLOORS = cascade_of("Z[m] = floor(1000 * A[m] * B[m])")


def floors(dtype: type[np.floating]) -> np.ndarray:
    """What a kernel computes that rounds to a type."""
    a, b = (example(FLOORS).inputs[name].astype(dtype) for name in "AB")
    return np.floor(dtype(1000) * a * b)


def judged(found: np.ndarray, *, leaning: bool = True) -> Verification:
    trial = example(FLOORS)
    return verify({"Z": found}, trial.expected, FLOORS.tolerance(), trial.others if leaning else ())


def test_either_side_of_a_jump_is_right() -> None:
    assert judged(floors(np.float64), leaning=False).passed
    assert not judged(floors(np.float32), leaning=False).passed
    assert judged(floors(np.float32)).passed
    assert judged(floors(np.float64)).passed


def test_only_what_its_own_error_lets_an_argument_reach_is_right() -> None:
    trial = example(FLOORS)
    expected, up, down = (np.asarray(outputs["Z"]) for outputs in (trial.expected, *trial.others))
    near = np.flatnonzero((up != expected) | (down != expected))
    far = np.flatnonzero((up == expected) & (down == expected))
    assert 0 < near.size < M // 100
    for change in (1, -1):
        for at in far[:: M // 8]:
            found = expected.copy()
            found[at] = change
            assert not judged(found).passed
        for at in near[:12]:
            found = expected.copy()
            found[at] = change
            assert judged(found).passed == (found[at] in (up[at], down[at]))
            found[at] = change
            assert not judged(found).passed
            found[at] -= 1.5 * change
            assert not judged(found).passed


@pytest.mark.parametrize(
    "wrong",
    [np.ceil, np.trunc, np.rint, lambda x: np.floor(x + 0.01), lambda x: np.floor(x * 1.0001), lambda x: x],
    ids=["ceil", "trunc", "rint", "shifted", "scaled", "none"],
)
def test_wrong_functions_are_found(wrong: np.ufunc) -> None:
    inputs = example(FLOORS).inputs
    assert not judged(wrong(1000.0 * inputs["A"].astype(np.float64) * inputs["B"])).passed


EXACT = [
    cascade_of("Z[m] = floor(A[m])"),
    cascade_of("Z[m] = where(A[m] > B[m], A[m], 0)"),
    cascade_of("Z[m] = floor(A[m] * B[m])", dtype="int32"),
    cascade_of("Z[m] = where(m > 5, A[m] * B[m], 0)"),
    cascade_of("Z[m] = isnan(A[m] * B[m])"),
]


@pytest.mark.parametrize("cascade", EXACT, ids=[str(k) for k in range(len(EXACT))])
def test_exact_arguments_are_not_moved(cascade: Cascade) -> None:
    assert not has_jumps(cascade)
    assert example(cascade).others == ()


def test_no_other_results_where_nothing_is_near() -> None:
    cascade = ff.cascade(["Z[m] = floor(3 * A[m])"], sizes={"M": 3})
    assert leanings(cascade, {"A": np.array([0.5, 0.1, -0.2])}) == ()


@pytest.mark.parametrize(
    ("text", "expected", "up", "down"),
    [
        ("1.0 * A[m] < B[m]", [1, 0, 0], [1, 0, 0], [1, 1, 0]),
        ("1.0 * A[m] <= B[m]", [1, 1, 0], [1, 0, 0], [1, 1, 0]),
        ("1.0 * A[m] == B[m]", [0, 1, 0], [0, 1, 0], [0, 0, 0]),
        ("1.0 * A[m] != B[m]", [1, 0, 1], [1, 1, 1], [1, 0, 1]),
    ],
)
def test_comparisons(text: str, expected: list[int], up: list[int], down: list[int]) -> None:
    """The second element is a tie; the product with 1 has an error."""
    cascade = ff.cascade([f"Z[m] = where({text}, 1, 0)"], sizes={"M": 3})
    arrays = {"A": np.array([1.0, 2.0, 3.0]), "B": np.array([2.0, 2.0, 2.0])}
    np.testing.assert_array_equal(cascade.reference(**arrays)["Z"], expected)
    found = [outputs["Z"].tolist() for outputs in leanings(cascade, arrays)]
    assert found == [up, down]


def test_sums_of_jumps() -> None:
    """What one Einsum leans to, the next reads."""
    trial = example(cascade_of("T[m,k] = A[m,k] * B[k]", "R[m,k] = round(100 * T[m,k])", "Z[k] = R[m,k]"))
    up, down = (outputs["Z"] for outputs in trial.others)
    assert np.all(down < trial.expected["Z"])
    assert np.all(trial.expected["Z"] < up)
    assert np.all(up - down < M // 100)


@pytest.mark.parametrize(
    "einsums", [("Z[m] = floor(1000 * A[m] * B[m])",), ("T[m] = A[m] * B[m]", "Z[m] = where(T[m] > 0.7 * A[m], 1, 0)")]
)
def test_right_kernels_pass(einsums: tuple[str, ...]) -> None:
    """``compile`` raises if the check fails."""
    assert len(ff.compile(default_spec(cascade_of(*einsums))).example.others) == 2
