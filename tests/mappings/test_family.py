"""The family: every decision is named, listed and has its usual option; what the target says decides machine figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.formats.arch import Memory
from feinsum_fuse.formats.mapping import Mapping, Sequential, Spatial, Temporal
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.choices import Drawn, Given, Noted, sweep
from feinsum_fuse.mappings.components import fitted
from feinsum_fuse.mappings.default_mapping import default_mapping, default_space, default_spec
from feinsum_fuse.mappings.family import CHOICE_KINDS, Family
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.mappings.random import random_mappings
from feinsum_fuse.schedule.target import ANY_DEVICE, ANY_GPU, DeviceLimits, Target
from tests.generators.workloads import KINDS as WORKLOADS

WIDE = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)
"""Vectors of 64 bytes, as in AVX-512."""
PRODUCT = ["Z[m, n] = A[m, k] * B[k, n]"]
CHAIN = ["T[m, n] = A[m, k] * B[k, n]", "Z[m, l] = T[m, n] * C[n, l]"]
GATED = ["A[m, n] = X[m, k] * V[k, n]", "B[m, n] = X[m, k] * W[k, n]", "Z[m, n] = silu(A[m, n]) * B[m, n]"]
SIZES = {"M": 512, "N": 256, "K": 640}


def family(einsums: list[str] = CHAIN, **sizes: int) -> Family:
    return Family(default_space(ff.cascade(einsums, sizes=sizes or {**SIZES, "L": 64})))


def test_the_rules_give_the_default_mapping() -> None:
    cascade = ff.cascade(CHAIN, sizes={**SIZES, "L": 64})
    assert Family(default_space(cascade)).mapping() == default_mapping(cascade)


@pytest.mark.parametrize("kind", WORKLOADS, ids=lambda kind: kind.name)
def test_decisions_have_names_and_known_kinds(kind: object) -> None:
    """One name stands for one decision, whatever was decided before it, and the same decisions make the same mapping."""
    found = Family(default_space(ff.cascade(Spec(kind.at(dict.fromkeys(kind.ranks.split(), 12))))))  # type: ignore[attr-defined]
    for seed in range(4):
        noted = Noted(Drawn(Random(seed), 0.6))
        mapping = found.mapping(noted)
        names = [choice.name for choice in noted.choices]
        assert len(names) == len(set(names))
        assert {choice.kind for choice in noted.choices} <= set(CHOICE_KINDS)
        assert found.mapping(Given(noted.taken)) == mapping


def test_blocks_of_lines_go_in_any_order() -> None:
    turned = Family(default_space(ff.cascade(["Z[m, n] = A[m, n] + B[n, m]"], sizes={"M": 512, "N": 384})))
    order = next(choice for choice in turned.choices() if choice.kind == "order")
    assert {("m", "n"), ("n", "m")} == set(order.options)


def test_every_kind_is_met() -> None:
    """``spread`` is about fanouts that are neither groups nor lanes."""
    lanes = default_space(ff.cascade(["M[i, r] = X[i, j, k] * B[j, r] * C[k, r]"], sizes=dict.fromkeys("IJKR", 64)))
    assert lanes.opencl is not None
    none = lanes.replace(opencl=replace(lanes.opencl, fanouts=constantdict({"Core": "group.0"})))
    turned = default_space(ff.cascade(["Z[m, n] = A[n, m]"], sizes=dict.fromkeys("MN", 64)))
    few = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes=dict.fromkeys("MNK", 256))  # rows make too few groups for a GPU
    large = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes=dict.fromkeys("MNK", 1024))
    items, axes = (Family(default_space(one, target=ANY_GPU), ANY_GPU) for one in (few, large))
    rows = default_space(ff.cascade(["Z[m] = W[m, k] * x[k]"], sizes=dict.fromkeys("MK", 64)))
    called = default_space(ff.cascade(["Z[m] = W[m, k] * x[k]"], sizes=dict.fromkeys("MK", 256), dtypes={"W": "int4", "Other": "float32"}))
    divergence, norm = family(DIVERGENCE, **ELEMENTS), family(NORM, M=333, K=501)
    handed_on = family(["T[m, f, n] = A[f, m, k] * B[f, k, n]", "Z[m, n] = G[m, f] * T[m, f, n]"], F=2, M=333, N=40, K=40)
    families = (*map(Family, (lanes, none, turned, rows, called)), divergence, norm, family(), family(GATED), items, axes, handed_on)
    drawn = [choice for one in families for seed in range(8) for choice in one.choices(Drawn(Random(seed), 0.5))]
    biased = family(["T[m, n] = A[m, k] * B[k, n]", "Z[m, n] = T[m, n] + C[n]"], M=333, N=256, K=60)
    problems = family(["Z[b, m, n] = A[b, m, k] * B[b, k, n]"], B=2048, M=20, N=20, K=20)
    assert {choice.kind for choice in (*drawn, *norm.choices(), *problems.choices(), *biased.choices())} == set(CHOICE_KINDS)


NORM = ["Q[m] = X[m, k] * X[m, k]", "Y[m, k] = X[m, k] * G[k] / sqrt(Q[m] + 1)"]


@pytest.mark.parametrize(("columns", "rows"), [(2000, 1), (501, 2), (60, 16)])
def test_rows_go_through_all_einsums_before_the_next_ones(columns: int, rows: int) -> None:
    """As many as fill a part of the nearest cache; the loop over them stands around everything that a group keeps of them."""
    found = family(NORM, M=3333, K=columns)
    (choice,) = (choice for choice in found.choices() if choice.kind == "pass")
    assert choice.usual == rows
    assert Temporal("m", rows) in found.mapping().nodes
    whole = found.mapping(Given({"pass": choice.options[1]}))
    assert not any(isinstance(node, Temporal) and node.tile_shape == rows for node in whole.nodes)
    random = np.random.default_rng(5)
    inputs = {name: random.normal(size=found.cascade.fixed_shape(name)).astype("f4") for name in found.cascade.inputs}
    expected = inputs["X"] * inputs["G"] / np.sqrt((inputs["X"].astype("f8") ** 2).sum(1) + 1)[:, None]
    np.testing.assert_allclose(ff.compile(found.spec.replace(mapping=found.mapping()))(**inputs)["Y"], expected, rtol=1e-5, atol=1e-6)


def test_rows_that_share_an_operand_of_a_sum_do_not_go_one_by_one() -> None:
    assert not any(choice.kind == "pass" for choice in family().choices())


DIVERGENCE = ["D[e, i] = G[x, r, e] * S[r, i, j] * U[x, e, j]"]
ELEMENTS = {"X": 3, "R": 3, "E": 1003, "I": 4, "J": 4}


def test_what_is_turned_for_lanes_may_go_to_registers() -> None:
    one = family(DIVERGENCE, **ELEMENTS)
    assert [choice.usual for choice in one.choices() if choice.kind == "turned"] == [False]
    mapping = one.mapping(Given({"turned": True}))
    assert "Register holds U" in str(mapping) and "Scratchpad" not in str(mapping)
    random = np.random.default_rng(3)
    inputs = {name: random.normal(size=one.cascade.fixed_shape(name)).astype("f4") for name in one.cascade.inputs}
    found = ff.compile(one.spec.replace(mapping=mapping))(**inputs)["D"]
    np.testing.assert_allclose(found, np.einsum("xre,rij,xej->ei", inputs["G"], inputs["S"], inputs["U"]), rtol=0, atol=1e-4)
    long = family(DIVERGENCE, **{**ELEMENTS, "J": 40})
    assert "turned" not in {choice.kind for choice in long.choices()}  # more than the registers hold


def test_a_sweep_of_widths_and_tiles() -> None:
    """All combinations, each a different mapping that can be lowered."""
    one = family(PRODUCT, **SIZES)
    found = [str(mapping) for mapping in sweep(one.mapping, {"width", "down"})]
    options = {choice.kind: choice.options for choice in one.choices()}
    assert options["width"] == (8, 16, 4, 2, 1)
    assert len(found) == len(set(found)) >= len(options["down"]) * 4
    for mapping in sweep(one.mapping, {"width"}):
        ff.lower(one.spec.replace(mapping=mapping))


def test_lanes_are_those_of_the_target() -> None:
    """As many elements as a vector holds; what neighbours have is in the family, too."""
    cascade = ff.cascade(PRODUCT, sizes=SIZES)
    for target, lanes in ((ANY_DEVICE, 8), (WIDE, 16)):
        assert f"n in tiles of {lanes}\n" in str(default_mapping(cascade, target=target))
        (width,) = [c for c in Family(default_space(cascade, target=target), target).choices() if c.kind == "width"]
        assert width.usual == lanes
        assert {8, 16} <= set(width.options)
    doubles = ff.cascade(PRODUCT, sizes=SIZES, dtypes={"All": "float64"})
    assert "n in tiles of 8\n" in str(default_mapping(doubles, target=WIDE))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_lanes_along_a_reduction(lanes: int) -> None:
    """Where the reduced variable is last in all operands, several outputs share each vector, and 64 statements combine the lanes."""
    target = replace(ANY_DEVICE, vector_bytes=4 * lanes)
    cascade = ff.cascade(["Z[m] = A[m, k] * B[k]"], sizes={"M": 517, "K": 1031})
    text = str(default_mapping(cascade, target=target))
    assert f"for m in tiles of {min(8, 64 // lanes)}\n" in text and "spatial for k in tiles of 1, over Lane.lane" in text
    plain = str(Family(default_space(cascade, target=target), target).mapping(Given({"sums": False})))
    assert "spatial for m in tiles of 1, over Lane.lane" in plain


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("Z[m, n] = A[m, k] * B[n, k]", {"M": 13, "N": 7, "K": 37}),
        ("Z[m] = max(A[m, k] - B[k])", {"M": 9, "K": 131}),
        ("Z[b, m] = A[b, m, i, k] * B[b, i, k]", {"B": 3, "M": 5, "I": 4, "K": 19}),
        ("Z[m] = A[m, W: m + k] * B[k]", {"M": 21, "K": 40}),
        ("Z[m] = where(k <= m, A[m, k], 0)", {"M": 17, "K": 33}),
    ],
)
def test_sums_along_lanes_run(line: str, sizes: dict[str, int]) -> None:
    """Compiling verifies against the reference."""
    found = Family(default_space(ff.cascade([line], sizes=sizes)))
    mapping = found.mapping(Given({"lane": "k"}))
    assert "spatial for k in tiles of 1, over Lane.lane" in str(mapping)
    assert "vload" in ff.compile(found.spec.replace(mapping=mapping)).source


def test_long_vectors_run() -> None:
    """Compiling verifies against the reference."""
    program = ff.compile(default_spec(ff.cascade(PRODUCT, sizes={"M": 67, "N": 45, "K": 300}), target=WIDE))
    assert "float16" in program.source


def test_a_register_tile_leaves_room_for_operands() -> None:
    """Sums take three quarters of the registers at most; a row of vectors and a number stand beside them."""

    def tile(registers: int, sizes: dict[str, int]) -> tuple[object, object]:
        target = replace(ANY_DEVICE, vector_registers=registers)
        one = Family(default_space(ff.cascade(PRODUCT, sizes=sizes)), target)
        usual = {choice.kind: choice.usual for choice in one.choices()}
        return usual["vectors"], usual["down"]

    assert [tile(n, SIZES) for n in (8, 16, 32)] == [(2, 2), (3, 4), (3, 8)]  # 11 loads beside 24 multiply-adds
    assert tile(32, {"M": 4096, "N": 34, "K": 40}) == (3, 8)  # 5 vectors in 3 and 2
    assert tile(32, {"M": 1 << 14, "N": 512, "K": 40}) == (4, 6)  # 10 loads; of 256 rows one tile in 43 is cut
    assert tile(32, {"M": 667, "N": 512, "K": 891}) == (3, 8)


def test_limits_stand_in_for_those_of_the_target() -> None:
    cascade = ff.cascade(CHAIN, sizes={"M": 4096, "N": 512, "K": 64, "L": 64})
    tight = DeviceLimits(local_bytes=16 << 10)
    assert default_mapping(cascade, tight) == default_mapping(cascade, target=replace(ANY_DEVICE, limits=tight))
    assert default_mapping(cascade, tight) != default_mapping(cascade)


def test_a_calibrated_architecture_says_how_long_vectors_are() -> None:
    """In any other one the fanout of the lanes is a bound."""
    nominal = default_spec(ff.cascade(PRODUCT, sizes=SIZES))
    assert fitted(ANY_DEVICE, nominal) == ANY_DEVICE
    assert nominal.arch is not None
    measured = nominal.replace(arch=replace(nominal.arch, variables=nominal.arch.variables.set("multiply_adds_float32", 1e11)))
    assert fitted(ANY_DEVICE, measured).vector_bytes == 64
    assert nominal.opencl is not None
    actions = next(leaf.actions for leaf in nominal.arch.components if isinstance(leaf, Memory))
    tiles = [Memory(name=name, size=8.0 * size, actions=actions) for name, size in (("L2", 3 << 20), ("L1", 48 << 10))]
    arch = replace(measured.arch, nodes=(*nominal.arch.nodes[:2], *tiles, *nominal.arch.nodes[2:]))
    bound = replace(nominal.opencl, memories=nominal.opencl.memories.update({"L2": "cache", "L1": "cache"}))
    cached = fitted(ANY_DEVICE, nominal.replace(arch=arch, opencl=bound))
    assert (cached.core_cache_bytes, cached.nearest_cache_bytes) == (3 << 20, 48 << 10)
    lines = measured.arch.variables.set("multiply_adds_float32", 1e11).set("line_bytes", 64.0)
    reads = fitted(ANY_DEVICE, nominal.replace(arch=replace(measured.arch, variables=lines)))
    assert reads.far_line_cost == pytest.approx(64 * 8 * 2 * 1e11 / 16)  # two cores share the nominal rate of a bit a second
    near = fitted(ANY_DEVICE, nominal.replace(arch=replace(arch, variables=lines), opencl=bound))
    assert near.far_line_cost == pytest.approx(64 * 8 * 1e11 / 16), "and each reads as much from a cache of its own"
    assert near.own_line_cost == pytest.approx(64 * 8 * 1e11 / 16) != reads.own_line_cost == ANY_DEVICE.own_line_cost
    waits = measured.replace(arch=replace(measured.arch, variables=lines.set("multiply_add_latency_seconds", 6.4e-10)))
    assert fitted(ANY_DEVICE, waits).sums_at_once == pytest.approx(6.4e-10 * 1e11 / 16) != reads.sums_at_once == ANY_DEVICE.sums_at_once
    loads = measured.replace(arch=replace(measured.arch, variables=lines.set("load_seconds", 1.12e-10)))
    assert fitted(ANY_DEVICE, loads).load_cost == pytest.approx(1.12e-10 * 1e11 / 16 / 2) != reads.load_cost == ANY_DEVICE.load_cost
    hidden = replace(arch, variables=lines.update({"overlap_loss_MainMemory": 0.25, "overlap_loss_L2": 0.5, "overlap_loss_L1": 1.0}))
    shown = fitted(ANY_DEVICE, nominal.replace(arch=hidden, opencl=bound))
    assert shown.far_line_cost == pytest.approx(near.far_line_cost / 2), "the rest is hidden by computing"
    assert (shown.own_line_loss, near.own_line_loss) == (0.5, ANY_DEVICE.own_line_loss)
    wide = {str(spec.mapping).count("in tiles of 16\n") > 0 for spec in random_mappings(measured, 8, seed=1)}
    assert True in wide


def kernels(mapping: Mapping) -> int:
    """Nests of a default mapping that share no loop."""
    last = mapping.nodes[-1]
    return len(last.nodes) if isinstance(last, Sequential) and not any(isinstance(n, Temporal | Spatial) for n in mapping.nodes) else 1


@pytest.mark.parametrize(("lines", "parts"), [(GATED, 1), (GATED[:2], 2), ([GATED[0], GATED[1].replace("X", "Y"), GATED[2]], 2)])
def test_einsums_that_share_an_operand_and_meet(lines: list[str], parts: int) -> None:
    """They run under common loops, unless it is decided otherwise; others do not, and there is nothing to decide."""
    family = Family(default_space(ff.cascade(lines, sizes={"M": 2048, "N": 48, "K": 40})))
    assert kernels(family.mapping()) == parts
    assert ("beside" in {choice.kind for choice in family.choices()}) == (parts == 1)
    if parts == 1:
        assert kernels(family.mapping(Given({"beside": False}))) == 2
        assert ff.compile(family.spec.replace(mapping=family.mapping())).output_shapes == {"Z": (2048, 48)}


@pytest.mark.parametrize(("left", "tile"), [("A[a, d, c]", 16), ("A[c, d, a]", 12)])
def test_rows_along_which_a_copy_is_turned_are_whole_vectors(left: str, tile: int) -> None:
    """Blocks of vectors are turned in registers, and part of one is not; other rows are shared as evenly as they can be."""
    target = replace(ANY_DEVICE, units=2, vector_bytes=64, vector_registers=32)
    lines = [f"P[c, d, a] = {left}", "Z[b, c, a] = P[c, d, a] * B[d, b]"]
    cascade = ff.cascade(lines, sizes={"A": 277, "B": 8, "C": 294, "D": 11})
    family = Family(default_space(cascade, target=target), target)
    assert [choice.usual for choice in family.choices() if choice.kind == "tile"] == [tile]


@pytest.mark.parametrize(("rows", "down"), [(26, 13), (39, 13), (37, 7)])
def test_rows_that_divide_are_worth_registers_that_are_left_free_otherwise(rows: int, down: int) -> None:
    """Of 32 registers 24 hold sums; 26 do where no fewer rows divide, as long as two vectors and a number find some."""
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)
    one = ff.cascade(["Z[a, b, d] = A[a, e, b] * B[a, e, d]"], sizes={"A": 400, "B": rows, "D": 25, "E": 300})
    usual = {choice.kind: choice.usual for choice in Family(default_space(one, target=target), target).choices()}
    assert (usual["vectors"], usual["down"]) == (2, down)


@pytest.mark.parametrize(
    ("rows", "deep", "down"),
    [(400_000, 16, 8), (400_000, 100, 8), (4_000, 16, 16), (400_000, 500, 16), (100_000, 2000, 16)],
    ids=["a line", "some", "from a cache", "longer than what is asked for", "streams"],
)
def test_short_rows_from_memory_are_few_side_by_side(rows: int, deep: int, down: int) -> None:
    """Of 32 registers 24 would hold sums; a core waits for about ten lines at a time."""
    target = replace(WIDE, pages_ahead=2)
    one = ff.cascade(PRODUCT, sizes={"M": rows, "N": 16, "K": deep})
    usual = {choice.kind: choice.usual for choice in Family(default_space(one, target=target), target).choices()}
    assert (usual["vectors"], usual["down"]) == (1, down)


@pytest.mark.parametrize(
    ("deep", "columns", "tile"),
    [(16, 64, (4, 3)), (16, 48, (3, 4)), (8, 32, (2, 6)), (17, 64, (4, 6)), (40, 48, (3, 8))],
    ids=str,
)
def test_large_results_that_are_soon_computed_are_written_in_few_lines_at_once(deep: int, columns: int, tile: tuple[int, int]) -> None:
    """Twelve lines; from seventeen products on computing takes longer, and a tile of 24 loads less for each."""
    target = replace(WIDE, pages_ahead=2)
    for rows, expected in ((12_000_000 // columns, tile), (600, None)):
        one = ff.cascade(PRODUCT, sizes={"M": rows, "N": columns, "K": deep})
        usual = {choice.kind: choice.usual for choice in Family(default_space(one, target=target), target).choices()}
        vectors, down = usual["vectors"], usual["down"]
        assert isinstance(vectors, int) and isinstance(down, int)
        assert (vectors, down) == expected if expected else vectors * down > 12


def chain(rows: int, widths: Sequence[int]) -> Cascade:
    """Products one after another."""
    lines = [f"T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]" for i in range(len(widths) - 1)]
    return ff.cascade(lines, sizes={"M": rows, **{f"N{i}": width for i, width in enumerate(widths)}})


@pytest.mark.parametrize(
    ("widths", "near", "tile"),
    [
        ((16, 16, 16, 16), 32 << 10, 64),  # 256 bytes of a row
        ((16, 16, 16, 16), 48 << 10, 64),
        ((16, 16, 16, 16), 64 << 10, 128),
        ((8, 8, 8, 8), 32 << 10, 128),
        ((20, 20, 20, 20), 32 << 10, 32),
        ((48, 48, 48, 48), 32 << 10, 64),  # not even 32 rows stay there
        ((4, 4, 4), 32 << 10, 256),
    ],
    ids=str,
)
def test_what_products_hand_on_stays_in_the_nearest_cache(widths: tuple[int, ...], near: int, tile: int) -> None:
    """Half of it holds what a group touches of its rows."""
    target = replace(WIDE, units=2, nearest_cache_bytes=near)
    family = Family(default_space(chain(1 << 20, widths), target=target), target)
    assert [choice.usual for choice in family.choices() if choice.kind == "tile"] == [tile]


def test_groups_that_copy_what_all_rows_share_take_many() -> None:
    """Lanes go across the second weights, of which each group turns a copy."""
    target = replace(WIDE, units=2)
    lines = ["T[m, i] = A[m, k] * W[k, i]", "Z[m, j] = T[m, i] * V[{}]"]
    for axes, tile in (("i, j", 64), ("j, i", 256)):
        one = ff.cascade([lines[0], lines[1].format(axes)], sizes={"M": 1 << 20, "K": 16, "I": 32, "J": 16})
        family = Family(default_space(one, target=target), target)
        assert [choice.usual for choice in family.choices() if choice.kind == "tile"] == [tile]


PLAIN = Given({"alone": False, "grid": None})
"""Work-items along one axis."""


def test_rows_that_divide_are_not_worth_the_registers_of_work_items_that_stand_by() -> None:
    one = ff.cascade(["Z[m, x, n] = A[m, x, k] * B[k, n]"], sizes={"M": 4096, "X": 59, "N": 1024, "K": 64})
    downs = [choice.usual for choice in Family(default_space(one, target=ANY_GPU), ANY_GPU).choices(PLAIN) if choice.kind == "down"]
    assert downs and all(ANY_GPU.vector_registers // 4 >= down for down in downs)


@pytest.mark.parametrize(("heads", "tokens", "groups"), [(8, 4096, 1), (8, 64, 8), (40, 4096, 2)])
def test_rows_that_are_work_enough_are_groups_of_their_own(heads: int, tokens: int, groups: int) -> None:
    """Of the heads of a decoder nothing is used again by the next; a few tokens are too little work for a group."""
    lines = ["S[h, p] = Q[h, e] * K[h, p, e]", "A[h, p] = softmax(S[h, p], p)", "O[h, f] = A[h, p] * V[h, p, f]"]
    made = Family(default_space(ff.cascade(lines, sizes={"H": heads, "P": tokens, "E": 64, "F": 64}))).choices()
    assert [choice.usual for choice in made if choice.kind == "tile"] == [groups]


@pytest.mark.parametrize(
    ("sizes", "width", "down"),
    [
        ({"M": 4096, "K": 512}, 8, 8),  # the cores' own caches hold it
        ({"M": 1 << 14, "K": 512}, 8, 1),  # from memory, in rows of 2048 bytes
        ({"M": 1 << 14, "K": 1024}, 8, 1),
        ({"M": 1 << 14, "K": 2048}, 8, 8),  # rows are longer than a page
    ],
)
def test_short_rows_from_memory_are_one_stream(sizes: dict[str, int], width: int, down: int) -> None:
    target = replace(ANY_DEVICE, units=8)
    one = Family(default_space(ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes=sizes), target=target), target)
    usual = {choice.kind: choice.usual for choice in one.choices()}
    assert (usual["width"], usual["down"], usual.get("chains", 1)) == (width, down, 4 if down == 1 else 1)
    both = Family(default_space(ff.cascade(["Z[m,n] = W[m,k] * X[n,k]"], sizes={**sizes, "N": 4}), target=target), target)
    assert all(choice.usual != 1 for choice in both.choices() if choice.kind == "down")  # rows are used again


@pytest.mark.parametrize(
    ("length", "down", "chains"),
    [(4096, 1, 4), (4088, 1, 2), (1 << 14, 8, 1)],  # a row has four sums; two, which leave a rest; x would be fetched anew for each row
)
def test_long_rows_of_short_numbers_are_one_stream(length: int, down: int, chains: int) -> None:
    target = replace(ANY_DEVICE, units=2)
    rows = ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 1 << 12, "K": length}, dtypes={"W": "bfloat16", "Other": "float32"})
    usual = {choice.kind: choice.usual for choice in Family(default_space(rows, target=target), target).choices()}
    assert (usual["down"], usual.get("chains", 1)) == (down, chains)


WITHOUT_CALL = Given({"call": False})


def test_bytes_and_functions_take_registers() -> None:
    """A vector of bytes is as many numbers as two vectors of float32; what is made of them needs registers beside the sums."""
    plain = ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 64, "K": 4096})
    both = (plain, plain.in_four_bits("W", 32))
    usual = [{choice.kind: choice.usual for choice in Family(default_space(cascade)).choices(WITHOUT_CALL)} for cascade in both]
    assert [(one["width"], one["down"]) for one in usual] == [(8, 8), (16, 3)]


def test_a_group_may_take_all_rows_of_a_problem_of_its_own() -> None:
    """Parts of a reduction whose rows are read from end to end, a few at once: a vector times a matrix wants that."""
    whole = ff.cascade(["y[k] = A[m, k] * x[m]"], sizes={"M": 1024, "K": 4096})
    family = Family(default_space(SplitReduction("y", "m", 16).apply(whole)))
    wanted = {"budget": 0, "tile of y_part": 4096, "block of y_part": 8}
    text = str(family.mapping(Given(wanted)))
    assert "spatial for m_part in tiles of 1, over" in text and "for m in tiles of 8" in text


def test_sums_that_go_through_the_same_array_read_it_once() -> None:
    """Rows that are work enough make groups without a split; what both read stays in a core's cache from the first to the second."""
    one = ff.cascade(["S[c] = X[n, c, h]", "Q[c] = X[n, c, h] * X[n, c, h]"], sizes={"N": 32, "C": 60, "H": 700})
    assert suited(one) == one
    family = Family(default_spec(one))
    assert kernels(family.mapping()) == 1
    assert kernels(family.mapping(Given({"beside": False}))) == 2
    long = ff.cascade(["S[c] = X[n, c, h]", "Q[c] = X[n, c, h] * X[n, c, h]"], sizes={"N": 320, "C": 60, "H": 7000})
    assert kernels(Family(default_spec(long)).mapping()) == 2  # a row of 9 MB is in no core's cache
    other = ff.cascade(["S[m] = X[m, k]", "T[k] = X[m, k]"], sizes={"M": 300, "K": 700})
    assert kernels(Family(default_spec(other)).mapping()) >= 2  # of different rows


def taken(line: str, sizes: dict[str, int], target: Target = ANY_DEVICE) -> dict[str, object]:
    """Kind of decision -> what the rules take for an Einsum Z."""
    choices = Family(default_space(ff.cascade([line], sizes=sizes), target=target), target).choices()
    return {choice.kind: choice.usual for choice in choices if choice.about in ("", "Z")}


@pytest.mark.parametrize("columns", [2, 4, 5, 7, 9])
def test_lanes_along_axes_shorter_than_vectors(columns: int) -> None:
    """Rows of A would have to be turned."""
    assert taken("Z[m,n] = A[m,k] * B[k,n]", {"M": 512, "N": columns, "K": 100})["lane"] == "n"


@pytest.mark.parametrize("side", [3, 5, 8])
def test_small_problems_lie_in_lanes_as_they_are(side: int) -> None:
    """Lanes over problems would have to move all operands and results."""
    assert taken("Z[b,m,n] = A[b,m,k] * B[b,k,n]", {"B": 4000, "M": side, "N": side, "K": side})["lane"] == "n"


@pytest.mark.parametrize("stride", [1, 2])
def test_lanes_of_a_convolution_lie_together(stride: int) -> None:
    """Output channels would need a copy of all weights for each row of pixels."""
    sizes = {"O": 64, "C": 40, "P": 40, "Q": 40, "R": 3, "S": 3, "H": 40 * stride + 2, "W": 40 * stride + 2}
    line = f"Z[o,p,q] = X[c, H: {stride}*p + r, W: {stride}*q + s] * F[o,c,r,s]"
    assert taken(line, sizes)["lane"] == "q"


@pytest.mark.parametrize(("columns", "fills"), [(3, False), (4, True), (7, True)])
def test_sums_in_lanes_fill_half_a_vector(columns: int, fills: bool) -> None:
    cascade = ff.cascade(["Z[m] = A[m,k]"], sizes={"M": 512, "K": columns})
    lanes = next(c for c in Family(default_space(cascade)).choices() if c.kind == "lane")
    assert ("k" in lanes.options) == fills


def test_rows_that_lie_together_make_a_register_tile() -> None:
    """Numbers for all lanes are then read from one line after another; short axes do not fill a tile."""
    line = "Z[a,b,c] = A[b,d,a] * B[d,c]"
    assert taken(line, {"A": 64, "B": 96, "C": 16, "D": 32})["second"] == "a"
    assert taken(line, {"A": 4, "B": 96, "C": 16, "D": 32})["second"] == "b"


@pytest.mark.parametrize(("sizes", "second"), [((12, 160, 160), "i"), ((12, 160, 1024), "j"), ((4, 2600, 160), "j"), ((12, 100, 160), "j")])
def test_long_rows_from_memory_make_a_register_tile(sizes: tuple[int, int, int], second: str) -> None:
    """Along ``j`` each row of ``X`` is a piece of 640 bytes, along ``i`` the whole slab. Rows of a page are long enough along either, few
    ``i`` make too small a tile, and an array that caches hold is near in any order.
    """
    named = dict(zip(("I", "J", "K"), sizes, strict=True))
    line = "Z[i,j,r] = X[i,j,k] * B[k,r]"
    assert taken(line, {**named, "R": 24}, WIDE)["second"] == second
    assert taken(line, {**named, "R": 240}, WIDE)["second"] == "j"  # memory does not wait


@pytest.mark.parametrize(("length", "most"), [(1000, 12), (1024, 7), (2048, 7), (512, 12)])
def test_rows_whole_pages_apart_are_no_more_than_a_cache_keeps(length: int, most: int) -> None:
    """A cache of 32 KiB has eight lines for each place in a page: seven rows, and what they are multiplied with."""
    target = replace(ANY_DEVICE, vector_registers=32)
    down = taken("Z[m,n] = A[m,k] * B[k,n]", {"M": 4096, "N": 8, "K": length}, target)["down"]
    assert isinstance(down, int) and (down <= most if most < 12 else down >= most)


def test_a_register_tile_reads_numbers_that_lie_together() -> None:
    """Of ``W[o, i, j]`` a tile along j reads a line or two for each i, one along o a line for each row; few j make too small a tile."""

    def second(j: int) -> object:
        bilinear = suited(ff.cascade(["Z[b, o] = X[b, i] * W[o, i, j] * Y[b, j]"], sizes={"B": 600, "I": 40, "J": j, "O": 48}), WIDE)
        family = Family(default_space(bilinear, target=WIDE), WIDE, outputs=bilinear.outputs)
        return {choice.name: choice.usual for choice in family.choices()}["second of Z_part1"]

    assert [second(j) for j in (40, 16, 8)] == ["j", "j", "o"]
