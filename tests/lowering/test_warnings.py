"""An Einsum that copies under the name of a function draws a warning when it is lowered."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.errors import SpecWarning
from feinsum_fuse.mappings.default_mapping import default_spec

FILE = """
workload:
  rank_sizes: {{M: 5, P: 3}}
  bits_per_value: {{All: 32}}
  einsums:
  - name: QK_softmax
    tensor_accesses:
    - {{name: QK, projection: [m, p]}}
    - {{name: S, projection: [m, p], output: True}}
{extra}"""


def lowered(extra: str) -> None:
    spec = ff.loads(FILE.format(extra=extra))
    ff.lower(default_spec(ff.cascade(spec)).replace(workload=spec.workload))


def test_a_copy_under_a_functions_name_draws_a_warning() -> None:
    with pytest.warns(SpecWarning, match="Einsum QK_softmax has no operation and copies QK, although its name says softmax"):
        lowered("")


def test_what_is_meant_draws_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SpecWarning)
        lowered("    is_copy_operation: True\n")
        lowered('    operations: {map: "exp(QK)"}\n')


PRODUCT = """
workload:
  rank_sizes: {M: 8, K: 5, N: 6}
  bits_per_value: {All: 32}
  einsums: ["Z[m,n] = A[m,k] * B[k,n]"]
"""
IN_SPACE = """
mapping:
  nodes:
  - !Storage {component: MainMemory, tensors: [A, B, Z]}
  - !Spatial {rank_variable: m, tile_shape: 4, component: Core, name: X}
  - !Spatial {rank_variable: m, tile_shape: 1, component: Lane, name: X}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""


@pytest.mark.parametrize(
    ("key", "lacking"),
    [
        ("", "there is no opencl key"),
        ("opencl: {dtypes: {All: float32}}", "the opencl key binds no fanout"),
        ("opencl: {fanouts: {Unit: group.0, Wave.X: local.0}}", "the opencl key binds Unit, Wave.X"),
    ],
)
def test_loops_in_space_that_nothing_binds_draw_a_warning(key: str, lacking: str) -> None:
    """Once, whatever the number of loops: which they are, why, and what to do."""
    spec = ff.loads(PRODUCT + IN_SPACE + key)
    with pytest.warns(SpecWarning) as drawn:
        ff.lower(spec)
    (text,) = [str(warning.message) for warning in drawn if issubclass(warning.category, SpecWarning)]
    assert f"(m over Core, m over Lane): {lacking}." in text
    assert "for example opencl: {fanouts: {Core: group.0, Lane: local.0}}" in text


def test_loops_that_are_meant_draw_none() -> None:
    """Some are bound, or said to be loops; the default mapping; an einsum in one line; no loops in space at all."""
    in_time = IN_SPACE.replace("!Spatial", "!Temporal").replace(", component: Core, name: X", "").replace(", component: Lane, name: X", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SpecWarning)
        for fanouts in ("{Core: group.0}", "{Lane.X: local.0}", "{Core: loop, Lane: loop}"):
            ff.lower(ff.loads(f"{PRODUCT}{IN_SPACE}opencl: {{fanouts: {fanouts}}}"))
        ff.lower(ff.loads(PRODUCT + in_time))
        ff.lower(default_spec(ff.cascade(ff.loads(PRODUCT))))
        ff.compile(ff.loads(PRODUCT))
        matrix = np.ones((3, 4), np.float32)
        ff.einsum("ij,jk->ik", matrix, matrix.T.copy())
