"""References in parts where slabs of outputs do not do: sums in parts, intermediates that are kept, jumps; equal to the whole."""

from __future__ import annotations

import re

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.reference.jumps import JumpsInParts, leanings
from feinsum_fuse.cascades.reference.parts import parts
from feinsum_fuse.cascades.reference.reference import held_bytes
from feinsum_fuse.cascades.reference.slabs import NotSlicedError, Slabs
from feinsum_fuse.device.checking.example import Example, example, random_inputs

SIZES = {"M": 90, "N": 110, "K": 5, "O": 1, "P": 300}
LINES = {
    "a sum": ["T[m, n] = exp(A[m] * B[n])", "Z[o] = T[m, n]"],
    "a sum at an index": ["T[m, n] = exp(A[m] * B[n])", "Z[O: 0*m] = T[m, n]"],
    "a maximum": ["T[m, n] = sin(9 * A[m] * B[n])", "Z[o] = max(T[m, n])"],
    "a sum of sums": ["T[m, n] = A[m, k] * B[k, n]", "S[m] = T[m, n]", "Z[o] = S[m] * S[m]"],
    "a small intermediate": ["T[m, n] = exp(A[m] * B[n])", "S[m] = T[m, n]", "Z[k] = S[m] * C[m, k]"],
    "a norm": ["T[m, n] = exp(A[m] * B[n])", "X[o] = max(T[m, n])", "Z[m] = T[m, n] / X[o]"],
    "integers": ["T[m, n] = A[m] * B[n]", "Z[o] = T[m, n] + m"],
    "integers of 8 bits": ["T[m, n] = A[m] * B[n] * 77", "Z[o] = max(T[m, n] - 40)"],
    "diagonals": ["T[m, n] = exp(A[m] * B[n])", "Z[O: 0*m + 0*n, P: m + n] = T[m, n]"],
    "every other diagonal": ["T[m, n] = sin(9 * A[m] * B[n])", "Z[P: 2*m - n + 109] = max(T[m, n])"],
    "a sum along diagonals of a sum": ["T[m, n] = A[m, k] * B[k, n]", "S[P: m + n] = T[m, n]", "Z[o] = S[P: p] * p"],
}


def made(lines: list[str], dtype: str = "float32") -> Cascade:
    sizes = {rank: size for rank, size in SIZES.items() if any(re.search(rf"\b({rank}|{rank.lower()})\b", line) for line in lines)}
    return ff.cascade(lines, sizes=sizes, dtypes={"All": dtype})


def cascade_of(name: str) -> Cascade:
    return made(LINES[name], {"integers": "int32", "integers of 8 bits": "int8"}.get(name, "float32"))


@pytest.mark.parametrize("name", LINES)
def test_parts_are_equal_to_the_whole(name: str) -> None:
    cascade = cascade_of(name)
    cut, inputs = parts(cascade, held_bytes(cascade) // 2), random_inputs(cascade, -1.0)
    whole, known = cascade.reference(**inputs), cut.known(inputs)
    assert cut.kept or all(slabs.computed > 1 for slabs in cut.outputs)
    for slabs in (*cut.kept, *cut.outputs):
        assert slabs.held <= held_bytes(cascade) // 2
    for slabs in cut.outputs:
        for slab in slabs.slabs():
            np.testing.assert_allclose(slab.elements(known), whole[slabs.output][slab.place], rtol=1e-12)


@pytest.mark.parametrize("name", LINES)
def test_a_verdict_in_parts_is_the_verdict_of_the_whole(name: str) -> None:
    cascade = cascade_of(name)
    in_parts, whole = example(cascade, budget=held_bytes(cascade) // 2), example(cascade)
    assert in_parts.parts is not None
    for change in (0, 1):
        got = {tensor: array.astype(cascade.tensors[tensor].dtype) + change for tensor, array in whole.expected.items()}
        assert verdict(in_parts, got) == verdict(whole, got) == (not change)


def verdict(trial: Example, got: dict[str, np.ndarray]) -> bool:
    return trial.judged(got, 1e-6).passed


def test_what_has_no_parts_is_refused_with_the_tensor() -> None:
    """A recurrence is computed from its start."""
    text = """
workload:
  rank_sizes: {T: 400}
  bits_per_value: {All: 32}
  einsums:
    - {einsum: "S[T: t] = 0.5 * S[T: t-1] + X[T: t]", operations: {populate: 1}}
"""
    cascade = ff.cascade(ff.loads(text))
    with pytest.raises(NotSlicedError, match=r"an element of S needs [SX]\[400\]"):
        parts(cascade, held_bytes(cascade) // 2)


JUMPS = {
    "a floor": ["Z[m, n] = floor(1000 * A[m] * B[n])"],
    "a comparison of sums": ["T[m, n] = A[m, k] * B[k, n]", "Z[m, n] = where(T[m, n] > 0.001 * m, T[m, n], 0)"],
    "two, and a mask": ["T[m, n] = round(100 * A[m] * B[n])", "Z[m, n] = where(n <= m, sign(T[m, n] - 3.0 * A[m]), 7)"],
    "sums of jumps": ["R[m, n] = round(100 * A[m] * B[n])", "Z[m] = R[m, n]"],
}
SUMS_OF_JUMPS = {
    "one sum": ["T[m, n] = floor(900 * A[m] * B[n])", "Z[o] = T[m, n]"],
    "a largest": ["T[m, n] = floor(900 * A[m] * B[n])", "Z[o] = max(T[m, n])"],
    "kept": ["T[m, n] = round(100 * A[m] * B[n])", "X[o] = T[m, n]", "Z[m] = floor(0.1 * T[m, n] + X[o])"],
    "kept, and with jumps": ["T[m, n] = round(100 * A[m] * B[n])", "X[o] = max(T[m, n])", "Z[m] = A[m] * B[n] / X[o]"],
    "several sums": ["T[m, n] = round(100 * A[m] * B[n])", "S[m] = T[m, n]", "Z[k] = floor(0.1 * S[m]) * C[m, k]"],
}


@pytest.mark.parametrize("name", JUMPS)
@pytest.mark.parametrize("inexact", [0.0, 1e-4])
def test_jumps_lean_in_parts_as_in_the_whole(name: str, inexact: float) -> None:
    """The error of an argument is relative to its largest magnitude in all parts."""
    cascade = made(JUMPS[name])
    inputs, jumps = random_inputs(cascade, -1.0), JumpsInParts.of(cascade)
    assert jumps is not None
    slabs = [*Slabs(cascade, "Z", tuple(-(-size // 3) for size in cascade.fixed_shape("Z"))).slabs()]
    whole, leaning = cascade.reference(**inputs)["Z"], [outputs["Z"] for outputs in leanings(cascade, inputs, inexact=inexact)]
    for slab in slabs:
        np.testing.assert_array_equal(slab.elements(inputs, jumps), whole[slab.place])
    near = jumps.of_inexact_inputs(cascade, inexact)
    for slab in slabs:
        found = slab.alternatives((inputs, inputs), near) or [whole[slab.place]] * 2
        for side, array in enumerate(found):
            np.testing.assert_array_equal(array, (leaning[side] if leaning else whole)[slab.place])


@pytest.mark.parametrize("name", SUMS_OF_JUMPS)
def test_sums_of_jumps_lean_in_parts_as_in_the_whole(name: str) -> None:
    cascade = made(SUMS_OF_JUMPS[name])
    cut, inputs, jumps = parts(cascade, held_bytes(cascade) // 2), random_inputs(cascade, -1.0), JumpsInParts.of(cascade)
    assert jumps is not None and bool(cut.kept) == name.startswith("kept")
    whole, leaning = cascade.reference(**inputs)["Z"], [outputs["Z"] for outputs in leanings(cascade, inputs, inexact=1e-4)]
    known, (slabs,) = cut.known(inputs, jumps), cut.outputs
    for slab in slabs.slabs():
        np.testing.assert_allclose(slab.elements(known, jumps), whole[slab.place], rtol=1e-12)
    near = jumps.of_inexact_inputs(cascade, 1e-4)
    sides = cut.sides(inputs, near)
    assert leaning and any(not np.array_equal(array, whole) for array in leaning)
    for slab in slabs.slabs():
        for array, side in zip(leaning, slab.alternatives(sides, near), strict=True):
            # In the whole, an argument's error is relative to what it is when those before it lean.
            np.testing.assert_allclose(side, array[slab.place], rtol=1e-3 if cut.kept else 1e-12)


def test_a_kernel_with_jumps_is_verified_in_parts() -> None:
    cascade = ff.cascade(["Z[m, n] = floor(1000 * A[m] * B[n])"], sizes={"M": 60, "N": 80})
    measured = ff.measure(ff.spec(cascade), repeats=1, reference_bytes=held_bytes(cascade) // 2)
    assert measured.outcome == "ok", measured.message
    trial = example(cascade, budget=held_bytes(cascade) // 2)
    a, b = trial.inputs["A"], trial.inputs["B"]
    rounded = np.floor(np.float32(1000) * a[:, None] * b[None, :])
    assert trial.parts is not None and trial.judged({"Z": rounded}, 1e-7).passed
    assert not trial.judged({"Z": np.ceil(1000.0 * a[:, None].astype(float) * b[None, :])}, 1e-7).passed
