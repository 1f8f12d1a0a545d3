"""What a roofline floor takes of a measured processor: what its last cache keeps between runs, and its functions."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.arch import Memory
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.evaluation import predict
from feinsum_fuse.model.floor import bounds
from feinsum_fuse.model.floor_of_processors import handed_on, homes
from feinsum_fuse.model.kernel.machine import Machine
from tests.model.test_kernel_time import DEVICE, product, with_variables

LOST = {"last_cache_lost_1_50": 0.5, "last_cache_lost_8_50": 0.25, "last_cache_lost_1_100": 1.0, "last_cache_lost_8_100": 0.5}
"""Of a cache of which runs that follow one another find more than the first of them."""


def workload(*einsums: str, bits: int = 32, **more: float) -> Spec:
    """Einsums of 400 x 250, without a mapping; the cache that all share has 1,000,000 bytes."""
    head = DEVICE.partition("workload:")[0]
    used = {rank: size for rank, size in {"M": 400, "N": 250, "K": 4}.items() if re.search(rf"\b{rank.lower()}\b", " ".join(einsums))}
    text = f"workload: {{rank_sizes: {json.dumps(used)}, bits_per_value: {{All: {bits}}}, einsums: {list(einsums)}}}"
    return with_variables(ff.loads(f"{head}{text}"), **more)


def replace_size(spec: Spec, name: str, bits: float) -> Spec:
    """The Spec on a processor with another cache."""
    assert spec.arch is not None
    nodes = tuple(replace(node, size=bits) if isinstance(node, Memory) and node.name == name else node for node in spec.arch.nodes)
    return spec.replace(arch=replace(spec.arch, nodes=nodes))


def test_what_is_used_once_is_lost_as_a_calibration_found() -> None:
    """What fits counts as kept: of a copy of as much as the cache such a floor was a quarter of what could be had in that hour."""
    spec = workload("Z[m, n] = 2 * A[m, n]", **LOST)
    kept = bounds(workload("Z[m, n] = 2 * A[m, n]"))
    floor = bounds(spec, lossy=True)
    assert bounds(spec).seconds == kept.seconds  # a quieter hour may lose nothing
    assert set(kept.seconds) == {"L2", "MAC"}
    lost = 0.4  # of 0.8 of the cache, of many runs
    bits = 400 * 250 * 32
    assert floor.seconds["Main"] == pytest.approx(lost * 2 * bits / 8e10)
    assert floor.seconds["L2"] == pytest.approx((1 - lost) * kept.seconds["L2"])


def test_what_is_used_often_may_be_kept() -> None:
    """A matrix that is multiplied by several columns can be used last and first, in an order of its own."""
    spec = workload("Z[m, k] = A[m, n] * B[n, k]", **LOST)
    assert bounds(spec, lossy=True).seconds.keys() == {"L2", "MAC"}
    assert spec.arch is not None
    found = homes(spec, spec.arch, Machine.of(spec), cold=False, lossy=True)
    assert all(parts == {"L2": 1.0} for parts in found.values())
    assert all(parts == {"Main": 1.0} for parts in homes(spec, spec.arch, Machine.of(spec), cold=True, lossy=True).values())


def test_what_one_loop_order_walks_twice_is_used_once() -> None:
    """A softmax reads what it exponentiates in two passes; its mappings walk both from the first row to the last."""
    spec = workload("X[m] = max(A[m, n])", "N[m, n] = exp(A[m, n] - X[m])", **LOST)
    assert spec.arch is not None
    found = homes(spec, spec.arch, Machine.of(spec), cold=False, lossy=True)
    assert found["A"] == found["N"] == {"Main": pytest.approx(0.4), "L2": pytest.approx(0.6)}
    assert "X" not in found  # in a cache that the floor does not ask about
    read, written = (1 - 0.4) * 400 * 250 * 32 / 8e11, 0.4 * 400 * 250 * 32 / 8e10
    assert bounds(spec, lossy=True).seconds["Main"] == pytest.approx(2 * written)  # a kernel of both passes reads A once
    assert bounds(spec, lossy=True).seconds["L2"] == pytest.approx(2 * read)


def seconds(*einsums: str, bits: int = 32) -> float:
    """What the unit that computes needs, with slow exponentials and error functions."""
    return bounds(workload(*einsums, bits=bits, exp_vector_seconds=8e-6, erf_vector_seconds=16e-6)).seconds["MAC"]


def test_functions_of_maps_take_what_was_measured() -> None:
    """They were counted as one multiply-add each."""
    one = 400 * 250 * 1e-6 / 2  # of eight lanes and two cores
    assert seconds("Z[m, n] = exp(A[m, n])") == pytest.approx(one)
    assert seconds("Z[m, n] = gelu(A[m, n]) + B[m, n]") == pytest.approx(2 * one)
    assert seconds("Z[m, n] = exp(A[m, n]) + exp(B[m, n])") == pytest.approx(2 * one)


@pytest.mark.parametrize(
    ("einsums", "times"),
    [
        (("Z[m, n] = exp(A[m]) * B[m, n]",), 1 / 250),
        (("Y[m, n] = exp(A[m, n]) * B[m, n]", "Z[m, n] = exp(A[m, n]) * C[m, n]"), 1.0),
        (("Z[m, n] = exp(A[m, n]) / (1 + exp(A[m, n]))",), 1.0),
    ],
)
def test_functions_are_called_once_for_what_they_are_of(einsums: tuple[str, ...], times: float) -> None:
    assert seconds(*einsums) == pytest.approx(times * 400 * 250 * 1e-6 / 2)


def test_functions_that_were_not_measured_count_as_operations() -> None:
    """Those of 64 bits; powers, divisions and roots, which may be done once for many values or beside everything else."""
    assert seconds("Z[m, n] = exp(A[m, n])", bits=64) == pytest.approx(400 * 250 / 2e9 / 2 / 8)
    assert seconds("Z[m, n] = sqrt(A[m, n]) / B[m, n] + A[m, n] ** 2.5") == pytest.approx(400 * 250 / 2e9 / 2 / 8)


def test_a_mapping_has_the_floor_of_its_workload() -> None:
    """Of caches that are the hardware's the floor counted what each Einsum reads there: kernels that read rows once for two beat it."""
    spec = with_variables(product(4, 2, size=1024), **LOST)
    floor, plain = bounds(spec, lossy=True), bounds(spec.replace(mapping=None), lossy=True)
    assert floor.seconds == plain.seconds
    assert floor.latency <= predict(spec).latency


CHAIN = """
mapping:
  nodes:
  - !Storage {tensors: [A, Y, Z], component: Main}
  - !Sequential
    nodes:
    - !Nested {nodes: [LOOPS, !Compute {einsum: Y, component: MAC}]}
    - !Nested {nodes: [LOOPS, !Compute {einsum: Z, component: MAC}]}
""".replace("LOOPS", "!Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: n, tile_shape: 1}")


def test_what_a_mapping_hands_on_through_main_memory_goes_there_and_back() -> None:
    """As far as the last cache has no room for it, written once and read once; each read of an input is the next Einsum's, too."""
    lines = ("Y[m, n] = 2 * A[m, n]", "Z[m, n] = Y[m, n] + A[m, n]")
    spec = workload(*lines)
    apart = spec.replace(mapping=ff.loads(spec.to_yaml() + CHAIN).mapping)
    assert apart.arch is not None
    assert handed_on(apart) == {"Y"} and not handed_on(spec)
    size = 400 * 250 * 32
    small = replace_size(apart, "L2", 0.25 * size)
    kept, without = bounds(small).seconds["Main"], bounds(small.replace(mapping=None)).seconds["Main"]
    assert kept - without == pytest.approx(2 * 0.75 * size / 8e10)
    assert bounds(replace_size(apart, "L2", 4.0 * size)).seconds.keys() == {"L2", "MAC"}
