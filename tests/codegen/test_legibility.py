"""The generated tree after it has been made legible: shorter, and the same statements."""

from __future__ import annotations

import re
from dataclasses import replace

import pymbolic.primitives as p
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.codegen.legibility import legible
from feinsum_fuse.codegen.statement_expressions import Substitution
from feinsum_fuse.codegen.statements import Conditional, CStatement, Declaration, Foreign, Loop, Scope
from feinsum_fuse.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.kernel.remarks import Description, GroupStart

from .trees import assignment, expression, kernel, lines

NOTHING = Description()


def legible_lines(*body: str | CStatement, description: Description = NOTHING) -> list[str]:
    """The lines of a kernel's body after it has been made legible."""
    return lines(legible(kernel(*body), description))


def test_operands_that_several_statements_read_are_loaded_once() -> None:
    """Vectors by their loads, scalars by their elements; what one statement reads stays where it is."""
    first, second = "c[0] = c[0] + A[k] * vload_global_float8(B[j])", "c[1] = c[1] + A[k + 1] * vload_global_float8(B[j])"
    assert legible_lines(first, second) == [
        "float8 const B_0 = vload_global_float8(B[j]);",
        "c[0] += A[k] * B_0;",
        "c[1] += A[k + 1] * B_0;",
    ]


def test_what_a_rewriter_does_not_change_stays_one_object() -> None:
    """Also beside a part that it changes; numbers keep their types."""
    kept, other = expression("A[2*i + j] * min(i, j) - (i if i < 3 else 0.5)"), expression("B[k] + 2.0")
    assert Substitution({"k": p.Variable("n")}).rec(kept) is kept
    changed = Substitution({"k": p.Variable("n")}).rec(p.Sum((kept, other)))
    assert changed.children[0] is kept
    assert changed.children[1] == expression("B[n] + 2.0") and type(changed.children[1].children[1]) is type(other.children[1])


def test_what_may_not_be_there_is_not_loaded_early() -> None:
    """A read behind a condition stays behind it, and one at an index that a statement computes stays after it."""
    choices = [f"c[{n}] = (A[k] if k < 3 else 0.0)" for n in range(2)]
    assert legible_lines(*choices) == [f"c[{n}] = (k < 3 ? A[k] : 0.0f);" for n in range(2)]
    assert legible_lines("i = j", "c[0] = A[i]", "c[1] = A[i]") == ["i = j;", "c[0] = A[i];", "c[1] = A[i];"]


def test_sums_are_updates_only_where_the_order_stays() -> None:
    """``a + b - c`` is rounded twice; ``a += b - c`` would be rounded otherwise."""
    assert legible_lines("a = a + b + -1.0 * c") == ["a = a + b - c;"]
    assert legible_lines("a = a + b * c") == ["a += b * c;"]
    assert legible_lines("a = a + -1.0 * b") == ["a -= b;"]


def test_an_end_that_branches_is_known_before_the_loop() -> None:
    """It would be asked for before each iteration; what depends on a loop around gets its name in there, a comparison without a group's
    index stays."""
    inner = Loop("int", "k", expression("0"), expression("3 if gid(0) == 1 and m == 2 else 7"), (assignment("A[m] = B[k]"),))
    other = Loop("int", "n", expression("0"), expression("1 if m == 2 else 5"), (assignment("A[n] = B[n]"),))
    outer = Loop("int", "m", expression("0"), expression("4 if gid(0) == 1 and gid(1) == 3 else 9"), (inner, other))
    assert legible_lines(outer) == [
        "bool const edge = gid(0) == 1 && gid(1) == 3;",
        "for (int m = 0; m < (edge ? 5 : 10); ++m)",
        "{",
        "bool const edge_m = gid(0) == 1 && m == 2;",
        "for (int k = 0; k < (edge_m ? 4 : 8); ++k)",
        "A[m] = B[k];",
        "for (int n = 0; n < (m == 2 ? 2 : 6); ++n)",
        "A[n] = B[n];",
        "}",
    ]
    last = Loop("int", "x", expression("0"), expression("8 if 2 * gid(1) + gid(0) == 28 else 15"), (assignment("A[x] = B[x]"),))
    assert legible_lines(last) == [
        "bool const edge = 2 * gid(1) + gid(0) == 28;",
        "for (int x = 0; x < (edge ? 9 : 16); ++x)",
        "A[x] = B[x];",
    ]


def test_starts_of_groups_get_names() -> None:
    """A sum of group numbers that occurs twice is computed once, by the name of what this kernel writes; other sums are left alone."""
    group = ((("gid", 0), 4), (("gid", 1), 8))
    start = Description(starts=(GroupStart(group, "f_start", ("z",)), GroupStart(group, "m_start", ("c", "d"))))
    body = ["c = A[8 * gid(1) + 4 * gid(0)]", "d = A[8 * gid(1) + 4 * gid(0) + 1]", "e = -8 * gid(1) + 4 * gid(0)"]
    assert legible_lines(*body, description=start) == [
        "int const m_start = 8 * gid(1) + 4 * gid(0);",
        "c = A[m_start];",
        "d = A[m_start + 1];",
        "e = 4 * gid(0) - 8 * gid(1);",
    ]


@pytest.mark.parametrize(
    ("index", "wanted"),
    [("8 + 9 * (i + 1) + k", "9 * i + k + 17"), ("9 * (i + 4 * j - 1) + k", "9 * (i + 4 * j) + k - 9"), ("8 - i * 2", "8 - 2 * i")],
)
def test_constants_stand_at_the_end_of_an_index(index: str, wanted: str) -> None:
    """A constant inside a product would make compilers extend each index to 64 bits by itself."""
    assert legible_lines(f"c = A[{index}]") == [f"c = A[{wanted}];"]


@pytest.mark.parametrize("index", ["9 * ((i + 1) // 2) + k", "i % 3 + 1 + k", "(i if k < 3 else 9 * (i + 1))", "B[i + 1] + 2"])
def test_constants_stay_where_they_do_not_add_up(index: str) -> None:
    assert not any("9 * i" in line for line in legible_lines(f"c = A[{index}]"))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("vstoreupto_global_float8(A[i + 8], c, -16 * i - 8 * 1 + 20)", "vstoreupto_global_float8(A[i + 8], c, 12 - 16 * i);"),
        ("vstoreupto_global_float8(A[i], c, min(20 - i, 3 * j - i))", "vstoreupto_global_float8(A[i], c, min(20 - i, 3 * j - i));"),
        ("vstoreupto_global_float8(A[i], c, 16)", "vstore_global_float8(A[i], c);"),
        (
            "c = vindexge_float8(8 * 1 - 3 + 16 * i, -1, vindexge_float8(8 * 0 - j, 1, a, -1 * INFINITY), 0.0)",
            "c = vindexge_float8(16 * i + 5, -1, vindexge_float8(-j, 1, a, -INFINITY), 0.0f);",
        ),
    ],
)
def test_counts_of_elements_are_short(call: str, wanted: str) -> None:
    """What unrolling leaves in the number of elements that are there is computed."""
    assert legible_lines(call) == [wanted]


def test_names_are_replaced_at_once() -> None:
    """A new name that is another's old one is not replaced again."""
    assert legible_lines("c = m_1_1 + m_1", description=Description(names={"m_1_1": "m_1", "m_1": "m"})) == ["c = m_1 + m;"]


def test_conditions_that_follow_from_others_are_gone() -> None:
    """What holds of a sum is known in whatever order its terms stand."""
    inner = Conditional(expression("4 * j + i <= 9"), (assignment("c = d"),))
    outer = Conditional(expression("i + 4 * j <= 8"), (inner, assignment("d = e")))
    loop = Loop("int", "j", 0, 7, (Loop("int", "i", 0, 3, (outer,)),))
    body = lines(legible(kernel(loop), NOTHING))
    assert [line for line in body if line.startswith("if")] == ["if (4 * j + i < 9)"]


def test_loops_beside_one_another_have_one_name_those_in_one_another_do_not() -> None:
    """Nor does a loop take the name that another keeps for its own."""
    names = Description(names={"k_1": "k", "k_2": "k", "k_3": "m", "k_4": "k_5"})
    beside = [Loop("int", name, 0, 3, (assignment(f"B[{name}] = A[{name}]"),)) for name in ("k_1", "k_2")]
    found = legible_lines(*beside, description=names)
    assert found == 2 * ["for (int k = 0; k < 4; ++k)", "B[k] = A[k];"]
    inside = Loop("int", "k_1", 0, 3, (replace(beside[1], body=(assignment("B[k_2] = A[k_1]"),)),))
    found = legible_lines(inside, Loop("int", "k_3", 0, 3, (assignment("B[k_3] = A[k_3]"),)), description=names)
    assert [line for line in found if "for" in line] == [
        *("for (int k_1 = 0; k_1 < 4; ++k_1)", "for (int k_2 = 0; k_2 < 4; ++k_2)"),
        "for (int m = 0; m < 4; ++m)",
    ]


def test_a_loop_of_one_iteration_is_called_as_it_is_read() -> None:
    """It is declared; a loop in its scope that wants the same name does not get it."""
    declared = Declaration("int const", "k_1", value=expression("4 * j"))
    read = assignment("B[j] = B[j] + A[k_1] + A[k_1 + 1] * k_1")
    text = legible_lines(Loop("int", "j", 0, 7, (Scope([declared, read]),)), description=Description(names={"k_1": "k"}))
    assert not any("k_1" in line for line in text)
    inner = Loop("int", "k_2", 0, 3, (assignment("B[k_2] = A[k_1]"),))
    both = Loop("int", "j", 0, 7, (Scope([declared, inner]),))
    text = legible_lines(both, description=Description(names={"k_1": "k", "k_2": "k"}))
    assert "B[k_2]" in "".join(text)


def test_what_every_group_fulfils_is_no_condition() -> None:
    """How many groups there are is known of a kernel of fixed sizes; the last of two is known where it is not the first."""
    always = Conditional(expression("31 - 16 * gid(0) >= 1"), (assignment("c = d"),))
    tree = kernel(always)
    two = replace(tree, head=replace(tree.head, groups=(2, 1, 1)))
    assert lines(legible(tree, NOTHING)) == ["if (gid(0) < 2)", "c = d;"]
    assert lines(legible(two, NOTHING)) == ["c = d;"]
    load = "vloadupto_global_float16(A[16 * gid(0)], {})"
    last = Conditional(expression("gid(0) == 0"), (assignment("c = d"),), (assignment(f"c = {load.format('31 - 16 * gid(0)')}"),))
    assert lines(legible(tree.with_body((last,)), NOTHING))[-1] == f"c = {load.format('31 - 16 * gid(0)')};"
    assert lines(legible(two.with_body((last,)), NOTHING))[-1] == f"c = {load.format(15)};"


def test_a_condition_that_is_an_else_stands_beside_it() -> None:
    inner = Conditional(expression("B[0] < 1.0"), (assignment("c = d"),), (assignment("d = c"),))
    found = legible_lines(Conditional(expression("A[0] < 1.0"), (assignment("c = e"),), (inner,)))
    assert found == ["if (A[0] < 1.0f)", "c = e;", "else if (B[0] < 1.0f)", "c = d;", "else", "d = c;"]


def test_what_a_statement_reads_twice_is_loaded_once() -> None:
    """Also where what it computes goes to memory by a call, and where the next call reads it again."""
    assert legible_lines("B[k] = A[k] * A[k]") == ["float const A_0 = A[k];", "B[k] = A_0 * A_0;"]
    store = "vstore_private_float8(c[{0}], vload_private_float8(c[{0}]) + vload_global_float8(A[8 * k]))"
    assert legible_lines(store.format(0), store.format(8)) == [
        "float8 const A_0 = vload_global_float8(A[8 * k]);",
        *(f"vstore_private_float8(c[{n}], vload_private_float8(c[{n}]) + A_0);" for n in (0, 8)),
    ]


def test_a_place_that_a_vector_is_loaded_from_is_no_element() -> None:
    """Where the element there is loaded once, too; what chooses the place may have a name."""
    assert legible_lines("c[0] = c[0] + A[k] * A[k] * vload_global_float8(A[k])") == [
        "float const A_0 = A[k];",
        "c[0] += A_0 * (A_0 * vload_global_float8(A[k]));",
    ]
    assert legible_lines("c[0] = B[j] * B[j] * vload_global_float8(A[B[j]])")[-1] == "c[0] = B_0 * (B_0 * vload_global_float8(A[B_0]));"


def test_what_a_function_gives_is_asked_for_once() -> None:
    """Compilers do not see that a function whose text branches gives the same again: a gradient with 21 rows in registers took three times
    as long. What a statement changes, or chooses, is asked for where it was."""
    value = "vdiv_float8(1.0, 1.0 + vexp_float8(vload_global_float8(A[k])))"
    found = legible_lines(*(f"c[{n}] = c[{n}] + B[{n}] * {value}" for n in range(2)))
    assert found[1:] == [
        "float8 const quotient_0 = vdiv_float8(1.0f, 1.0f + vexp_float8(A_0));",
        "c[0] += B[0] * quotient_0;",
        "c[1] += B[1] * quotient_0;",
    ]
    assert legible_lines(*(f"c[{n}] = vexp_float8(c[2])" for n in (2, 1))) == [f"c[{n}] = vexp_float8(c[2]);" for n in (2, 1)]


def test_comparisons_of_floats_have_no_opposite() -> None:
    """``!(a < b)`` holds of NaN, ``a >= b`` does not; types are the kernel's."""
    either = Conditional(expression("A[k] < B[k]"), (), (assignment("c = d"),))
    whole = Conditional(expression("gid(0) < gid(1)"), (), (assignment("c = d"),))
    assert legible_lines(either, whole)[::2] == ["if (!(A[k] < B[k]))", "if (gid(0) >= gid(1))"]


def test_an_else_does_not_belong_to_a_condition_inside_a_loop() -> None:
    """Braces stay where an ``if`` ends what stands before ``else``, at any depth of loops."""
    inner = Loop("int", "i", 0, 3, (Loop("int", "k", 0, 3, (Conditional(expression("i + k < n"), (assignment("c[i] = A[k]"),)),)),))
    tree = kernel(Conditional(expression("j == m"), (inner,), (assignment("c[0] = B[j]"),)))
    assert lines(tree) == [
        "if (j == m)", "{", "for (int i = 0; i < 4; ++i)", "for (int k = 0; k < 4; ++k)", "if (i + k < n)", "c[i] = A[k];", "}",
        "else", "c[0] = B[j];",
    ]  # fmt: skip


def test_what_is_not_looked_into_stays_as_it_is() -> None:
    """Nothing is known of what a caller's own C reads and writes."""
    tree = kernel("c = A[0 + k * 1]", Foreign(assignment("c = d")))
    assert legible(tree, NOTHING) is tree


def test_source_of_a_fused_chain_has_nothing_to_hoist() -> None:
    """No loop of one iteration, no product with 0, no store that is assigned, no guard that always holds."""
    cascade = ff.cascade(["T[m,j] = A[m,k] * B[k,j]", "Z[m,n] = T[m,j] * C[j,n]"], sizes={"M": 4096, "K": 16, "J": 16, "N": 24})
    source = executable(lower(default_spec(cascade)).apply(cascade.kernel())).source
    kernel = source[source.index("__kernel") :]
    assert "int const m = 0" not in kernel and "= vstore" not in kernel and " * 0" not in kernel and "upto" not in kernel
    assert re.search(r"int const m_start = ", kernel)
