"""Products of which each lane is one: register tiles go along two variables of rows, and what is gone through again is a panel near by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.mappings.choices import Noted
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.target import ANY_DEVICE, DeviceLimits, Target
from tests.cascades.randomness import random_inputs

TARGET = replace(
    ANY_DEVICE,
    units=2,
    vector_bytes=64,
    vector_registers=32,
    core_cache_bytes=2 << 20,
    limits=DeviceLimits(local_bytes=2 << 20),
)
BATCHES = "Z[i, j, c] = A[i, k, c] * B[j, k, c]"


def of(line: str, **sizes: int) -> Cascade:
    return ff.cascade([line], sizes=sizes)


def taken(cascade: Cascade, target: Target = TARGET) -> dict[str, object]:
    """What the default mapping decides."""
    noted = Noted()
    Family(default_space(suited(cascade, target), None, target), target).mapping(noted)
    return noted.taken


def test_tiles_go_along_two_variables_of_rows() -> None:
    """Along ``c`` nothing is used again: 13 rows of ``i`` were 14 loads for 13 multiply-adds. 5 by 5 are 10 for 25."""
    found = taken(of(BATCHES, I=130, J=130, K=130, C=32))
    assert (found["lane of Z"], found["second of Z"], found["along of Z"]) == ("c", "i", "j")
    assert (found["vectors of Z"], found["down of Z"]) == (5, 5)


@pytest.mark.parametrize(
    "cascade",
    [
        of("Z[i, j, c] = A[i, k, c] * B[j, k]", I=40, J=40, K=40, C=64),  # numbers of B are used for all lanes
        of("Z[i, j, c] = A[i, j, k, c] * B[k, c]", I=40, J=40, K=40, C=64),  # rows along both use B again, and nothing else
        of("Z[i, c] = A[i, k, c] * B[k, c]", I=40, K=40, C=64),  # a single variable of rows
    ],
)
def test_other_tiles_go_along_the_lanes(cascade: Cascade) -> None:
    found = taken(cascade)
    assert found["lane of Z"] == "c" and "along of Z" not in found


def test_what_each_row_goes_through_is_a_panel_of_vectors_side_by_side() -> None:
    """A vector of ``B`` for each ``k`` lies a row of ``c`` behind the one before."""
    found = taken(of(BATCHES, I=130, J=130, K=130, C=32))
    assert (found["copied of Z"], found["scope of B in Z"], found["block of Z"]) == (("B",), "block", None)
    assert taken(of(BATCHES, I=130, J=130, K=400, C=32))["block of Z"] == 126  # half of a core's cache


@pytest.mark.parametrize(
    ("cascade", "target"),
    [
        (of(BATCHES, I=130, J=130, K=130, C=16), TARGET),  # vectors are neighbours as they lie
        (of(BATCHES, I=30, J=30, K=130, C=32), TARGET),  # used too few times
        (of(BATCHES, I=130, J=130, K=130, C=32), replace(TARGET, limits=DeviceLimits(local_bytes=256 << 10))),  # room for 15 iterations
    ],
    ids=["neighbours", "few rows", "little memory"],
)
def test_no_panel(cascade: Cascade, target: Target) -> None:
    assert taken(cascade, target)["copied of Z"] == ()


LINES = [
    BATCHES,
    "Z[b, i, j, c] = A[b, i, k, c] * B[b, k, j, c]",
    "Z[i, j, c] = A[i, k, c] * A[I: j, k, c]",
    "Z[i, j, c] = A[i, k, c] * B[j, k, c] * W[k, c]",
    "Z[i, c, j] = A[k, i, c] * B[k, j, c]",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (7, 11, 5, 3), (53, 17, 23, 19), (50, 64, 131, 40)], ids=str)
def test_kernels_compute_the_same(line: str, sizes: tuple[int, int, int, int]) -> None:
    i, j, k, c = sizes
    named = {"I": i, "J": i if "I: j" in line else j, "K": k, "C": c, "B": 2}
    cascade = of(line, **{name: size for name, size in named.items() if name.lower() in line.split("=")[0] + "k"})
    arrays = {name: array.astype("float32") for name, array in random_inputs(cascade, 0).items()}
    np.testing.assert_allclose(ff.compile(cascade)(**arrays)["Z"], cascade.reference(**arrays)["Z"], rtol=2e-4, atol=1e-4)


def test_panels_for_a_part_of_the_reduction_compute_the_same() -> None:
    cascade = of(BATCHES, I=131, J=67, K=301, C=19)
    arrays = {name: array.astype("float32") for name, array in random_inputs(cascade, 0).items()}
    np.testing.assert_allclose(ff.compile(cascade)(**arrays)["Z"], cascade.reference(**arrays)["Z"], rtol=2e-4, atol=1e-4)
