"""Runs of statements on neighbouring elements of private vectors become statements on vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest

from feinsum_fuse.codegen.loops.element_runs import in_vectors
from feinsum_fuse.codegen.statements import Assignment, CStatement, Variable, VariableMemory

from .trees import assignment, expression, kernel, lines

STORE = "vstore_private_float4({0}[{1}], vload_private_float4({0}[{1}]) * 2.0)"


def in_lines(*body: str, types: str = "float") -> list[str]:
    """What is left of statements on private arrays of ``float``, elements of which are also moved as vectors of four."""
    known = {name: Variable(types if name == "Z" else "float", "f", "private") for name in "pqZ"}
    return lines(kernel(*in_vectors([assignment(text) for text in (*body, STORE.format("p", 0))], known)))[:-1]


def test_elements_of_vectors_are_set_and_combined_a_vector_at_a_time() -> None:
    """Whatever the order in which unrolled loops set them; combined they are in their own order, as sums round."""
    vector = "vload_private_float4(p[4])"
    assert in_lines(*(f"p[{k}] = 0.0" for k in (0, 4, 1, 5, 2, 6, 3, 7))) == [
        f"vstore_private_float4(p[{k}], splat_float4(0.0f));" for k in (0, 4)
    ]
    plus = [Assignment(expression("Z[0]"), expression(f"p[{k}]"), "+=") for k in range(4, 8)]
    known = {name: Variable("float", "f", "private") for name in "pZ"}
    found = lines(kernel(*in_vectors([*plus, assignment(STORE.format("p", 0))], known)))
    assert found[0] == f"Z[0] = foldsum_float4(Z[0], {vector});"
    scaled = [replace(one, value=p.Quotient(p.Product((np.float32(3), one.value)), np.float32(7))) for one in plus]
    found = lines(kernel(*in_vectors([*scaled, assignment(STORE.format("p", 0))], known)))
    assert found[0] == f"Z[0] += 3.0f * foldsum_float4(0.0f, {vector}) / 7.0f;"
    assert in_lines(*(f"Z[0] = fmax(Z[0], p[{k}])" for k in range(4, 8))) == [f"Z[0] = foldfmax_float4(Z[0], {vector});"]


@pytest.mark.parametrize(
    ("statements", "types"),
    [
        ([f"q[{k}] = 0.0" for k in range(4)], "float"),  # nothing moves these as vectors
        ([f"p[{k}] = 0.0" for k in range(3)], "float"),
        ([f"p[{k}] = 0.0" for k in range(1, 5)], "float"),  # of two vectors
        (["p[0] = 0.0", "p[1] = 0.0", "p[2] = 0.0", "p[3] = 1.0"], "float"),
        ([f"p[{k}] = q[0]" for k in range(4)], "float"),  # may change on the way
        ([f"Z[0] = fmax(Z[0], p[{k}])" for k in (0, 1, 3, 2)], "float"),
        ([f"Z[0] = fmax(Z[0], p[{k}])" for k in range(1, 5)], "float"),
        ([f"Z[{k}] = fmax(Z[{k}], p[{k}])" for k in range(4)], "float"),
        ([f"Z[0] = fmax(p[{k}], Z[1])" for k in range(4)], "float"),
        ([f"p[5] = fmax(p[5], p[{k}])" for k in range(4, 8)], "float"),  # one of them changes on the way
        ([f"Z[0] = fmax(Z[0], p[{k}])" for k in range(4)], "double"),  # in another type than the vector's
    ],
)
def test_other_elements_are_left(statements: list[str], types: str) -> None:
    assert sorted(in_lines(*statements, types=types)) == sorted(line for text in statements for line in lines(kernel(text)))


def folds(targets: list[str], memory: VariableMemory) -> list[str]:
    """What is left of adding to each of these elements those of a vector of its own."""
    known = {"p": Variable("float", "f", "private"), "Z": Variable("float", "f", memory)}
    plus: list[CStatement] = [
        Assignment(expression(target), p.Product((np.float32(3), expression(f"p[{4 * k + lane}]"))), "+=")
        for k, target in enumerate(targets)
        for lane in range(4)
    ]
    return lines(kernel(*in_vectors([*plus, assignment(STORE.format("p", 0))], known)))[:-1]


def test_numbers_that_lie_together_are_combined_with_a_vector_each_at_once() -> None:
    vectors = [f"vload_private_float4(p[{4 * k}])" for k in range(7)]
    one, two, four = folds(["Z[i]", *(f"Z[i + {k}]" for k in range(1, 7))], "local")[::-1]
    assert four == (
        "vstore_local_float4(Z[i], vload_local_float4(Z[i])"
        f" + 3.0f * foldsum4_float4(splat_float4(0.0f), {', '.join(vectors[:4])}));"
    )
    assert two == (
        "vstore_local_float2(Z[i + 4], vload_local_float2(Z[i + 4])"
        f" + 3.0f * foldsum2_float4(splat_float2(0.0f), {vectors[4]}, {vectors[5]}));"
    )
    assert one == f"Z[i + 6] += 3.0f * foldsum_float4(0.0f, {vectors[6]});"


@pytest.mark.parametrize(
    ("targets", "memory"),
    [(["Z[0]", "Z[1]"], "private"), (["Z[0]", "Z[2]"], "local"), (["Z[1]", "Z[0]"], "local"), (["Z[i]", "Z[j + 1]"], "local")],
)
def test_others_are_combined_one_by_one(targets: list[str], memory: VariableMemory) -> None:
    assert [line.partition(" +=")[0] for line in folds(targets, memory)] == targets
