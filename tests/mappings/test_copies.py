"""Copies of operands are scheduled apart from what is computed: which, how far in, and what the tiles then are."""

from __future__ import annotations

from dataclasses import replace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.mappings.choices import Given, Noted, sweep
from feinsum_fuse.mappings.default_mapping import default_mapping, default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.schedule.target import ANY_DEVICE, DeviceLimits

BOTH = {"rows": {"Z": "m"}, "copied": ("A", "B"), "block": 16, "vectors": 1, "down": 4}


def product(m: int = 61, n: int = 67, k: int = 71, left: str = "A[m, k]") -> Cascade:
    return ff.cascade([f"Z[m, n] = {left} * B[k, n]"], sizes={"M": m, "N": n, "K": k})


def test_rows_of_one_operand_and_whole_blocks_of_the_other() -> None:
    """As products are computed by hand: a block of B for all rows, a panel of A for the columns of a register tile's rows."""
    given = Given(BOTH | {"scope of A in Z": "second", "scope of B in Z": "block"})
    assert str(Family(default_space(product())).mapping(given)) == "\n".join(
        [
            "LoopTree",
            "│ MainMemory holds A B Z",
            "│ for m in tiles of 32",
            "│ spatial for m in tiles of 16, over Core.core",
            "│ for k in tiles of 16",
            "│ Scratchpad holds B",
            "│ for m in tiles of 4",
            "│ Scratchpad holds A",
            "│ for n in tiles of 8",
            "│ Register holds Z",
            "│ for k in tiles of 1",
            "│ for m in tiles of 1",
            "│ spatial for n in tiles of 1, over Lane.lane",
            "└ MAC computes Z",
        ]
    )


def test_an_operand_is_copied_where_its_tile_changes() -> None:
    """By default as far in as no tile is copied twice; the loop of an index that it lacks is no place for it."""
    noted = Noted(Given(BOTH))
    Family(default_space(product())).mapping(noted)
    scopes = {choice.name: choice.options for choice in noted.choices if choice.kind == "scope"}
    assert scopes == {"scope of A in Z": ("block", "second"), "scope of B in Z": ("along", "block")}


@pytest.mark.parametrize(
    ("cascade", "block"),
    [(product(), 16), (product(left="A[k, m]"), 16), (product(9, 130, 3), None)],
    ids=["product", "transposed", "short"],
)
def test_every_scope_computes_the_same(cascade: Cascade, block: int | None) -> None:
    """Lengths that no tile divides; each is verified when it is compiled."""
    family = Family(default_space(cascade))
    found = {str(mapping): mapping for mapping in sweep(family.mapping, {"scope"}, Given(BOTH | {"block": block}))}
    assert len(found) == 4
    for mapping in found.values():
        assert ff.compile(family.spec.replace(mapping=mapping), "pocl").example.expected


def test_the_default_mapping_copies_what_lies_along_the_lanes_for_each_of_their_tiles() -> None:
    cascade = product(512, 256, 640)
    assert Family(default_space(cascade)).mapping(Given({"scope": "along"})) == default_mapping(cascade)


@pytest.mark.parametrize(("c", "d", "block"), [(153, 11, 16), (153, 23, 8), (300, 40, 8)])
def test_blocks_that_are_turned_are_of_whole_vectors(c: int, d: int, block: int) -> None:
    """B lies along ``c`` and is read along ``b``: square blocks are turned by vectors. Of ``c`` 23, 11 and 6 fit near by."""
    cascade = ff.cascade(["Z[a, b] = A[a, c, d] * B[d, b, c]"], sizes={"A": 160, "B": 150, "C": c, "D": d})
    noted = Noted(Given({"rows": {"Z": "a"}, "lane": "b", "copied": ("B",)}))
    Family(default_space(cascade)).mapping(noted)
    assert noted.taken["block of Z"] == block


def test_a_tile_beyond_local_memory_costs_no_lanes() -> None:
    """What lanes read apart is copied near where that fits; where it does not, lanes are filled one by one, and stay."""
    cascade = ff.cascade(["Z[a,b,c,d] = A[a,b,e,f] * B[c,e,f,d]"], sizes={"A": 23, "B": 21, "C": 30, "D": 21, "E": 16, "F": 24})
    roomy, tight = (replace(ANY_DEVICE, vector_bytes=64, limits=DeviceLimits(local_bytes=kib << 10)) for kib in (1024, 256))
    held = [str(default_mapping(cascade, target=target)) for target in (roomy, tight)]
    assert ["Scratchpad holds B" in text for text in held] == [True, False]
    assert all("over Lane.lane" in text for text in held)


@pytest.mark.parametrize(
    ("sizes", "vector_bytes", "is_copied"),
    [
        ({"m": 100_000, "n": 39, "k": 45}, 64, True),
        ({"m": 100_000, "n": 48, "k": 45}, 64, False),  # rows begin with lines
        ({"m": 100_000, "n": 39, "k": 45}, 32, False),  # most vectors lie in one line
        ({"m": 100_000, "n": 39, "k": 400}, 64, False),  # the nearest cache does not hold it
        ({"m": 400, "n": 39, "k": 45}, 64, False),  # few register tiles of a group use the copy
    ],
)
def test_rows_across_lines_are_copied_where_many_register_tiles_use_them(sizes: dict[str, int], vector_bytes: int, is_copied: bool) -> None:
    target = replace(ANY_DEVICE, vector_bytes=vector_bytes, vector_registers=32)
    assert ("Scratchpad holds B" in str(default_mapping(product(**sizes), target=target))) is is_copied


@pytest.mark.parametrize(("vector_bytes", "registers", "copied"), [(32, 16, ("V",)), (64, 32, ())])
def test_more_rows_of_a_register_tile_use_a_vector_while_it_comes_from_a_farther_cache(
    vector_bytes: int, registers: int, copied: tuple[str, ...]
) -> None:
    """Of 64 rows 16 register tiles of 4 pay for a copy, 8 of 8 do not."""
    lines = ["H[m, f] = X[m, a] * V[a, f]", "G[m, f] = gelu(H[m, f])", "Y[m, b] = G[m, f] * W[f, b]"]
    target = replace(ANY_DEVICE, vector_bytes=vector_bytes, vector_registers=registers, units=2)
    cascade = ff.cascade(lines, sizes={"M": 2048, "A": 192, "F": 512, "B": 192})
    found = {choice.name: choice.usual for choice in Family(default_space(cascade, target=target), target).choices()}
    assert found["tile of H+G+Y"] == 64
    assert found["copied of H"] == copied


@pytest.mark.parametrize(("columns", "copied"), [(209, ("X",)), (2000, ())])
def test_single_vectors_that_lie_far_apart_are_copied_for_fewer_uses(columns: int, copied: tuple[str, ...]) -> None:
    """Of 56 rows four register tiles use a vector: alone in its row it is copied, and not beside others."""
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32, units=2)
    cascade = ff.cascade(["Z[k, r] = X[i, k] * U[i, r]"], sizes={"I": 480, "K": columns, "R": 56})
    found = {choice.name: choice.usual for choice in Family(default_space(cascade, target=target), target).choices()}
    assert found["copied of Z"] == copied


@pytest.mark.parametrize(("queries", "copied"), [(17, ("D",)), (7, ())])
def test_lanes_that_are_no_neighbours_are_copied_for_two_register_tiles(queries: int, copied: tuple[str, ...]) -> None:
    """Register tiles of three vectors have 8 rows: 17 queries are more of them, 7 are one."""
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32, units=2)
    lines = ["S[d, q, t] = Q[q, e] * D[d, t, e]", "M[d, q] = max(S[d, q, t])", "Z[d] = M[d, q]"]
    cascade = ff.cascade(lines, sizes={"D": 73, "T": 47, "Q": queries, "E": 81})
    found = {choice.name: choice.usual for choice in Family(default_space(cascade, target=target), target).choices()}
    assert found["copied of S"] == copied
