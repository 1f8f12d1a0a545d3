"""What is rewritten before a mapping is chosen, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

import loopy as lp
import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.rewriting.contraction_order import ContractionOrder
from feinsum_fuse.cascades.rewriting.packing import Pack, Unpack
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.cascades.rewriting.triangle import Triangle
from feinsum_fuse.cascades.scanning import Scan
from feinsum_fuse.cascades.sequence import Rewriting
from feinsum_fuse.formats.mapping import Compute, Sequential, Spatial, Temporal
from feinsum_fuse.mappings.choices import Given
from feinsum_fuse.mappings.default_mapping import default_mapping, default_space, default_spec
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.mappings.lanes import reduced_in_order
from feinsum_fuse.schedule.target import ANY_DEVICE, Target
from tests.cascades.randomness import random_inputs

LONG = 1 << 21
SPLIT = {
    "gram matrix": (["Z[m, n] = A[k, M: m] * A[k, M: n]"], {"M": 256, "N": 256, "K": 65536}, "k"),
    "sum of everything": (["Z[o] = A[m, n]"], {"O": 1, "M": 2048, "N": 2048}, "m"),
    "inner product": (["Z[o] = A[k] * B[k]"], {"O": 1, "K": LONG}, "k"),
    "tall sums": (["Z[n] = A[m, n]"], {"M": LONG, "N": 24}, "m"),
    "tall product": (["Z[m, n] = A[k, m] * B[k, n]"], {"M": 32, "N": 48, "K": LONG}, "k"),
}


@pytest.mark.parametrize("name", SPLIT)
def test_reductions_that_groups_share(name: str) -> None:
    """The parts run on groups of their own, apart from the merge."""
    lines, sizes, variable = SPLIT[name]
    after = suited(ff.cascade(lines, sizes=sizes))
    split = after.rewritings[-1]
    assert isinstance(split, SplitReduction) and split.variable == variable
    mapping = default_spec(after).mapping
    assert mapping is not None and isinstance(mapping.nodes[-1], Sequential)
    (path, *_) = mapping.paths()
    assert any(isinstance(placed.node, Spatial) and placed.node.component == "Core" for placed in path)


@pytest.mark.parametrize(
    ("lines", "sizes"),
    [
        (["Z[m, n] = A[m, k] * B[k, n]"], {"M": 1024, "N": 256, "K": 1024}),
        (["Z[m, n] = A[m, k] * B[k, n]"], {"M": 48, "N": 1024, "K": 1024}),
        (["Z[a, b, c] = A[d, c, a] * B[b, d]"], {"A": 24, "B": 3, "C": 30, "D": 20}),
        (["T[m, k] = A[m, j] * C[j, k]", "Z[m, n] = T[m, k] * B[n, k]"], {"M": 512, "N": 512, "K": 512, "J": 512}),
        (["Z[m] = A[m, k] * B[k]"], {"M": 4096, "K": 4096}),
        # A row is work enough for a group, and all of C is less than a row of A.
        (["Z[i, j, s] = A[i, j, k] * C[k, s]"], {"I": 94, "J": 97, "K": 106, "S": 17}),
        (["Z[m, n] = A[k, M: m] * A[k, M: n]"], {"M": 64, "N": 64, "K": 64}),
        (["Z[o] = A[k] * B[k]"], {"O": 1, "K": 1000}),
        (["Z[m, n] = A[m] * B[n]"], {"M": 2048, "N": 2048}),
        (["Z[b, a, c] = A[b, a, c] * x[c] * y[a]"], {"A": 5000, "B": 30, "C": 35}),  # what is written takes longer than multiplications
        (["Z[m] = A[m, k] * B[k]"], {"M": "m", "K": LONG}),
        (["P[m, n] = softmax(S[m, n], n)"], {"M": 512, "N": 512}),
    ],
)
def test_what_is_left_alone(lines: list[str], sizes: dict[str, int | str]) -> None:
    cascade = ff.cascade(lines, sizes=sizes)
    assert suited(cascade) is cascade


@pytest.mark.parametrize(
    ("line", "sizes", "packings"),
    [
        ("Z[m, n] = A[m, k] * B[k, n]", {"M": 700, "N": 509, "K": 890}, [Pack("Z", 1, ("k", "n"))]),
        ("Z[m, n] = A[m, k] * B[n, k]", {"M": 64, "N": 384, "K": 384}, [Pack("Z", 1, ("k", "n"))]),
        ("Z[m, n] = A[k, m] * B[n, k]", {"M": 992, "N": 1024, "K": 736}, [Pack("Z", 0, ("m", "k")), Pack("Z", 1, ("k", "n"))]),
        ("Z[m, n] = B[k, n] * A[k, m]", {"M": 992, "N": 256, "K": 736}, [Pack("Z", 1, ("m", "k"))]),
        ("Z[a, b, c] = A[d, c, a] * B[b, d]", {"A": 24, "B": 12, "C": 30, "D": 20}, [Pack("Z", 0, ("a", "d", "c"))]),
        # What is reduced follows in the same order in both copies, that of the loops.
        (
            "Z[a, b, c, d] = A[a, e, d, f] * B[f, b, e, c]",
            {"A": 40, "B": 40, "C": 40, "D": 40, "E": 40, "F": 40},
            [Pack("Z", 1, ("b", "c", "e", "f")), Pack("Z", 0, ("a", "e", "f", "d"))],
        ),
        # The loops go along what is not copied, whose numbers are read one by one.
        (
            "Z[a, b, c, d] = A[a, e, d, f] * B[b, f, c, e]",
            {"A": 40, "B": 40, "C": 40, "D": 40, "E": 40, "F": 40},
            [Pack("Z", 0, ("a", "f", "e", "d"))],
        ),
        ("Z[m, n] = max(A[m, k] + B[n, k])", {"M": 64, "N": 384, "K": 384}, [Pack("Z", 1, ("k", "n"))]),
        # Two columns are no lanes: these go along ``q``, which lies together as it is.
        ("Z[o, p, r, q, s] = A[k, p, q] * B[k, o, r, s]", {"O": 64, "P": 48, "R": 2, "Q": 48, "S": 2, "K": 128}, []),
    ],
)
def test_packed_operands(line: str, sizes: dict[str, int], packings: list[Pack]) -> None:
    """Panels are made group by group, in the kernel that uses them."""
    after = suited(ff.cascade([line], sizes=sizes))
    assert list(after.rewritings) == packings
    spec = default_spec(after)
    assert spec.mapping is not None
    if packings and packings[-1].variables[-1] == "n":
        paths = {placed.node.einsum: path for path in spec.mapping.paths() if isinstance((placed := path[-1]).node, Compute)}
        shared = {p.position for p in paths["Z"]} & {p.position for p in paths[after.einsums[-2].name]}
        assert any(isinstance(p.node, Spatial) and p.node.rank_variable == "n" for p in paths["Z"] if p.position in shared)


@pytest.mark.parametrize(("last", "packed"), [(22, "c"), (30, "d")])
def test_copies_have_the_lanes_that_the_mapping_takes(last: int, packed: str) -> None:
    """Along ``d`` 22 of 32 lanes are full, along ``c``, whose results do not lie together, 30; other axes lie between them."""
    sizes = {"A": 26, "B": 25, "C": 30, "D": last, "E": 21, "F": 18}
    after = suited(ff.cascade(["Z[a, c, b, d] = A[a, e, b, f] * B[d, f, c, e]"], sizes=sizes), WIDE)
    assert [r.variables[-1] for r in after.rewritings if isinstance(r, Pack) and r.operand == 1] == [packed]
    nodes = [placed.node for placed in default_mapping(after, target=WIDE).path("Z")]
    assert [node.variable("Z") for node in nodes if isinstance(node, Spatial) and node.name == "lane"] == [packed]


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("Z[a, d] = A[a, e, f] * B[d, f, e]", "fe"),  # B is larger
        ("Z[a, d] = A[a, f, e] * B[e, f, d]", "ef"),
        ("Z[a, d] = A[a, f, e] * B[d, e, g]", "feg"),  # no operand has all of them: e and g change no place
    ],
)
def test_reductions_follow_the_largest_operand(line: str, order: str) -> None:
    cascade = ff.cascade([line], sizes={"A": 30, "D": 40, "E": 20, "F": 20} | ({"G": 20} if "g" in order else {}))
    einsum = cascade.einsums[0]
    assert reduced_in_order(einsum, einsum.operands) == list(order)
    mapping = Family(default_space(cascade, target=ANY_DEVICE), ANY_DEVICE).mapping(Given({"lane": "d"}))
    loops = [node.rank_variable for node in mapping.nodes if isinstance(node, Temporal) and node.rank_variable in tuple(order)]
    assert loops == list(order)


@pytest.mark.parametrize(
    ("line", "sizes", "order"),
    [
        ("Z[a, b, c] = A[d, c, a] * B[b, d]", {"A": 190, "B": 15, "C": 180, "D": 200}, ("c", "b", "a")),
        ("Z[a, b, c, d] = A[d, b, e, a] * B[e, c]", {"A": 50, "B": 40, "C": 16, "D": 45, "E": 60}, ("d", "b", "c", "a")),
        ("Z[a, b, c] = A[d, c, a] * B[b, d]", {"A": 190, "B": 15, "C": 180, "D": 10}, None),  # the output is larger
        ("Z[a, b, c] = A[d, c, a] * B[b, d]", {"A": 19, "B": 15, "C": 180, "D": 20}, None),  # a core's cache holds the operand
        ("Z[a, b, c] = A[d, c, a] * B[b, d]", {"A": 190, "B": 96, "C": 180, "D": 200}, None),  # a copy is used often enough
        ("Z[a, b, c] = A[d, c, a] * B[b, d]", {"A": 3, "B": 15, "C": 3000, "D": 800}, None),  # too short for lanes
        ("Z[a, b, c] = A[d, a, c] * B[b, d]", {"A": 190, "B": 15, "C": 180, "D": 200}, None),  # as it should lie
    ],
)
def test_outputs_that_are_moved_in_place_of_operands(line: str, sizes: dict[str, int], order: tuple[str, ...] | None) -> None:
    found = [rewriting for rewriting in suited(ff.cascade([line], sizes=sizes)).rewritings if isinstance(rewriting, Unpack)]
    assert found == ([] if order is None else [Unpack("Z", order)])


@pytest.mark.parametrize(
    ("line", "sizes", "rewritings"),
    [
        ("Z[m, n] = A[k, M: m] * A[k, M: n]", {"M": 192, "N": 192, "K": 150}, [Triangle("Z", "m", "n")]),
        ("Z[m, n] = A[M: m, k] * A[M: n, k]", {"M": 500, "N": 500, "K": 90}, [Triangle("Z", "n", "m"), Pack("Z_half", 1, ("k", "n"))]),
        ("Z[m, n] = A[M: m, k] * A[M: n, k]", {"M": 192, "N": 192, "K": 150}, [Triangle("Z", "n", "m"), Pack("Z_half", 1, ("k", "n"))]),
        ("Z[m, n] = A[M: m, k] * A[M: n, k]", {"M": 60, "N": 60, "K": 150}, []),
        ("Z[m, n] = A[k, M: m] * A[k, M: n]", {"M": 100, "N": 100, "K": 150}, []),
        ("Z[m, n] = A[k, M: m] * A[k, M: n]", {"M": 300, "N": 300, "K": 20}, []),
    ],
)
def test_half_of_symmetric_outputs(line: str, sizes: dict[str, int], rewritings: list[Rewriting]) -> None:
    assert list(suited(ff.cascade([line], sizes=sizes)).rewritings) == rewritings


ENERGY = "E[q] = V[i, a, j, b] * (2 * V[i, a, j, b] - V[i, A: b, j, B: a]) / (O[i] + O[I: j] - U[a] - U[A: b])"


@pytest.mark.parametrize(("virtual", "kinds"), [(10, []), (43, [Pack, SplitReduction])])
def test_what_lies_otherwise_is_turned_for_a_sum_in_lanes_that_other_factors_lack(virtual: int, kinds: list[type[Rewriting]]) -> None:
    """Before the sum is taken in parts, which pay for fewer points where these divide."""
    cascade = ff.cascade([ENERGY], sizes={"Q": 1, "I": 13, "J": 13, "A": virtual, "B": virtual})
    after = suited(cascade, replace(ANY_DEVICE, units=2, vector_bytes=64))
    assert [type(rewriting) for rewriting in after.rewritings] == kinds
    assert all(rewriting.variables == ("i", "j", "a", "b") for rewriting in after.rewritings if isinstance(rewriting, Pack))


def test_energies_by_default() -> None:
    cascade = ff.cascade([ENERGY], sizes={"Q": 1, "I": 13, "J": 13, "A": 43, "B": 43})
    rng = np.random.default_rng(0)
    v, o, u = rng.uniform(0, 1, (13, 43, 13, 43)).astype("f"), rng.uniform(2, 3, 13).astype("f"), rng.uniform(0, 1, 43).astype("f")
    below = o[:, None, None, None] + o[:, None] - u[:, None, None] - u
    expected = (v * (2 * v - v.transpose(0, 3, 2, 1)) / below).sum(dtype="d")
    np.testing.assert_allclose(ff.compile(cascade, "pocl")(V=v, O=o, U=u)["E"], [expected], rtol=1e-5)


@pytest.mark.parametrize(
    ("line", "size", "block"),
    [
        ("Z[m, j] = where(k <= j, X[m, K: k], 0)", 512, 8),  # whole vectors of the neutral target
        ("Z[m, j] = where(k <= j, X[m, K: k], 0)", 20000, 32),
        ("Z[j, m] = where(k < j, X[K: k, m], 0)", 500, 8),
        ("Z[m, j] = max(where(k >= j, X[m, K: k], -inf))", 500, 8),
        ("Z[m, j] = where(k <= j, X[m, K: k], 0)", 16, None),  # too few operations are saved
        ("Z[m, j] = where(k <= j, X[m, K: k] * Y[j], 0)", 512, None),  # what is added up depends on j
    ],
)
def test_sums_that_end_at_a_diagonal_are_taken_in_blocks(line: str, size: int, block: int | None) -> None:
    found = suited(ff.cascade([line], sizes={"M": 20, "J": size, "K": size})).rewritings
    assert [rewriting for rewriting in found if isinstance(rewriting, Scan)] == ([] if block is None else [Scan("Z", block)])


def test_three_factors_are_contracted_pairwise() -> None:
    cascade = ff.cascade(["Z[i, r, s] = A[i, j, k] * B[j, r] * C[k, s]"], sizes={"I": 24, "J": 24, "K": 24, "R": 8, "S": 9})
    after = suited(cascade)
    assert [type(rewriting) for rewriting in after.rewritings] == [ContractionOrder]
    arrays = random_inputs(cascade, 0)
    expected = cascade.reference(**arrays)["Z"]
    np.testing.assert_allclose(ff.compile(ff.spec(cascade))(arrays)["Z"], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("line", "sizes", "first"),
    [
        # Of two multiplications of each point one is left. What sums up first stays in registers; products of G and U would be stored.
        ("D[e, i] = L[f, i, j] * G[f, e] * U[f, e, j]", {"F": 4, "E": 21824, "I": 35, "J": 15}, "fei"),
        ("D[e, i] = L[f, i, j] * G[f, e] * U[f, e, j]", {"F": 4, "E": 21824, "I": 4, "J": 3}, "fei"),  # 64 of 96 are left
        ("Z[e] = U[e, i] * K[i, j] * V[e, j]", {"E": 30000, "I": 12, "J": 12}, "ej"),  # 156 of 288, and no element leaves a core
        ("Z[e] = U[e, i] * K[i, j] * V[e, j]", {"E": 30000, "I": 2, "J": 2}, ""),  # 6 of 8, beside one that is written
        ("Z[e, i] = A[e] * B[i, j] * C[e, j]", {"E": 2457, "I": 4, "J": 2}, ""),  # 12 of 16: as many are written either way
        ("Z[c, b] = X[c, a, b] * Y[a] * W[b, a]", {"A": 1000, "B": 72, "C": 17}, ""),  # W * Y has no row of Z: not fused
        ("Z[i, r] = X[i, j, k] * B[j, r] * C[k, r]", {"I": 200, "J": 30, "K": 30, "R": 16}, "ijr"),  # not jkr, which has no row of Z
        ("y[b] = X[b, i] * M[i, j] * W[b, j]", {"B": 900, "I": 60, "J": 68}, "bi"),  # of a vector each element is a row
        ("y[o] = X[i] * M[i, j] * W[j]", {"O": 1, "I": 900, "J": 1100}, "i"),  # and of a number the intermediate is small
    ],
)
def test_factors_are_multiplied_first_where_that_saves_work(line: str, sizes: dict[str, int], first: str) -> None:
    found = suited(ff.cascade([line], sizes=sizes))
    steps = [step for step in found.einsums if step.name.endswith("_part1")]
    assert "".join(sorted(steps[0].output_variables) if steps else "") == "".join(sorted(first))


@pytest.mark.parametrize(
    ("line", "operands"),
    [
        ("Z[a] = A[a, b] * B[b, c, d]", [["B"], ["A", "Z_part1"]]),
        ("Z[a, b] = A[a, c] * B[d, b, a]", [["A"], ["B", "Z_part1"]]),
        ("Z[a, b] = A[a, e, b] * B[a, b]", [["A", "B"]]),  # the product is read once as it is
        ("Z[a, b] = A[a, b, o] * B[b]", [["A", "B"]]),  # a sum over one element saves nothing
    ],
)
def test_sums_of_one_factor_come_first_where_they_save_work(line: str, operands: list[list[str]]) -> None:
    found = suited(ff.cascade([line], sizes={"A": 40, "B": 30, "C": 20, "D": 15, "E": 9, "O": 1}))
    assert [sorted(access.tensor for access in einsum.operands) for einsum in found.einsums] == operands


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("Z[i, j, k] = A[n, i] * B[n, j] * C[n, k]", "i"),  # in the order of its indices, it would be written element by element
        ("Z[i, j, k] = A[i, n] * B[j, n] * C[k, n]", "n"),
        ("Z[i, j, k] = A[n, i] * B[j, n] * C[n, k]", "i"),
        ("Z[h, j, k] = A[n, h] * B[j, n] * C[n, k]", "n"),  # vectors would be mostly empty
    ],
)
def test_products_that_are_stored_lie_along_what_they_are_made_of(line: str, last: str) -> None:
    cascade = ff.cascade([line], sizes={"H": 3, "I": 19, "J": 17, "K": 23, "N": 101})
    assert suited(cascade).einsums[0].output_variables[-1] == last
    arrays = random_inputs(cascade, 0)
    np.testing.assert_allclose(ff.compile(cascade)(arrays)["Z"], cascade.reference(**arrays)["Z"], rtol=1e-3, atol=1e-4)


def test_a_sum_of_its_own_numbers_that_reads_nothing() -> None:
    """The sum of a variable by itself."""
    given = lp.make_kernel("{[i,k]: 0<=i<5 and 0<=k<1003}", "Z[i] = sum(k, k*1.0)", [lp.GlobalArg("Z", np.float32, shape=(5,))])
    np.testing.assert_allclose(ff.compile(given)({})["Z"], 1003 * 1002 / 2, rtol=1e-5)


def test_three_factors_that_save_nothing() -> None:
    cascade = ff.cascade(["Z[m] = A[m] * B[m] * C[m]"], sizes={"M": 4096})
    assert suited(cascade) is cascade


@pytest.mark.parametrize("length", [1 << 20, (1 << 20) + 7])
def test_compile_splits(length: int) -> None:
    """Also where parts do not divide; compiling verifies against the reference."""
    program = ff.compile(ff.spec(ff.cascade(["Z[o] = A[k] * B[k]"], sizes={"O": 1, "K": length})))
    assert program.cascade.rewritings or "Z_part" in program.cascade.intermediates
    assert program.output_shapes == {"Z": (1,)}


def test_limits_are_the_targets() -> None:
    """More cores share a reduction in more parts; what is packed depends on the caches and pages that there are."""
    tall = ff.cascade(["Z[m, n] = A[k, m] * B[k, n]"], sizes={"M": 32, "N": 48, "K": LONG})
    assert [r.parts for r in suited(tall, Target(units=32)).rewritings if isinstance(r, SplitReduction)] == [128]
    turned = ff.cascade(["Z[a, b, c] = A[d, c, a] * B[b, d]"], sizes={"A": 24, "B": 12, "C": 30, "D": 20})
    assert suited(turned).rewritings
    assert not suited(turned, Target(nearest_cache_bytes=64 << 10)).rewritings
    wide = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes={"M": 2048, "N": 384, "K": 6000})
    packed = [any(isinstance(r, Pack) for r in suited(wide, Target(core_cache_bytes=size << 20)).rewritings) for size in (1, 4)]
    assert packed == [False, True]
    rows = ff.cascade(["Z[m, n] = A[k, m] * B[k, n]"], sizes={"M": 128, "N": 256, "K": 512})
    assert suited(rows).rewritings
    assert not suited(rows, Target(page_bytes=64 << 10)).rewritings


@pytest.mark.parametrize(
    ("einsum", "sizes", "split"),
    [
        ("y[k] = A[m, k] * x[m]", {"M": 4000, "K": 4000}, True),
        ("y[k] = A[m, k]", {"M": 4000, "K": 4000}, True),
        ("y[b, k] = A[b, m, k] * x[b, m]", {"B": 2, "M": 4000, "K": 4000}, True),
        ("y[n, k] = A[m, k] * x[m, n]", {"M": 4000, "K": 4000, "N": 4}, True),  # a few times
        ("y[k] = A[m, k] * x[m]", {"M": 40, "K": 400}, False),  # in the caches
        ("y[m] = A[m, k] * x[k]", {"M": 4000, "K": 4000}, False),  # rows are a group's as they are
        ("y[n, k] = A[m, k] * x[m, n]", {"M": 4000, "K": 4000, "N": 40}, False),  # rows are used again
        ("y[b, k] = A[b, m, k] * x[b, m]", {"B": 64, "M": 400, "K": 4000}, False),  # problems enough
    ],
)
def test_groups_read_whole_rows_of_what_comes_from_memory_once(einsum: str, sizes: dict[str, int], split: bool) -> None:
    target = replace(ANY_DEVICE, units=2)
    cascade = suited(ff.cascade([einsum], sizes=sizes), target)
    assert any(isinstance(rewriting, SplitReduction) for rewriting in cascade.rewritings) is split
    text = str(default_mapping(cascade, target=target))
    assert ("for m in tiles of 8" in text and "for k in tiles of 1\n" not in text) or not split


def test_problems_of_their_own_are_groups_before_a_reduction_is_split() -> None:
    sums = ff.cascade(["y[m, n] = A[m, n, k]"], sizes={"M": 30, "N": 70, "K": 500})
    assert not suited(sums, replace(ANY_DEVICE, units=2)).rewritings
    products = ff.cascade(["Z[b, m, n] = A[b, m, k] * A[b, M: n, k]"], sizes={"B": 6, "M": 50, "N": 50, "K": 1531})
    assert [type(r) for r in suited(products, replace(ANY_DEVICE, units=2)).rewritings] == [Pack]
    few = ff.cascade(["y[m, n] = A[m, n, k]"], sizes={"M": 2, "N": 3, "K": 1 << 19})
    assert [type(r) for r in suited(few, replace(ANY_DEVICE, units=2)).rewritings] == [SplitReduction]


@pytest.mark.parametrize(("rows", "length", "split"), [(60, 8192, False), (128, 8192, False), (50, 100_000, True)])
def test_rows_that_are_multiplied_with_one_another_are_split_where_they_come_from_memory(rows: int, length: int, split: bool) -> None:
    """Nearer ones each group reads again; lanes add up, since a copy of an operand would be one of both."""
    cascade = ff.cascade(["Z[m, n] = A[m, k] * A[M: n, k]"], sizes={"M": rows, "N": rows, "K": length})
    after = suited(cascade, replace(WIDE, units=2, core_cache_bytes=1 << 20))
    assert any(isinstance(rewriting, SplitReduction) for rewriting in after.rewritings) is split
    nodes = default_mapping(after, target=WIDE).nodes
    assert after.rewritings or [n.rank_variable for n in nodes if isinstance(n, Spatial) and n.component == "Lane"] == ["k"]


@pytest.mark.parametrize(
    ("window", "channels", "copied"),
    [("2*q + s - 1", 40, True), ("2*q + s - 1", 16, False), ("q + s - 1", 40, False), ("2*q + s", 40, False)],
)
def test_windows_in_steps_that_leave_the_array_are_copied_where_they_are_used_often(window: str, channels: int, copied: bool) -> None:
    """Vectors of others are loaded from a row, as far as it goes, or picked from whole ones."""
    sizes = {"O": channels, "C": 24, "Q": 290, "S": 3, "W": 580 + ("-" not in window)}
    cascade = suited(ff.cascade([f"O[o, q] = sum(I[c, W: {window}] * K[o, c, s])"], sizes=sizes), replace(WIDE, units=2))
    assert [r for r in cascade.rewritings if isinstance(r, Pack) and "s" in r.variables] == [Pack("O", 0, ("c", "s", "q"))] * copied


def test_a_small_operand_of_a_chain_is_packed_once() -> None:
    """Groups of elements would turn the operators each for itself; for few elements that is as little."""
    for elements, packed in ((40_000, True), (100, False)):
        sizes = {"X": 3, "R": 3, "E": elements, "I": 20, "J": 20}
        gradient = ff.cascade(["D[x, e, i] = G[x, r, e] * S[r, i, j] * U[e, j]"], sizes=sizes)
        found = [r for r in suited(gradient, replace(ANY_DEVICE, units=2)).rewritings if isinstance(r, Pack)]
        assert (found == [Pack("D_part1", 0, ("r", "j", "i"))]) is packed
        assert bool(found) is packed


@pytest.mark.parametrize(
    ("rank", "cache", "columns"),
    [
        (10, 1 << 17, True),  # sums along k are full vectors, ten columns are not
        (16, 1 << 20, False),  # a full vector
        (21, 1 << 18, True),  # what register tiles of ranks read one after another stays in a core's cache
        (21, 1 << 17, False),  # it does not
        (30, 1 << 20, False),  # nearly two vectors
    ],
)
def test_two_steps_whose_vectors_are_full(rank: int, cache: int, columns: bool) -> None:
    """The first adds up along j with lanes along k, in which X lies; the second along k, in lanes of an operand that is turned."""
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32, core_cache_bytes=cache)
    cascade = ff.cascade(["Z[i, r] = X[i, j, k] * A[j, r] * B[k, r]"], sizes={"I": 90, "J": 97, "K": 113, "R": rank})
    found = suited(cascade, target)
    order = next(rewriting for rewriting in found.rewritings if isinstance(rewriting, ContractionOrder))
    assert (order.columns == ("k",)) is columns
    assert (found.einsums[-1].operands[-1].variables[-1] == "k") is columns
    assert rewritings_from_json(rewritings_to_json(found.rewritings)) == found.rewritings
    assert ff.compile(found, "pocl").example.expected


FEW = "Z[m, n] = A[m, k] * B[k, n]"
WIDE = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32, nearest_cache_bytes=48 << 10)


@pytest.mark.parametrize(
    ("line", "sizes", "packing"),
    [
        (FEW, {"M": 1700, "N": 10, "K": 1801}, Pack("Z", 1, ("n", "k"))),
        ("Z[n, m] = A[m, k] * B[k, n]", {"M": 1700, "N": 10, "K": 1801}, Pack("Z", 1, ("n", "k"))),
        ("Z[m, n] = A[k, n] * B[m, k]", {"M": 1700, "N": 9, "K": 1801}, Pack("Z", 0, ("n", "k"))),
        (FEW, {"M": 1700, "N": 16, "K": 1801}, None),  # whole vectors
        (FEW, {"M": 1700, "N": 20, "K": 1801}, None),  # a block of B would fill the nearest cache
        (FEW, {"M": 50_000, "N": 10, "K": 70}, None),  # adding up the lanes takes longer
        (FEW, {"M": 100, "N": 10, "K": 1801}, None),  # too little work for one more kernel
        # All of A would be turned otherwise, which takes so long that less work pays for the copy; c are problems of their own.
        ("Z[a, c] = B[b, c] * A[c, a, b]", {"A": 97, "B": 128, "C": 128}, Pack("Z", 0, ("c", "b"))),
        ("Z[a, c] = B[b, c] * A[c, a, b]", {"A": 30, "B": 32, "C": 16}, None),
        ("Z[m, n] = A[k, m] * B[k, n]", {"M": 1700, "N": 10, "K": 1801}, None),  # neither lies along the sum
    ],
)
def test_an_operand_is_copied_so_that_lanes_add_up_where_columns_fill_no_vector(
    line: str, sizes: dict[str, int], packing: Pack | None
) -> None:
    assert suited(ff.cascade([line], sizes=sizes), WIDE).rewritings == (() if packing is None else (packing,))


def test_the_first_step_of_a_chain_has_such_a_copy_where_it_would_have_no_lanes() -> None:
    """Only the sum over ``a`` lies in ``X`` as it is read; with ten columns of sixteen lanes the step stays as it was."""
    steps = ff.cascade(["Z[b, d] = X[b, c, d, a] * Y[c, d] * W[b, a, c]"], sizes={"A": 127, "B": 16, "C": 23, "D": 97})
    assert suited(steps, WIDE).rewritings[1:] == (Pack("Z_part1", 1, ("b", "c", "a")),)
    columns = ff.cascade(["T[m, n] = A[m, k] * B[k, n]", "Z[m, p] = T[m, n] * C[n, p]"], sizes={"M": 1700, "N": 10, "K": 1801, "P": 10})
    assert suited(columns, WIDE).rewritings == ()


def test_such_a_copy_leaves_the_rows_to_the_groups() -> None:
    """It has ten rows, in which groups could share nothing but these."""
    cascade = suited(ff.cascade([FEW], sizes={"M": 1700, "N": 10, "K": 1801}), WIDE)
    *_, branches = default_mapping(cascade, target=WIDE).nodes
    assert isinstance(branches, Sequential)
    _, adding = (next(node for node in branch.nodes if isinstance(node, Spatial)) for branch in branches.nodes)
    assert adding.rank_variable == "m"


def test_sums_in_lanes_share_both_operands_vectors() -> None:
    """Four rows by five columns are twenty sums, for which nine vectors are loaded; what all rows read stays in the nearest cache."""
    cascade = ff.cascade(["Z[m, n] = A[m, k] * B[n, k]"], sizes={"M": 1700, "N": 10, "K": 1801})
    loops = [(node.rank_variable, node.tile_shape) for node in default_mapping(cascade, target=WIDE).nodes if type(node) is Temporal]
    assert loops[-6:] == [("k", 512), ("m", 4), ("n", 5), ("k", 16), ("m", 1), ("n", 1)]
    text = ff.compile(default_spec(cascade, target=WIDE)).executable.source
    assert text.count("foldsum_float16(") == 2 and "upto_private" not in text


@pytest.mark.parametrize(
    ("text", "side", "depth"),
    [
        *(("Z[i, j] = A[k, i] * A[k, I: j]", *sides) for sides in ((400, 900), (800, 1800), (200, 2000), (1000, 200))),
        *(("Z[i, j] = A[i, k] * A[I: j, k]", *sides) for sides in ((400, 900), (800, 1800), (1000, 200))),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_take_the_rows_that_the_diagonal_ends(text: str, side: int, depth: int, dtype: str) -> None:
    """Of the others every loop would begin there, and all tiles be computed."""
    sizes = {"I": side, "J": side, "K": depth}
    cascade = suited(ff.cascade([text], sizes=sizes, dtypes={"All": dtype}), ANY_DEVICE)
    (half,) = [rewriting for rewriting in cascade.rewritings if isinstance(rewriting, Triangle)]
    mapping = default_spec(cascade).mapping
    assert mapping is not None
    above = [placed.node for path in mapping.paths() if "Z_half" in str(path[-1].node) for placed in path]
    assert {str(node.rank_variable) for node in above if isinstance(node, Spatial) and node.component == "Core"} == {half.first}
