# ruff: noqa: E501
"""The time of lowered kernels on a made-up processor whose figures are round."""

from __future__ import annotations

import dataclasses
import functools

import pytest
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of
from feinsum_fuse.device.timing.timing import SHORTEST_SAMPLE
from feinsum_fuse.errors import LoweringError
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.formats.arch import Arch
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mappings.random import random_mappings
from feinsum_fuse.model import predicted_seconds
from feinsum_fuse.model.hardware.launches import launch_seconds
from feinsum_fuse.model.kernel.basic_blocks import BasicBlock, blocks, conditional, in_registers
from feinsum_fuse.model.kernel.kernel_time import BlockTime, kernel_time, waking_seconds
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.model.processor import CYCLES, SAMPLE_SECONDS, starting_seconds
from feinsum_fuse.schedule.makespan import makespan, makespan_of
from feinsum_fuse.schedule.target import DeviceLimits
from feinsum_fuse.schedule.tree.nest import For

RATE = 2e9
"""Vector multiply-adds of a core and second: a cycle is a nanosecond."""
DEVICE = """
arch:
  variables: {launch_seconds: 1.0e-5, group_seconds: 0.0}
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, actions: [{name: read, energy: 1, throughput: 8e10}, {name: write, energy: 1, throughput: 8e10}]}
  - !Memory {name: L2, size: 8e6, leak_power: 0, actions: [{name: read, energy: 1, throughput: 8e11}, {name: write, energy: 1, throughput: 8e11}]}
  - !Container {name: Core, spatial: [{name: core, fanout: 2}]}
  - !Memory {name: L1, size: 262144, leak_power: 0, actions: [{name: read, energy: 1, throughput: 2e12}, {name: write, energy: 1, throughput: 2e12}]}
  - !Memory {name: Local, size: 8e6, leak_power: 0, actions: [{name: read, energy: 1, throughput: 2e12}, {name: write, energy: 1, throughput: 2e12}]}
  - !Memory {name: Register, size: inf, leak_power: 0, actions: [{name: read, energy: 0, throughput: inf}, {name: write, energy: 0, throughput: inf}]}
  - !Container {name: Lane, spatial: [{name: lane, fanout: 8}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 2e9}]}
opencl:
  memories: {Main: global, L2: cache, L1: cache, Local: local, Register: private}
  fanouts: {Core: group.0, Lane: vector}
workload:
  rank_sizes: {M: SIZE, N: SIZE, K: 256}
  bits_per_value: {All: 32}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
"""


@functools.cache
def product(
    down: int, across: int, *, size: int = 64, groups: int = 2, registers: bool = True, value: str = "A[m, k] * B[k, n]", more: str = ""
) -> Spec:
    """A product, or another sum over ``k``, whose register tile is so many rows and vectors."""
    held = "- !Storage {tensors: [Z], component: Register}" if registers else ""
    mapping = f"""
mapping:
  nodes:
  - !Storage {{tensors: [A, B, Z{more}], component: Main}}
  - !Spatial {{rank_variable: m, tile_shape: {size // groups}, component: Core, name: core}}
  - !Temporal {{rank_variable: m, tile_shape: {down}}}
  - !Temporal {{rank_variable: n, tile_shape: {8 * across}}}
  {held}
  - !Temporal {{rank_variable: k, tile_shape: 1}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Temporal {{rank_variable: n, tile_shape: 8}}
  - !Spatial {{rank_variable: n, tile_shape: 1, component: Lane, name: lane}}
  - !Compute {{einsum: Z, component: MAC}}
"""
    return ff.loads(DEVICE.replace("SIZE", str(size)).replace("A[m, k] * B[k, n]", value) + mapping)


def core(spec: Spec) -> float:
    """Seconds that a core spends on the multiply-adds."""
    machine = Machine.of(spec)
    assert machine is not None
    return sum(part.core for part in kernel_time(spec, machine).parts if part.role == "update")


def test_a_kernel_may_ask_for_what_the_architecture_has() -> None:
    machine = Machine.of(product(4, 1))
    assert machine is not None
    assert machine.limits.local_bytes == 1_000_000, "8e6 bits, less than the neutral target's"
    assert machine.limits.private_bytes > 1 << 50, "an infinite memory refuses nothing"
    kept = [leaf for leaf in machine.arch.nodes if leaf.name != "Local"]
    assert dataclasses.replace(machine, arch=Arch(tuple(kept), machine.arch.variables)).limits.local_bytes == DeviceLimits().local_bytes


def test_a_full_register_tile_runs_at_the_rate_of_multiply_adds() -> None:
    accesses = 1 + 6 / 8 * 2 * CYCLES["access"].value  # six loads for eight multiply-adds, of which two are a cycle
    spec = with_variables(product(4, 2), waiting_power=1000)  # its eight sums are ready just in time
    assert core(spec) == pytest.approx(64 * 64 * 256 / 8 / 2 / RATE * accesses, rel=0.02)


def test_a_difference_of_products_is_two_multiply_adds() -> None:
    """The first is added to what the sum has so far, the second is taken from that."""
    specs = product(4, 2), product(4, 2, value="A[m, k] * B[k, n] - C[m, k] * D[k, n]", more=", C, D")
    one, two = (sum(part.code.arithmetic for part in _parts(spec) if part.role == "update") for spec in specs)
    assert one == 64 * 64 * 256 / 8 and two == 2 * one


def test_few_accumulators_wait_for_their_last_sum() -> None:
    """One accumulator: four cycles each, but for what the core sees of the next sum: 256 operations, of 256 times some five."""
    alone = 64 * 64 / 8 / 2 * 256 * 4e-9
    assert alone / 1.25 < core(product(1, 1)) < alone / 1.15


def test_accumulators_that_do_not_fit_cost_more_than_those_that_do() -> None:
    assert core(product(8, 4)) > 1.2 * core(product(4, 2))


def test_whole_tiles_and_their_rests_are_cases() -> None:
    spec = product(6, 2)
    nest = ff.lower(spec).nest(cascade_of(spec).kernel())
    update = next(b for b in blocks(nest, nest.body) if b.lines[0].statement.role == "update")
    found = sorted((part, case.lines[0].copies) for part, case in update.cases())
    assert found == [(pytest.approx(1 / 6), 4), (pytest.approx(5 / 6), 12)], "32 rows are five tiles and a rest of two"


def test_a_rest_of_vectors_takes_no_registers_from_whole_tiles() -> None:
    """Twelve sums, three vectors and one row's value: under conditions all four rows' values would be held, which is one too many."""
    assert core(product(4, 3)) < 1.1 * core(product(4, 2))
    assert core(product(4, 3, size=96)) < 1.1 * core(product(4, 2, size=96)), "no rest"
    spec = product(4, 3)
    nest = ff.lower(spec).nest(cascade_of(spec).kernel())
    update = next(b for b in blocks(nest, nest.body) if b.lines[0].statement.role == "update")
    found = {case.lines[0].copies: sorted(case.lines[0].guarded) for _, case in update.cases()}
    assert found == {12: [], 8: []}, "the text decides before the loop whether the tile is whole"


def test_loops_that_call_a_library_are_no_vectors() -> None:
    machine = Machine.of(product(4, 2))
    assert machine is not None
    assert machine.is_vectorised("exp"), "nothing measured"
    for loop, vectors in ((1e-9, True), (8e-9, False)):
        variables = constantdict({"exp_scalar_seconds": 5e-9, "exp_loop_seconds": loop})
        known = dataclasses.replace(machine, arch=machine.arch.__class__(machine.arch.nodes, variables))
        assert known.is_vectorised("exp") == vectors
        assert known.function("exp", 1) == (5e-9 if vectors else 8e-9), "on data that are spread, where the library branches"


def test_sums_in_memory_wait_for_their_stores() -> None:
    """One sum in a loop is kept in a register wherever it belongs; several that take turns are loaded and stored each time."""
    assert core(product(1, 1, registers=False)) == pytest.approx(core(product(1, 1)), rel=0.05)
    assert core(product(2, 1, registers=False)) > 2 * core(product(2, 1))


def test_one_group_uses_one_core() -> None:
    assert core(product(4, 2, groups=1)) == pytest.approx(2 * core(product(4, 2, groups=2)))


def with_variables(spec: Spec, **more: float) -> Spec:
    """The Spec on a processor of which more was measured."""
    assert spec.arch is not None
    return spec.replace(arch=dataclasses.replace(spec.arch, variables=constantdict({**spec.arch.variables, **more})))


def test_cores_that_do_less_together_share_less_of_the_work() -> None:
    """Two cores that together do what one does: two groups take as long as one after another. One alone may be faster than its share."""
    both = product(4, 2)
    assert core(with_variables(both, cores_together_1=1, cores_together_2=1)) == pytest.approx(2 * core(both))
    assert core(with_variables(both, cores_together_1=1.2, cores_together_2=2)) == pytest.approx(core(both))
    alone = product(4, 2, groups=1)
    assert core(with_variables(alone, cores_together_1=1.25, cores_together_2=2)) == pytest.approx(core(alone) / 1.25)
    machine = Machine.of(with_variables(both, cores_together_1=1, cores_together_2=1.8, cores_together_4=3))
    assert machine is not None
    assert [machine.together(count) for count in (1, 2, 3, 4, 9)] == pytest.approx([1, 1.8, 2.4, 3, 3])


def test_memory_that_all_cores_share_is_as_fast_with_fewer_of_them() -> None:
    spec = product(4, 2, size=2048)

    def memory(name: str, **more: float) -> float:
        machine = Machine.of(with_variables(spec, **more))
        assert machine is not None
        return sum(part.memory[name] for part in kernel_time(spec, machine).parts)

    assert memory("Main") > 0
    assert memory("Main", cores_together_2=1) == memory("Main")


def test_a_kernel_behind_another_starts_sooner() -> None:
    spec = with_variables(product(4, 2, size=16), warm_launch_seconds=1e-6)
    machine = Machine.of(spec)
    assert machine is not None
    warm, cold = (kernel_time(spec, machine, cold=cold).launches for cold in (False, True))
    assert 1e-6 < warm < 1.2e-6, "the first of some thousand in a sample waits for an idle device"
    assert cold == pytest.approx(1e-5)
    assert predicted_seconds(spec) == kernel_time(spec, machine).seconds


def test_starting_costs_what_a_sample_has() -> None:
    assert SAMPLE_SECONDS == SHORTEST_SAMPLE
    arch = with_variables(product(4, 2), warm_launch_seconds=1e-6, group_seconds=1e-8).arch
    assert arch is not None
    assert starting_seconds(arch, 3, 100, 0.0, cold=True) == pytest.approx(3e-6 + 1e-6 + 9e-6)
    assert starting_seconds(arch, 3, 100, 1.0) == pytest.approx(3e-6 + 1e-6 + 9e-6), "a sample is one run"
    assert starting_seconds(arch, 3, 100, 0.0) == pytest.approx(4e-6 + 9e-6 * 4e-6 / 2e-3)
    assert starting_seconds(arch, 0, 0, 1.0) == 0


def test_the_host_starts_kernels_while_others_work() -> None:
    arch = with_variables(product(4, 2), warm_launch_seconds=3e-6, busy_launch_seconds=1e-6).arch
    assert arch is not None

    def run(working: float) -> float:
        return working + starting_seconds(arch, 2, 0, working) - 9e-6 * (max(6e-6, working + 2e-6)) / SAMPLE_SECONDS

    assert run(1e-6) == pytest.approx(6e-6), "as long as the host needs for both"
    assert run(100e-6) == pytest.approx(102e-6), "or as they work, with what the device needs for each"


def test_groups_over_threads() -> None:
    assert [makespan(groups, 2, (32, 256)) for groups in (1, 2, 3, 4, 16)] == [1, 1, 2, 2, 8]
    assert makespan(10_000, 2, (32, 256)) < 1.1 * 10_000 / 2
    assert makespan(10_000, 3, (1, 1)) <= 10_000 / 3 + 3


def test_a_ragged_group_has_less_work_than_the_others() -> None:
    """Of groups of 30, 30 and 4 rows the first core has two, 60 of the 64."""
    assert makespan_of([30, 30, 4], 2, (32, 256)) == 60
    even = product(2, 2, size=128)
    ragged = even.replace(workload=product(2, 2, size=96).workload)
    assert {part.stretch for part in _parts(even)} == {1.0}
    assert [part.stretch for part in _parts(ragged)] == pytest.approx([4 / 3] * len(_parts(ragged)), rel=0.02), "64 of 96 rows"


def test_other_cores_begin_later() -> None:
    machine = Machine.of(with_variables(product(2, 2), wake_seconds=1e-5))
    assert machine is not None
    assert waking_seconds(machine, 1_000_000, 1.0) == pytest.approx(5e-6, rel=0.3), (
        "half of what the other core misses: the first does more groups"
    )
    assert waking_seconds(machine, 2, 1.0) == pytest.approx(1e-5), "all of it where each has one group"
    assert waking_seconds(machine, 4, 2e-5) == pytest.approx(1e-5), "the first has done three of four as late as the other one of them"
    assert waking_seconds(machine, 2, 1e-6) == pytest.approx(1e-6), "one core is done before"
    assert waking_seconds(machine, 1, 1.0) == 0


def test_what_a_loop_does_not_move_is_done_before_it() -> None:
    """A division by what a row has in common costs next to nothing, one by each element its time."""
    text = DEVICE.replace("SIZE", "64").replace("Z[m, n] = A[m, k] * B[k, n]", "Z[m, n] = A[m, n] * (1 / BY)").replace(", K: 256", "")
    mapping = """
mapping:
  nodes:
  - !Storage {tensors: [A, B, Z], component: Main}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""
    common, own = (core_of(ff.loads(text.replace("BY", by) + mapping)) for by in ("B[m]", "B[n]"))
    assert own > 2 * common


def test_what_occurs_twice_is_computed_once() -> None:
    """A difference that is multiplied with itself is an operation less for each vector than one that is multiplied with a sum."""
    text = DEVICE.replace("SIZE", "64").replace("Z[m, n] = A[m, k] * B[k, n]", "Z[m, n] = (A[m, n] - B[n]) * OTHER").replace(", K: 256", "")
    mapping = """
mapping:
  nodes:
  - !Storage {tensors: [A, B, Z], component: Main}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""
    specs = [ff.loads(text.replace("OTHER", other) + mapping) for other in ("(A[m, n] - B[n])", "(A[m, n] + B[n])")]
    same, different = (sum(part.code.arithmetic for part in _parts(spec)) for spec in specs)
    assert different - same == pytest.approx(64 * 64 / 8)


def test_functions_of_half_a_vector_cost_what_they_were_measured_at() -> None:
    spec = product(4, 2)
    machine = Machine.of(spec)
    assert machine is not None
    measured = Machine.of(with_variables(spec, exp_vector_seconds=4e-9, exp_half_vector_seconds=3e-9))
    assert measured is not None
    assert measured.function("exp", 8) == 4e-9
    assert measured.function("exp", 4) == measured.function("exp", 2) == 3e-9
    assert machine.function("exp", 4) == machine.function("exp", 8), "nobody measured it"


@pytest.mark.parametrize(("dtype", "bits", "steps"), [("int8", 8, 2), ("int32", 32, 1), ("bfloat16", 16, 2), ("float32", 32, 0)])
def test_numbers_of_other_types_are_spread_and_converted(dtype: str, bits: int, steps: int) -> None:
    """As machine code has it (``vpmovsxbd`` and ``vcvtdq2ps``, ``vpmovzxwd`` and ``vpslld``), once for the four rows of a tile."""
    spec = product(4, 2)
    text = (
        DEVICE.replace("SIZE", "64")
        .replace("{All: 32}", f"{{A: 32, B: {bits}, Z: 32}}")
        .replace("opencl:\n", f"opencl:\n  dtypes: {{B: {dtype}, A: float32, Z: float32}}\n")
    )
    assert spec.mapping is not None
    mapped = dataclasses.replace(ff.loads(text), mapping=spec.mapping)
    plain, converted = (sum(part.code.arithmetic for part in _parts(one) if part.role == "update") for one in (spec, mapped))
    assert converted - plain == pytest.approx(steps * plain / 4)


def _parts(spec: Spec) -> tuple[BlockTime, ...]:
    machine = Machine.of(spec)
    assert machine is not None
    return kernel_time(spec, machine).parts


def core_of(spec: Spec) -> float:
    """Seconds of cores in all blocks."""
    return sum(part.core for part in _parts(spec))


def test_what_fits_a_cache_is_fetched_once_and_what_does_not_again() -> None:
    small, large = product(4, 2, size=32), product(4, 2, size=2048)

    def lines(spec: Spec) -> float:
        machine = Machine.of(spec)
        assert machine is not None
        return sum(part.memory["Main"] for part in kernel_time(spec, machine).parts)

    assert lines(small) == 0, "a warm cache has it all"
    assert lines(large) > 3 * 2048 * 256 * 4 / 1e10


def test_predictions_are_those_of_the_kernel() -> None:
    spec = product(4, 2)
    machine = Machine.of(spec)
    assert machine is not None
    found = kernel_time(spec, machine)
    assert ff.predict(spec).latency == pytest.approx(found.seconds)
    assert ff.predict(spec).launches == pytest.approx(found.launches)
    assert ff.predict(spec).bottleneck == {"Z": "MAC"}
    assert "update" in str(found)


def test_a_run_is_predicted_alike_by_whoever_asks() -> None:
    """The latency is what a search's candidate costs and an explanation says, launches and other cores' later start included."""
    spec = with_variables(product(4, 2), wake_seconds=1e-5)
    found = ff.predict(spec)
    assert found.latency == pytest.approx(predicted_seconds(spec))
    assert found.latency == pytest.approx(ff.explain(spec).time.seconds)
    assert found.launches > 0
    assert f"{found.launches:.3g} s of it starting kernels" in str(found)


def test_where_no_kernel_is_lowered_launches_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LoweringError("not this one")

    spec = product(4, 2)
    monkeypatch.setattr("feinsum_fuse.model.kernel.kernel_time.kernel_time", refuse)
    found = ff.predict(spec)
    working = found.latency - found.launches
    assert 0 < found.launches == pytest.approx(launch_seconds(spec, working))
    assert found.latency == pytest.approx(predicted_seconds(spec))


def test_an_architecture_that_was_not_measured_is_no_machine() -> None:
    spec = product(4, 2)
    assert spec.arch is not None
    bare = spec.replace(arch=spec.arch.__class__(spec.arch.nodes))
    assert Machine.of(bare) is None


def test_conditions_of_unrolled_copies() -> None:
    outer = (For("outer", 9, ()),)
    limit = Affine.of({"outer": -4, "inner": -1}, 34)
    assert conditional(For("inner", 4, (), (limit,)), outer), "of 35 elements in fours the last one is outside"
    assert not conditional(For("inner", 3, (), (limit,)), outer), "the first three of each four are inside"
    odd = Affine.of({"outer": -3, "inner": -1}, 25)
    assert conditional(For("inner", 4, (), (odd,)), outer), "the last two of four in turns of three"
    whole = Affine.of({"outer": -4, "inner": -1}, 35)
    assert not conditional(For("inner", 4, (), (whole,)), outer)


def test_blocks_cover_every_statement() -> None:
    for spec in random_mappings(product(4, 2), 10, seed=5):
        nest = ff.lower(spec).nest(cascade_of(spec).kernel())
        found: list[BasicBlock] = list(blocks(nest, nest.body))
        points = sum(b.entries * b.trips * line.copies * line.width for b in found for line in b.lines if line.statement.role == "update")
        assert points == pytest.approx(64 * 64 * 256, rel=1e-6)
        assert in_registers(nest) <= set(nest.tiles)
