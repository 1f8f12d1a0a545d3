"""Whole register tiles stand apart from cut ones, and a loop ends before its own iterations that are cut."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pymbolic.primitives as p
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.arithmetic import Known
from feinsum_fuse.codegen.loops.whole_tiles import with_whole_tiles_apart
from feinsum_fuse.codegen.statements import Assignment, Barrier, Comment, Conditional, CStatement, Loop, all_statements
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.mappings.choices import Given
from feinsum_fuse.mappings.default_mapping import default_space, default_spec
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.schedule.target import ANY_DEVICE
from tests.cascades.randomness import largest_error

from .trees import assignment, expression, kernel, lines

LONG = replace(target(find_device()), vector_bytes=64, vector_registers=32)
OUTER = Known({p.Variable("t"): (0, 3), p.Variable("u"): (0, 3)})


def loop(name: str, last: int, *body: CStatement) -> Loop:
    return Loop("int", name, 0, last, body)


def when(condition: str, *body: CStatement) -> Conditional:
    return Conditional(expression(condition), body)


def added(target: str, value: str) -> Assignment:
    return Assignment(expression(target), expression(value), "+=")


def apart(*body: CStatement) -> list[str]:
    return lines(kernel(*with_whole_tiles_apart(body, OUTER, frozenset("cde"))))


def loops_with_conditions(text: list[str]) -> int:
    return sum(a.startswith("for") and b.startswith("if") for a, b in pairwise(text))


def test_a_condition_on_the_tile_is_decided_before_its_loop() -> None:
    text = apart(loop("k", 7, added("c[0]", "A[k]"), when("t < 3", added("c[1]", "B[k]"))))
    assert text == [
        *("if (t < 3)", "{"),
        *("// a whole tile", "for (int k = 0; k < 8; ++k)", "{", "c[0] += A[k];", "c[1] += B[k];", "}"),
        *("}", "else", "{"),
        *("// a tile that is cut", "for (int k = 0; k < 8; ++k)", "c[0] += A[k];"),
        "}",
    ]


def test_where_nothing_is_left_of_a_cut_tile_there_is_no_other_branch() -> None:
    text = apart(loop("k", 7, when("t < 3", added("c[0]", "A[k]"))))
    assert text == ["if (t < 3)", "{", "// a whole tile", "for (int k = 0; k < 8; ++k)", "c[0] += A[k];", "}"]


def test_what_stands_under_the_tile_s_condition_beside_it_joins_it() -> None:
    before, after = when("t < 3", assignment("c[1] = 0")), when("t < 3", assignment("C[t] = c[1]"))
    text = apart(before, loop("k", 7, when("8 * t <= 16", added("c[1]", "A[k]"))), after)
    assert text == [
        *("if (t < 3)", "{", "c[1] = 0;", "// a whole tile", "for (int k = 0; k < 8; ++k)", "c[1] += A[k];", "C[t] = c[1];", "}"),
    ]


def test_a_block_of_nothing_but_a_remark_stands_in_braces() -> None:
    remark = Conditional(expression("t < 3"), (Comment("nothing"),))
    assert lines(kernel(remark, assignment("C[t] = 1"))) == ["if (t < 3)", "{", "// nothing", "}", "C[t] = 1;"]


def test_all_conditions_are_decided_at_once_and_those_implied_are_not_asked() -> None:
    text = apart(
        loop("k", 7, when("t < 3", added("c[0]", "A[k]")), when("t < 2", added("c[1]", "A[k]")), when("u < 3", added("d[0]", "A[k]")))
    )
    assert next(line for line in text if line.startswith("if")) == "if (u < 3 && t < 2)"
    assert loops_with_conditions(text[: text.index("else")]) == 0


def test_each_way_in_which_a_tile_is_cut_stands_apart() -> None:
    """No value is set under a condition of the tile's: compilers would keep what the tile before has left in it."""
    before = (assignment("c[0] = 0"), when("t < 3", assignment("c[1] = 0")), when("u < 3", assignment("d[0] = 0")))
    text = apart(*before, loop("k", 7, when("t < 3", added("c[1]", "A[k]")), when("u < 3", added("d[0]", "B[k]"))))
    tests = [line for line in text if "if" in line]
    assert tests == ["if (t < 3 && u < 3)", "if (t < 3)", "else if (u < 3)"]
    cut = text[text.index("// a tile that is cut") :]
    assert [line for line in cut if "+=" in line] == ["c[1] += A[k];", "d[0] += B[k];"]
    assert cut.count("d[0] = 0;") == cut.count("c[1] = 0;") == 1


def test_elements_that_are_read_under_a_condition_are_decided_before_the_loop() -> None:
    """A vector whose elements lie apart is made of such where its tile may be cut; whole tiles read them without one."""
    text = apart(loop("k", 7, added("c[0]", "B[k] * (A[8*k] if t < 3 else 0)"), added("c[1]", "B[k + 1] * (A[8*k] if t < 3 else 0)")))
    whole = text[: text.index("else")]
    assert whole[0] == "if (t < 3)" and not any("?" in line for line in whole)
    assert "c[0] += B[k] * A[8 * k];" in whole and "c[1] += B[k + 1] * A[8 * k];" in whole


@pytest.mark.parametrize(
    "body",
    [
        (loop("k", 7, when("A[t] <= 2", added("c[1]", "B[k]"))),),  # values may change
        (loop("k", 7, when("t < 3", assignment("B[k] = A[k]"))),),  # no sum
        (loop("k", 7, when("t < 3", added("A[0]", "B[k]"))),),  # not a work-item's own
        (loop("k", 7, Barrier(("local",)), when("t < 3", added("c[1]", "B[k]"))),),  # all work-items meet at a barrier
        (loop("k", 7, when("k + t <= 4", added("c[1]", "B[k]"))),),  # known in the loop alone
    ],
)
def test_other_conditions_stay(body: tuple[CStatement, ...]) -> None:
    assert with_whole_tiles_apart(body, OUTER, frozenset("cde")) == body


@pytest.mark.parametrize(("condition", "last"), [("k <= 5", 5), ("2*k < 13", 6), ("13 - 2*k >= 2", 5), ("3 > k - 2", 4)])
def test_a_loop_ends_before_its_own_iterations_that_are_cut(condition: str, last: int) -> None:
    first, *_ = with_whole_tiles_apart((loop("k", 7, when(condition, added("c[1]", "B[k]"))),), OUTER, frozenset("c"))
    assert isinstance(first, Loop) and first.last == last
    assert not any(isinstance(s, Conditional) for s in all_statements((first,)))


def test_the_last_block_stands_apart_where_its_end_alone_cuts_a_sum() -> None:
    inner = loop("k", 3, when("4*t < 4*u + 9", added("d", "A[k]")), when("4*b + k < 11", added("c[1]", "B[k]")))
    first, *rest = with_whole_tiles_apart((loop("b", 2, inner),), OUTER, frozenset("c"))
    assert isinstance(first, Loop) and (first.first, first.last) == (0, 1) and "4 * b" not in " ".join(lines(kernel(first)))
    assert [s.last for s in all_statements(rest) if isinstance(s, Loop)] == [2]


@pytest.mark.parametrize("condition", ["4*b + k < 7", "k < 3", "4*b < 8"])
def test_other_blocks_stay(condition: str) -> None:
    """What cuts two blocks, or each alike, or is known before the inner loop."""
    found = with_whole_tiles_apart((loop("b", 2, loop("k", 3, when(condition, added("c[1]", "B[k]")))),), OUTER, frozenset("c"))
    assert [(s.first, s.last) for s in found if isinstance(s, Loop) and s.name == "b"] == [(0, 2)]


@pytest.mark.parametrize(
    ("einsums", "sizes"),
    [
        (("Z[m,n] = A[m,k]*B[k,n]",), {"M": 67, "N": 45, "K": 35}),
        (("Z[m,n] = A[m,k]*B[n,k]",), {"M": 67, "N": 7, "K": 4111}),
        (("Z[b,m] = A[b,m,k]*B[k,b]",), {"M": 67, "B": 3, "K": 1111}),
        (("y[m] = A[m,k]*x[k]",), {"M": 35, "K": 131}),
        (("H[m,f] = X[m,a]*V[a,f]", "G[m,f] = gelu(H[m,f])", "Y[m,b] = G[m,f]*W[f,b]"), {"M": 69, "A": 19, "F": 75, "B": 21}),
        (("X[m] = max(S[m,p])",), {"M": 13, "P": 131}),
        (("Z[i,r] = T[i,j,k]*B[j,r]*C[k,r]",), {"I": 7, "J": 19, "K": 23, "R": 35}),
    ],
)
def test_cut_tiles_are_right(einsums: tuple[str, ...], sizes: dict[str, int]) -> None:
    program = ff.compile(einsums, sizes=sizes)
    found = program(**program.example.inputs)
    for name, expected in program.example.expected.items():
        assert largest_error(np.asarray(found[name]), expected) < 1e-4


def test_a_row_that_ends_with_part_of_a_vector_keeps_no_tile_from_standing_apart() -> None:
    """In every tile of rows the last vector has three lanes in use: a count that is never whole."""
    cascade = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes={"M": 67, "N": 19, "K": 35})
    family = Family(default_space(cascade, target=ANY_DEVICE), ANY_DEVICE)
    program = ff.compile(family.spec.replace(mapping=family.mapping(Given({"lane": "n", "second": "m", "vectors": 3, "down": 4}))))
    assert "a whole tile" in program.executable.source
    found = program(**program.example.inputs)
    assert largest_error(np.asarray(found["Z"]), program.example.expected["Z"]) < 1e-5


def test_vectors_of_elements_that_lie_apart_are_loaded_once_in_whole_tiles_and_in_cut_ones() -> None:
    """43 rows are tiles of two vectors of eight, the last with three lanes that count: their elements were read anew for each sum."""
    cascade = ff.cascade(["O[b, i, k] = V[b, x] * P[i, x, k]"], sizes={"B": 43, "I": 4, "K": 5, "X": 30})
    family = Family(default_space(cascade, target=ANY_DEVICE), ANY_DEVICE)
    decisions = Given({"rows": {"O": "i"}, "lane": "b", "second": "k", "vectors": 2, "copied": ()})
    program = ff.compile(family.spec.replace(mapping=family.mapping(decisions)))
    text = program.executable.source
    assert text.count("a tile that is cut") == 1 and "?" not in text and text.count(" = V[") == 2 * 8 + 8 + 3
    found = program(**program.example.inputs)
    assert largest_error(np.asarray(found["O"]), program.example.expected["O"]) < 1e-5


def test_a_loop_over_vectors_that_are_stored_ends_before_the_one_that_is_cut() -> None:
    cascade = ff.cascade(["Z[b, d] = X[b, d] + P[d]"], sizes={"B": 400, "D": 1000})
    program = ff.compile(default_spec(cascade, target=LONG))
    text = program.source[program.source.index("cascade(") :]
    assert "d_0 < 62;" in text
    assert text.count("vstore_global_float16(") == text.count("vstoreupto_global_float16(") == 1
    x, p_ = (np.random.default_rng(3).uniform(-1, 1, shape).astype("float32") for shape in ((400, 1000), (1000,)))
    assert largest_error(program(X=x, P=p_)["Z"], x + p_) == 0


@pytest.mark.parametrize(("line", "blocks"), [("Z[b, d] = X[b, d] * rsqrt(V[b] + 1)", 62), ("Z[b, d] = rsqrt(X[b, d] * V[b] + 1)", 63)])
def test_so_does_one_with_a_function_that_the_loop_does_not_move(line: str, blocks: int) -> None:
    """A row's root is taken before its vectors; one of each vector would be written twice."""
    program = ff.compile(default_spec(ff.cascade([line], sizes={"B": 400, "D": 1000}), target=LONG))
    text = program.source[program.source.index("cascade(") :]
    assert f"d_0 < {blocks};" in text
    found = program(**program.example.inputs)
    assert largest_error(np.asarray(found["Z"]), program.example.expected["Z"]) < 1e-5
