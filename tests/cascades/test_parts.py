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

SIZES = {"M": 90, "N": 110, "K": 5, "O": 1}
LINES = {
    "a sum": ["T[m, n] = exp(A[m] * B[n])", "Z[o] = T[m, n]"],
    "a sum at an index": ["T[m, n] = exp(A[m] * B[n])", "Z[O: 0*m] = T[m, n]"],
    "a maximum": ["T[m, n] = sin(9 * A[m] * B[n])", "Z[o] = max(T[m, n])"],
    "a sum of sums": ["T[m, n] = A[m, k] * B[k, n]", "S[m] = T[m, n]", "Z[o] = S[m] * S[m]"],
    "a small intermediate": ["T[m, n] = exp(A[m] * B[n])", "S[m] = T[m, n]", "Z[k] = S[m] * C[m, k]"],
    "a norm": ["T[m, n] = exp(A[m] * B[n])", "X[o] = max(T[m, n])", "Z[m] = T[m, n] / X[o]"],
    "integers": ["T[m, n] = A[m] * B[n]", "Z[o] = T[m, n] + m"],
}


def made(lines: list[str], dtype: str = "float32") -> Cascade:
    sizes = {rank: size for rank, size in SIZES.items() if any(re.search(rf"\b({rank}|{rank.lower()})\b", line) for line in lines)}
    return ff.cascade(lines, sizes=sizes, dtypes={"All": dtype})


def cascade_of(name: str) -> Cascade:
    return made(LINES[name], "int32" if name == "integers" else "float32")


@pytest.mark.parametrize("name", LINES)
def test_parts_are_equal_to_the_whole(name: str) -> None:
    cascade = cascade_of(name)
    cut, inputs = parts(cascade, held_bytes(cascade) // 2), random_inputs(cascade, -1.0)
    whole, known = cascade.reference(**inputs), cut.known(inputs)
    assert cut.kept or all(slabs.count > 1 for slabs in cut.outputs)
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
    """A sum along diagonals cannot be split, and an element needs points near all of them."""
    summed = ff.cascade(["T[m, n] = exp(A[m] * B[n])", "Z[O: 0*m + 0*n, P: m + n] = T[m, n]"], sizes={"M": 90, "N": 90, "O": 1, "P": 179})
    with pytest.raises(NotSlicedError, match=r"an element of Z needs T\[90, 90\]"):
        parts(summed, held_bytes(summed) // 2)
    jumps = ff.cascade(["T[m, n] = floor(9 * A[m] * B[n])", "Z[o] = T[m, n]"], sizes={"M": 90, "N": 90, "O": 1})
    with pytest.raises(NotSlicedError, match=r"an element of Z needs T\[90, 90\], and its maps have jumps"):
        parts(jumps, held_bytes(jumps) // 2)


JUMPS = {
    "a floor": ["Z[m, n] = floor(1000 * A[m] * B[n])"],
    "a comparison of sums": ["T[m, n] = A[m, k] * B[k, n]", "Z[m, n] = where(T[m, n] > 0.001 * m, T[m, n], 0)"],
    "two, and a mask": ["T[m, n] = round(100 * A[m] * B[n])", "Z[m, n] = where(n <= m, sign(T[m, n] - 3.0 * A[m]), 7)"],
    "sums of jumps": ["R[m, n] = round(100 * A[m] * B[n])", "Z[m] = R[m, n]"],
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
        found = slab.alternatives(inputs, near) or [whole[slab.place]] * 2
        for side, array in enumerate(found):
            np.testing.assert_array_equal(array, (leaning[side] if leaning else whole)[slab.place])


def test_a_kernel_with_jumps_is_verified_in_parts() -> None:
    cascade = ff.cascade(["Z[m, n] = floor(1000 * A[m] * B[n])"], sizes={"M": 60, "N": 80})
    measured = ff.measure(ff.spec(cascade), repeats=1, reference_bytes=held_bytes(cascade) // 2)
    assert measured.outcome == "ok", measured.message
    trial = example(cascade, budget=held_bytes(cascade) // 2)
    a, b = trial.inputs["A"], trial.inputs["B"]
    rounded = np.floor(np.float32(1000) * a[:, None] * b[None, :])
    assert trial.parts is not None and trial.judged({"Z": rounded}, 1e-7).passed
    assert not trial.judged({"Z": np.ceil(1000.0 * a[:, None].astype(float) * b[None, :])}, 1e-7).passed
