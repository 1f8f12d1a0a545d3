"""Integer sets from conditions: the points that Python finds, under names that mean something to ISL's own language."""

from __future__ import annotations

import itertools

import islpy as isl
import pytest
from pymbolic import primitives as p

import feinsum_fuse as ff
from feinsum_fuse.formats.affine import Affine, read_affine
from feinsum_fuse.formats.integer_sets import (
    NotAffineError,
    basic_set,
    below,
    conditions_of,
    equal,
    integer_map,
    integer_set,
    projected,
    value_on,
    within,
)

FLOOR, MOD, N = Affine.variable("floor"), Affine.variable("mod"), Affine.variable("exists")
X, Y = p.Variable("floor"), p.Variable("mod")
BOX = [*within("floor", 7), *within("mod", 5)]


def points(found: isl.Set) -> set[tuple[int, ...]]:
    """All points of a bounded set."""
    result: set[tuple[int, ...]] = set()
    count = found.dim(isl.dim_type.set)
    found.foreach_point(lambda point: result.add(tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(count))))
    return result


def test_indices_are_expressions_although_they_are_tuples() -> None:
    """A tuple is repeated when it is multiplied, and is put behind another when it is added."""
    index = 2 * FLOOR + MOD - 3
    assert str(index) == "2*floor+mod-3"
    assert str(index * 2) == str(2 * index) == "4*floor+2*mod-6"
    assert index == Affine((("floor", 2), ("mod", 1)), -3) and len({index, 2 * FLOOR + (MOD - 3)}) == 1


CONDITIONS = [
    (FLOOR - MOD, lambda x, y: x >= y),
    (p.Comparison(2 * X + (-3) * Y, "<", 4), lambda x, y: 2 * x - 3 * y < 4),
    (p.Comparison(X // 3, "==", Y % 2), lambda x, y: x // 3 == y % 2),
    (p.LogicalNot(p.Comparison(X, "!=", Y)), lambda x, y: x == y),
    (p.LogicalOr((p.Comparison(X, ">", 5), p.Comparison(Y, "<=", 1))), lambda x, y: x > 5 or y <= 1),
    (p.LogicalAnd((p.Comparison(X, ">=", 2), p.Comparison(X * 2 * 1, "<", Y * 3))), lambda x, y: x >= 2 and 2 * x < 3 * y),
]


@pytest.mark.parametrize(("condition", "holds"), CONDITIONS, ids=[str(condition) for condition, _ in CONDITIONS])
def test_points_are_those_that_satisfy_the_conditions(condition: object, holds: object) -> None:
    found = integer_set(["floor", "mod"], [*BOX, condition])
    assert points(found) == {point for point in itertools.product(range(7), range(5)) if holds(*point)}  # type: ignore[operator]


def test_conditions_make_what_their_text_says() -> None:
    """One by one they are the same constraints in the same order as those that ISL reads, equations among them."""
    i, j, n = map(Affine.variable, ("i", "j", "n"))
    made = basic_set(["i", "j"], [*within("i", 7), *within("j", "n"), i * 2 + j * 3 - 1, *equal(i + j, n)])
    read = isl.BasicSet("[n] -> { [i, j] : i >= 0 and 6 - i >= 0 and j >= 0 and n - j - 1 >= 0 and 2i + 3j - 1 >= 0 and i + j = n }")
    assert made.get_space() == read.get_space()
    assert list(conditions_of(made)) == list(conditions_of(read))


def test_names_do_not_reach_the_parser() -> None:
    names = ["floor", "and", "exists", "a b", "[x]", "é"]
    found = integer_set(names, [condition for name in names for condition in within(name, "mod")])
    assert [found.get_dim_name(isl.dim_type.set, k) for k in range(len(names))] == names
    assert found.get_dim_name(isl.dim_type.param, 0) == "mod"


def test_hidden_variables_and_values() -> None:
    even = integer_set(["floor"], [*within("floor", 9), *equal(FLOOR, N * 2)], hidden=["exists"])
    assert points(even) == {(0,), (2,), (4,), (6,), (8,)}
    shifted = integer_set(["floor"], [*within("floor", 9), p.Comparison(Y, ">", 5)], values={"mod": FLOOR + 2})
    assert points(shifted) == {(k,) for k in range(4, 9)}


def test_maps_read_back() -> None:
    map_ = integer_map(["floor", "mod"], [FLOOR * 5 + MOD, X % 3], BOX)
    assert map_.is_injective()
    assert points(map_.range()) == {(5 * x + y, x % 3) for x, y in itertools.product(range(7), range(5))}
    assert points(projected(map_.domain(), {"mod"})) == {(k,) for k in range(5)}


def test_conditions_read_back() -> None:
    conditions = {FLOOR, below(FLOOR, "exists"), FLOOR - MOD * 2 + 3}
    found = basic_set(["floor"], conditions, parameters=["mod", "exists"])
    assert set(conditions_of(found)) == conditions
    assert set(conditions_of(basic_set(["floor"], equal(FLOOR, 3)))) == {FLOOR - 3, -FLOOR + 3}


def test_values_on_a_set() -> None:
    box = integer_set(["floor", "mod"], BOX)
    assert box.max_val(value_on(box, ["floor", "mod"], FLOOR * 2 - MOD + 1)).to_python() == 13


@pytest.mark.parametrize("condition", [X, p.Comparison(X * Y, "<", 3), p.Comparison(X // Y, "<", 3), p.Comparison(X, "<", 0.5)], ids=str)
def test_what_is_not_affine_is_refused(condition: object) -> None:
    with pytest.raises(NotAffineError) as caught:
        integer_set(["floor", "mod"], [condition])
    assert isinstance(caught.value, ff.Error)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (2 * X + 3 * (Y - X) - 4, FLOOR * -1 + MOD * 3 - 4),
        (p.Product((2, p.Sum((X, 1)), 3)), FLOOR * 6 + 6),
        (X, FLOOR),
        (5, Affine((), 5)),
        (X * Y, None),
        (X // 2, None),
        (p.Sum((X, 0.5)), None),
        (True, None),
    ],
)
def test_affine_expressions_are_read(expression: object, expected: Affine | None) -> None:
    assert read_affine(expression) == expected
