"""Axes that are taken as one: which may be, that the numbers stay, and that callers keep their arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.joining import Join, joined, shapes_before
from feinsum_fuse.cascades.matching.replacement import rewritten_match
from feinsum_fuse.errors import CascadeError, MatchError
from feinsum_fuse.mappings.default_mapping import default_space
from tests.cascades.randomness import random_inputs

LENGTHS = {"A": 3, "B": 4, "C": 5, "D": 2, "E": 6}


def of(*lines: str, **lengths: int) -> Cascade:
    """The cascade with these lengths, or else :data:`LENGTHS`, of the ranks that its lines name."""
    used = {letter.upper() for line in lines for letter in line.replace("exp", "")}
    return ff.cascade(list(lines), sizes={rank: size for rank, size in (LENGTHS | lengths).items() if rank in used})


def test_what_it_reads_like() -> None:
    after = of("T[a,b,c] = X[a,b,c] * Y[a]", "Z[a,d] = T[a,b,c] * W[b,c,d]").join("X", 1)
    assert repr(after).splitlines() == [
        "inputs:        X: float32[3, 20], Y: float32[3], W: float32[20, 2]",
        "intermediates: T: float32[3, 20]",
        "outputs:       Z: float32[3, 2]",
        "# T",
        "for a < 3, b_c < 20:",
        "    T[a, b_c] = X[a, b_c] * Y[a]",
        "# Z",
        "for a < 3, d < 2:",
        "    Z[a, d] = sum(b_c < 20: T[a, b_c] * W[b_c, d])",
    ]


@pytest.mark.parametrize(
    ("lines", "shapes"),
    [
        (["Z[a,b,c] = exp(X[a,b,c])"], {"X": (60,), "Z": (60,)}),
        (["Z[a] = X[a,b,c]"], {"X": (3, 20), "Z": (3,)}),
        (["Z[c,a,b] = X[a,b,c]"], {"X": (12, 5), "Z": (5, 12)}),
        (["Z[a,d,b,c] = X[a,e,b,c] * Y[d,e]"], {"X": (3, 6, 20), "Y": (2, 6), "Z": (3, 2, 20)}),
        (["T[a,b,c] = X[a,b,c]", "Z[C: w, A: u, B: v] = T[A: u, B: v, C: w]"], {"X": (12, 5), "T": (12, 5), "Z": (5, 12)}),
        (["Z[A: a, B: b, U: u, V: v] = X[C: c, A: a, B: b] * X[C: c, A: u, B: v]"], {"X": (5, 12), "Z": (12, 12)}),
        (["Z[A: a, B: b, U: u, V: v] = X[A: a, B: b] * X[A: u, B: v]", "Y[a,b] = X[a,b]"], {"X": (12,), "Z": (12, 12), "Y": (12,)}),
        (["Z[A: a, B: b, E: e, U: u, V: v] = X[A: a, B: b] * X[A: u, B: v] * Y[e]"], {"X": (12,), "Z": (12, 6, 12), "Y": (6,)}),
        (["Z[U: u, A: a, B: b, V: v] = X[A: a, B: b] * X[A: u, B: v]"], {"X": (3, 4), "Z": (3, 3, 4, 4)}),
    ],
)
def test_joined_as_far_as_may_be(lines: list[str], shapes: dict[str, tuple[int, ...]]) -> None:
    before = of(*lines)
    after = joined(before)
    assert {name: tensor.shape for name, tensor in after.tensors.items()} == shapes
    arrays = random_inputs(before, 0)
    expected = before.reference(**arrays)
    got = after.reference(**{name: array.reshape(shapes[name]) for name, array in arrays.items()})
    for name, value in expected.items():
        np.testing.assert_allclose(got[name].reshape(value.shape), value, rtol=1e-12)


def test_a_copy_writes_both_as_digits() -> None:
    packed = of("Z[a,b,c,d] = A[a,e,b] * B[d,e,c]").pack("Z", 1, tuple("ecd"))
    after = packed.join("Z", 2)
    assert repr(after).splitlines()[3:] == [
        "# B_packed",
        "for e < 6, c < 5, d < 2:",
        "    B_packed[e, 2*c+d] = B[d, e, c]",
        "# Z",
        "for a < 3, b < 4, c_d < 10:",
        "    Z[a, b, c_d] = sum(e < 6: A[a, e, b] * B_packed[e, c_d])",
    ]
    arrays = random_inputs(packed, 0)
    expected = packed.reference(**arrays)["Z"]
    np.testing.assert_allclose(after.reference(**arrays)["Z"].reshape(expected.shape), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("line", "axis", "reason"),
    [
        ("Z[a,b,c] = X[a,b,c] * Y[b]", 0, "do not stand side by side in Y"),
        ("Z[a,c,b] = X[a,b,c]", 1, "do not stand side by side in Z"),
        ("Z[a,b] = X[a,b] + a", 0, "the map of Einsum Z asks for a or b"),
        ("Z[a,b] = X[A: a, D: b + d]", 0, "is not indexed by bare variables"),
        ("Z[a,b] = X[a,b]", 1, "there are no such axes"),
    ],
)
def test_what_stays_apart(line: str, axis: int, reason: str) -> None:
    with pytest.raises(CascadeError, match=reason):
        Join("X", axis).apply(of(line, D=9))


def test_a_variable_of_two_pairs_stays_apart() -> None:
    cascade = ff.cascade(["Z[a,b,c] = X[A: a, B: b] * X[A: b, B: c]"], sizes={"A": 4, "B": 4, "C": 4})
    with pytest.raises(CascadeError, match="do not stand side by side in X"):
        Join("X", 0).apply(cascade)


def test_overlapping_pairs_stay_apart() -> None:
    """``i`` would be one with ``j``, and ``j`` with ``k``."""
    lines = ["Y[i,j,k,l] = S[i,j,k] * T[l,i,j]", "Z[a,b,c] = S[I: a,J: b,K: c] * T[L: a,I: b,J: c]"]
    cascade = ff.cascade(lines, sizes=dict.fromkeys("IJKLABC", 4))
    with pytest.raises(CascadeError, match="Einsum Y would join other variables as well"):
        Join("S", 0).apply(cascade)


def test_copies_write_two_pairs_as_digits() -> None:
    """Kernels compute the same at sizes that fill nothing."""
    line = "Z[a,b,c,d] = X[a,c,b,d] * Y[A: a, B: b] * Y[A: c, B: d]"
    packed = ff.cascade([line], sizes={"A": 3, "B": 5, "C": 3, "D": 5}).pack("Z", 0, tuple("abcd"))
    after = Join("Y", 0).apply(packed)
    assert "X_packed[5*a+b, 5*c+d] = X[a, c, b, d]\n" in repr(after)
    assert "Z[a_b, c_d] = X_packed[a_b, c_d] * Y[a_b] * Y[c_d]" in repr(after)
    arrays = {name: array.astype("float32") for name, array in random_inputs(packed, 0).items()}
    program = ff.compile(ff.spec(after))
    found = program(**{name: array.reshape(program.input_shapes[name]) for name, array in arrays.items()})["Z"]
    expected = packed.reference(**arrays)["Z"]
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_a_part_of_an_axis_is_no_whole_one() -> None:
    cascade = ff.cascade(["Z[i,j] = X[A: i, B: j]"], sizes={"A": 3, "B": 5, "I": 3, "J": 4})
    with pytest.raises(CascadeError, match="runs over a part of X"):
        Join("X", 0).apply(cascade)


def test_symbolic_sizes_stay_as_they_are() -> None:
    cascade = ff.cascade(["Z[a,b] = X[a,b]"], sizes={"A": "n", "B": 4})
    assert joined(cascade) is cascade


def test_a_kernel_keeps_its_axes() -> None:
    matched = ff.match(of("Z[a,b] = 2 * X[a,b]").kernel())
    assert shapes_before(matched.cascade, joined(matched.cascade))
    with pytest.raises(MatchError, match="keep their axes"):
        rewritten_match(matched, joined(matched.cascade))


def test_callers_keep_their_arrays(tmp_path: Path) -> None:
    lines = ["T[b,o,h,w] = X[b,c,h,w] * F[o,c]", "Z[b,o,h,w] = relu(T[b,o,h,w])"]
    cascade = ff.cascade(lines, sizes={"B": 2, "O": 3, "C": 5, "H": 7, "W": 3})
    url = tmp_path / "facts.sqlite"
    program = ff.compile(cascade, url=url)
    assert program.cascade.tensors["X"].shape == (2, 5, 21)
    assert program.input_shapes == {"X": (2, 5, 7, 3), "F": (3, 5)} and program.output_shapes == {"Z": (2, 3, 7, 3)}
    arrays = {name: array.astype("float32") for name, array in random_inputs(cascade, 0).items()}
    found = program(outputs=["T"], **arrays)
    np.testing.assert_allclose(found["Z"], cascade.reference(**arrays)["Z"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["T"], np.einsum("bchw,oc->bohw", arrays["X"], arrays["F"]), rtol=1e-4, atol=1e-5)
    ff.record(ff.measure(program, repeats=1), url=url)
    again = ff.compile(ff.spec(cascade), url=url, reference_bytes=4000)
    assert again.executable == program.executable
    made = again.making.example
    assert made.parts is not None and made.inputs["X"].shape == (2, 5, 7, 3)
    assert made.judged(again(made.inputs), 1e-4).passed


def test_a_given_mapping_names_all_loops() -> None:
    cascade = of("Z[a,b] = 2 * X[a,b]")
    given = default_space(cascade).replace(mapping=ff.default_mapping(cascade))
    assert ff.compile(given).cascade.tensors["X"].shape == (3, 4)


def test_einsum_views_its_operands() -> None:
    whole = np.random.default_rng(0).random((3, 5, 8, 7))
    y = whole[0, :2, 0, :5].copy()
    for x in (whole[:, :, :4].copy(), whole[:, :, ::2]):
        np.testing.assert_allclose(ff.einsum("bchw,oc->bohw", x, y), np.einsum("bchw,oc->bohw", x, y), rtol=1e-12)
