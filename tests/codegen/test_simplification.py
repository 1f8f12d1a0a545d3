"""Statements in their shortest form; those of a register tile in the order that needs the fewest registers."""

from __future__ import annotations

import pymbolic.primitives as p
import pytest
from pymbolic import parse

import feinsum_fuse as ff
from feinsum_fuse.codegen.arithmetic import Known
from feinsum_fuse.codegen.simplification import few_at_once, shortened
from feinsum_fuse.codegen.statement_expressions import VectorCall, variables
from feinsum_fuse.codegen.statements import Assignment, Conditional, CStatement
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
