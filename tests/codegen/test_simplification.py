"""Statements in their shortest form; those of a register tile in the order that needs the fewest registers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic import parse

import feinsum_fuse as ff
from feinsum_fuse.codegen.arithmetic import Known
from feinsum_fuse.codegen.simplification import few_at_once, in_vectors, shortened
from feinsum_fuse.codegen.statement_expressions import VectorCall, variables
from feinsum_fuse.codegen.statements import Assignment, Conditional, CStatement, Variable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.schedule.kernel.operations import VectorOperation, Verb
from tests.cascades.randomness import largest_error

from .trees import assignment, expression, kernel, lines


def tile(rows: int, columns: int, by_rows: bool) -> list[CStatement]:
    outer, inner = (rows, columns) if by_rows else (columns, rows)
    places = [(i, j) if by_rows else (j, i) for i in range(outer) for j in range(inner)]
    return [Assignment(parse(f"Z[{columns * i + j}]"), parse(f"a_{i} * b_{j}"), "+=") for i, j in places]


def operands(value: object) -> frozenset[p.Variable]:
    return frozenset(p.Variable(name) for name in variables(value) if name[0] in "ab")


def most_waiting(run: list[CStatement]) -> int:
    """Operands in registers at a time: from the first statement that reads one to the last."""
    reads = [operands(s.value) for s in run if isinstance(s, Assignment)]
    return max(len({o for r in reads[: i + 1] for o in r} & {o for r in reads[i:] for o in r}) for i in range(len(reads)))


@pytest.mark.parametrize(
    ("first", "second"), [("i == 0", "i > 0"), ("i == 0 and j == 0", "i > 0 or j > 0"), ("i > 0 or j > 1", "i == 0 and j <= 1")]
)
def test_of_conditions_that_exclude_one_another_the_second_is_an_else(first: str, second: str) -> None:
    known = Known({p.Variable("i"): (0, 3), p.Variable("j"): (0, 3)})
    body = [Conditional(expression(first), (assignment("a[0] = 1"),)), Conditional(expression(second), (assignment("a[0] = b[i]"),))]
    test, then, otherwise = lines(kernel(*shortened(body, known)))[:3]
    assert test.startswith("if (") and (then, otherwise) == ("a[0] = 1;", "else")


@pytest.mark.parametrize(
    ("condition", "ends"),
    [("i + 16 * j <= 15", ((0, 15), (0, 0))), ("i + 16 * j >= 40", ((0, 15), (2, None))), ("4 * j - i <= 2", ((0, 15), (0, 4)))],
)
def test_a_bound_of_a_sum_bounds_its_terms(condition: str, ends: tuple[object, object]) -> None:
    i, j = p.Variable("i"), p.Variable("j")
    known = Known({i: (0, 15), j: (0, None)}).where(expression(condition))
    assert (known.range(i), known.range(j)) == ends


@pytest.mark.parametrize(
    ("first", "step", "chosen"),
    [(12, -1, "a"), (9, -1, None), (-11, 1, None), (-12, 1, "b"), (-12, 4, None), (0, 4, "a")],  # i goes to 8, lanes three steps further
)
def test_lanes_that_are_alike_are_not_chosen(first: int, step: int, chosen: str | None) -> None:
    choice = VectorOperation(Verb.INDEX, "float", 4, comparison=">=")
    known = Known({p.Variable("i"): (0, 8)})
    at = p.Sum((first, p.Product((-1 if step < 0 else 1, p.Variable("i")))))
    value = VectorCall(choice, (at, step, p.Variable("a"), p.Variable("b")))
    (found,) = shortened([Assignment(p.Variable("Z"), value)], known)
    assert isinstance(found, Assignment)
    assert found.value == p.Variable(chosen) if chosen else isinstance(found.value, VectorCall)


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


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("shape", [(6, 2), (2, 6), (3, 4), (1, 5), (5, 1), (14, 2), (4, 4)])
def test_the_shorter_side_of_a_tile_stays_and_the_longer_passes(shape: tuple[int, int], by_rows: bool) -> None:
    given = tile(*shape, by_rows)
    found = few_at_once(given, operands)
    assert sorted(map(repr, found)) == sorted(map(repr, given))
    assert most_waiting(found) <= min(shape) + 1
    if most_waiting(given) == most_waiting(found) and by_rows == (shape[1] <= shape[0]):
        assert found == given


def test_statements_that_may_need_one_another_stay_as_they_are() -> None:
    given = tile(3, 2, by_rows=False)
    chained = [*given, Assignment(parse("Z[0]"), parse("a_9*b_0"), "+=")]
    reading = [*given, Assignment(parse("Y[0]"), parse("Z[1]*b_0"))]
    unknown = [*given, Assignment(parse("Z[i]"), parse("a_0*b_0"))]
    named = [Assignment(p.Variable("t"), parse("a_0*b_0")), Assignment(p.Variable("u"), parse("a_1*b_1 + t")), *given]
    conditional = [*given, Conditional(parse("i < 3"), (given[0],))]
    for run in (chained, reading, unknown, named, conditional):
        assert few_at_once(run, operands) == run


SPEC = """
workload:
  rank_sizes: {M: 12, K: 7, N: 48}
  bits_per_value: {All: 32}
  einsums:
    - einsum: "Z[m,n] = A[m,k] * B[k,n]"
mapping:
  nodes:
    - !Storage {tensors: [A, B, Z], component: MainMemory}
    - !Temporal {rank_variable: n, tile_shape: 32}
    - !Temporal {rank_variable: m, tile_shape: 6}
    - !Temporal {rank_variable: n, tile_shape: 16}
    - !Storage {tensors: [Z], component: Register}
    - !Temporal {rank_variable: k, tile_shape: 1}
    - !Temporal {rank_variable: m, tile_shape: 1}
    - !Temporal {rank_variable: n, tile_shape: 8}
    - !Spatial {rank_variable: n, tile_shape: 1, name: lane, component: Lane}
    - !Compute {einsum: Z, component: MAC}
opencl:
  memories: {MainMemory: global, Register: private}
  fanouts: {Lane: vector}
  dtypes: {All: float32}
"""


def test_a_tile_at_the_end_of_rows_is_right_and_in_order() -> None:
    """Limits of the columns are written around the rows; where they are gone, in whole tiles, the tile has its order again."""
    program = ff.compile(ff.loads(SPEC), find_device("portable"))
    given = program.example.inputs
    assert largest_error(program(**given)["Z"], given["A"].astype(float) @ given["B"]) < 1e-5
    whole, cut, _ = program.source.partition("// a whole tile")[2].partition("// a tile that is cut")
    assert cut and "vstore_global" in whole and "upto" not in whole
    updates = [line.split("+=")[0].strip() for line in whole.splitlines() if "Z_private[" in line and "+=" in line]
    assert updates == sorted(updates, key=lambda name: int(name[name.index("[") + 1 : -1]))


def test_whole_tiles_stand_apart_from_the_rest() -> None:
    """With several conditions on a tile's copies its loop is there for each way to cut it, without any of them."""
    ragged = SPEC.replace("M: 12", "M: 29").replace("N: 48", "N: 40")
    tile = "    - !Temporal {rank_variable: m, tile_shape: 6}"
    ragged = ragged.replace(tile, tile.replace("6", "16") + "\n" + tile)
    program = ff.compile(ff.loads(ragged), find_device("portable"))
    given = program.example.inputs
    assert largest_error(program(**given)["Z"], given["A"].astype(float) @ given["B"]) < 1e-5
    text = program.source[program.source.index("__kernel") :]
    whole, *cut = [part.split("vstore")[0] for part in text.split("for (int k = 0;")[1:]]
    assert whole.count("+=") == 12 and {part.count("+=") for part in cut} < set(range(1, 12))
    assert not any("if (" in part for part in (whole, *cut))
