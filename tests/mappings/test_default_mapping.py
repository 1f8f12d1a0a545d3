"""Default mappings: legal and right for any cascade, with groups, register tiles and lanes where there is something to gain."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.formats.mapping import Spatial, Storage, Temporal
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering import ties
from feinsum_fuse.mappings import default_mapping as defaults
from feinsum_fuse.mappings.default_mapping import default_mapping, default_space, default_spec
from feinsum_fuse.mappings.family import Family
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.mappings.fusing.runs import segments
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from feinsum_fuse.schedule.target import ANY_DEVICE, DeviceLimits, Target
from tests.generators.workloads import KINDS
from tests.sweeps import SEED, SLOW, sweep_size

MATMUL = ["Z[m,n] = A[m,k] * B[k,n]"]
CHAIN = ["T[m,n] = A[m,k] * B[k,n]", "Z[m,p] = T[m,n] * C[n,p]"]
ATTENTION = [
    "S[h,m,p] = Q[h,m,e] * K[h, P: p, e]",
    "X[h,m] = max(S[h,m,p])",
    "E[h,m,p] = exp(S[h,m,p] - X[h,m])",
    "L[h,m] = E[h,m,p]",
    "N[h,m,f] = E[h,m,p] * V[h, P: p, f]",
    "O[h,m,f] = N[h,m,f] / L[h,m]",
]


def cases() -> Iterator[tuple[str, Cascade]]:
    """Cascades at sizes where nothing divides, at size 1, and of every element type."""
    yield "matmul", ff.cascade(MATMUL, sizes={"M": 67, "N": 45, "K": 33})
    yield "long reduction", ff.cascade(MATMUL, sizes={"M": 70, "N": 37, "K": 1031})
    yield "one element", ff.cascade(MATMUL, sizes={"M": 1, "N": 1, "K": 1})
    yield "inner product", ff.cascade(["Z[o] = A[k] * B[k]"], sizes={"K": 1009, "O": 1})
    yield "sum of everything", ff.cascade(["Z[o] = A[m,n]"], sizes={"M": 19, "N": 23, "O": 1})
    yield "row sums", ff.cascade(["Z[m] = A[m,n]"], sizes={"M": 131, "N": 23})
    yield "column sums", ff.cascade(["Z[n] = A[m,n]"], sizes={"M": 131, "N": 23})
    yield "transpose", ff.cascade(["Z[n,m] = A[m,n]"], sizes={"M": 131, "N": 23})
    yield "vector", ff.cascade(["Z[m] = relu(0.5*A[m] + 1)"], sizes={"M": 100_003})
    yield "batched", ff.cascade(["Z[b,m,n] = A[b,m,k] * B[b,k,n]"], sizes={"B": 5, "M": 29, "N": 19, "K": 31})
    yield "many small products", ff.cascade(["Z[b,m,n] = A[b,m,k] * B[b,k,n]"], sizes={"B": 997, "M": 3, "N": 4, "K": 5})
    yield "chain", ff.cascade(CHAIN, sizes={"M": 211, "N": 17, "K": 35, "P": 20})
    yield "attention", ff.cascade(ATTENTION, sizes={"H": 3, "M": 37, "P": 41, "E": 8, "F": 11})
    yield "polynomial product", ff.cascade(["Z[Q: p+r] = A[p] * B[r]"], sizes={"P": 37, "R": 11})
    yield "strided convolution", ff.cascade(["O[m,p] = I[c, H: 2*p+r] * W[m,c,r]"], sizes={"M": 16, "P": 41, "C": 3, "R": 5})
    yield "gram matrix", ff.cascade(["Z[m,n] = A[M: m, k] * A[M: n, k]"], sizes={"M": 33, "N": 33, "K": 21})
    short = {"A": 3, "B": 7, "C": 2, "D": 5, "E": 3, "F": 6, "G": 11}
    yield "short axes", ff.cascade(["Z[a,b,c,d,e,f] = A[g,f,a,c] * B[d,e,g,b]"], sizes=short)
    short = {"A": 9, "B": 3, "C": 5, "K": 7}
    yield "short axes of doubles", ff.cascade(["Z[a,b,c] = A[c,k,a] * B[k,b]"], sizes=short, dtypes={"All": "float64"})
    yield "maximum", ff.cascade(["Z[m,n] = max(A[m,k] + B[k,n])"], sizes={"M": 67, "N": 45, "K": 33})
    for name, text in (("recurrence", "Y[i] = Y[I: i-1] * A[i]"), ("recurrences in rows", "Y[m, i] = Y[m, I: i-1] + A[m, i]")):
        yield name, recurrence(text)
    yield "names like constants", ff.cascade(["M[m,n] = INT_A[m,k] * M_B[k,n]"], sizes={"M": 20, "N": 20, "K": 20})
    for dtype in ("float64", "int8", "int32") + (("int16", "int64", "uint8", "uint32") if SLOW else ()):
        yield dtype, ff.cascade(CHAIN, sizes={"M": 43, "N": 17, "K": 9, "P": 20}, dtypes={"All": dtype})


def recurrence(text: str) -> Cascade:
    """Of 41 steps from 1, in 19 rows where it has rows."""
    sizes = "{I: 41, M: 19}" if "m" in text else "{I: 41}"
    einsum = f"{{einsum: '{text}', operations: {{populate: 1}}}}"
    return ff.cascade(ff.loads(f"workload: {{bits_per_value: {{All: 32}}, rank_sizes: {sizes}, einsums: [{einsum}]}}"))


@pytest.mark.parametrize(("name", "cascade"), list(cases()), ids=[name for name, _ in cases()])
def test_runs(name: str, cascade: Cascade) -> None:
    """Compiling verifies against the reference."""
    program = ff.compile(default_spec(cascade))
    assert set(program.output_shapes) == set(cascade.outputs), name


@pytest.mark.parametrize("number", range(sweep_size(20 * len(KINDS))))
def test_kinds_of_workloads(number: int) -> None:
    """Every kind of workload that the random trees know, at random small sizes."""
    workload = KINDS[number % len(KINDS)].sized(Random(SEED + number))
    spec = default_spec(cascade_of(Spec(workload)))
    assert {compute.einsum for compute in spec.mapping.computes} == {e.name for e in workload.einsums} if spec.mapping else False
    ff.lower(spec)
    if SLOW:
        ff.compile(spec)


def loops_in_space(spec: Spec) -> set[str]:
    """The fanouts that the mapping uses."""
    assert spec.mapping is not None
    return {placed.node.component for path in spec.mapping.paths() for placed in path if isinstance(placed.node, Spatial)}


def held(spec: Spec, component: str) -> set[str]:
    """The tensors that the mapping holds in this memory."""
    assert spec.mapping is not None
    nodes = [placed.node for path in spec.mapping.paths() for placed in path]
    return {t for node in nodes if isinstance(node, Storage) and node.component == component for t in node.tensors}


def test_a_product_gets_groups_registers_and_lanes() -> None:
    spec = default_spec(ff.cascade(MATMUL, sizes={"M": 1000, "N": 1023, "K": 512}))
    assert loops_in_space(spec) == {"Core", "Lane"}
    assert held(spec, "Register") == {"Z"}
    assert held(spec, "Scratchpad") == {"B"}


def test_chains_are_fused_if_what_they_exchange_fits() -> None:
    small = default_spec(ff.cascade(CHAIN, sizes={"M": 65536, "N": 64, "K": 64, "P": 64}))
    assert "T" not in held(small, "MainMemory")
    large = default_spec(ff.cascade(CHAIN, sizes={"M": 64, "N": 1 << 20, "K": 2, "P": 2}))
    assert "T" in held(large, "MainMemory")


def test_limits_are_kept() -> None:
    cascade = ff.cascade(CHAIN, sizes={"M": 4096, "N": 512, "K": 64, "P": 64})
    tight = DeviceLimits(local_bytes=16 << 10, private_bytes=4 << 10)
    ff.lower(default_spec(cascade, tight), tight)


def test_einsums_whose_rows_do_not_all_lie_in_local_memory_are_fused_in_passes() -> None:
    """16 rows of T take 216 KiB, of which a group holds one."""
    einsums = ["T[c,p,q] = X[c, H: p+r, W: q+s] * D[c,r,s]", "Y[o,p,q] = T[c,p,q] * F[o,c]"]
    sizes = {"O": 88, "C": 72, "P": 47, "Q": 47, "H": 49, "W": 49, "R": 3, "S": 3}
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32, limits=DeviceLimits(local_bytes=256 << 10))
    tight = replace(target, limits=DeviceLimits(local_bytes=8 << 10))
    fused, apart = (str(default_mapping(ff.cascade(einsums, sizes=sizes), target=one)) for one in (target, tight))
    assert "Scratchpad holds T" in fused
    assert "Scratchpad holds T" not in apart


def test_mapping_fits_the_cascades_workload() -> None:
    cascade = ff.cascade(ATTENTION, sizes={"H": 2, "M": 64, "P": 64, "E": 16, "F": 16})
    spec = default_spec(cascade)
    assert default_mapping(cascade) == spec.mapping
    assert ff.loads(spec.to_yaml()).mapping == spec.mapping


def test_names_do_not_matter() -> None:
    one = default_spec(ff.cascade(CHAIN, sizes={"M": 640, "N": 48, "K": 32, "P": 56}))
    renamed = ["Q[x,y] = W[x,t] * R[t,y]", "Y[x,z] = Q[x,y] * S[y,z]"]
    other = default_spec(ff.cascade(renamed, sizes={"X": 640, "Y": 48, "T": 32, "Z": 56}))
    text = str(other.mapping)
    for new, old in zip("QWRYS", "TABZC", strict=True):
        text = text.replace(f" {new}", f" {old.lower()}*")
    assert len(str(one.mapping).splitlines()) == len(text.splitlines())


def test_sizes_that_are_not_known_are_refused() -> None:
    with pytest.raises(ff.CascadeError, match="symbolic"):
        default_mapping(ff.cascade(MATMUL, sizes={"M": "m", "N": 4, "K": 4}))


def test_compile_without_a_mapping() -> None:
    cascade = ff.cascade(CHAIN, sizes={"M": 130, "N": 17, "K": 35, "P": 20})
    program = ff.compile(ff.spec(cascade))
    arrays = {name: np.ones(shape, "float32") for name, shape in program.input_shapes.items()}
    np.testing.assert_allclose(program(arrays)["Z"], np.full((130, 20), 17 * 35), rtol=1e-6)


def test_golden_trees_of_the_examples(root: Path) -> None:
    """For the neutral target, whatever machine this is."""
    found = []
    for file in sorted(root.glob("examples/*/workload.yaml")):
        found.append(f"{file.parent.name}\n{default_mapping(ff.cascade(ff.load(file)))}")
    assert "\n\n".join(found) + "\n" == (root / "tests" / "golden" / "default_mappings.txt").read_text()


def test_long_cascades_are_lowered_branch_by_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred products are cut into kernels of at most sixteen; those that differ in names alone are lowered once."""
    lowered: list[int] = []

    def noted(spec: Spec, target: Target) -> SimpleNamespace:
        lowered.append(len(spec.workload.einsums))
        return SimpleNamespace(reached=None)

    monkeypatch.setattr(defaults, "lower", noted)
    chain = [f"T{k + 1}[m, n{k + 1}] = T{k}[m, n{k}] * W{k}[n{k}, n{k + 1}]" for k in range(100)]
    cascade = ff.cascade(chain, sizes={"M": 64, **{f"N{k}": 16 for k in range(101)}})
    mapping = default_mapping(cascade)
    assert [compute.einsum for compute in mapping.computes] == [einsum.name for einsum in cascade.einsums]
    assert lowered == [16, 4]


def test_branches_of_a_mapping_are_mappings_of_their_own() -> None:
    """Each lowers to the steps that it has in the whole; the first step and the one on vectors are of all Einsums together."""
    chain = [f"T{k + 1}[m, n{k + 1}] = T{k}[m, n{k}] * W{k}[n{k}, n{k + 1}]" for k in range(20)]
    spec = default_spec(ff.cascade(chain, sizes={"M": 64, **{f"N{k}": 16 for k in range(21)}}))
    parts = list(defaults.branches(spec))
    assert [len(part.workload.einsums) for part in parts] == [16, 4]
    whole = Counter(str(step) for step in ff.lower(spec).steps if not isinstance(step, Explicate | Vectorize))
    assert Counter(str(s) for part in parts for s in ff.lower(part.replace()).steps if not isinstance(s, Explicate | Vectorize)) == whole


def test_segments_grow_in_steps_that_do_not_look_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many Einsums ask for at most five times as many ties."""
    asked = 0

    def counted(*given: object) -> list[str]:
        nonlocal asked
        asked += 1
        return found(*given)  # type: ignore[arg-type]

    def ties_asked(count: int) -> int:
        nonlocal asked
        asked = 0
        Family(default_space(ff.cascade([f"T{k + 1}[m] = T{k}[m] + {k}" for k in range(count)], sizes={"M": 100}))).mapping()
        return asked

    found = ties.ties
    monkeypatch.setattr(ties, "ties", counted)
    assert 0 < ties_asked(96) <= 5 * ties_asked(24)


def test_the_work_of_choosing_grows_with_the_cascade_and_not_with_its_square() -> None:
    """1,000 Einsums take two seconds; they took a minute, each pair of them compared with each third."""

    def calls(count: int) -> int:
        lines = ["T0[m] = A[m] * A[m]", *(f"T{k}[m] = T{k - 1}[m] * A[m]" for k in range(1, count))]
        cascade, counted = ff.cascade(lines, sizes={"M": 4}), Counter[str]()
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, _: counted.update([event]))
        try:
            default_spec(cascade)
        finally:
            sys.setprofile(before)
        return counted["call"]

    calls(2)
    assert calls(80) < 6 * calls(20)


def test_einsums_are_fused_over_rows_that_fit_where_the_best_ones_do_not() -> None:
    """Degrees of freedom let more operands be used again, but their share of the intermediate is larger than any cache: elements fit."""
    lines = ["T[e, r, i] = S[r, i, j] * U[e, j]", "D[x, e, i] = G[x, r, e] * T[e, r, i]"]
    for dtype in ("float32", "float64"):
        cascade = ff.cascade(lines, sizes={"X": 3, "R": 3, "E": 1 << 15, "I": 35, "J": 35}, dtypes=dict.fromkeys("GSU", dtype))
        spec = default_spec(cascade)
        (segment,) = segments(cascade, spec.workload, 1 << 17, 8, 1 << 15, beside=False)
        assert segment.names == ("T", "D")
        assert [rows["T"] for rows in segment.rows if segment.fits(rows, 1 << 17)] == ["e"]


@pytest.mark.parametrize(
    ("line", "sizes", "rows", "order"),
    [
        ("Z[m, n] = A[m, n] * x[m] + b[m]", {"M": 256, "N": 15000}, "m", None),  # not n: pieces of lines, although x is used again along it
        ("Z[m, n] = A[m, n] * x[m]", {"M": 4, "N": 15000}, "n", None),  # too few rows for the cores
        ("Z[m, n] = A[m, n] * x[n]", {"M": 2000, "N": 3000}, "m", None),
        ("Z[b, c, h, w] = A[b, c, h, w] * g[c]", {"B": 16, "C": 64, "H": 56, "W": 56}, "b", ("b", "c", "h")),
        ("Z[b, h, w, c] = A[b, h, w, c] * g[c]", {"B": 16, "H": 56, "W": 56, "C": 64}, "b", ("b", "h", "w")),  # each row uses g again
        ("Z[b, c, a] = A[b, c, a] * B[c, a]", {"B": 48, "C": 211, "A": 100}, "b", ("c", "b")),  # c lies inside b; B is not near
        ("Z[b, c, a] = A[b, c, a] * B[c, a]", {"B": 48, "C": 31, "A": 100}, "b", ("b", "c")),  # all of B is near
        ("Z[b, a, c] = A[b, a, c] * x[c] * y[a]", {"A": 5000, "B": 30, "C": 35}, "b", ("b", "a")),
        ("Z[b, a, c] = A[a, b, c] * B[a, c]", {"A": 31, "B": 200, "C": 333}, "b", None),  # a lies outside in A
    ],
)
def test_elementwise_kernels_run_through_memory(line: str, sizes: dict[str, int], rows: str, order: tuple[str, ...] | None) -> None:
    target = replace(ANY_DEVICE, units=2)
    found = {c.name: c.usual for c in Family(default_space(ff.cascade([line], sizes=sizes), target=target), target).choices()}
    assert found["rows of Z"] == {"Z": rows}
    assert order is None or found["order of Z"] == order


def test_rows_with_cheaper_vectors_are_a_groups() -> None:
    """Lanes along n are written together, and each group packs its own part of B; of rows m it would pack all of it, or scatter."""
    distances = ff.cascade(["Z[m, n] = (A[m, k] - B[n, k]) * (A[m, k] - B[n, k])"], sizes={"M": 400, "N": 300, "K": 64})
    target = replace(ANY_DEVICE, units=2)
    found = {c.name: c.usual for c in Family(default_space(distances, target=target), target).choices()}
    assert (found["rows of Z"], found["lane of Z"]) == ({"Z": "n"}, "n")


def test_what_lacks_no_index_of_the_output_is_moved_once() -> None:
    """Lanes along b lie together in B and cost a number of A for each of their sums; along c all of B would be turned."""
    cascade = ff.cascade(["Z[c, b] = A[b, c] * B[c, a, b]"], sizes={"A": 127, "B": 100, "C": 211})
    target = replace(ANY_DEVICE, units=2, vector_bytes=64, vector_registers=32)
    target = replace(target, core_cache_bytes=1 << 20, limits=replace(ANY_DEVICE.limits, local_bytes=1 << 20))
    found = {c.name: c.usual for c in Family(default_space(cascade, target=target), target).choices()}
    assert found["lane of Z"] == "b"


def test_a_difference_takes_a_register_beside_the_sums() -> None:
    lines = ("Z[m, n] = A[m, k] * B[k, n]", "Z[m, n] = (A[m, k] - B[k, n]) * (A[m, k] - B[k, n])")
    cascades = [ff.cascade([line], sizes={"M": 512, "N": 240, "K": 64}) for line in lines]
    usual = [{choice.kind: choice.usual for choice in Family(default_space(cascade)).choices()} for cascade in cascades]
    assert [(one["vectors"], one["down"]) for one in usual] == [(3, 4), (2, 4)]  # of sixteen registers twelve, and eight


@pytest.mark.parametrize(
    ("value", "side", "tile"),
    [
        ("A[k, m] * B[k, n]", 192, (3, 8)),
        ("where(n <= m, A[k, m] * B[k, n], 0)", 192, (2, 8)),
        ("where(n <= m, A[k, m] * B[k, n], 0)", 240, (2, 8)),
        ("where(n <= m, A[k, m] * B[k, n], 0)", 500, (3, 8)),
        ("where(n <= m, A[k, m] * B[k, n], 0)", 6000, (4, 6)),
    ],
)
def test_register_tiles_beyond_a_diagonal_cost_nothing(value: str, side: int, tile: tuple[int, int]) -> None:
    """Of 192 x 192 tiles of three vectors by eight rows compute 0.63, of two vectors 0.58; of 6,000 x 6,000 hardly more than half."""
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)
    cascade = ff.cascade([f"Z[m, n] = {value}"], sizes={"M": side, "N": side, "K": 2000})
    usual = {choice.kind: choice.usual for choice in Family(default_space(cascade, target=target), target).choices()}
    assert (usual["vectors"], usual["down"]) == tile


@pytest.mark.parametrize(("value", "tile"), [("{}", (4, 6)), ("where(n <= m, {}, 0)", (2, 8))])
def test_rows_of_register_tiles_beyond_a_diagonal_cost_nothing(value: str, tile: tuple[int, int]) -> None:
    """Two vectors by twelve rows load less for each product, and have more of them beyond: problems that groups do not cut."""
    target = replace(ANY_DEVICE, vector_bytes=64, vector_registers=32)
    lines = [f"Z[p, m, n] = {value.format('A[p, k, m] * B[p, k, n]')}"]
    cascade = ff.cascade(lines, sizes={"P": 16, "M": 192, "N": 192, "K": 700})
    usual = {choice.kind: choice.usual for choice in Family(default_space(cascade, target=target), target).choices()}
    assert (usual["vectors"], usual["down"]) == tile


def test_einsums_of_which_groups_read_their_own_parts_are_fused_although_one_adds_up_problems() -> None:
    """Faces are problems of their own, which the second Einsum adds up; along elements a group has its part of both operands, in rows."""
    scaled = ["T[e, f, j] = G[f, e] * U[f, e, j]", "D[e, i] = L[f, i, j] * T[e, f, j]"]
    faces = ff.cascade(scaled, sizes={"F": 4, "E": 20000, "I": 35, "J": 15})
    assert [s.names for s in segments(faces, default_spec(faces).workload, 1 << 17, 32, 1 << 15, beside=False)] == [("T", "D")]
    few = ff.cascade(scaled, sizes={"F": 4, "E": 400, "I": 35, "J": 4000})
    assert len(list(segments(few, default_spec(few).workload, 1 << 17, 32, 1 << 15, beside=False))) == 2
    columns = ff.cascade(["T[b, k] = A[b, m, k]", "y[k] = T[b, k]"], sizes={"B": 32, "M": 125, "K": 4000})
    assert len(list(segments(columns, default_spec(columns).workload, 1 << 17, 32, 1 << 15, beside=False))) == 2  # pieces of rows


@pytest.mark.parametrize(("points", "names"), [(4, [("C_turned",), ("P", "D", "Z")]), (35, [("P",), ("C_turned",), ("D", "Z")])])
def test_results_are_held_back_for_what_only_a_later_einsum_chains_to_them(points: int, names: list[tuple[str, ...]]) -> None:
    """A curl's two factors for each element went through memory, as large as all of its inputs; a copy stood between them, too."""
    lines = ["P[x, z, r, e] = A[x, y, z] * B[y, r, e]", "C_turned[r, j, i] = C[r, i, j]", "D[z, r, e, i] = C_turned[r, j, i] * U[z, e, j]"]
    lines += ["Z[x, e, i] = P[x, z, r, e] * D[z, r, e, i]"]
    cascade = ff.cascade(lines, sizes={"E": 250_000, "I": points, "J": points, "R": 3, "X": 3, "Y": 3, "Z": 3})
    copied = replace(cascade, einsums=tuple(replace(e, is_copy=e.name == "C_turned") for e in cascade.einsums))
    found = segments(copied, default_spec(cascade).workload, 1 << 20, 32, 1 << 15, 1 << 21, beside=True)
    assert [segment.names for segment in found] == names
    tight = segments(copied, default_spec(cascade).workload, 1 << 9, 32, 1 << 15, 1 << 21, beside=True)
    assert next(tight).names == ("P",)  # no rows fit: the copy stays where it was


@pytest.mark.parametrize(
    ("lines", "rows", "kernels"),
    [
        (["N[n] = P[k, n]", "Y[m, n] = A[m, n] / N[n]"], 2000, 2),
        (["N[n] = P[k, n]", "Y[m, n] = A[m, n] / N[n]"], 100, 1),  # a cache holds it
        (["N[n] = A[m, n]", "Y[m, n] = A[m, n] / N[n]"], 2000, 1),  # a group reads again what it has just read
        (["N[n] = P[k, n]", "Y[n, m] = A[n, m] / N[n]"], 2000, 1),  # rows are read from end to end
    ],
)
def test_an_einsum_that_would_read_pieces_of_far_rows_is_a_kernel_of_its_own(lines: list[str], rows: int, kernels: int) -> None:
    """Columns of a large array are divided by what a small one says: a group with 64 of them would take 256 bytes of each page."""
    cascade = ff.cascade(lines, sizes={"M": rows, "N": 1500, **({"K": 16} if "k" in lines[0] else {})})
    found = segments(cascade, default_spec(cascade).workload, 1 << 19, 32, 1 << 15, 1 << 21, beside=False)
    assert len(list(found)) == kernels


def test_a_number_for_each_problem_leaves_them_problems_of_their_own() -> None:
    """Heads with a slope each are fused one at a time; all of them for a few rows had left the last product to a kernel of its own."""
    lines = [
        "S[h, m, p] = Q[h, m, e] * K[h, P: p, e]",
        "B[h, m, p] = S[h, m, p] + L[h] * (p - m)",
        "T[h, m, p] = softmax(B[h, m, p], p)",
        "O[h, m, f] = T[h, m, p] * V[h, P: p, f]",
    ]
    heads = Family(default_space(ff.cascade(lines, sizes={"H": 6, "M": 450, "P": 450, "E": 64, "F": 64}))).cascade
    (segment,) = segments(heads, heads.workload, 1 << 18, 32, 1 << 15, beside=False)
    assert [set(rows.values()) for rows in segment.batches] == [{"h"}]
    rows = ff.cascade(["Q[b] = X[b, k] * X[b, k]", "Y[b, k] = X[b, k] * Q[b]"], sizes={"B": 64, "K": 5000})
    (segment, *_) = segments(rows, rows.workload, 1 << 18, 32, 1 << 15, beside=False)
    assert not segment.batches  # here numbers are computed side by side


@pytest.mark.parametrize(
    ("rows", "units", "parts", "tile"),
    [
        (19, 2, (32, 256), 10),  # 10 and 9 rows in place of 16 and 3
        (19, 1, (32, 256), 16),  # one core has all of it
        (32, 2, (32, 256), 16),
        (40, 2, (32, 256), 10),  # two and two groups; of 16, 16 and 8 rows one core would get two
        (40, 1, (32, 256), 16),
        (146, 2, (32, 256), 16),  # of 15 rows both cores would have as many, but the second one starts later, and has less of 16
        (146, 2, (1, 1), 12),  # one by one: 74 rows
        (4000, 2, (32, 256), 256),
    ],
)
def test_groups_are_shorter_where_cores_would_wait_for_one_another(rows: int, units: int, parts: tuple[int, int], tile: int) -> None:
    cascade = ff.cascade(["Z[a, b, c] = A[a, k] * B[k, b, c]"], sizes={"A": rows, "B": 12, "C": 12, "K": 19})
    target = replace(ANY_DEVICE, units=units, group_parts=parts)
    found = {c.name: c.usual for c in Family(default_space(cascade, target=target), target).choices()}
    assert found["tile of Z"] == tile


@pytest.mark.parametrize(("channels", "tile"), [(64, 11), (16, 12)])
def test_much_work_is_shared_more_evenly_than_a_core_starts_later(channels: int, tile: int) -> None:
    """Of 43 rows PoCL hands out 22 and 21 in groups of 11, and 24 and 19 in groups of 12, which is an eighth of the usual number."""
    sizes = {"O": 32, "C": channels, "H": 45, "W": 45, "P": 43, "Q": 43, "R": 3, "S": 3}
    cascade = ff.cascade(["Y[o, p, q] = X[c, H: p + r, W: q + s] * F[o, c, r, s]"], sizes=sizes)
    target = replace(ANY_DEVICE, units=2, group_parts=(32, 256))
    found = {c.name: c.usual for c in Family(default_space(cascade, target=target), target).choices()}
    assert found["tile of Y"] == tile


@pytest.mark.parametrize(
    ("line", "sizes", "rows"),
    [
        ("Z[b, m, n] = A[b, m, k] * B[b, k, n]", {"B": 40960, "M": 8, "N": 8, "K": 8}, "b"),  # each group has its own part of both
        ("Z[a, b, c] = A[e, a] * B[e, b, c]", {"A": 44, "B": 44, "C": 2000, "E": 44}, "c"),  # not a: every group would read all of B
        ("Z[a, b, c] = A[e, a] * B[e, b, c]", {"A": 44, "B": 44, "C": 44, "E": 44}, "b"),  # B lies in each core's cache, not in the nearest
        ("Z[a, b, c] = A[e, a] * B[e, b, c]", {"A": 44, "B": 20, "C": 20, "E": 20}, "a"),  # B lies in the nearest cache
    ],
)
def test_groups_do_not_all_read_what_is_large(line: str, sizes: dict[str, int], rows: str) -> None:
    found = {c.name: c.usual for c in Family(default_space(ff.cascade([line], sizes=sizes))).choices()}
    assert found["rows of Z"] == {"Z": rows}


def test_small_problems_share_a_group() -> None:
    """A start is paid for by several; of problems that are large, or few, each is a group's."""
    target = replace(ANY_DEVICE, units=2)
    for count, size, group in ((5000, 20, "b in tiles of 8"), (5000, 80, "b in tiles of 1"), (8, 20, "m in tiles of 16")):
        small = ff.cascade(["Z[b, m, n] = A[b, m, k] * B[b, k, n]"], sizes={"B": count, "M": size, "N": size, "K": size})
        text = str(default_mapping(small, target=target))
        assert f"spatial for {group}, over Core" in text, text


def test_copies_are_made_before_what_is_fused_with_the_einsum_behind() -> None:
    """The derivatives of all elements are more than the operators that were turned for them."""
    lines = ["S_turned[j, i] = S[i, j]", "T[e, i] = S_turned[j, i] * U[e, j]", "D[x, e, i] = G[x, e] * T[e, i]"]
    cascade = ff.cascade(lines, sizes={"X": 3, "E": 4000, "I": 20, "J": 20})
    cascade = replace(cascade, einsums=(replace(cascade.einsums[0], is_copy=True), *cascade.einsums[1:]))
    found = segments(cascade, default_spec(cascade).workload, 1 << 17, 32, 1 << 15, beside=False)
    assert [segment.names for segment in found] == [("S_turned",), ("T", "D")]


def test_a_small_convolution_and_the_product_behind_it_are_one_kernel() -> None:
    """Each row of the image is work enough for a group, and the filters of all rows stay near: channels are no reason for two kernels."""
    lines = ["T[c, p, q] = X[c, H: p + r, W: q + s] * D[c, r, s]", "Y[o, p, q] = T[c, p, q] * F[o, c]"]

    def kernels(rows: int, channels: int = 72) -> int:
        sizes = {"O": 88, "C": channels, "H": rows + 2, "W": 49, "P": rows, "Q": 47, "R": 3, "S": 3}
        return str(default_mapping(ff.cascade(lines, sizes=sizes))).count("over Core")

    assert [kernels(47), kernels(10), kernels(47, 1000)] == [1, 2, 2]  # too few rows; D is too large


@pytest.mark.parametrize(
    ("line", "sizes", "blocks"),
    [
        ("Z[k, j, i] = X[i, j, k] * Y[j, i, k]", {"I": 48, "J": 50, "K": 60}, {"k": 16, "i": 16}),
        ("Z[k, j, i] = X[i, j, k] * Y[k, i, j]", {"I": 48, "J": 50, "K": 60}, {"j": 16, "i": 16}),  # of 16 values of k, which a group has
        # The block of four operands is no larger than a core's cache, with the 8 values of c that a group has.
        ("Z[c,d,a,b] = X[d,b,c,a] * Y[a,b,d,c] * W[b,a,c,d]", {"A": 40, "B": 35, "C": 128, "D": 20}, {"d": 8, "a": 16, "b": 16}),
    ],
)
def test_operands_that_lie_otherwise_are_read_in_blocks(line: str, sizes: dict[str, int], blocks: dict[str, int]) -> None:
    target = replace(ANY_DEVICE, vector_bytes=64, core_cache_bytes=1 << 20)
    cascade = ff.cascade([line], sizes=sizes)
    nodes = default_mapping(cascade, target=target).nodes
    group = next(number for number, node in enumerate(nodes) if isinstance(node, Spatial))
    loops = [node for node in nodes[group + 1 :] if isinstance(node, Temporal)]
    assert {node.rank_variable: node.tile_shape for node in loops if node.tile_shape > 1} == blocks


def test_parts_of_a_reduction_that_read_a_few_numbers_are_for_groups() -> None:
    """The sums of squares of an image's three channels read all of it and three means: three rows would be too few for groups."""
    deviation = "(X[h, w, c] - U[c] / 480000)"
    lines = ["U[c] = X[h, w, c]", f"V[c] = {deviation} * {deviation}", f"Z[h, w, c] = {deviation} / sqrt(V[c] / 480000)"]
    text = str(default_mapping(suited(ff.cascade(lines, sizes={"H": 600, "W": 800, "C": 3}))))
    assert "MainMemory holds X U_part U V_part V Z" in text
    assert len(re.findall("spatial for h_part_? in tiles of 1, over Core", text)) == 2  # each part is work enough


@pytest.mark.parametrize(
    ("line", "sizes", "variable"),
    [
        ("Z[j] = X[i, j, k]", {"I": 640, "J": 4, "K": 784}, "i"),  # slices of X, whose rows k would cut
        ("Z[j] = X[i, j, k]", {"I": 3, "J": 4, "K": 784000}, "k"),  # three slices are too few
        ("Z[i, j] = A[k, l, i] * B[k, l, j]", {"I": 4, "J": 4, "K": 3000, "L": 5000}, "l"),  # elements are used again and again
    ],
)
def test_reductions_are_split_where_parts_are_slices(line: str, sizes: dict[str, int], variable: str) -> None:
    (split,) = [one for one in suited(ff.cascade([line], sizes=sizes)).rewritings if isinstance(one, SplitReduction)]
    assert split.variable == variable
