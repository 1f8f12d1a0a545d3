"""An Einsum that copies under the name of a function draws a warning when it is lowered."""

from __future__ import annotations

import warnings

import pytest

import feinsum_fuse as ff
from feinsum_fuse.lowering.default_mapping import default_spec
from feinsum_fuse.spec.messages import SpecWarning

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
