"""Convolutions, whose windows overlap: the search against brute force, and tiles with remainders."""

from __future__ import annotations

import pytest

import feinsum_fuse as ff
from tests.sweeps import SLOW

from .brute_force import BruteForce
from .specs import spec, two_memories, workload

WINDOW = "{einsum: 'O[p,k] = I[H: p + r] * W[r,k]', iteration_space_shape: [0 <= p < 4, 0 <= r < 2]}"
STRIDED = "{einsum: 'O[p] = I[H: 2*p + r] * W[r]', iteration_space_shape: [0 <= p < 4, 0 <= r < 3]}"
FUSED = "{einsum: 'T[p] = A[p]', iteration_space_shape: [0 <= p < 4]}"
READER = "{einsum: 'O[p,k] = T[p] * W[k]', iteration_space_shape: [0 <= p < 4]}"


@pytest.mark.parametrize("size", [30, 60, 100] if SLOW else [60])
@pytest.mark.parametrize("einsums", [[WINDOW], [STRIDED], [FUSED, READER]], ids=["window", "stride", "fused"])
def test_windows_against_brute_force(einsums: list[str], size: int) -> None:
    case = spec(two_memories(size), workload(einsums, K=2))
    best = BruteForce(case).optima()
    for objective in ("energy", "latency"):
        assert ff.search(case, objective).value == pytest.approx(best[objective].value), objective  # type: ignore[arg-type]


@pytest.mark.skipif(not SLOW, reason="brute force takes ten seconds here; runs with FEINSUM_FUSE_SLOW=1")
def test_an_input_that_three_einsums_share_against_brute_force() -> None:
    einsums = ["V[m,n] = I[m] * A[n]", "K[m,n] = I[m] * B[n]", "Z[m] = V[m,n] * K[m,n]"]
    case = spec(two_memories(40), workload(einsums, M=4, N=2))
    assert ff.search(case).value == pytest.approx(BruteForce(case).optima()["energy"].value)


def test_remainders_may_be_worth_it() -> None:
    case = spec(two_memories(150), workload(["Z[m,n] = A[m,k] * B[k,n]"], M=7, K=5, N=7))
    assert ff.search(case, imperfect=True).value < ff.search(case).value
