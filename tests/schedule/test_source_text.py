"""The generated text after it has been made legible: shorter, and the same statements."""

from __future__ import annotations

import re

import feinsum_fuse as ff
from feinsum_fuse.codegen.c_statement import read
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.codegen.source_text import legible
from feinsum_fuse.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec


def body(text: str) -> str:
    """A kernel around these lines."""
    declared = "__kernel void f(__global float const *__restrict__ A, __global float const *__restrict__ B)\n{\n"
    return declared + "".join(f"  {line}\n" for line in text.splitlines()) + "}\n"


def test_operands_that_several_statements_read_are_loaded_once() -> None:
    """Vectors by their loads, scalars by their elements; what one statement reads stays where it is."""
    text = body("c[0] = c[0] + A[k] * vload_global_float8(B[j]);\nc[1] = c[1] + A[k + 1] * vload_global_float8(B[j]);")
    wanted = body("float8 const B_0 = vload_global_float8(B[j]);\nc[0] += A[k] * B_0;\nc[1] += A[k + 1] * B_0;")
    assert legible(text, {}, {}).replace("\n\n", "\n") == wanted


def test_what_may_not_be_there_is_not_loaded_early() -> None:
    """A read behind a condition stays behind it, and one at an index that a statement computes stays after it."""
    for text in ("c[0] = (k < 3 ? A[k] : 0.0f);\nc[1] = (k < 3 ? A[k] : 0.0f);", "i = j;\nc[0] = A[i];\nc[1] = A[i];"):
        assert legible(body(text), {}, {}) == body(text)


def test_sums_are_updates_only_where_the_order_stays() -> None:
    """``a + b - c`` is rounded twice; ``a += b - c`` would be rounded otherwise."""
    assert legible(body("a = a + b + -1.0f * c;"), {}, {}) == body("a = a + b - c;")
    assert legible(body("a = a + b * c;"), {}, {}) == body("a += b * c;")


def test_starts_of_groups_get_names() -> None:
    """A sum of group numbers that occurs twice is computed once; other sums of the same words are left alone."""
    start = {(("gid(0)", 4), ("gid(1)", 8)): "m_start"}
    text = legible(body("c = A[8 * gid(1) + 4 * gid(0)];\nd = A[8 * gid(1) + 4 * gid(0) + 1];\ne = -8 * gid(1) + 4 * gid(0);"), {}, start)
    assert "  int const m_start = 8 * gid(1) + 4 * gid(0);" in text
    assert "c = A[m_start];" in text and "d = A[m_start + 1];" in text and "e = 4 * gid(0) - 8 * gid(1);" in text


def test_constants_stand_at_the_end_of_an_index() -> None:
    """A constant inside a product would make compilers extend each index to 64 bits by itself."""
    assert legible(body("c = A[8 + 9 * (i + 1) + k];"), {}, {}) == body("c = A[9 * i + k + 17];")
    assert legible(body("c = A[9 * (i + 4 * j - 1) + k];"), {}, {}) == body("c = A[9 * (i + 4 * j) + k - 9];")
    assert legible(body("c = A[8 - i * 2] + A[3];"), {}, {}) == body("c = A[8 - 2 * i] + A[3];")
    for index in ("9 * ((i + 1) / 2) + k", "i % 3 + 1 + k", "(k < 3 ? i : 9 * (i + 1))", "B[i + 1] + 2"):
        assert legible(body(f"c = A[{index}];"), {}, {}).count("9 * i") == 0


def test_counts_of_elements_are_short() -> None:
    """What unrolling leaves in the number of elements that are there is computed."""
    text = body("vstoreupto_global_float8(A[i + 8], c, -16 * i - 8 * 1 + 20);")
    assert legible(text, {}, {}) == body("vstoreupto_global_float8(A[i + 8], c, 12 - 16 * i);")
    text = body("vstoreupto_global_float8(A[i], c, min(20 - i, 3 * j - i));")
    assert legible(text, {}, {}) == body("vstoreupto_global_float8(A[i], c, min(20 - i, 3 * j - i));")
    text = body("c = vindexge_float8(8 * 1 - 3 + 16 * i, -1, vindexge_float8(8 * 0 - j, 1, a, -1 * INFINITY), 0.0f);")
    assert legible(text, {}, {}) == body("c = vindexge_float8(16 * i + 5, -1, vindexge_float8(-j, 1, a, -INFINITY), 0.0f);")


def test_names_are_replaced_at_once() -> None:
    """A new name that is another's old one is not replaced again."""
    assert legible(body("c = m_1_1 + m_1;"), {"m_1_1": "m_1", "m_1": "m"}, {}) == body("c = m_1 + m;")


def test_source_of_a_fused_chain_has_nothing_to_hoist() -> None:
    """No loop of one iteration, no product with 0, no store that is assigned, no guard that always holds."""
    cascade = ff.cascade(["T[m,j] = A[m,k] * B[k,j]", "Z[m,n] = T[m,j] * C[j,n]"], sizes={"M": 4096, "K": 16, "J": 16, "N": 24})
    source = executable(lower(default_spec(cascade)).apply(cascade.kernel())).source
    kernel = source[source.index("__kernel") :]
    assert "int const m = 0" not in kernel and "= vstore" not in kernel and " * 0" not in kernel and "upto" not in kernel
    assert re.search(r"int const m_start = ", kernel)


def test_an_else_does_not_belong_to_a_condition_inside_a_loop() -> None:
    """Braces stay where an ``if`` ends what stands before ``else``, at any depth of loops."""
    inner = "for (int i = 0; i < 4; ++i)\n    for (int k = 0; k < 4; ++k)\n      if (i + k < n)\n        c[i] = A[k];"
    text = body(f"if (j == m)\n{{\n  {inner}\n}}\nelse\n  c[0] = B[j];")
    assert legible(text, {}, {}) == text
    assert read(legible(text, {}, {})).body == read(text).body
