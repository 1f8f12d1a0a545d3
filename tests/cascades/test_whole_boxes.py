"""Instructions that write a part of a box: computed for all of it, written where the kernel writes."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.mappings.default_mapping import default_schedule
from tests.cascades.randomness import queue


def array(name: str, *shape: int, dtype: type = np.float32) -> lp.GlobalArg:
    return lp.GlobalArg(name, dtype, shape=shape)


CASES = {
    "loops that start above 0": ("{[i, j] : 2 <= i < 9 and 3 <= j < 7}", "C[i, j] = A[i, j]*2", (9, 8)),
    "the inside of a stencil": ("{[i, j] : 1 <= i < 8 and 1 <= j < 7}", "C[i, j] = A[i-1, j] + A[i+1, j] + A[i, j-1] + A[i, j+1]", (9, 8)),
    "a triangle": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8 and j <= i}", "C[i, j] = exp(A[i, j])", (9, 8)),
    "a reduction of some rows": ("{[i, j, k] : 1 <= i < 9 and 0 <= j < 8 and 0 <= k < 8}", "C[i, j] = sum(k, A[i, k]*A[i-1, j])", (9, 8)),
    "a maximum of some rows": ("{[i, j, k] : 0 <= i < 9 and 0 <= j < 8 and 0 <= k <= j}", "C[i, j] = max(k, A[i, k]) {if=i<=j+1}", (9, 8)),
    "a condition on a value": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = A[i, j]*2 {if=b[j] > 0}", (9, 8)),
    "an array of truth values": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = A[i, j]*2 {if=t[j]}", (9, 8)),
    "a truth value in a sum": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = (A[i, j] if t[j] else 0.5) + t[j]", (9, 8)),
    "a constant that is no number": ("{[i, j] : 0 <= i < 9 and 0 <= j < 8}", "C[i, j] = A[i, j] if A[i, j] > 0 else not_a_number", (9, 8)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_right_and_the_rest_is_left_alone(case: str) -> None:
    domain, text, shape = CASES[case]
    arguments = [array("A", *shape), array("C", *shape), *([array("t", 8, dtype=np.bool_)] if "t[" in text else [])]
    if "{if=b[" in text:
        arguments.append(array("b", 8))
    kernel = lp.make_kernel(domain, text, [*arguments, ...] if "not_a" in text else arguments)
    if "not_a" in text:
        kernel = lp.fix_parameters(kernel, not_a_number=np.float32("nan"))
    matched = ff.match(kernel)
    transformed = default_schedule(matched.cascade).apply(matched.prepared, matched.names)
    generator = np.random.default_rng(1)
    given = {"A": generator.uniform(-1, 1, shape).astype(np.float32), "C": generator.uniform(-1, 1, shape).astype(np.float32)}
    if "{if=b[" in text:
        given["b"] = generator.uniform(-1, 1, 8).astype(np.float32)
    if "t[" in text:
        given["t"] = generator.integers(0, 2, 8).astype(np.bool_)
    before, after = (
        lp.set_options(unit, return_dict=True)(queue(), **{name: value.copy() for name, value in given.items()})[1]["C"]
        for unit in (kernel, transformed)
    )
    np.testing.assert_allclose(after, before, rtol=1e-6)


def test_what_a_condition_keeps_from_being_read_is_not_read() -> None:
    kernel = lp.make_kernel("{[i] : 0 <= i < 9}", "C[i] = A[i-1] {if=i>0}", [array("A", 8), array("C", 9)])
    with pytest.raises(ff.MatchError, match="it is guarded by i > 0"):
        ff.match(kernel)


def test_it_is_named_among_the_rewritings() -> None:
    domain, text, shape = CASES["the inside of a stencil"]
    matched = ff.match(lp.make_kernel(domain, [f"{text} {{id=inside}}"], [array("A", *shape), array("C", *shape)]))
    assert str(matched.rewritings[0]) == "whole box computed: C_box for inside"
    assert matched.instructions == ("inside",)


def test_an_array_of_truth_values_is_no_result() -> None:
    kernel = lp.make_kernel("{[i] : 0 <= i < 9}", "C[i] = A[i] > 0", [array("A", 9), array("C", 9, dtype=np.bool_)])
    with pytest.raises(ff.MatchError, match="there is no element type 'bool'"):
        ff.match(kernel)
