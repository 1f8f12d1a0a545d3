"""Predictions beside measurements: per instance, with the bits that ran."""

from __future__ import annotations

import warnings

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.report.run_prediction import Predicted, as_run, without_caches
from tests.cli.files import ARCH, MAPPING, SUMMED, WORKLOAD

CHAIN = """\
workload:
  rank_sizes: {M: 6, K: 4, N: 8, P: 5}
  bits_per_value: {All: 32}
  einsums:
  - T[m, n] = A[m, k] * B[k, n]
  - Z[m, p] = T[m, n] * C[n, p]
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, T, C, Z]}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Compute {einsum: T, component: MAC}
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Compute {einsum: Z, component: MAC}
"""


def _load(text: str) -> Spec:
    return ff.loads(text.replace("{% set M = M | default(8) %}\n", "").replace("{{M}}", "8"))


def test_the_bits_that_ran_are_counted() -> None:
    narrow, wide = (_load("\n".join([WORKLOAD.replace("All: 32", f"All: {bits}"), ARCH, MAPPING])) for bits in (8, 32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cascade = ff.cascade(narrow)
    assert {access.bits_per_value for einsum in as_run(narrow, cascade).workload.einsums for access in einsum.tensor_accesses} == {32}
    assert Predicted.of(narrow, cascade).predicted_time == Predicted.of(wide, ff.cascade(wide)).predicted_time
    assert ff.predict(narrow).latency < ff.predict(wide).latency


def test_memories_of_an_architecture_hold_the_bits_of_its_file() -> None:
    """A row of 4 values fits 64 bits, though it is computed in float32; the traffic is that of float32."""
    arch = ARCH.replace("size: 256", "size: 64")
    rows = "  - !Temporal {rank_variable: m, tile_shape: 1}\n"
    mapping = MAPPING.replace(rows, f"{rows}  - !Storage {{component: Buffer, tensors: [A]}}\n")
    narrow, wide = (_load("\n".join([WORKLOAD.replace("All: 32", f"All: {bits}"), arch, mapping])) for bits in (8, 32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Predicted.of(narrow, ff.cascade(narrow))
    own = ff.predict(narrow)
    assert (found.prediction.peak, found.prediction.occupancy, found.prediction.sizes) == (own.peak, own.occupancy, own.sizes)
    moved = [sum(p.actions[key] for key in p.actions if key[-1] == "read") for p in (found.prediction, own)]
    assert moved[0] == 4 * moved[1]
    with pytest.raises(ff.ModelError, match="its size is only 64 bits"):
        Predicted.of(wide, ff.cascade(wide))


def test_one_instance_is_predicted() -> None:
    one = _load("\n".join([CHAIN, ARCH]))
    many = _load("\n".join([CHAIN.replace("workload:\n", "workload:\n  n_instances: 7\n"), ARCH]))
    found = Predicted.of(many, ff.cascade(many))
    alone = Predicted.of(one, ff.cascade(one))
    assert found.n_instances == 7
    assert found.predicted_time == pytest.approx(alone.predicted_time)
    assert found.predicted_intermediate_bytes == pytest.approx(alone.predicted_intermediate_bytes)
    assert found.predicted_floor <= found.predicted_time


def test_bytes_of_intermediates_follow_the_mapping() -> None:
    spec = _load("\n".join([CHAIN, ARCH]))
    found = Predicted.of(spec, ff.cascade(spec))
    # T: a partial sum is read back for every k but the first and written for every k; then it is read for every p.
    values = 6 * 8 * ((4 - 1) + 4 + 5)
    assert found.predicted_intermediate_bytes == 4 * values


def test_without_caches_only_the_caches_bindings_go() -> None:
    bindings = "opencl: {memories: {Main: global, Buffer: cache}, dtypes: {All: float64}}\n"
    spec = _load("\n".join([CHAIN, ARCH, bindings]))
    plain = without_caches(spec)
    assert plain.opencl is not None
    assert dict(plain.opencl.memories) == {"Main": "global"}
    assert dict(plain.opencl.dtypes) == {"All": "float64"}


def test_a_prediction_of_the_mapping_alone_says_so() -> None:
    """What sums of variables index is computed element by element, whatever the loops."""
    spec, plain = _load("\n".join([SUMMED, ARCH])), _load("\n".join([CHAIN, ARCH]))
    predicted = Predicted.of(spec, ff.cascade(spec))
    assert predicted.uncut == ("O",)
    assert "what O writes, element by element: the prediction is of the mapping, not of its kernel" in predicted.reservation
    assert Predicted.of(plain, ff.cascade(plain)).reservation == ""
