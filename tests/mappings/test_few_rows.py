"""Layers of few rows: their weights are shared out among the cores, in columns or in parts of the reduction that lie together."""

from __future__ import annotations

from dataclasses import replace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.mappings.choices import Choice, Rules
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.target import ANY_DEVICE, Target

TARGET = replace(ANY_DEVICE, units=2, vector_bytes=64, vector_registers=32)


def groups(cascade: Cascade, target: Target = TARGET) -> list[tuple[str, str, int]]:
    """Of each kernel its Einsums, the rank variable of its groups in the first, and how many iterations a group takes."""
    choices: tuple[Choice[object], ...] = Family(default_space(cascade, None, target), target, outputs=cascade.outputs).choices(Rules())
    rows = {choice.about: choice.usual for choice in choices if choice.kind == "rows"}
    tiles = {choice.about: choice.usual for choice in choices if choice.kind == "tile"}
    return [(name, next(iter(found.values())), tiles[name]) for name, found in rows.items()]  # type: ignore[attr-defined, misc]


def perceptron(rows: int, size: int) -> Cascade:
    lines = ["H[b, h] = X[b, k] * U[k, h]", "G[b, h] = relu(H[b, h])", "Z[b, n] = G[b, h] * V[h, n]"]
    return ff.cascade(lines, sizes={"B": rows, "K": 512, "H": size, "N": 512})


@pytest.mark.parametrize("rows", [1, 2, 6])
def test_layers_of_few_rows_are_kernels_of_their_own(rows: int) -> None:
    """One group would read all of the second layer's weights, while another core waits."""
    assert groups(perceptron(rows, 1024)) == [("H+G", "h", 64), ("Z", "n", 64)]


@pytest.mark.parametrize(("rows", "size", "tile"), [(12, 1024, 6), (2, 128, 2)], ids=["rows for all cores", "small weights"])
def test_other_layers_are_fused(rows: int, size: int, tile: int) -> None:
    assert groups(perceptron(rows, size)) == [("H+G+Z", "b", tile)]


def test_a_few_problems_that_share_little_are_for_all_cores() -> None:
    """Means of six images, and a small product of each."""
    cascade = ff.cascade(["S[b, c] = X[b, c, p]", "H[b, d] = S[b, c] * U[c, d]"], sizes={"B": 6, "C": 96, "P": 784, "D": 24})
    assert groups(cascade) == [("S+H", "b", 3)]


@pytest.mark.parametrize(("rows", "tile"), [(1, 64), (8, 64), (32, 16)])
def test_groups_of_few_rows_take_whole_register_tiles_of_columns(rows: int, tile: int) -> None:
    cascade = ff.cascade(["H[b, h] = X[b, k] * U[k, h]"], sizes={"B": rows, "K": 256, "H": 256})
    assert groups(cascade) == [("H", "h", tile)]


def test_merged_parts_of_a_triangle_are_read_in_tiles_that_reach_least_beyond_it() -> None:
    """What a tile reads beyond the diagonal is computed for it, sums of thousands of products."""
    cascade = suited(ff.cascade("Z[m, n] = A[k, m] * A[k, M: n]", sizes={"K": 15089, "M": 192}), TARGET)
    family = Family(default_space(cascade, None, TARGET), TARGET, outputs=cascade.outputs)
    vectors = {choice.about: choice.usual for choice in family.choices(Rules()) if choice.kind == "vectors"}
    assert vectors["Z_half"] == 1 < vectors["Z_half_part"]


@pytest.mark.parametrize(("rows", "cost", "tile"), [(814, 12.0, 64), (814, 0.0, 32), (500, 12.0, 32)], ids=["far", "free", "near"])
def test_groups_take_more_columns_where_each_reads_all_rows_from_afar(rows: int, cost: float, tile: int) -> None:
    """Of 475 columns groups of 32 leave the cores more alike than those of 64, which read far rows half as often."""
    target = replace(TARGET, core_cache_bytes=2 << 20, far_line_cost=cost)
    sizes = {"M": rows, "N": 475, "K": 914}
    cascade = suited(ff.cascade("Z[m, n] = A[m, k] * B[k, n]", sizes=sizes), target)
    assert groups(cascade, target) == [("B_packed+Z", "n", tile)]


@pytest.mark.parametrize(("cache", "tile"), [(1 << 20, 64), (2 << 20, 32)], ids=["far", "near"])
def test_groups_of_a_problem_read_what_that_one_has(cache: int, tile: int) -> None:
    """The rows of both problems are 3.6 MB, those of one 1.8."""
    target = replace(TARGET, core_cache_bytes=cache, far_line_cost=15.0)
    sizes = {"B": 2, "M": 300, "N": 327, "K": 1491}
    cascade = suited(ff.cascade("Z[b, m, n] = A[b, m, k] * B[b, k, n]", sizes=sizes), target)
    assert groups(cascade, target) == [("Z", "n", tile)]


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_parts_of_a_reduction_are_groups_whatever_the_rows(rows: int) -> None:
    """Rows that share the weights make no further groups of a part, which is read from end to end."""
    cascade = suited(ff.cascade(["H[b, h] = X[b, k] * U[k, h]"], sizes={"B": rows, "K": 4096, "H": 1024}), TARGET)
    assert [r.parts for r in cascade.rewritings if isinstance(r, SplitReduction)] == [TARGET.groups]
    assert groups(cascade)[0][1:] == ("h", 1024)


@pytest.mark.parametrize(
    "line", ["Z[m, n] = (X[k, M: m] - U[M: m]) * (X[k, M: n] - U[M: n])", "Z[m, n] = X[k, m] * Y[k, n] * W[m] + X[k, m]"]
)
def test_parts_of_a_reduction_are_groups_where_all_of_them_read_a_few_numbers(line: str) -> None:
    """Each part reads its own rows from end to end; groups of the output's rows would read all of them."""
    cascade = suited(ff.cascade([line], sizes={"M": 96, "N": 96, "K": 20_000}), TARGET)
    assert [type(r) for r in cascade.rewritings][-1] is SplitReduction
    assert groups(cascade)[0][1:] == ("m", 96)


def test_parts_that_share_more_than_each_has_are_no_groups_of_their_own() -> None:
    line = "Z[m] = exp(-abs(X[m, d] - Y[n]))"
    cascade = suited(ff.cascade([line], sizes={"M": 6, "D": 2000, "N": 2000}), TARGET)
    assert [type(r) for r in cascade.rewritings] == [SplitReduction]
    assert groups(cascade)[0] == ("Z_part", "d_part", 8)


@pytest.mark.parametrize(
    ("columns", "kernels"),
    [
        (13, [("T+U", "j", 16), ("Z", "q", 12)]),
        (24, [("T+U", "j", 16), ("Z", "s", 16)]),
        (64, [("T+U", "j", 16), ("Z", "s", 16)]),  # groups have vectors of their own, but each would read all of X
    ],
)
def test_einsums_that_share_nothing_but_lanes_are_kernels_of_their_own(columns: int, kernels: list[tuple[str, str, int]]) -> None:
    """Groups along 13 columns have 8 and 5 of 16 lanes, and both read all of X; the first two Einsums have 93 rows."""
    lines = ["T[i, j, s] = X[i, j, k] * C[k, s]", "U[j, q, s] = T[i, j, s] * A[i, q]", "Z[q, r, s] = U[j, q, s] * B[j, r]"]
    cascade = ff.cascade(lines, sizes={"I": 108, "J": 93, "K": 99, "Q": 21, "R": 24, "S": columns})
    assert groups(cascade, replace(TARGET, core_cache_bytes=1 << 21)) == kernels


@pytest.mark.parametrize(
    ("size", "cache", "kernels"),
    [
        (700, 1 << 21, ["G+U+H", "Y"]),  # 2.5 MB of factors, of which H needs 1.7
        (700, 1 << 22, ["G+U+H+Y"]),  # they stay in a core's cache
        (200, 1 << 21, ["G+U+H+Y"]),
    ],
)
def test_what_all_rows_use_fits_a_cores_cache(size: int, cache: int, kernels: list[str]) -> None:
    """A gated layer in one kernel read all its factors again for each 32 rows: 1.4 and 1.8 times as long on two cores of a Xeon."""
    products = ["G[m, n] = X[m, k] * A[k, n]", "U[m, n] = X[m, k] * B[k, n]"]
    lines = [*products, "H[m, n] = silu(G[m, n]) * U[m, n]", "Y[m, o] = H[m, n] * C[n, o]"]
    cascade = ff.cascade(lines, sizes={"M": 500, "K": 300, "N": size, "O": 300})
    assert [name for name, *_ in groups(cascade, replace(TARGET, core_cache_bytes=cache))] == kernels


@pytest.mark.parametrize(("room", "tile"), [(1 << 20, 64), (256 << 10, 32)])
def test_groups_take_no_more_columns_for_it_than_local_memory_has_room_for(room: int, tile: int) -> None:
    """64 columns of 1,491 numbers are 373 KiB: without a copy each register tile would read them far apart."""
    target = replace(TARGET, core_cache_bytes=1 << 20, far_line_cost=15.0, limits=replace(TARGET.limits, local_bytes=room))
    cascade = suited(ff.cascade("Z[m, n] = A[m, k] * B[n, k]", sizes={"M": 300, "N": 327, "K": 1491}), target)
    assert groups(cascade, target) == [("Z", "n", tile)]


def test_merged_parts_of_sums_that_a_diagonal_ends_have_no_triangle_of_their_own() -> None:
    """The variable that ends at the rows is summed up in each part, and the merge has it no more."""
    line = "Z[m, n] = where(k <= m, A[m, k, j] * B[n, j], 0)"
    cascade = ff.cascade(line, sizes={"M": 96, "N": 64, "K": 96, "J": 20000})
    split = SplitReduction("Z", "j", 16).apply(cascade)
    family = Family(default_space(split, None, TARGET), TARGET, outputs=split.outputs)
    assert {choice.about for choice in family.choices(Rules()) if choice.kind == "vectors"} == {"Z_part", "Z"}


def usual(cascade: Cascade, target: Target, kind: str) -> dict[str, object]:
    """Einsum -> what the rules decide."""
    family = Family(default_space(cascade, None, target), target, outputs=cascade.outputs)
    return {choice.about: choice.usual for choice in family.choices(Rules()) if choice.kind == kind}


@pytest.mark.parametrize(("cost", "tile"), [(4.0, (2, 6)), (0.0, (3, 4))])
def test_register_tiles_side_by_side_share_no_lines_of_a_panel(cost: float, tile: tuple[int, int]) -> None:
    """Of 64 columns in lines of 16 tiles of 24 would fetch the second line twice, for each row of tiles."""
    target = replace(ANY_DEVICE, units=2, own_line_cost=cost)
    cascade = suited(ff.cascade("Z[m, n] = A[m, k] * B[k, n]", sizes={"M": 832, "N": 1024, "K": 832}), target)
    assert groups(cascade, target) == [("B_packed+Z", "n", 64)]
    assert (usual(cascade, target, "vectors")["Z"], usual(cascade, target, "down")["Z"]) == tile


@pytest.mark.parametrize(("sums", "vectors"), [(8.0, 2), (4.0, 3)])
def test_the_last_register_tile_of_a_row_has_sums_enough(sums: float, vectors: int) -> None:
    """Of ten vectors three tiles of three leave one: four sums, each of whose multiply-adds waits for the one before."""
    target = replace(ANY_DEVICE, units=2, sums_at_once=sums)
    cascade = ff.cascade("Z[m, n] = A[m, k] * B[k, n]", sizes={"M": 1280, "N": 80, "K": 512})
    assert usual(cascade, target, "vectors")["Z"] == vectors


def test_a_panel_that_the_group_has_made_is_gone_through_at_once() -> None:
    """Results would come and go for each block, and groups take no more columns than a core's cache has room for."""
    target = replace(ANY_DEVICE, units=2, core_cache_bytes=512 << 10)
    cascade = suited(ff.cascade("Z[m, n] = A[m, k] * B[k, n]", sizes={"M": 832, "N": 1024, "K": 832}), target)
    assert usual(cascade, target, "block") == {"Z": None}


def test_what_is_computed_first_leaves_a_sum_its_own_rows() -> None:
    """The squares of 24 columns, two groups, are a kernel of their own: the sums have 8,000 rows for all groups."""
    cascade = suited(ff.cascade("U[b, f] = X[b, i] * V[i, f] * V[i, f]", sizes={"B": 8000, "I": 200, "F": 24}), TARGET)
    assert [(name, rows) for name, rows, _ in groups(cascade)] == [("U_part1", "i"), ("U", "b")]


@pytest.mark.parametrize(("rows", "expected"), [(50, [("Y_part1", "m"), ("Y", "n")]), (500, [("Y_part1+Y", "m")])])
def test_what_is_computed_first_is_no_reason_to_read_weights_from_memory_for_a_few_rows(rows: int, expected: list[tuple[str, str]]) -> None:
    """8 MB for each 13 rows, where groups of columns read all of it once."""
    cascade = suited(ff.cascade("Y[m, n] = A[m, k] * A[m, k] * W[k, n]", sizes={"M": rows, "K": 4000, "N": 500}), TARGET)
    assert [(name, variable) for name, variable, _ in groups(cascade)] == expected


@pytest.mark.parametrize(("columns", "tile"), [(544, 64), (416, 48)])
def test_equal_shares_are_no_reason_for_register_tiles_of_a_vector(columns: int, tile: int) -> None:
    """Of 34 vectors two cores have 17 each in groups of one, whose register tiles load as often as they multiply."""
    cascade = suited(ff.cascade("Z[m, n] = A[m, k] * B[k, n]", sizes={"M": 768, "N": columns, "K": 576}), TARGET)
    assert groups(cascade) == [("B_packed+Z", "n", tile)]
