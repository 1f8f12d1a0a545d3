"""Windows that go in steps along the lanes: where their input is copied window by window, and that kernels then compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.rewriting.packing import Pack
from feinsum_fuse.mappings.forms.suited import suited
from feinsum_fuse.schedule.target import ANY_DEVICE, Target
from tests.cascades.randomness import random_inputs

TARGET = replace(ANY_DEVICE, units=2)
LINE = "Y[o,p,q] = X[c, H: STEP*p + r, W: STEP*q + s] * F[o,c,r,s]"


def of(step: int, filters: int, side: int, channels: int = 3, size: int = 3, line: str = LINE) -> Cascade:
    ranks = {"O": filters, "C": channels, "P": side, "Q": side, "R": size, "S": size}
    whole = step * (side - 1) + size
    return ff.cascade([line.replace("STEP", str(step))], sizes={**ranks, "H": whole, "W": whole})


def copies(cascade: Cascade, target: Target = TARGET) -> list[Pack]:
    return [rewriting for rewriting in suited(cascade, target).rewritings if isinstance(rewriting, Pack)]


@pytest.mark.parametrize(("step", "size"), [(2, 3), (2, 7), (4, 11)])
def test_lanes_that_are_picked_often_are_copied(step: int, size: int) -> None:
    assert copies(of(step, 64, 28, size=size)) == [Pack("Y", 0, tuple("pcrsq"))]


@pytest.mark.parametrize(
    ("cascade", "why"),
    [
        (of(1, 64, 28), "neighbours are neighbours"),
        (of(2, 8, 28), "used too few times"),
        (of(2, 64, 224, size=7), "the copy would go through memory"),
        (of(2, 64, 28, line="Y[o,p,q] = X[c, H: STEP*p, W: STEP*q] * F[o,c]", size=1), "every element is used by one window"),
    ],
)
def test_what_is_left(cascade: Cascade, why: str) -> None:
    assert not any(pack.variables[-1] == "q" for pack in copies(cascade)), why


def test_work_items_read_them_as_they_lie() -> None:
    assert not copies(of(2, 64, 28), replace(TARGET, items_in_step=32))


@pytest.mark.parametrize(("step", "filters", "side", "channels", "size"), [(2, 33, 7, 2, 3), (2, 67, 19, 1, 5), (3, 35, 13, 3, 4)])
def test_kernels_compute_the_same(step: int, filters: int, side: int, channels: int, size: int) -> None:
    """At sizes that no tile divides."""
    cascade = of(step, filters, side, channels, size)
    program = ff.compile(cascade)
    arrays = {name: array.astype("float32") for name, array in random_inputs(cascade, 0).items()}
    np.testing.assert_allclose(program(**arrays)["Y"], cascade.reference(**arrays)["Y"], rtol=1e-4, atol=1e-5)


def test_a_copy_that_a_condition_on_others_keeps_from_being_made_is_left() -> None:
    """What is read of the windows depends on ``p``, too, which they have not."""
    cascade = ff.cascade(["Z[p,q] = X[W: 2*q + s - 1] * G[V: p + s - 1]"], sizes={"P": 64, "Q": 64, "S": 3, "W": 128, "V": 64})
    assert not copies(cascade)
    arrays = {name: array.astype("float32") for name, array in random_inputs(cascade, 0).items()}
    np.testing.assert_allclose(ff.compile(cascade)(**arrays)["Z"], cascade.reference(**arrays)["Z"], rtol=1e-4, atol=1e-5)
