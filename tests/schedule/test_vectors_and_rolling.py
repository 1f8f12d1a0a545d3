"""Lanes and rolling updates: stepwise equivalence at awkward sizes, what the code looks like, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.online import Online
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.schedule.refusals import IncompleteReductionError, NestOrderError, ReductionBindingError, VectorAccessError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import Step
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.factor_steps import RFactor
from feinsum_fuse.schedule.steps.loop_steps import Bind, Reorder, ShareLoop, Split, Unroll
from feinsum_fuse.schedule.steps.rolling_steps import RollingUpdate
from feinsum_fuse.schedule.steps.tile_steps import CacheRead, CacheWrite, ComputeAt
from feinsum_fuse.schedule.steps.vector_steps import Vectorize

from .runs import outputs_of, run, whole_numbers
from .scripts import product, ref, refs, split

ATTENTION = [
    "S[m,p] = where(p <= m, Q[m,e] * K[p,e], -inf)",
    "X[m] = max(S[m,p])",
    "P[m,p] = exp(S[m,p] - X[m])",
    "L[m] = P[m,p]",
    "N[m,f] = P[m,p] * V[p,f]",
    "O[m,f] = N[m,f] / L[m]",
]


def attention(sizes: tuple[int, int, int, int]) -> Cascade:
    """Scores, softmax in four Einsums with late division, and values."""
    m, p, e, f = sizes
    texts = ["R[m,p] = Q[m,e] * K[p,e]", "S[m,p] = where(p <= m, R[m,p], -inf)", *ATTENTION[1:]]
    return Online("X").apply(ff.cascade(texts, sizes={"M": m, "P": p, "E": e, "F": f}))


def one_pass(sizes: tuple[int, int, int, int], m_tile: int, p_tile: int) -> list[Step]:
    """All Einsums but the division under one loop over tiles of keys."""
    m, p, _, _ = sizes
    inner = {"R": "p/1 e", "S": "p/1", "X": "p/1", "P": "p/1", "L": "p/1", "N": "f p/1"}
    steps: list[Step] = [Explicate()]
    for name, rest in inner.items():
        steps += [split(f"{name}.m", m_tile, m), split(f"{name}.p", p_tile, p)]
        order = " ".join(f"{name}.{part}" for part in rest.split())
        steps.append(Reorder(name, refs(f"{name}.m/0 {name}.p/0 {name}.m/1 {order}")))
    steps.append(split("O.m", m_tile, m))
    steps.append(ShareLoop(refs("R.m/0 S.m/0 X.m/0 P.m/0 L.m/0 N.m/0 O.m/0")))
    steps.append(RollingUpdate(refs("R.p/0 S.p/0 X.p/0 P.p/0 L.p/0 N.p/0"), "X"))
    steps += [ComputeAt(t, ref("X.m/0"), "local") for t in ("X", "X.scale", "L", "N")]
    steps += [ComputeAt(t, ref("R.p/0"), "local") for t in ("R", "S", "P")]
    return steps


@pytest.mark.parametrize("sizes", [(7, 11, 3, 5), (1, 1, 1, 1), (13, 13, 2, 3)], ids=str)
def test_rolling_update_keeps_the_results(sizes: tuple[int, int, int, int]) -> None:
    """The kernel after each prefix agrees with the float64 reference, masks and tiles that they exclude included."""
    cascade = attention(sizes)
    generator = np.random.default_rng(1)
    inputs = {t: generator.uniform(-30, 30, cascade.fixed_shape(t)).astype(np.float32) for t in cascade.inputs}
    expected = cascade.reference(**inputs)["O"]
    steps = one_pass(sizes, 4, 3)
    first = next(i for i, step in enumerate(steps) if isinstance(step, RollingUpdate))
    for count in (first, first + 1, len(steps)):
        found = run(cascade, Schedule(tuple(steps[:count])), inputs)["O"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_scores_of_any_size_do_not_overflow() -> None:
    """Scores up to 1e4 in both directions: the running maximum keeps every exponential at most 1."""
    sizes = (5, 64, 1, 2)
    cascade = attention(sizes)
    inputs = {
        "Q": np.full((5, 1), 1e4, np.float32),
        "K": np.linspace(-1, 1, 64, dtype=np.float32)[:, None],
        "V": np.arange(128, dtype=np.float32).reshape(64, 2),
    }
    found = run(cascade, Schedule(tuple(one_pass(sizes, 2, 5))), inputs)["O"]
    np.testing.assert_allclose(found, cascade.reference(**inputs)["O"], rtol=1e-5)


def test_loops_inside_a_rolling_one_are_shared_too() -> None:
    """What is added stands before all Einsums and right behind the maximum, so that the others stay side by side."""
    sizes = (7, 11, 3, 5)
    cascade = attention(sizes)
    steps = one_pass(sizes, 4, 3)
    place = next(i for i, step in enumerate(steps) if isinstance(step, RollingUpdate)) + 1
    steps[place:place] = [ShareLoop(refs("R.m/1 S.m/1 X.m/1")), ShareLoop(refs("P.m/1 L.m/1 N.m/1")), ShareLoop(refs("P.p/1 L.p/1"))]
    inputs = {t: np.random.default_rng(1).uniform(-30, 30, cascade.fixed_shape(t)).astype(np.float32) for t in cascade.inputs}
    found = run(cascade, Schedule(tuple(steps)), inputs)["O"]
    np.testing.assert_allclose(found, cascade.reference(**inputs)["O"], rtol=1e-4, atol=1e-4)


def test_rolling_update_as_text() -> None:
    """The old maximum is kept, and sums are rescaled by a factor from the second tile on."""
    text = str(Schedule(tuple(one_pass((8, 8, 2, 2), 4, 4))).nest(attention((8, 8, 2, 2)).kernel()))
    assert "X_scale_local[m_X_1_X_before] = X_local[m_X_1_X_before]  if not first of p_R_0" in text
    assert "X_scale_local[m_X_1_X_scale] = exp(X_scale_local[m_X_1_X_scale] + (-1)*X_local[m_X_1_X_scale])  if not first of p_R_0" in text
    assert "L_local[m_L_1_L_rescale] *= X_scale_local[m_L_1_L_rescale]  if not first of p_R_0" in text
    assert "X_local[m_X_1_i] = -3.4028235e+38" in text


def test_rolling_update_as_a_tree(golden: Callable[[str, str], None]) -> None:
    """The script and the tree after it, at sizes that no tile divides."""
    sizes = (7, 11, 3, 5)
    schedule = Schedule(tuple(one_pass(sizes, 4, 4)))
    golden("schedule_one_pass", f"{schedule}\n\n{schedule.nest(attention(sizes).kernel())}")


def test_a_shared_key_loop_without_rolling_update_is_refused() -> None:
    """An ordinary shared loop would read an unfinished maximum."""
    steps = [s if not isinstance(s, RollingUpdate) else ShareLoop(s.loops) for s in one_pass((8, 8, 2, 2), 4, 4)]
    with pytest.raises(IncompleteReductionError, match=r"P would read X\[.*\] before X has summed over X\.p/0"):
        Schedule(tuple(steps)).nest(attention((8, 8, 2, 2)).kernel())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("P[m,p] = exp(2*S[m,p] - 3*X[m])", "uses the maximum other than as exp"),
        ("L[m] = max(P[m,p])", "is no sum of products with the exponentials"),
        ("L[m] = P[m,p] * P[m,p]", "is no sum of products with the exponentials"),
    ],
)
def test_what_one_pass_cannot_correct_is_refused(line: str, reason: str) -> None:
    """The precondition is the algebra: exp(x - max) in sums, linearly."""
    texts = ["S[m,p] = A[m,p]", "X[m] = max(S[m,p])", "P[m,p] = exp(S[m,p] - X[m])", "L[m] = P[m,p]"]
    texts = [line if text.split("[")[0] == line.split("[")[0] else text for text in texts]
    cascade = ff.cascade(texts, sizes={"M": 8, "P": 8})
    steps = [Explicate(), *(Reorder(n, refs(f"{n}.p {n}.m")) for n in "SXPL"), RollingUpdate(refs("S.p X.p P.p L.p"), "X")]
    with pytest.raises(IncompleteReductionError, match=reason):
        Schedule(tuple(steps)).nest(cascade.kernel())


def lanes_product(sizes: tuple[int, int, int, int]) -> list[Step]:
    """A register tile of vectors over a packed tile in local memory."""
    return [
        Explicate(),
        split("Z.m", 3, sizes[0]),
        Split(ref("Z.n"), 16),
        Split(ref("Z.n/1"), 8),
        Reorder("Z", refs("Z.m/0 Z.n/0 Z.k Z.m/1 Z.n/1/0 Z.n/1/1")),
        Bind(ref("Z.m/0"), "group.0"),
        CacheRead(("Z",), "B", ref("Z.n/0"), "local"),
        CacheWrite("Z", ref("Z.n/0"), "private"),
        Vectorize(refs("Z.n/1/1")),
        Unroll(ref("Z.m/1")),
        Unroll(ref("Z.n/1/0")),
    ]


@pytest.mark.parametrize("sizes", [(5, 16, 3, 1), (7, 37, 5, 1), (3, 23, 1, 1), (1, 17, 7, 1)], ids=str)
def test_lanes_keep_the_results(sizes: tuple[int, int, int, int]) -> None:
    """Whole and partial vectors, tiles of vectors, packed tiles and arguments."""
    cascade = product(sizes)
    inputs = whole_numbers(cascade)
    expected = cascade.reference(**inputs)["Z"]
    steps = lanes_product(sizes)
    for count in range(8, len(steps) + 1):
        np.testing.assert_array_equal(run(cascade, Schedule(tuple(steps[:count])), inputs)["Z"], expected)


def test_lanes_as_a_tree(golden: Callable[[str, str], None]) -> None:
    """The script and the tree after it, at sizes that no tile divides."""
    schedule = Schedule(tuple(lanes_product((7, 37, 5, 1))))
    golden("schedule_lanes_product", f"{schedule}\n\n{schedule.nest(product((7, 37, 5, 1)).kernel())}")


@pytest.mark.parametrize("variable", ["m", "n"])
def test_lanes_over_either_axis(variable: str) -> None:
    """Lanes that do not lie next to one another in an argument are gathered and scattered."""
    sizes = (19, 21, 3, 1)
    cascade = product(sizes)
    inputs = whole_numbers(cascade)
    other = "n" if variable == "m" else "m"
    order = refs(f"Z.{other} Z.{variable}/0 Z.k Z.{variable}/1")
    steps = (Explicate(), Split(ref(f"Z.{variable}"), 8), Reorder("Z", order), CacheWrite("Z", order[1], "private"), Vectorize(order[3:]))
    np.testing.assert_array_equal(run(cascade, Schedule(steps), inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize("memory", ["private", "local"])
@pytest.mark.parametrize("variable", ["m", "n"])
@pytest.mark.parametrize("length", [1, 3, 7, 12])
def test_loops_shorter_than_vectors_are_lanes(length: int, variable: str, memory: str) -> None:
    """Lanes beyond a loop's end read and write nothing that is not theirs, in arguments, packed tiles and tiles of sums."""
    sizes = (length, 5, 3, 1) if variable == "m" else (5, length, 3, 1)
    cascade = product(sizes)
    inputs = whole_numbers(cascade)
    other = "n" if variable == "m" else "m"
    order = refs(f"Z.{other} Z.k Z.{variable}")
    packed = CacheRead(("Z",), "A" if variable == "m" else "B", None, "local")
    steps = (Explicate(), Reorder("Z", order), packed, CacheWrite("Z", order[0], memory), Vectorize(order[2:]))
    for chosen in (steps, tuple(step for step in steps if step != packed)):
        np.testing.assert_array_equal(run(cascade, Schedule(chosen), inputs)["Z"], cascade.reference(**inputs)["Z"])


def test_loops_of_several_lengths_are_lanes_of_the_longest() -> None:
    """One schedule has vectors of one length."""
    cascade = ff.cascade(["Y[m,n] = A[m,n] * B[n]", "Z[m,p] = Y[m,n] * C[n,p]"], sizes={"M": 4, "N": 5, "P": 11}, dtypes={"All": "float64"})
    inputs = whole_numbers(cascade)
    steps = (Explicate(), Reorder("Z", refs("Z.m Z.n Z.p")), Vectorize(refs("Y.n Z.p")))
    assert "double16" in executable(Schedule(steps).apply(cascade.kernel())).source
    np.testing.assert_array_equal(run(cascade, Schedule(steps), inputs)["Z"], cascade.reference(**inputs)["Z"])


@pytest.mark.parametrize("text", ["Z[m,n] = max(A[m,n], 2*B[m,n])", "Z[m,n] = where(n <= m, A[m,n]/4, n*B[m,n])", "Z[m,n] = exp(A[m,n])"])
def test_maps_on_lanes(text: str) -> None:
    """Functions, divisions, conditions and rank variables on vectors."""
    cascade = ff.cascade([text], sizes={"M": 5, "N": 29})
    inputs = whole_numbers(cascade)
    steps = (Explicate(), Split(ref("Z.n"), 8), Vectorize(refs("Z.n/1")))
    found = outputs_of(Schedule(steps).apply(cascade.kernel()), cascade, inputs)["Z"]
    np.testing.assert_allclose(found, cascade.reference(**inputs)["Z"], rtol=1e-6)


@pytest.mark.parametrize("line", ["Z[m] = sum(A[m,k] + 1)", "Z[m] = max(A[m,k])"])
def test_partial_results_in_lanes_keep_what_an_end_leaves_out(line: str) -> None:
    """Rows of as many partial results as lanes have no padding: a vector that the end cuts must not be stored whole into them."""
    cascade = ff.cascade([line], sizes={"M": 7, "K": 45}, dtypes={"All": "float32"})
    schedule = Schedule(
        (
            Explicate(),
            split("Z.m", 3, 7),
            split("Z.k", 16, 45),
            Reorder("Z", refs("Z.m/0 Z.k/0 Z.m/1 Z.k/1")),
            RFactor(ref("Z.k/1"), ref("Z.m/0"), "private"),
            Vectorize(refs("Z.k/1")),
            Unroll(ref("Z.m/1")),
        )
    )
    inputs = whole_numbers(cascade)
    inputs["A"] -= 9  # an element that is not there reads as zero, of which either line would make something else
    expected = inputs["A"].max(1) if "max" in line else (inputs["A"] + 1).sum(1)
    np.testing.assert_array_equal(run(cascade, schedule, inputs)["Z"], expected)


def test_a_vector_begins_only_where_a_lane_is_in_use() -> None:
    """Of ``C[l] += X[t]*X[t + l]`` the last products run over the end of ``X``: the loop around the vectors ends before, and no vector is
    read from behind the end.
    """
    workload = "{rank_sizes: {U: 40, L: 21}, bits_per_value: {All: 32}, einsums: ['C[l] = X[U: t] * X[U: t+l]']}"
    cascade = ff.cascade(ff.loads(f"workload: {workload}"))
    steps = (Explicate(), Split(ref("C.l"), 8), Reorder("C", refs("C.t C.l/0 C.l/1")), Vectorize(refs("C.l/1")))
    inputs = whole_numbers(cascade)
    found = outputs_of(Schedule(steps).apply(cascade.kernel()), cascade, inputs)["C"]
    np.testing.assert_array_equal(found, cascade.reference(**inputs)["C"])


def test_the_code_is_vectors() -> None:
    """No loop over lanes is left, and the accumulator is an array of vectors."""
    source = executable(Schedule(tuple(lanes_product((6, 32, 4, 1)))).apply(product((6, 32, 4, 1)).kernel())).source
    assert "float8 Z_private[3 * 2];" in source
    assert "vload_local_float8(B_local[" in source
    assert "n_2" not in source.split("__kernel")[1]


def test_tiles_are_fetched_by_vectors() -> None:
    """A packed tile whose rows lanes read is filled by whole vectors; the last one of a row takes what is there, and zeros."""
    source = executable(Schedule(tuple(lanes_product((6, 37, 4, 1)))).apply(product((6, 37, 4, 1)).kernel())).source
    assert "vstore_local_float8(B_local[16 * k_B + 8 * n_B], vloadupto_global_float8(B[" in source


def test_statements_under_one_condition_stand_together() -> None:
    """Of a register tile that leaves the output, each vector of columns has one condition, and is loaded once."""
    source = executable(Schedule(tuple(lanes_product((6, 37, 4, 1)))).apply(product((6, 37, 4, 1)).kernel())).source
    kernel = source[source.index("__kernel") :]
    whole, cut = kernel[kernel.index("// a whole tile") :].split("// a tile that is cut")
    assert (whole.count("vload_local_float8("), cut.count("vload_local_float8(")) == (2, 1)
    assert kernel.count("if (") == 1


def test_what_cannot_be_lanes_is_refused() -> None:
    """Each precondition has its error."""
    kernel = product((8, 8, 8, 1)).kernel()

    def nest(*steps: Step) -> None:
        Schedule((Explicate(), *steps)).nest(kernel)

    with pytest.raises(ReductionBindingError, match=r"Z\.k/1 is a reduction loop"):
        nest(Split(ref("Z.k"), 4), Reorder("Z", refs("Z.m Z.n Z.k/0 Z.k/1")), Vectorize(refs("Z.k/1")))
    with pytest.raises(NestOrderError, match=r"Z\.n is not innermost"):
        nest(Vectorize(refs("Z.n")))
    with pytest.raises(VectorAccessError, match=r"Z\.n has 17 iterations; OpenCL has no such vectors"):
        Schedule((Explicate(), Reorder("Z", refs("Z.m Z.k Z.n")), Vectorize(refs("Z.n")))).nest(product((8, 17, 8, 1)).kernel())
