"""Powers with small exponents: products and roots, on vectors and on scalars."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.vector_steps import Vectorize

from .runs import run
from .scripts import refs, split

EXPONENTS = (-16, -3, -2, -1.5, -1, -0.5, 0.5, 1.5, 2.5, 5, 6, 7, 12, 15.5, 16)


def powers(exponents: tuple[float, ...], dtype: str) -> Cascade:
    """An Einsum for each."""
    lines = [f"Z{k}[n] = (X[n] + 1) ** ({exponent})" for k, exponent in enumerate(exponents)]
    return ff.cascade(lines, sizes={"N": 21}, dtypes={"All": dtype})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_small_exponents_are_products_and_roots(lanes: int, dtype: str) -> None:
    """Within a few units in the last place for each multiplication."""
    cascade = powers(EXPONENTS, dtype)
    splits = [step for k in range(len(EXPONENTS)) for step in (split(f"Z{k}.n", lanes, 21), Vectorize(refs(f"Z{k}.n/1")))]
    schedule = Schedule((Explicate(), *(splits if lanes > 1 else ())))
    inputs = {"X": np.linspace(-0.5, 1, 21).astype(dtype)}
    computed = run(cascade, schedule, inputs)
    for name, expected in cascade.reference(**inputs).items():
        np.testing.assert_allclose(computed[name], expected, rtol=16 * np.finfo(dtype).eps)
    assert "pow" not in executable(schedule.apply(cascade.kernel())).source


def test_other_exponents_are_powers() -> None:
    """Those that are no halves of whole numbers, are large, or are computed."""
    cascade = ff.cascade(["Z[n] = X[n] ** 2.25 + X[n] ** 17 + X[n] ** Y[n]"], sizes={"N": 5})
    assert ff.compile(cascade).source.count("pow") >= 3
