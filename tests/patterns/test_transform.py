"""Transforms as values: roles, patterns, parameters, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.errors import TransformError
from feinsum_fuse.patterns.parameters import Divisors, OneOf, Powers
from feinsum_fuse.patterns.registry import transform_called, transforms
from feinsum_fuse.patterns.roles import Extents, Pattern, Roles
from feinsum_fuse.patterns.sketch import Sketch
from feinsum_fuse.patterns.transform import transform
from feinsum_fuse.schedule.target import ANY_DEVICE


def product(names: str = "mnk", **sizes: int) -> Cascade:
    m, n, k = names
    return ff.cascade([f"Z[{m},{n}] = A[{m},{k}] * B[{k},{n}]"], sizes=sizes or {m.upper(): 37, n.upper(): 41, k.upper(): 53})


def roles(text: str, **sizes: int) -> Extents:
    found = Roles.of(ff.cascade([text], sizes=sizes).einsums[0])
    assert found is not None
    return found.extents


def test_roles_of_indices() -> None:
    found = Extents((2,), (3,), (5,), (7,), operands=2, last=("right", "contracted", "right"))
    assert roles("Z[b,m,n] = A[b,m,k] * B[b,k,n]", B=2, M=3, N=5, K=7) == found
    assert roles("Z[b,m,n] = B[b,k,n] * A[b,m,k]", B=2, M=3, N=5, K=7).right == (5,)
    window = roles("O[k,h] = W[k,c,r] * I[c,H:h+r]", K=2, H=9, C=3, R=4)
    assert (window.window, window.contracted, window.left, window.right) == ((4,), (3,), (2,), (9,))
    assert roles("S[m] = A[m,k]", M=3, K=4).summed == (4,)


def test_patterns_see_no_names_and_no_maps() -> None:
    one, other = product("mnk"), product("xyz")
    assert [t.name for t in ff.transforms_for(one)] == [t.name for t in ff.transforms_for(other)]
    other_map = ff.cascade(["Z[m,n] = max(abs(A[m,k] - B[k,n]))"], sizes={"M": 37, "N": 41, "K": 53})
    products = [t for t in ff.transforms_for(one) if t.name != "products.split_reduction"]
    assert [t.name for t in products] == [t.name for t in ff.transforms_for(other_map) if t.name != "products.split_reduction"]


def test_a_pattern_counts_and_relates() -> None:
    pattern = Pattern(operands=2, left=(1, None), contracted=(1, 2), where=lambda e: e.contracted[0] > e.left[0])
    assert pattern.matches(Extents(left=(3,), contracted=(5,), operands=2))
    assert not pattern.matches(Extents(left=(5,), contracted=(3,), operands=2))
    assert not pattern.matches(Extents(left=(3,), contracted=(5,), operands=3))
    assert str(pattern) == "2 operands, 1 or more left, 1 to 2 contracted, a relation of sizes"


def test_what_reads_nothing_of_a_run_may_stand_in_it() -> None:
    """Two sums and what follows from both: the second sum reads nothing of the first."""
    lines = ["A[m] = X[m,p]", "D[m] = W[m,p]", "U[m] = A[m] / 23", "B[m] = (X[m,p] - U[m]) * (W[m,p] - D[m])"]
    sums = ff.cascade(lines, sizes={"M": 3, "P": 23})
    assert [roles.name for roles in transform_called("networks.one_pass").matched(sums)] == ["A", "U"]
    assert transform_called("networks.split_keys").applies_to(sums)
    apart = ff.cascade(["A[m] = X[m,p]", "D[m] = W[m,p]"], sizes={"M": 3, "P": 23})
    assert not transform_called("networks.one_pass").matched(apart)


def test_parameters_depend_on_sizes() -> None:
    matched = transform_called("products.register_tiles").matched(product())
    assert Powers(8, 512, 64, "contracted").values(matched) == (64, 8, 16, 32)
    assert Divisors("contracted", 64, 8).values(matched) == (1, 53)
    assert OneOf(("a", "b")).values(matched) == ("a", "b")
    assert Powers(8, 512, 64, "batch").values(matched) == (8,)


def test_points_keep_the_conditions() -> None:
    found = transform_called("products.register_tiles")
    target = replace(ANY_DEVICE, vector_registers=16)
    points = list(found.points(product(), target))
    assert points and all(int(p["down"]) * int(p["vectors"]) < 16 for p in points)
    assert len(points) < len(list(found.points(product(), replace(ANY_DEVICE, vector_registers=64))))


def test_a_transform_is_applied_alike_on_renamed_indices() -> None:
    found = transform_called("products.register_tiles")
    mapping = str(found.apply(product(), down=4, vectors=1).mapping)
    renamed = str(found.apply(product("xyz"), down=4, vectors=1).mapping)
    assert mapping.replace(" m ", " x ").split() and len(mapping.splitlines()) == len(renamed.splitlines())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rows": 3}, "has no parameter 'rows'"),
        ({"down": 5}, "down of the transform products.register_tiles cannot be 5"),
        ({"down": True}, "cannot be True"),
        ({"down": 12, "vectors": 4, "block": 32}, "wants a register tile that fits"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(TransformError, match=message):
        transform_called("products.register_tiles").apply(product(), **parameters)


def test_what_does_not_apply_is_refused() -> None:
    sums = ff.cascade(["S[m] = A[m,k]"], sizes={"M": 3, "K": 4})
    with pytest.raises(TransformError, match=r"is for other Einsums: 2 operands, .*\n  S has 1 operand, 1 batch \(m\), 1 summed \(k\)\. "):
        transform_called("products.register_tiles").apply(sums)
    with pytest.raises(TransformError, match="there is no transform 'x'"):
        transform_called("x")
    with pytest.raises(TransformError, match="a mapping has no decision colour"):
        transforms()["products.register_tiles"].sketch(product()).decided(colour=1)
    assert ff.transforms_for(ff.cascade(["Z[e] = A[e] * B[e]"], sizes={"E": "nel"})) == ()


def test_a_function_that_is_no_transform() -> None:
    def undocumented(sketch: Sketch, tile: int) -> Sketch:
        return sketch

    with pytest.raises(TransformError, match="is no transform"):
        transform(Pattern(), parameters={"tile": OneOf((1, 2))})(undocumented)
