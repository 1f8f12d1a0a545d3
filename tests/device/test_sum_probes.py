"""What a compiler makes of sums, as probes of a calibration say."""

from __future__ import annotations

import pytest

from feinsum_fuse.device.calibration.probes import Bench, sample_in_turns
from feinsum_fuse.device.calibration.sum_probes import CALLED, SumBench, figures
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.model.processor import BOTH_TURNS, CYCLES, FIGURES

KNOWN = {f"{name}_seconds": seconds for name, seconds in (("summed", 8e-11), ("folded_sum", 4e-9), ("gathered", 2e-10))} | {
    "vector_memory_update_seconds": 4e-10,
    "multiply_add_latency_seconds": 1e-9,
}
"""On a compiler that makes vectors of sums: 256 elements take 20.48 ns, four of them for the lanes."""


def test_a_step_is_what_is_left_without_the_lanes() -> None:
    found = figures(lambda name: 1e-10, KNOWN)
    assert found["summed_seconds"] == pytest.approx((256 * 8e-11 - 4e-9) / 240)
    assert found["written_out_sums"] == 32
    assert found["written_out_own_sums"] == 64
    assert found["written_out_steps"] == 256
    assert found["written_out_parts"] == 5
    assert found["group_index_times"] == 1
    assert found["items_in_a_vector"] == 64
    assert found["neighbour_times"] == 1


def test_what_takes_as_long_as_memory_or_additions_is_not_written_out() -> None:
    def seconds(name: str) -> float:
        if name == "items":
            return 6.4e-8 / 14
        kind, count = name.split()
        if kind in ("index", "neighbour"):
            return 5e-10 if count in ("asked", "elements") else 5e-11
        return (5e-10 if int(count) > 16 else 1e-10) if kind == "copies" else 6e-10 if count == "5" else 4e-10 if kind == "parts" else 1e-9

    found = figures(seconds, KNOWN)
    assert found["written_out_sums"] == 16
    assert found["written_out_own_sums"] == 1
    assert found["written_out_steps"] == 64, "the shortest of these sums is the one whose time the model has"
    assert found["written_out_parts"] == 2
    assert found["group_index_times"] == pytest.approx(10)
    assert found["neighbour_times"] == pytest.approx(10)
    assert found["items_in_a_vector"] == 16
    kept = figures(seconds, KNOWN | {"gathered_seconds": 5e-10, "vector_memory_update_seconds": 1e-10})
    assert (kept["written_out_sums"], kept["written_out_steps"]) == (1, 1)


def test_its_probes_run_and_have_the_names_of_the_model() -> None:
    bench = SumBench(Bench(find_device(), "float32", 4))
    operations, calls, lengths = dict(bench.operations()), dict(bench.calls()), dict(bench.lengths())
    probes = (*operations.values(), *calls.values(), *lengths.values())
    for probe in probes:
        probe.repeats = 1
    sample_in_turns(probes, 0.01)
    known = {f"{name}_seconds": 1 / probe.rate().value for name, probe in (operations | calls).items()}
    found = figures(lambda name: 1 / lengths[name].rate().value, KNOWN | known)
    assert set(operations) - {"exp_summed"} <= set(CYCLES)
    summed = {f"{name}_summed_seconds" for name in (*CALLED, BOTH_TURNS, "exp")}
    assert all(found[name] <= known[name] for name in summed), "adding up the lanes is left out"
    assert set(found) - {"summed_seconds", "items_in_a_vector", *summed} <= set(FIGURES)
