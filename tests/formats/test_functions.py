from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pymbolic import var

from feinsum_fuse.cascades.maps import primitive
from feinsum_fuse.cascades.reference.map_values import evaluated
from feinsum_fuse.formats.language.functions import FUNCTIONS, IN_KERNELS, Function

ROWS = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda function: function.name)
PAGE = Path(__file__).resolve().parents[2] / "doc" / "formats.rst"


@ROWS
def test_it_is_one_of_numpys_or_composed_of_others(function: Function) -> None:
    assert (function.numpy is None) == (function.composed is not None)
    arguments = [np.array([0.25, 0.5]) for _ in range(function.arity)]
    names = [f"x{k}" for k in range(function.arity)]
    called = primitive(var(function.name)(*map(var, names)))
    assert np.isfinite(evaluated(called, dict(zip(names, arguments, strict=True)))).all()


@ROWS
def test_what_is_called_has_a_name_in_kernels_and_in_opencl(function: Function) -> None:
    if function.composed is None:
        assert function.opencl
        assert function.kernel
    assert function.kernel is None or IN_KERNELS[function.kernel] is function


@ROWS
def test_its_cost_is_a_functions(function: Function) -> None:
    assert not function.cost or FUNCTIONS[function.cost].cost is None


@ROWS
def test_integers_stay_integers_where_the_table_says_so(function: Function) -> None:
    if function.composed is None and function.of_integers != "number":
        names = [f"x{k}" for k in range(function.arity)]
        found = evaluated(var(function.name)(*map(var, names)), {name: np.array([-3, 0, 2]) for name in names})
        assert found.dtype.kind == "i"


def test_functions_are_documented() -> None:
    assert f"the functions ``{' '.join(FUNCTIONS)}``." in " ".join(PAGE.read_text(encoding="utf-8").split())
