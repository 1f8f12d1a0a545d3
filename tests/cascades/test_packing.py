"""Packed operands, against the cascades that they are made of."""

from __future__ import annotations

import dataclasses

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.rewriting.packing import Pack, Unpack
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json, rewritten
from feinsum_fuse.errors import CascadeError
from feinsum_fuse.formats.affine import Affine
from tests.cascades.test_rewriting import check


def test_what_it_reads_like() -> None:
    after = ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": 4, "N": 5, "K": 3}).pack("Z", 1, ["k", "n"])
    assert repr(after).splitlines()[3:] == [
        "# B_packed",
        "for k < 3, n < 5:",
        "    B_packed[k, n] = B[n, k]",
        "# Z",
        "for m < 4, n < 5:",
        "    Z[m, n] = sum(k < 3: A[m, k] * B_packed[k, n])",
    ]


PACKED = {
    "a product": (["Z[m,n] = A[m,k] * B[n,k]"], {"M": 7, "N": 5, "K": 11}, Pack("Z", 1, ("k", "n"))),
    "read twice": (["Z[m,n] = A[M: m,k] * A[M: n,k]"], {"M": 7, "N": 7, "K": 5}, Pack("Z", 1, ("k", "n"))),
    "as it lies": (["Z[m,n] = A[k,M: m] * A[k,M: n]"], {"M": 37, "N": 37, "K": 5}, Pack("Z", 0, ("k", "m"))),
    "windows": (
        ["O[n,h,w] = I[c, H2: h + r, W2: w + s] * F[n,c,r,s]"],
        {"N": 4, "H": 5, "W": 17, "C": 3, "R": 3, "S": 2},
        Pack("O", 0, ("c", "r", "s", "h", "w")),
    ),
    "an intermediate, and a name that is taken": (
        ["T[n,k] = 2*B[n,k]", "T_packed[m,k] = exp(A[m,k])", "Z[m,n] = T_packed[m,k] * T[n,k]"],
        {"M": 3, "N": 17, "K": 4},
        Pack("Z", 1, ("k", "n")),
    ),
    "a maximum": (["Z[m,n] = max(A[m,k] + B[n,k])"], {"M": 3, "N": 4, "K": 5}, Pack("Z", 1, ("k", "n"))),
    "one of each": (["Z[m,n] = A[m,k] * B[n,k]"], {"M": 1, "N": 1, "K": 1}, Pack("Z", 1, ("k", "n"))),
}


@pytest.mark.parametrize("name", PACKED)
def test_same_values(name: str) -> None:
    lines, sizes, packing = PACKED[name]
    cascade = ff.cascade(lines, sizes=sizes, dtypes={"All": "float64"})
    after = packing.apply(cascade)
    check(cascade, after, on_device=name == "windows")
    assert after.inputs != () and after.outputs == cascade.outputs
    assert rewritten(cascade, rewritings_from_json(rewritings_to_json(after.rewritings))) == after


@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_the_copy_has_the_operand_s_type(dtype: str) -> None:
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": 4, "N": 5, "K": 3}, dtypes={"All": dtype})
    copy = cascade.pack("Z", 1, ["k", "n"]).einsum("B_packed")
    assert (copy.accumulate, copy.reduce, copy.populate) == (dtype, "add", None)


@pytest.mark.parametrize(
    ("operand", "variables", "reason"),
    [
        (2, ("k", "n"), "there are 2 operands"),
        (-1, ("k", "n"), "there are 2 operands"),
        (1, ("k",), "name each variable"),
        (1, ("k", "n", "n"), "name each variable"),
        (1, ("k", "m"), "name each variable"),
        (1, (), "name each variable"),
    ],
)
def test_what_is_refused(operand: int, variables: tuple[str, ...], reason: str) -> None:
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": 4, "N": 5, "K": 3})
    with pytest.raises(CascadeError, match=reason):
        cascade.pack("Z", operand, variables)


def test_parts_of_a_reduction_that_do_not_divide() -> None:
    cascade = ff.cascade(["Z[m,n] = A[k,M: m] * A[k,M: n]"], sizes={"M": 3, "N": 3, "K": 7}, dtypes={"All": "float64"})
    split = cascade.split_reduction("Z", "k", 2)
    after = split.pack("Z_part", 1, ["k_part", "k", "n"])
    assert after.einsum("A_packed").guards == after.einsum("Z_part").guards != ()
    check(cascade, after)


def test_unknown_sizes_and_what_depends_on_others_are_refused() -> None:
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": 4, "N": "n", "K": 7})
    with pytest.raises(CascadeError, match="not known"):
        cascade.pack("Z", 1, ["k", "n"])
    cut = ff.cascade(["Z[m,n] = A[m,k] * B[k,n]"], sizes={"M": 4, "N": 3, "K": 7}).split_reduction("Z", "k", 2)
    einsum = cut.einsum("Z_part")
    guards = (*einsum.guards, Affine.of({"m": 1, "n": -1}))
    tied = dataclasses.replace(cut, einsums=(dataclasses.replace(einsum, guards=guards), *cut.einsums[1:]))
    with pytest.raises(CascadeError, match="depends on other variables"):
        tied.pack("Z_part", 0, ["k_part", "m", "k"])
    with pytest.raises(CascadeError, match="names of rank variables"):
        cascade.pack("Z", 1, "kn")


UNPACKED = {
    "a sum": (["Z[m,n] = A[k,n,m] * B[k]"], {"M": 7, "N": 5, "K": 11}, "Z", ("n", "m")),
    "an intermediate": (["T[m,n] = max(A[n,k] + B[k,m])", "Z[m,n] = exp(T[m,n])"], {"M": 17, "N": 5, "K": 3}, "T", ("n", "m")),
    "no reduction": (["Z[a,b,c] = A[c,a] * B[b]"], {"A": 3, "B": 1, "C": 19}, "Z", ("b", "c", "a")),
    "as it lies": (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 4, "N": 5, "K": 3}, "Z", ("m", "n")),
}


@pytest.mark.parametrize("name", UNPACKED)
def test_outputs_in_another_order(name: str) -> None:
    lines, sizes, einsum, variables = UNPACKED[name]
    cascade = ff.cascade(lines, sizes=sizes, dtypes={"All": "float64"})
    after = cascade.unpack(einsum, variables)
    assert [e.name for e in after.einsums[:2]] == [f"{einsum}_packed", einsum]
    check(cascade, after, on_device=name == "a sum")
    assert after.outputs == cascade.outputs
    assert rewritten(cascade, rewritings_from_json(rewritings_to_json(after.rewritings))) == after


def test_outputs_that_are_refused_another_order() -> None:
    cascade = ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": 4, "N": 5, "K": 3})
    for variables in (("m",), ("m", "k"), ("m", "n", "n"), ()):
        with pytest.raises(CascadeError, match="name each variable"):
            Unpack("Z", variables).apply(cascade)
    with pytest.raises(CascadeError, match="names of rank variables"):
        cascade.unpack("Z", "nm")
    with pytest.raises(CascadeError, match="not known"):
        ff.cascade(["Z[m,n] = A[m,k] * B[n,k]"], sizes={"M": 4, "N": "n", "K": 3}).unpack("Z", ["n", "m"])
    with pytest.raises(CascadeError, match="bare variables"):
        ff.cascade(["Z[Q: p+r] = A[p] * B[r]"], sizes={"P": 3, "R": 2}).unpack("Z", ["p", "r"])
    with pytest.raises(CascadeError, match="does not run over a box"):
        cascade.split_reduction("Z", "k", 2).unpack("Z_part", ["n", "m", "k_part"])
