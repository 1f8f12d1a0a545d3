"""Loops that go over what the ones before them have written become one with them, where that changes nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.loops.fused_loops import with_loops_fused
from feinsum_fuse.codegen.loops.loop_fusion import MOST_STATEMENTS, LoopPlace, stay_apart
from feinsum_fuse.codegen.statements import Assignment, Barrier, Conditional, CStatement, Loop
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.target import ANY_DEVICE
from tests.cascades.randomness import largest_error

from .trees import expression, kernel, lines


def put(target: str, value: str, operator: str = "=") -> Assignment:
    return Assignment(expression(target), expression(value), operator)


def loop(*body: CStatement, name: str = "p", last: int = 7, remark: str = "") -> Loop:
    return Loop("int", name, 0, last, body, remark)


def loops(*body: CStatement) -> int:
    return sum(line.startswith("for") for line in lines(kernel(*with_loops_fused(body))))


SUM = put("s[0]", "N[p]", "+=")


def test_what_was_just_written_is_added_up_in_the_same_loop() -> None:
    first, second = loop(put("N[p]", "A[p] * x[0]"), remark="p (N)"), loop(put("s[0]", "N[q]", "+="), name="q", remark="p (L)")
    text = lines(kernel(*with_loops_fused((first, second))))
    assert text == ["// p (N, L)", "for (int q = 0; q < 8; ++q)", "{", "N[q] = A[q] * x[0];", "s[0] += N[q];", "}"]


def test_three_loops_become_one_inside_others() -> None:
    inner = (loop(put("N[8 * m + p]", "A[p]")), loop(put("D[p]", "N[8 * m + p]")), loop(put("s[0]", "D[p]", "+=")))
    assert loops(loop(*inner, name="m")) == 2


@pytest.mark.parametrize(
    "first, second",
    [
        (loop(put("N[p]", "A[p]")), loop(put("s[0]", "N[p + 1]", "+="))),  # of the next iteration
        (loop(put("N[p]", "A[p]")), loop(put("s[0]", "N[7 - p]", "+="))),  # of another iteration
        (loop(put("N[2 * p]", "A[p]")), loop(put("s[0]", "N[2 * p + 2]", "+="))),
        (loop(put("N[p]", "A[p]")), loop(put("s[0]", "N[i[p]]", "+="))),  # of who knows which
        (loop(put("N[p * m]", "A[p]")), loop(put("s[0]", "N[p * m]", "+="))),  # m may be 0
        (loop(put("N[p]", "A[p]"), put("x[0]", "A[p]")), loop(put("s[0]", "N[p] * x[0]", "+="))),  # x is the last one's
        (loop(put("N[p]", "s[0]")), loop(SUM)),  # the sum is not finished
        (loop(put("N[p]", "A[p]")), loop(put("s[0]", "B[p]", "+="))),  # hands on nothing
        (loop(put("N[p]", "exp(A[p])")), loop(SUM)),  # of the functions alone compilers make calls on vectors
        (loop(put("N[p]", "A[p]")), loop(SUM, last=8)),
        (loop(put("N[p]", "A[p]"), Barrier(("LOCAL",))), loop(SUM)),
        (loop(put("N[p]", "A[p]")), loop(loop(SUM, name="k"))),  # which are no rows
        (loop(put("N[p]", "A[p]")), loop(put("x", "N[p]"))),  # of a variable nothing is known
        (loop(put("N[p]", "A[p]")), loop(*(put(f"s[{k}]", "N[p]", "+=") for k in range(MOST_STATEMENTS)))),
    ],
)  # fmt: skip
def test_loops_stay_apart(first: Loop, second: Loop) -> None:
    assert with_loops_fused((first, second)) == (first, second)


def test_neighbours_of_one_iteration_and_conditions_are_no_hindrance() -> None:
    first = loop(put("N[2 * p]", "A[p]"), put("N[2 * p + 1]", "B[p]"))
    assert loops(first, loop(Conditional(expression("p < 5"), (put("s[0]", "N[2 * p] * N[2 * p + 1]", "+="),)))) == 1


def test_what_stands_between_two_loops_comes_before_them_unless_the_first_one_needs_it() -> None:
    first = loop(put("N[p]", "A[p] * x[0]"))
    text = lines(kernel(*with_loops_fused((first, put("s[0]", "0"), loop(SUM)))))
    assert text == ["s[0] = 0;", "for (int p = 0; p < 8; ++p)", "{", "N[p] = A[p] * x[0];", "s[0] += N[p];", "}"]
    assert loops(first, loop(put("D[k]", "0"), name="k", last=1), loop(SUM)) == 2, "a loop among it"
    assert loops(first, put("N[3]", "5"), loop(SUM)) == 2
    assert loops(first, put("x[0]", "5"), loop(SUM)) == 2
    assert loops(first, put("s[0]", "N[3]"), loop(SUM)) == 2


@pytest.mark.parametrize(
    "index, count",
    [("8 * m + p", 2), ("8 * (k + m) + p", 2), ("7 * m + p", 4), ("8 * n + p", 4), ("8 * m * n + p", 4)],
)
def test_loops_over_rows_become_one_where_those_over_their_columns_do(index: str, count: int) -> None:
    """Rows of 8 columns that lie 8 apart; not those that overlap, or that may."""
    first = loop(loop(put(f"N[{index}]", "A[m * n + p]")), name="m", last=99)
    second = loop(put("s[0]", "0"), loop(put("s[0]", f"N[{index}]", "+=")), put("Z[m]", "s[0]"), name="m", last=99)
    assert loops(first, second) == count
    assert loops(first, loop(put("s[0]", "0"), loop(put("s[0]", "B[p]", "+=")), name="m", last=99)) == 4, "hands on nothing"


def test_the_first_loop_takes_as_many_vectors_in_an_iteration_as_the_second_one() -> None:
    second = loop(*(put(f"s[{k}]", f"N[2 * p + {k}]", "+=") for k in (0, 1)), last=3, remark="p in tiles of 2 (L)")
    text = lines(kernel(*with_loops_fused((loop(put("N[p]", "A[p]"), remark="p (N)"), second))))
    assert text[:2] == ["// p in tiles of 2 (N, L)", "for (int p = 0; p < 4; ++p)"]
    assert text[3:-1] == ["N[2 * p] = A[2 * p];", "N[2 * p + 1] = A[2 * p + 1];", "s[0] += N[2 * p];", "s[1] += N[2 * p + 1];"]
    assert loops(loop(put("N[p]", "A[p]")), replace(second, last=2)) == 2, "no whole number of vectors"


def test_the_first_loop_takes_all_rows_of_the_second_one() -> None:
    def rows(statement: CStatement) -> Loop:
        return loop(loop(statement), name="m", last=1)

    second = loop(*(put(f"s[{m}]", f"N[{9 * m} + p]", "+=") for m in (0, 1)))
    text = lines(kernel(*with_loops_fused((rows(put("N[9 * m + p]", "A[p]")), second))))
    assert text[2:-1] == ["N[p] = A[p];", "N[p + 9] = A[p];", "s[0] += N[p];", "s[1] += N[p + 9];"]
    assert loops(rows(put("N[5 * m + p]", "A[p]")), second) == 3, "written twice"
    assert loops(rows(put("N[9 * m + p]", "N[p] + 1")), second) == 3, "the first row comes before the second one"


@pytest.mark.parametrize("rows, columns", [(5, 1), (5, 37), (40, 333), (3, 1760)])
def test_a_softmax_reads_its_exponentials_once(rows: int, columns: int) -> None:
    einsums = ["X[m] = max(S[m, p])", "N[m, p] = exp(S[m, p] - X[m])", "L[m] = N[m, p]", "Y[m, p] = N[m, p] / L[m]"]
    program = ff.compile(default_spec(ff.cascade(einsums, sizes={"M": rows, "P": columns}), target=ANY_DEVICE))
    assert ("(N, L)" in program.source) == (columns > 100)
    S = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    expected = np.exp(S.astype(np.float64) - S.max(1, keepdims=True))
    assert largest_error(program(S=S)["Y"], expected / expected.sum(1, keepdims=True)) < 1e-6


def test_iterations_that_touch_the_same_elements_are_found_as_by_trying_all() -> None:
    for step, first, lanes, other, count in product((-5, -2, 1, 3), range(-9, 10), (1, 2, 7), (1, 4), (1, 3, 6)):
        a, b = LoopPlace(frozenset(), step, first, lanes, True), LoopPlace(frozenset(), step, 0, other, False)
        elements = [({place.first + k * step + lane for lane in range(place.lanes)}) for place in (a, b) for k in range(count)]
        meeting = any(i != j and elements[i] & elements[count + j] for i, j in product(range(count), repeat=2))
        assert stay_apart({"N": [a]}, {"N": [b]}, count) is not meeting


def test_places_of_millions_of_elements_are_compared_at_once() -> None:
    """Their iterations are not gone through, one by one, which took seconds of a prediction."""
    a, b = (LoopPlace(frozenset(), 1, first, 10**15, written) for first, written in ((0, True), (3, False)))
    assert not stay_apart({"N": [a]}, {"N": [b]}, inf)
    assert stay_apart({"N": [a._replace(step=10**15)]}, {"N": [b._replace(step=10**15, first=0)]}, inf)
