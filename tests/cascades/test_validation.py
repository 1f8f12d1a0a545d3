from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from constantdict import constantdict
from pymbolic import var

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.terms import Access, Einsum, Tensor
from feinsum_fuse.cascades.validation import validate
from feinsum_fuse.formats.affine import Affine

GOOD = ff.cascade(["T[m,n] = A[m,k] * B[k,n]", "Z[m] = T[m,n]"], sizes={"M": 4, "N": 5, "K": 3})
T, Z = GOOD.einsums


def with_einsum(**changes: object) -> Cascade:
    return dataclasses.replace(GOOD, einsums=(dataclasses.replace(T, **changes), Z))


def access(tensor: str, *variables: str) -> Access:
    return Access(tensor, tuple(map(Affine.variable, variables)))


BAD: dict[str, tuple[Cascade, str]] = {
    "no such tensor": (with_einsum(operands=(access("X", "m", "k"), T.operands[1])), "no tensor X"),
    "axes": (with_einsum(operands=(access("A", "m"), T.operands[1])), "2 axes"),
    "index": (with_einsum(operands=(access("A", "m", "z"), T.operands[1])), "z is no rank variable"),
    "map": (with_einsum(map=var("%0") * var("q")), "names q"),
    "function": (with_einsum(map=var("cosh")(var("%0"))), "no function cosh"),
    "guard": (with_einsum(guards=(Affine.variable("z"),)), "guard over z"),
    "length": (with_einsum(sizes=constantdict({"m": 4, "n": 0, "k": 3})), "length 0"),
    "reduction": (with_einsum(reduce="median"), "median"),
    "none": (with_einsum(reduce="none"), "several points"),
    "order": (dataclasses.replace(GOOD, einsums=(Z, T)), "before it is written"),
    "names": (dataclasses.replace(GOOD, einsums=(T, dataclasses.replace(Z, name="T"))), "called T"),
    "writers": (dataclasses.replace(GOOD, einsums=(T, dataclasses.replace(T, name="U"))), "another one has written"),
    "output": (dataclasses.replace(GOOD, outputs=("Q",)), "Q is written by no Einsum"),
    "type": (dataclasses.replace(GOOD, tensors=GOOD.tensors.set("A", Tensor("A", (4, 3), "quaternion"))), "quaternion"),
    "itself": (with_einsum(operands=(access("T", "m", "n"), T.operands[1])), "reads its own output"),
    "nothing": (Cascade((), constantdict()), "no Einsums"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_computed_is_refused(name: str) -> None:
    cascade, reason = BAD[name]
    with pytest.raises(ff.CascadeError, match=reason):
        cascade.kernel()
    with pytest.raises(ff.CascadeError, match=reason):
        cascade.reference()


def test_good_ones_pass() -> None:
    validate(GOOD)
    assert isinstance(T, Einsum)


def test_what_is_no_array() -> None:
    with pytest.raises(ff.CascadeError, match="A is no array"):
        GOOD.reference(A=[["x"] * 3] * 4, B=[[1.0] * 5] * 3)


@pytest.mark.parametrize("function", ["gelu", "silu", "sign"])
def test_functions_inside_one_another_that_are_written_out_are_bounded(function: str) -> None:
    """Each uses its argument twice or more, so that forty of them would be 10 ** 12 operations."""
    made = [ff.cascade([f"Z[m] = {f'{function}(' * depth}A[m]{')' * depth}"], sizes={"M": 3}) for depth in (6, 30)]
    assert made[0].key
    with pytest.raises(ff.CascadeError, match=r"a map has \d+ operations when its functions are written out, more than 20000\n  Give"):
        assert made[1].key


def test_deep_maps_that_use_their_arguments_once_are_taken() -> None:
    cascade = ff.cascade([f"Z[m] = {'sigmoid(' * 30}A[m]{')' * 30}"], sizes={"M": 3})
    assert cascade.key
    np.testing.assert_allclose(cascade.reference(A=[0.0, 0.0, 0.0])["Z"], 0.6590460684, rtol=1e-6)
