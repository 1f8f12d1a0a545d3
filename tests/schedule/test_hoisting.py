"""Constants and masks of sums: they are taken out of a whole sum, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopy.symbolic import SubstitutionMapper
from pymbolic import evaluate, var
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Comparison, If, Product, Quotient, Sum
from pymbolic.typing import Expression

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.factor_steps import RFactor
from feinsum_fuse.schedule.steps.loop_steps import Reorder
from feinsum_fuse.schedule.steps.tile_steps import CacheWrite
from feinsum_fuse.schedule.tree.accumulators import SUM, hoisted

from .runs import run, whole_numbers
from .scripts import ref, refs, split

SIZES = {"M": 7, "N": 5, "K": 11}
MASKED = "Z[m,n] = 3 * where(n <= m, 0.5 * A[m,k] * B[k,n], -inf)"


def cascade_of(text: str, dtype: str = "float32") -> Cascade:
    return ff.cascade([text], sizes=SIZES, dtypes={"All": dtype})


def in_tile(at: str) -> Schedule:
    """Sums in a private tile under one of the loops ``m/0``, ``k/0``."""
    loops = refs("Z.m/0 Z.k/0 Z.m/1 Z.k/1 Z.n")
    return Schedule((Explicate(), split("Z.m", 3, 7), split("Z.k", 4, 11), Reorder("Z", loops), CacheWrite("Z", ref(at), "private")))


@pytest.mark.parametrize(
    ("text", "inside", "stored"),
    [
        ("Z[m,n] = 0.125 * A[m,k] * B[k,n]", "A_0_Z*B_1_Z", "0.125*Z_private"),
        ("Z[m,n] = A[m,k] * B[k,n] / 8", "A_0_Z*B_1_Z", "Z_private / 8.0"),
        ("Z[m,n] = -2 * A[m,k] / 7 * B[k,n]", "A_0_Z*B_1_Z", "((-2.0)*Z_private) / 7.0"),
        ("Z[m,n] = where(k <= m, 0.5 * A[m,k] * B[k,n], 0)", "A_0_Z*B_1_Z if k_Z <= m_Z else 0.0", "0.5*Z_private"),
        (MASKED, "A_0_Z*B_1_Z", "3.0*(0.5*Z_private if n_Z <= m_Z else -inf)"),
        ("Z[m,n] = where(n <= m, A[m,k] * B[k,n], 1)", "A_0_Z*B_1_Z if n_Z <= m_Z else 1.0", "Z_private"),
        ("Z[m,n] = where(n <= m, A[m,k], 0) * B[k,n]", "(A_0_Z if n_Z <= m_Z else 0.0)*B_1_Z", "Z_private"),
        ("Z[m,n] = where(A[m,k] <= 1, 2 * B[k,n], 0)", "B_1_Z if A_0_Z <= 1.0 else 0.0", "2.0*Z_private"),
        (
            "Z[m,n] = where(m < 4 and n != 2, where(k < 3, A[m,k] * B[k,n], 0), 0)",
            "A_0_Z*B_1_Z if k_Z < 3 else 0.0",
            "Z_private if m_Z < 4 and n_Z != 2 else 0.0",
        ),
        ("Z[m,n] = where(k <= m, 3 * A[m,k] * B[k,n], -inf)", "A_0_Z*B_1_Z if k_Z <= m_Z else -inf", "3.0*Z_private"),
        ("Z[m,n] = where(k <= m, -3 * A[m,k] * B[k,n], inf)", "(-3.0)*A_0_Z*B_1_Z if k_Z <= m_Z else inf", "Z_private"),
        ("Z[m,n] = 0.5 * (A[m,k] + B[k,n])", "A_0_Z + B_1_Z", "0.5*Z_private"),
        ("Z[m,n] = 0 * A[m,k] * B[k,n]", "0.0*A_0_Z*B_1_Z", "Z_private"),
        ("Z[m,n] = max(2 * A[m,k] * B[k,n])", "2.0*A_0_Z*B_1_Z", "Z_private"),
    ],
)
def test_what_is_taken_out(text: str, inside: str, stored: str) -> None:
    """What is added, and what is stored when the sum is whole; the results stay."""
    cascade = cascade_of(text)
    schedule = in_tile("Z.m/0")
    lines = [line.strip() for line in str(schedule.nest(cascade.kernel())).splitlines()]
    assert _value(next(line for line in lines if "B_1_Z[" in line)) == inside
    assert _value(next(line for line in lines if line.startswith("Z["))) == stored
    inputs = whole_numbers(cascade)
    np.testing.assert_allclose(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"], rtol=1e-6)


def _value(line: str) -> str:
    """What is written or added, without the indices."""
    return re.sub(r"\[[^\]]*\]", "", re.split(r" (?:\+=|max=|=) ", line, maxsplit=1)[1])


def test_factors_of_integers_stay_inside() -> None:
    cascade = cascade_of("Z[m,n] = 3 * A[m,k] * B[k,n]", "int32")
    schedule = in_tile("Z.m/0")
    text = str(schedule.nest(cascade.kernel()))
    assert "+= 3" in text
    inputs = whole_numbers(cascade)
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize(
    ("text", "inside", "stored", "again"),
    [
        ("Z[m,n] = 3 * A[m,k] * B[k,n]", "A_0_Z*B_1_Z", "3.0*Z_private", "Z / 3.0"),
        ("Z[m,n] = A[m,k] * B[k,n] / 7", "A_0_Z*B_1_Z", "Z_private / 7.0", "7.0*Z"),
        (MASKED.replace("-inf", "0"), "A_0_Z*B_1_Z", "3.0*(0.5*Z_private if n_Z <= m_Z else 0.0)", "(Z / 3.0) / 0.5"),
        ("Z[m,n] = where(k <= m, 3 * A[m,k] * B[k,n], 0)", "A_0_Z*B_1_Z if k_Z <= m_Z else 0.0", "3.0*Z_private", "Z / 3.0"),
    ],
)
def test_what_is_undone_where_sums_are_carried_on(text: str, inside: str, stored: str, again: str) -> None:
    """Each part of a sum is scaled and masked as it is stored, so that the next one goes on from what it was before."""
    cascade = cascade_of(text)
    schedule = in_tile("Z.k/0")
    lines = [line.strip() for line in str(schedule.nest(cascade.kernel())).splitlines()]
    assert _value(next(line for line in lines if "B_1_Z[" in line)) == inside
    assert _value(next(line for line in lines if line.startswith("Z[") and "private" in line)) == stored
    assert _value(next(line for line in lines if "not first" in line)).split("  if")[0] == again
    inputs = whole_numbers(cascade)
    np.testing.assert_allclose(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"], rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "inside", "combined"),
    [
        ("Z[m,n] = A[m,k] * B[k,n] / 7", "A_0_Z*B_1_Z", "Z_partial / 7.0"),
        ("Z[m,n] = where(k <= m, -2 * A[m,k] * B[k,n], 0)", "A_0_Z*B_1_Z if k_Z <= m_Z else 0.0", "(-2.0)*Z_partial"),
        ("Z[m,n] = max(2 * A[m,k] * B[k,n])", "2.0*A_0_Z*B_1_Z", "Z_partial"),
    ],
)
def test_partial_results_are_scaled_as_they_are_combined(text: str, inside: str, combined: str) -> None:
    cascade = cascade_of(text)
    loops = refs("Z.m Z.n Z.k/0 Z.k/1")
    schedule = Schedule((Explicate(), split("Z.k", 4, 11), Reorder("Z", loops), RFactor(ref("Z.k/1"), ref("Z.n"), "private")))
    lines = [line.strip() for line in str(schedule.nest(cascade.kernel())).splitlines()]
    assert _value(next(line for line in lines if "B_1_Z[" in line)) == inside
    assert _value(next(line for line in lines if line.startswith("Z[") and "partial" in line)) == combined
    inputs = whole_numbers(cascade)
    np.testing.assert_allclose(run(cascade, schedule, inputs)["Z"], cascade.reference(**inputs)["Z"], rtol=1e-6, atol=1e-6)


def test_as_text(golden: Callable[[str, str], None]) -> None:
    """The script and the tree."""
    schedule = in_tile("Z.m/0")
    golden("schedule_hoisting", f"{schedule}\n\n{schedule.nest(cascade_of(MASKED).kernel())}")


def expressions() -> st.SearchStrategy[Expression]:
    """Products, quotients, sums and conditions of numbers and x."""
    numbers = st.sampled_from([0.0, -1.0, 2.0, 0.5, 3.0, float("inf"), float("-inf")])
    leaves = st.one_of(st.just(var("x")), numbers)
    return st.recursive(
        leaves,
        lambda e: st.one_of(
            st.tuples(e, e).map(Product),
            st.tuples(e, e).map(Sum),
            st.tuples(e, st.sampled_from([2.0, -4.0])).map(lambda pair: Quotient(*pair)),
            st.tuples(e, numbers).map(lambda pair: If(Comparison(var("x"), ">", 0), *pair)),
        ),
        max_leaves=8,
    )


@given(expressions(), st.sampled_from([-3.0, 0.0, 1.0, 7.0]), st.booleans())
def test_the_value_is_the_same(value: Expression, x: float, fixed: bool) -> None:
    """Doing outside what was done inside gives what was there, for a sum of one."""
    part = hoisted(value, {"x"} if fixed else set())
    before, after = (_number(e, x) for e in (value, part.of(part.inner)))
    assert np.isclose(before, after, equal_nan=True) or np.isnan(before)


@given(expressions(), st.sampled_from([-3.0, 1.0, 7.0]))
def test_a_sum_goes_on_from_what_is_stored(value: Expression, x: float) -> None:
    """What is done outside is undone where it has not masked the sum."""
    part = hoisted(value, {"x"})
    stored = _number(part.of(var("x")), x)
    if stored != 0 and np.isfinite(stored):
        assert np.isclose(_number(part.goes_on_from(stored), x), x)


@given(expressions(), st.sampled_from([-3.0, 0.0, 1.0, 7.0]))
def test_the_sum_is_the_same(value: Expression, x: float) -> None:
    """What is done outside to a sum of three is what is done to each of them."""
    outer = hoisted(value, {"x"}).outer
    one, three = (_number(SubstitutionMapper(make_subst_func({SUM: n}))(outer), x) for n in (1.0, 3.0))
    assert np.isclose(three, 3 * one)


def _number(value: Expression, x: float) -> float:
    with np.errstate(all="ignore"):
        return float(evaluate(value, {"x": np.float64(x)}))
