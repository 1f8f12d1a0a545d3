"""Slabs of a reference: equal to the whole, within their budget, and refused with the reason where there are none."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.reference.parts import parts
from feinsum_fuse.cascades.reference.reference import held_bytes
from feinsum_fuse.cascades.reference.slabs import Slabs
from feinsum_fuse.device.checking.example import random_inputs
from tests.sweeps import SLOW

CASCADES: dict[str, tuple[list[str], dict[str, int]]] = {
    "product": (["Z[m, n] = A[m, k] * B[k, n]"], {"M": 7, "N": 5, "K": 3}),
    "two outputs": (["T[m, n] = A[m, k] * B[k, n]", "Y[m] = max(T[m, n])", "Z[m, n] = exp(T[m, n])"], {"M": 7, "N": 5, "K": 3}),
    "attention": (
        [
            "S[m, p] = where(p <= m, Q[m, e] * K[p, e], 0)",
            "X[m] = max(S[m, p])",
            "P[m, p] = exp(S[m, p] - X[m])",
            "O[m, f] = P[m, p] * V[p, f]",
        ],
        {"M": 6, "P": 6, "E": 3, "F": 4},
    ),
    "window": (["T[h] = A[h] * A[h]", "Y[q] = T[H: 2*q + r] * W[r]", "Z[q] = Y[q] + q"], {"H": 13, "Q": 6, "R": 3}),
    "outside": (["Y[P: p - 1] = A[P: p + 2] * B[P: p]", "Z[P: z] = Y[P: 4 - z]"], {"P": 9}),
    "scatter": (["Y[S: p + r] = A[p] * B[r]", "Z[S: s] = Y[S: s] * s"], {"P": 5, "R": 3, "S": 9}),
    "transposed": (["T[n, m] = A[m, n]", "Z[m, n] = T[N: n, M: m] - T[N: m, M: n]"], {"M": 5, "N": 5}),
}


def check(cascade: Cascade) -> None:
    """Slabs of any lengths, put together, are equal to the whole."""
    inputs = random_inputs(cascade, -1.0)
    for name, whole in cascade.reference(**inputs).items():
        for length in (1, 2, 4):
            parts = np.full(whole.shape, np.nan)
            for slab in Slabs(cascade, name, tuple(min(size, length + axis) for axis, size in enumerate(whole.shape))).slabs():
                parts[slab.place] = slab.elements(inputs)
            np.testing.assert_allclose(parts, whole, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", CASCADES)
def test_slabs_are_parts_of_the_whole(name: str) -> None:
    lines, sizes = CASCADES[name]
    check(ff.cascade(lines, sizes=sizes))


@pytest.mark.parametrize("seed", range(12))
def test_slabs_of_random_accesses(seed: int) -> None:
    """Strides, shifts and reversals on both sides; some points lie outside, some elements are reached by none, some by several."""
    random = Random(seed)
    cascade = next(found for found in (drawn(random) for _ in range(100)) if found is not None)
    check(cascade)


def drawn(random: Random) -> Cascade | None:
    """Two Einsums; ``None`` where no point of one of them is inside."""

    def index(*names: str) -> str:
        return " + ".join([*(f"{random.choice([-2, -1, 1, 1, 2])}*{name}" for name in names), str(random.randint(-2, 9))])

    reads = f"A[I: {index('i')}, J: {index('i', 'j')}] * B[J: {index('j')}]"
    first = random.choice(["Y[I: i, J: j]", f"Y[I: {index('i')}, J: j]", f"Y[I: i, J: {index('i', 'j')}]"])
    second = f"max(Y[I: {index('k')}, J: {index('l')}] + k)"
    try:
        return ff.cascade([f"{first} = {reads}", f"Z[K: k] = {second}"], sizes={"I": 9, "J": 11, "K": 8})
    except ff.SpecError:
        return None


def test_a_recurrence_is_computed_from_its_start() -> None:
    text = """
workload:
  rank_sizes: {T: 9, M: 4}
  bits_per_value: {All: 32}
  einsums:
    - {einsum: "S[T: t, m] = 0.5 * S[T: t-1, m] + X[T: t, m]", operations: {populate: 1}}
    - "Z[T: t, m] = S[T: t, m] * S[T: t, m]"
"""
    check(ff.cascade(ff.loads(text)))


@pytest.mark.parametrize("name", ["product", "attention"])
def test_what_a_slab_holds_is_what_was_said(name: str) -> None:
    """Including the blocks in which maps are evaluated, which are larger than small slabs."""
    cascade = ff.cascade(CASCADES[name][0], sizes=dict.fromkeys(CASCADES[name][1], 300))
    inputs = random_inputs(cascade, -1.0)
    budget = held_bytes(cascade) // 3
    (tiling,) = parts(cascade, budget).outputs
    assert tiling.count > 2
    slab = next(tiling.slabs())
    tracemalloc.start()
    slab.elements(inputs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= budget


EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/workload.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_the_examples_are_verified_in_parts_within_their_budget(file: Path) -> None:
    """At their own sizes, with an eighth of what the whole takes: one slab of each output, or all of them in the slow suite.

    What describes a slab is not counted, so that a budget is a quarter of a MiB at the least.
    """
    cascade = ff.cascade(ff.load(file))
    budget = max(held_bytes(cascade) // 8, 1 << 18)
    cut, inputs = parts(cascade, budget), random_inputs(cascade, -1.0)
    whole = cascade.reference(**inputs) if SLOW else {}
    known = cut.known(inputs)
    for tiling in cut.outputs:
        slabs = [*tiling.slabs()] if SLOW else [next(tiling.slabs())]
        for slab in slabs:
            tracemalloc.start()
            found = slab.elements(known)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak <= budget
            if whole:
                np.testing.assert_allclose(found, whole[tiling.output][slab.place], rtol=1e-12, atol=1e-12)
