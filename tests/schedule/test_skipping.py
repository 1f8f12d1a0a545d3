"""Tiles that a mask excludes are left out: stepwise equivalence at awkward sizes, what the loops become, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.formats.language.reductions import REDUCTIONS
from feinsum_fuse.schedule.refusals import BindingConflictError, NestOrderError, NothingMaskedError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, Split
from feinsum_fuse.schedule.steps.skip_steps import SkipTiles, lives_throughout
from feinsum_fuse.schedule.steps.tile_steps import CacheWrite
from feinsum_fuse.schedule.tree.masks import Masks, uncut
from feinsum_fuse.schedule.tree.nest import LoopRef, statements
from feinsum_fuse.schedule.tree.polyhedra import points

from .runs import run, whole_numbers
from .scripts import ref, refs, split

TILES = {"S": (4, 3), "X": (2, 1), "P": (8, 5), "L": (2, 1), "N": (4, 4)}
"""Einsum -> tiles of queries and keys: no two fit each other."""


def attention(sizes: tuple[int, int, int, int], mask: str) -> Cascade:
    """Attention whose scores are masked."""
    m, p, e, f = sizes
    texts = [
        f"S[m,p] = where({mask}, Q[m,e] * K[p,e], -inf)",
        "X[m] = max(S[m,p])",
        "P[m,p] = exp(S[m,p] - X[m])",
        "L[m] = P[m,p]",
        "N[m,f] = P[m,p] * V[p,f]",
        "O[m,f] = N[m,f] / L[m]",
    ]
    return ff.cascade(texts, sizes={"M": m, "P": p, "E": e, "F": f})


def tiled(sizes: tuple[int, int, int, int]) -> list[Step]:
    """Two passes, each Einsum in tiles of its own."""
    m, p, _, _ = sizes
    steps: list[Step] = [Explicate()]
    for name, (rows, keys) in TILES.items():
        rest = {"S": f"{name}.e", "N": f"{name}.f"}.get(name, "")
        steps += [split(f"{name}.m", rows, m), split(f"{name}.p", keys, p)]
        steps.append(Reorder(name, refs(f"{name}.m/0 {name}.p/0 {name}.m/1 {name}.p/1 {rest}")))
    return steps


def skipping(steps: list[Step], cascade: Cascade) -> list[Step]:
    """All cuts that are possible, consumers first."""
    steps = list(steps)
    for name in reversed(TILES):
        step = SkipTiles(ref(f"{name}.p/0"), refs(f"{name}.m/0"))
        try:
            Schedule((*steps, step)).nest(cascade.kernel())
        except NothingMaskedError:
            continue
        steps.append(step)
    return steps


def points_of(cascade: Cascade, steps: list[Step], einsum: str) -> int:
    """How many points of an Einsum are computed."""
    nest = Schedule(tuple(steps)).nest(cascade.kernel())
    above, statement = next((a, s) for a, s in statements(nest.body) if s.einsum == einsum and s.role in {"map", "update"})
    return int(points(above, statement.guards).count_val().to_python())


MASKS = {
    "causal": "p <= m",
    "causal, keys in front": "p <= m + 6",
    "padding": "p < 5",
    "causal and padding": "p <= m and p < 9",
    "window": "p <= m and m <= p + 3",
    "two sides": "p <= m or p == 2",
    "the other side": "not p < m",
    "rows without keys": "p + 2 <= m",
    "nothing": "p < 0",
}
CUT = {"causal", "causal, keys in front", "padding", "causal and padding", "window", "two sides"}


@pytest.mark.parametrize("sizes", [(13, 11, 2, 3), (7, 17, 1, 1)], ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_each_cut_keeps_the_results(mask: str, sizes: tuple[int, int, int, int]) -> None:
    """With tiles that do not fit each other, also for rows that are wholly masked, whose results are no numbers."""
    cascade = attention(sizes, MASKS[mask])
    inputs = {t: np.random.default_rng(1).uniform(-3, 3, cascade.fixed_shape(t)).astype(np.float32) for t in cascade.inputs}
    expected = cascade.reference(**inputs)["O"]
    steps = tiled(sizes)
    cut = skipping(steps, cascade)
    for count in dict.fromkeys(((len(steps) + len(cut)) // 2, len(cut)) if mask == "causal" else (len(cut),)):
        found = run(cascade, Schedule(tuple(cut[:count])), inputs)["O"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", MASKS)
def test_what_is_cut(mask: str) -> None:
    """Every Einsum does less under a mask that excludes the last keys of each query. Not under others: where a whole row is
    masked, its exponentials are no numbers, which a sum must not lose."""
    sizes = (24, 24, 1, 1)
    cascade = attention(sizes, MASKS[mask])
    steps = tiled(sizes)
    cut = skipping(steps, cascade)
    less = {name for name in TILES if points_of(cascade, cut, name) < points_of(cascade, steps, name)}
    assert less == set(TILES) if mask in CUT else "N" not in less


@pytest.mark.parametrize("mask", MASKS)
def test_neutral_points_are_those_of_loops_before_they_are_cut(mask: str) -> None:
    """What is found over an Einsum's own loops is what is found over their parts, of tiles that do not divide them."""
    sizes = (13, 11, 2, 3)
    cascade = attention(sizes, MASKS[mask])
    nest = Schedule(tuple(tiled(sizes))).nest(cascade.kernel())
    masks, found = Masks(nest), set[str]()
    for above, statement in nest.points:
        if statement.reduce is not None:
            assert uncut(statement, nest.spaces[statement.einsum]) is not None
            lost = float(REDUCTIONS[statement.reduce].neutral_of("float32"))
            known, neutral = masks.value(above, statement).where(lost), masks.neutral(above, statement)
            assert known.is_empty() if neutral is None else neutral.is_equal(known)
            found |= {statement.einsum} if neutral is not None else set()
    assert "X" in found


@pytest.mark.parametrize("mask", ["p <= m", "m <= p + 3", "p < 7", "1 < 2"])
def test_loops_that_are_passed_over_cannot_end_early(mask: str) -> None:
    """What lives at all values of some variables before any step does so however loops are cut, and consumers with it."""
    cascade = attention((11, 13, 3, 2), mask)
    steps = tiled((11, 13, 3, 2))
    uncut = Schedule((Explicate(),)).nest(cascade.kernel())
    cut = Schedule(tuple(skipping(steps, cascade))).nest(cascade.kernel())
    found = {}
    for name in TILES:
        tile = f"{name}.m/0 {name}.p/0"
        for loop, per in (("m/0", ""), ("m/1", tile), ("p/0", ""), ("p/0", f"{name}.m/0"), ("p/1", tile)):
            own = ref(f"{name}.{loop}")
            variables = {own.variable, *(other.variable for other in refs(per))}
            found[name, loop, per] = lives_throughout(uncut, name, variables)
            if found[name, loop, per]:
                with pytest.raises(NothingMaskedError):
                    SkipTiles(own, refs(per)).apply(cut)
    assert all(found[name, "m/0", ""] for name in TILES) or mask == "m <= p + 3"
    assert found["S", "p/0", "S.m/0"] == (mask == "1 < 2")


def test_causal_attention_computes_half() -> None:
    """Of 64 x 64 scores, those of the tiles on the diagonal and below it."""
    sizes = (64, 64, 1, 1)
    cascade = attention(sizes, MASKS["causal"])
    assert points_of(cascade, skipping(tiled(sizes), cascade), "N") == 4 * 4 * sum(range(1, 17))


def test_tree_text(golden: Callable[[str, str], None]) -> None:
    """The ends of the loops follow from each Einsum's own tiles and from what its consumers still read."""
    sizes = (13, 11, 2, 3)
    cascade = attention(sizes, MASKS["causal"])
    schedule = Schedule(tuple(skipping(tiled(sizes), cascade)))
    golden("schedule_skipped_attention", f"{schedule}\n\n{schedule.nest(cascade.kernel())}")


@pytest.mark.parametrize(("mask", "points_left"), [("n <= m", 2 * 7 * 4 * 4 * sum(range(1, 9))), ("m <= n", None)])
def test_many_loops_around_an_end(mask: str, points_left: int | None) -> None:
    """Half of a symmetric product of which each part of the reduction has three levels of tiles. The other half has no end that is
    earlier."""
    sizes = {"B": 2, "M": 32, "N": 32, "K": 7}
    cascade = ff.cascade([f"Y[b,m,n] = where({mask}, A[b,k, M: m] * A[b,k, M: n], 0)", "Z[m,n] = Y[b,m,n]"], sizes=sizes)
    rows = (Split(ref("Y.m"), 16), Split(ref("Y.m/1"), 8), Split(ref("Y.m/1/1"), 4))
    columns = (Split(ref("Y.n"), 4), Split(ref("Y.n/1"), 2))
    order = Reorder("Y", refs("Y.b Y.m/0 Y.m/1/0 Y.k/0 Y.m/1/1/0 Y.n/0 Y.k/1 Y.m/1/1/1 Y.n/1/0 Y.n/1/1"))
    steps: list[Step] = [Explicate(), *rows, *columns, Split(ref("Y.k"), 4), order]
    cut = SkipTiles(ref("Y.n/0"), refs("Y.b Y.m/0 Y.m/1/0 Y.k/0 Y.m/1/1/0"))
    if points_left is None:
        with pytest.raises(NothingMaskedError):
            Schedule((*steps, cut)).nest(cascade.kernel())
        return
    assert points_of(cascade, [*steps, cut], "Y") == points_left
    inputs = whole_numbers(cascade)
    np.testing.assert_array_equal(run(cascade, Schedule((*steps, cut)), inputs)["Z"], cascade.reference(**inputs)["Z"])


TRIANGLE = ["Z[m,n] = where(k <= m, A[m,k], 0) * B[k,n]"]


def product(texts: list[str] = TRIANGLE) -> tuple[Cascade, list[Step]]:
    """A product with a triangular matrix."""
    steps: list[Step] = [Explicate(), Split(ref("Z.m"), 4), Split(ref("Z.k"), 4), Reorder("Z", refs("Z.m/0 Z.k/0 Z.m/1 Z.n Z.k/1"))]
    return ff.cascade(texts, sizes={"M": 13, "K": 17, "N": 3}), steps


CUT_K = SkipTiles(ref("Z.k/0"), refs("Z.m/0"))


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        ("Z[m,n] = where(k <= m, A[m,k], 0) * B[k,n]", True),
        ("Z[m,n] = max(where(k <= m, A[m,k] + B[k,n], -inf))", True),
        ("Z[m,n] = min(where(k <= m, A[m,k] * B[k,n], inf))", True),
        ("Z[m,n] = prod(where(k <= m, A[m,k] * B[k,n], 1))", True),
        ("Z[m,n] = any(where(k <= m, A[m,k] * B[k,n], 0))", True),
        ("Z[m,n] = all(where(k <= m, A[m,k] * B[k,n], 1))", True),
        ("Z[m,n] = all(where(k <= m, A[m,k] * B[k,n], 0))", False),
        ("Z[m,n] = where(k <= m, relu(A[m,k] - 0*B[k,n]), tanh(0))", True),
        ("Z[m,n] = where(k <= m, A[m,k], 1) * B[k,n]", False),
        ("Z[m,n] = max(where(k <= m, A[m,k] * B[k,n], 0))", False),
        ("Z[m,n] = where(k <= m, A[m,k], 0) / B[k,n]", False),
        ("Z[m,n] = where(A[m,k] > 0, B[k,n], 0)", False),
    ],
)
def test_only_neutral_elements_are_left_out(text: str, is_cut: bool) -> None:
    """Zeros of a sum, minus infinity of a maximum, ones of a product; a quotient of zero could be no number."""
    cascade, steps = product([text])
    if not is_cut:
        with pytest.raises(NothingMaskedError):
            Schedule((*steps, CUT_K)).nest(cascade.kernel())
        return
    inputs = whole_numbers(cascade)
    found = run(cascade, Schedule((*steps, CUT_K)), inputs)["Z"]
    np.testing.assert_array_equal(found, cascade.reference(**inputs)["Z"])


def test_an_output_is_computed_whole() -> None:
    """Scores that the caller sees are written also where they are masked."""
    cascade = ff.cascade(["S[m,p] = where(p <= m, A[m,p], 0)", "Z[m] = S[m,p] * B[p]"], sizes={"M": 8, "P": 8})
    seen = Cascade(cascade.einsums, cascade.tensors, ("S", "Z"))
    steps: list[Step] = [Explicate()]
    for name in "SZ":
        steps += [Split(ref(f"{name}.m"), 4), Split(ref(f"{name}.p"), 4)]
        steps.append(Reorder(name, refs(f"{name}.m/0 {name}.p/0 {name}.m/1 {name}.p/1")))
    steps.append(SkipTiles(ref("Z.p/0"), refs("Z.m/0")))
    cut = SkipTiles(ref("S.p/0"), refs("S.m/0"))
    Schedule((*steps, cut)).nest(cascade.kernel())
    with pytest.raises(NothingMaskedError, match=r"no mask excludes the last iterations of S\.p/0"):
        Schedule((*steps, cut)).nest(seen.kernel())


def test_a_producer_is_not_cut_before_its_consumers() -> None:
    """Somebody would read what was not computed."""
    sizes = (8, 8, 1, 1)
    cascade = attention(sizes, MASKS["causal"])
    with pytest.raises(NothingMaskedError, match=r"S\.p/0"):
        Schedule((*tiled(sizes), SkipTiles(ref("S.p/0"), refs("S.m/0")))).nest(cascade.kernel())


@pytest.mark.parametrize(
    ("before", "step", "error", "message"),
    [
        ((), SkipTiles(ref("Z.m/0"), ()), NothingMaskedError, "no mask excludes the last iterations of Z.m/0 as a whole"),
        ((), SkipTiles(ref("Z.k/0"), refs("Z.n")), NestOrderError, "not all of these loops stand around Z.k/0"),
        ((CacheWrite("Z", LoopRef("Z", "m", "0"), "local"),), CUT_K, NestOrderError, "the nest holds tiles already"),
        ((Bind(ref("Z.m/0"), "group.0"),), SkipTiles(ref("Z.m/0"), ()), BindingConflictError, "the loop is bound to group.0"),
    ],
)
def test_what_is_refused(before: tuple[Step, ...], step: SkipTiles, error: type[Exception], message: str) -> None:
    """Each precondition has its error, which names the step."""
    cascade, steps = product()
    with pytest.raises(error) as caught:
        Schedule((*steps, *before, step)).nest(cascade.kernel())
    assert str(step) in str(caught.value) and message in str(caught.value)
