"""Kernels as others write them: prepared on a copy, read as a cascade, and still the same values."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.cascades.matching.match import Match, match
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from tests.cascades.randomness import largest_error, run

PRODUCT = "{[m,n,k] : 0 <= m < 7 and 0 <= n < 5 and 0 <= k < 3}"
ARGUMENTS = "A:7,3 B:3,5 | C:7,5"
TYPES = "types inferred"
RULES = "read through rules"
BOUND = "bound known"
INLINED = "value inlined"
KEPT = "value kept for all iterations"
SPLIT = "reduction split off"

KERNELS: dict[str, tuple[str | list[str], str, str, set[str]]] = {
    "elements read directly": (PRODUCT, "C[m,n] = sum(k, A[m,k]*B[k,n])", ARGUMENTS, {RULES}),
    "elements of one row and every second column": (PRODUCT, "C[m,n] = sum(k, A[2,k]*B[k,2*n])", "A:7,3 B:3,10 | C:7,5", {RULES}),
    "one array twice": ("{[m,n,k] : 0 <= m,n < 7 and 0 <= k < 3}", "C[m,n] = sum(k, A[m,k]*A[n,k])", "A:7,3 | C:7,7", {RULES}),
    "a lookup": (PRODUCT, "C[m,n] = sum(k, A[m,order[k]]*B[k,n])", "A:7,3 B:3,5 order:int32:3 | C:7,5", {RULES}),
    "a view by division": (PRODUCT, "C[m,n] = sum(k, A[(3*m + k) // 7, (3*m + k) % 7]*B[k,n])", "A:3,7 B:3,5 | C:7,5", {RULES}),
    "a rule called with another expression": (PRODUCT, "A_(m,k) := A[m,k]\nC[m,n] = sum(k, A_(m,2-k)*B[k,n])", ARGUMENTS, {RULES}),
    "a rule that captures a loop": (PRODUCT, "A_(m) := 2*A[m,k]\nC[m,n] = sum(k, A_(m)*B[k,n])", ARGUMENTS, {RULES}),
    "a rule that reduces": (PRODUCT, "A_(m) := sum(k, A[m,k])\nC[m,n] = A_(m)", ARGUMENTS, {RULES}),
    "a factor and a summand": (PRODUCT, "C[m,n] = 2.5*sum(k, A[m,k]*B[k,n]) + q[m]", "A:7,3 B:3,5 q:7 | C:7,5", {SPLIT, RULES}),
    "two sums over one loop": (PRODUCT, "C[m,n] = sum(k, A[m,k]) * sum(k, B[k,n])", ARGUMENTS, {SPLIT, RULES}),
    "one sum twice": (PRODUCT, "C[m,n] = sum(k, A[m,k]) / (1 + sum(k, A[m,k])) + B[0,n]", ARGUMENTS, {SPLIT, RULES}),
    "a sum in a sum": (
        "{[m,k,j] : 0 <= m < 7 and 0 <= k < 3 and 0 <= j < 5}",
        "y[m] = sum(k, A[m,k]*sum(j, B[k,j]*x[j]))",
        "A:7,3 B:3,5 x:5 | y:7",
        {SPLIT, RULES},
    ),
    "a softmax in one instruction": (
        "{[m,n,k,j] : 0 <= m < 7 and 0 <= n,k,j < 5}",
        "P[m,n] = exp(S[m,n] - reduce(max, k, S[m,k])) / sum(k, exp(S[m,k] - reduce(max, j, S[m,j])))",
        "S:7,5 | P:7,5",
        {SPLIT, RULES},
    ),
    "bounds in private variables": (
        ["{[m,n] : 0 <= m < 7 and 0 <= n < 5}", "[lower, upper] -> {[k] : lower <= k < upper}"],
        "<int64> lower = 0 {id=lower}\n<int64> upper = 3 {id=upper}\nC[m,n] = sum(k, A[m,k]*B[k,n]) {dep=lower:upper}",
        ARGUMENTS,
        {BOUND, RULES},
    ),
    "a bound that a loop gives": (
        ["{[m] : 0 <= m < 7}", "[upper] -> {[k] : 0 <= k < upper}"],
        "<int64> upper = m + 1 {id=upper}\ny[m] = sum(k, A[m,k]) {dep=upper}",
        "A:7,7 | y:7",
        {BOUND, RULES},
    ),
    "private values": (
        PRODUCT,
        "<> s = 2*row[m] {id=s}\n<> t = s*s + 1 {id=t,dep=s}\nC[m,n] = sum(k, t*A[m,k]*B[k,n]) {dep=t}",
        "A:7,3 B:3,5 row:7 | C:7,5",
        {TYPES, INLINED, RULES},
    ),
    "a private sum": (
        PRODUCT,
        "<> c = sum(k, A[m,k]*B[k,n]) {id=c}\nC[m,n] = c*c {dep=c}",
        ARGUMENTS,
        {TYPES, KEPT, RULES},
    ),
    "a sum of everything in a private variable": (
        ["{[m,k] : 0 <= m < 7 and 0 <= k < 3}", "{[q] : 0 <= q < 5}"],
        "<> t = sum([m,k], A[m,k]) {id=t}\ny[q] = t*x[q] {dep=t}",
        "A:7,3 x:5 | y:5",
        {TYPES, KEPT, RULES},
    ),
    "scalar arguments": (
        PRODUCT,
        "C[m,n] = alpha*sum(k, A[m,k]*B[k,n]) + beta",
        "A:7,3 B:3,5 alpha:scalar beta:scalar | C:7,5",
        {SPLIT, RULES},
    ),
    "a number where there is none": (PRODUCT, "C[m,n] = sum(k, if(isnan(A[m,k]), 0.0, A[m,k])*B[k,n])", ARGUMENTS, {RULES}),
    "a function that no map calls": (PRODUCT, "C[m,n] = sum(k, cosh(A[m,k])*B[k,n])", ARGUMENTS, {RULES}),
    "several rows in one nest": (
        PRODUCT,
        "C[m,n] = sum(k, A[m,k]*B[k,n])\nD[m,n] = sum(k, A[m,k]*E[k,n])",
        "A:7,3 B:3,5 E:3,5 | C:7,5 D:7,5",
        {RULES},
    ),
}


def kernel(domains: str | list[str], text: str, arguments: str) -> lp.TranslationUnit:
    """A kernel over float64 arrays ``name:shape`` or ``name:type:shape``; outputs after a bar, ``scalar`` for a number."""
    args: list[object] = []
    for group, is_input in zip(arguments.split("|"), (True, False), strict=True):
        for word in group.split():
            name, *dtype, shape = word.split(":")
            if shape == "scalar":
                args.append(lp.ValueArg(name, np.float64))
                continue
            lengths = tuple(map(int, shape.split(",")))
            args.append(lp.GlobalArg(name, dtype[0] if dtype else np.float64, shape=lengths, is_input=is_input, is_output=not is_input))
    return lp.make_kernel(domains, text, [*args, ...], lang_version=(2018, 2))


def inputs(arguments: str) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    values: dict[str, np.ndarray] = {}
    for word in arguments.partition("|")[0].split():
        name, *dtype, shape = word.split(":")
        if shape == "scalar":
            values[name] = np.float64(generator.random())
        elif dtype:
            lengths = tuple(map(int, shape.split(",")))
            values[name] = generator.permutation(int(np.prod(lengths))).reshape(lengths).astype(dtype[0])
        else:
            values[name] = generator.random(tuple(map(int, shape.split(","))))
    return values


def check(t_unit: lp.TranslationUnit, found: Match, arrays: dict[str, np.ndarray]) -> None:
    """The caller's kernel, the prepared one, the cascade's reference and the schedule's first step all give the same."""
    expected = run(t_unit, **arrays)
    explicit = Schedule((Explicate(),)).apply(found.prepared, found.names)
    for values in (run(found.prepared, **arrays), found.reference(**arrays), run(explicit, **arrays)):
        for name, array in expected.items():
            assert largest_error(values[name], array) < 1e-12, name


@pytest.mark.parametrize("name", KERNELS)
def test_others_kernels_are_prepared(name: str) -> None:
    domains, text, arguments, rewritings = KERNELS[name]
    t_unit, arrays = kernel(domains, text, arguments), inputs(arguments)
    if "isnan" in text:
        arrays["A"][2, 1] = np.nan
    found = match(t_unit)
    assert {rewriting.name for rewriting in found.rewritings} == {*rewritings, "written in the grammar"}
    check(t_unit, found, arrays)


def test_a_kernel_in_the_grammar_stays_as_it_is() -> None:
    t_unit = ff.cascade(["Z[m,n] = A[m,k]*B[k,n]", "Y[m] = max(Z[m,n])"], sizes={"M": 7, "N": 5, "K": 3}).kernel()
    found = match(t_unit)
    assert found.rewritings == ()
    assert found.prepared is t_unit
