"""What sums up nothing follows each register tile of the product whose sums it reads: where, and that kernels then compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.mappings.choices import Given, Noted
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.target import ANY_DEVICE, Target
from tests.cascades.randomness import random_inputs

TARGET = replace(ANY_DEVICE, units=2, vector_bytes=64, vector_registers=32)
PRODUCT = "T[m, n] = A[m, k] * W[k, n]"
SIZES = {"M": 900, "N": 256, "K": 60}


def of(*lines: str, **sizes: int) -> Cascade:
    return ff.cascade(list(lines), sizes=sizes or SIZES)


def mapping(cascade: Cascade, target: Target = TARGET, **given: object) -> tuple[str, dict[str, object]]:
    """The default mapping but for what is given, and what it decides."""
    noted = Noted(Given(given)) if given else Noted()
    cascade = suited(cascade, target)
    found = Family(default_space(cascade, None, target), target, outputs=cascade.outputs).mapping(noted)
    return str(found), noted.taken


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        ((PRODUCT, "Y[m, n] = max(T[m, n] + B[n], 0)"), "T"),
        ((PRODUCT, "U[m, n] = T[m, n] + B[n]", "Y[m, n] = max(U[m, n], 0) * U[m, n]"), "T U"),
        ((PRODUCT, "Y[i, j] = T[M: i, N: j] * C[i, j]"), "T"),
        (("S[m] = A[m, k]", PRODUCT, "Y[m, n] = T[m, n] / S[m]"), "T"),
        ((PRODUCT, "R[m, n] = max(T[m, n], 0)", "Y[m, l] = R[m, n] * V[n, l]"), "T"),
    ],
)
def test_what_follows_a_product(lines: tuple[str, ...], held: str) -> None:
    sizes = {**SIZES, "I": 900, "J": 256, "L": 80}
    cascade = of(*lines, **{name: n for name, n in sizes.items() if name.lower() in " ".join(lines)})
    text, taken = mapping(cascade)
    assert taken["followed of T"] is True and f"Register holds {held}\n" in text
    assert f"Scratchpad holds {held[-1]}" not in text


@pytest.mark.parametrize(
    "lines",
    [
        (PRODUCT, "Y[m, n] = gelu(T[m, n])"),  # takes longer than what is saved
        (PRODUCT, "Y[m] = T[m, n]"),  # sums up
        (PRODUCT, "Y[m, n] = T[m, n] * C[n, m]"),  # reads what is turned for its lanes
        (PRODUCT, "Y[n, m] = T[m, n] + B[n]"),  # writes across them
        (PRODUCT, "Y[m, n] = T[m, n] + B[n]", "Z[m, n] = T[m, n] * Y[m, n] + gelu(Y[m, n])"),  # the sums are read later, too
        ("T[m, n] = max(A[m, n], B[n])", "Y[m, n] = T[m, n] + B[n]"),  # no sums
    ],
)
def test_what_does_not_follow(lines: tuple[str, ...]) -> None:
    text, taken = mapping(of(*lines, **{name: n for name, n in SIZES.items() if name != "K" or "k" in lines[0]}))
    assert "followed of T" not in taken and "Register holds T Y" not in text


def test_sums_in_blocks_of_the_reduction_are_not_whole_yet() -> None:
    assert "followed of T" not in mapping(of(PRODUCT, "Y[m, n] = T[m, n] + B[n]"), block=8)[1]


def test_work_items_have_no_tiles_that_are_followed() -> None:
    target = replace(ANY_DEVICE, items_in_step=32)
    assert "followed of T" not in mapping(of(PRODUCT, "Y[m, n] = T[m, n] + B[n]"), target)[1]


CASCADES = [
    (PRODUCT, "Y[m, n] = max(T[m, n] + B[n], 0)"),
    (PRODUCT, "U[m, n] = T[m, n] + B[n]", "Y[i, j] = max(U[M: i, N: j], 0) * U[M: i, N: j] + C[j, i]"),
    (PRODUCT, "R[m, n] = max(T[m, n], 0)", "Y[m, l] = R[m, n] * V[n, l]", "Z[m, l] = Y[m, l] - D[l]"),
    ("T[b, m, n] = A[b, m, k] * W[b, n, k]", "Y[b, m, n] = T[b, m, n] - C[b, m]"),
    ("T[o, p] = X[c, W: p + s] * F[o, c, s]", "Y[o, p] = max(T[o, p] + B[o], 0)"),
]


@pytest.mark.parametrize("lines", CASCADES, ids=[lines[-1] for lines in CASCADES])
@pytest.mark.parametrize("size", [(1, 1, 1), (7, 130, 131), (53, 257, 150), (131, 67, 301)], ids=str)
def test_kernels_compute_the_same(lines: tuple[str, ...], size: tuple[int, int, int]) -> None:
    """What all rows use is more than the nearest cache holds in most."""
    (m, n, k), text = size, " ".join(lines)
    sizes = {"M": m, "N": n, "K": k, "I": m, "J": n, "L": 5, "B": 2, "C": k, "O": m, "P": n, "S": 3, "W": n + 2}
    cascade = of(*lines, **{name: number for name, number in sizes.items() if f"[{name.lower()}" in text or f" {name.lower()}" in text})
    arrays = {name: array.astype("float32") for name, array in random_inputs(cascade, 0).items()}
    found, expected = ff.compile(cascade)(**arrays), cascade.reference(**arrays)
    for name in cascade.outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-3)
