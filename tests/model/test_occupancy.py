# ruff: noqa: E501
"""Kernels whose lanes are work-items: groups that stand by hide waiting, neighbours share lines. On a made-up GPU with round figures."""

from __future__ import annotations

import dataclasses

import pytest
from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.model.kernel.basic_blocks import blocks
from feinsum_fuse.model.kernel.kernel_time import KernelTime, kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.model.kernel.occupancy import Occupancy
from feinsum_fuse.schedule.target import ANY_GPU

DEVICE = """
arch:
  variables: {launch_seconds: 0, group_seconds: 0, line_bytes: 128, items_at_once: ITEMS, load_seconds: 1.0e-9, store_seconds: 1.0e-9,
              one_core_read_Main_bytes: ALONE, least_groups_at_once: 1, most_groups_at_once: 1, multiply_add_latency_seconds: 4.0e-9, lookahead_operations: 0}
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, actions: [{name: read, energy: 1, throughput: 8e12}, {name: write, energy: 1, throughput: 8e12}]}
  - !Memory {name: L2, size: 3.2e8, leak_power: 0, actions: [{name: read, energy: 1, throughput: 3.2e13}, {name: write, energy: 1, throughput: 3.2e13}]}
  - !Container {name: Core, spatial: [{name: core, fanout: 64}]}
  - !Memory {name: Scratchpad, size: 393216, leak_power: 0, actions: [{name: read, energy: 1, throughput: 1e12}, {name: write, energy: 1, throughput: 1e12}]}
  - !Memory {name: Register, size: inf, leak_power: 0, actions: [{name: read, energy: 0, throughput: inf}, {name: write, energy: 0, throughput: inf}]}
  - !Container {name: Lane, spatial: [{name: lane, fanout: 64}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 2e9}]}
opencl:
  memories: {Main: global, L2: cache, Scratchpad: local, Register: distributed}
  fanouts: {Core: group.0, Lane: local.0}
"""


def timed(text: str, *, items: int = 2048, alone: float = 1e15) -> KernelTime:
    spec = ff.loads(DEVICE.replace("ITEMS", str(items)).replace("ALONE", str(alone)) + text)
    machine = Machine.of(spec)
    assert machine is not None and machine.items == 64
    return kernel_time(spec, machine)


def product(rows: int, *, local: bool = False, size: int = 4096) -> str:
    """A product of which a group takes so many rows and 64 columns; each work-item holds a column of sums."""
    copy = "\n  - !Storage {tensors: [A], component: Scratchpad}" if local else ""
    return f"""
workload:
  rank_sizes: {{M: {size}, N: 64, K: 64}}
  bits_per_value: {{All: 32}}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
mapping:
  nodes:
  - !Storage {{tensors: [A, B, Z], component: Main}}
  - !Temporal {{rank_variable: m, tile_shape: {min(size, 64 * rows)}}}
  - !Spatial {{rank_variable: m, tile_shape: {rows}, component: Core, name: core}}{copy}
  - !Storage {{tensors: [Z], component: Register}}
  - !Temporal {{rank_variable: k, tile_shape: 1}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Spatial {{rank_variable: n, tile_shape: 1, component: Lane, name: lane}}
  - !Compute {{einsum: Z, component: MAC}}
"""


def moved(text: str, lane: str) -> str:
    """A copy or transposition, with work-items along one of both variables."""
    other = "n" if lane == "m" else "m"
    return f"""
workload: {{rank_sizes: {{M: 4096, N: 4096}}, bits_per_value: {{All: 32}}, einsums: ["{text}"]}}
mapping:
  nodes:
  - !Storage {{tensors: [A, Z], component: Main}}
  - !Temporal {{rank_variable: {other}, tile_shape: 256}}
  - !Spatial {{rank_variable: {other}, tile_shape: 4, component: Core, name: core}}
  - !Temporal {{rank_variable: {other}, tile_shape: 1}}
  - !Temporal {{rank_variable: {lane}, tile_shape: 64}}
  - !Spatial {{rank_variable: {lane}, tile_shape: 1, component: Lane, name: lane}}
  - !Compute {{einsum: Z, component: MAC}}
"""


def core(found: KernelTime) -> float:
    return sum(part.core for part in found.parts)


def test_work_items_work_at_the_same_time() -> None:
    """64 units at 2e9 operations of 64 work-items each: the sums take at least their share, and less than twice what loads take."""
    least = 4096 * 64 * 64 / (64 * 64 * 2e9)
    assert least <= core(timed(product(8))) <= 8 * least


def test_groups_that_stand_by_hide_latency() -> None:
    """One row a group: each sum waits for the one before, 4 ns; two groups of a unit wait in turns, and more are no faster than the work."""
    alone, two, many = (core(timed(product(1), items=items)) for items in (64, 128, 2048))
    assert alone > 1.5 * two > 1.5 * many


def test_local_memory_limits_the_groups_of_a_unit() -> None:
    """48 KiB: a tile of 64 rows by 64 numbers takes 16 KiB of them."""
    spec = ff.loads(DEVICE.replace("ITEMS", "2048").replace("ALONE", "1e15") + product(64, local=True, size=1 << 20))
    machine = Machine.of(spec)
    assert machine is not None
    nest = ff.lower(spec).nest(ff.cascade(spec).kernel())
    found = Occupancy.of(nest, nest.body, 1 << 14, machine)
    assert found is not None and found.items == 64
    assert found.resident == pytest.approx(3.0)
    few = Occupancy.of(nest, nest.body, 64, machine)
    assert few is not None and few.resident == 1.0


def test_neighbours_share_lines() -> None:
    """A copy along rows; a copy down columns touches a line for each element; a transposition does on one side."""
    along, down = (timed(moved("Z[m, n] = A[m, n]", lane)).seconds for lane in ("n", "m"))
    turned = timed(moved("Z[n, m] = A[m, n]", "n")).seconds
    assert down > 3 * along and along < turned < down


def test_scattered_lines_cost_what_the_probe_measured() -> None:
    """A unit that reads 1e6 lines a second: 64 of them 6.4e7, in place of 1e12 bytes in lines of 128."""
    text = moved("Z[m, n] = A[m, n]", "m")
    spec = ff.loads(
        DEVICE.replace("ITEMS", "2048").replace("ALONE", "1e15").replace("line_bytes: 128", "line_bytes: 128, strided_lines_Main: 1e6")
        + text
    )
    machine = Machine.of(spec)
    assert machine is not None
    # Of 64 elements on 64 lines two would be enough, for reading and for writing; each work-item goes on along its line for four.
    lines = 2 * 4096 * 4096 * (64 / 4 - 2) / 64
    assert lines / 6.4e7 <= kernel_time(spec, machine).seconds <= 2 * lines / 6.4e7
    assert timed(text).seconds < kernel_time(spec, machine).seconds / 5


def test_vectors_of_neighbouring_work_items_share_lines() -> None:
    """Four neighbours each, moved as a vector: no line is touched twice, and no more of them than by single elements."""
    text = moved("Z[m, n] = A[m, n]", "n")
    pieces = text.replace("{rank_variable: n, tile_shape: 64}", "{rank_variable: n, tile_shape: 256}").replace(
        "{rank_variable: n, tile_shape: 1, component: Lane, name: lane}",
        "{rank_variable: n, tile_shape: 4, component: Lane, name: lane}\n  - !Temporal {rank_variable: n, tile_shape: 1}",
    )
    spec = ff.loads(DEVICE.replace("ITEMS", "2048").replace("ALONE", "1e15") + pieces)
    machine = Machine.of(spec)
    assert machine is not None
    nest = ff.lower(spec, target=ANY_GPU).nest(ff.cascade(spec).kernel())
    assert "vector" in {loop.binding for loop in nest.loops.values()}
    found = Occupancy.of(nest, nest.body, 4096, machine)
    assert found is not None
    assert sum(found.scattered(nest, block, machine) for block in blocks(nest, nest.body)) == 0


def test_each_work_item_loads_once_what_its_rows_share() -> None:
    """Of 8 rows a work-item loads a number of each and one of B, which its loop over rows does not move: 9 loads for 8 multiply-adds."""
    found = timed(product(8))
    (update,) = (part for part in found.parts if part.role == "update")
    assert update.code.loads == pytest.approx(update.code.arithmetic * 9 / 8)


def test_work_items_share_the_copies_of_a_tile() -> None:
    """A tile of 64 rows by 64 numbers is fetched by 64 work-items, which other groups' do meanwhile: a load and a store of each number."""
    found = timed(product(64, local=True, size=1 << 20))
    (fetch,) = (part for part in found.parts if part.role == "fetch")
    assert fetch.core == pytest.approx((1 << 20) * 64 / (64 * 64) * 1e-9, rel=0.5)


def test_work_items_of_two_axes_share_a_unit() -> None:
    """A second fanout of work-items makes a unit no faster; its rate is that of all of them."""
    two = DEVICE.replace("  - !Container {name: Lane", "  - !Container {name: Row, spatial: [{name: row, fanout: 4}]}\n  - !Container {name: Lane")
    two = two.replace("throughput: 2e9", "throughput: 0.5e9").replace("Lane: local.0", "Row: local.1, Lane: local.0")
    one, other = (Machine.of(ff.loads(text.replace("ITEMS", "64").replace("ALONE", "1e9") + product(8))) for text in (DEVICE, two))
    assert one is not None and other is not None
    assert (one.items, one.rate) == (other.items, other.rate) == (64, 2e9)


def test_few_loads_under_way_leave_memory_idle() -> None:
    """A group alone moves 1e9 bytes a second; a unit's share of the memory is 15.6e9."""
    text = moved("Z[m, n] = A[m, n]", "n")
    fast, slow = timed(text), timed(text, items=64, alone=1e9)
    assert slow.seconds > 5 * fast.seconds
    assert timed(text, items=2048, alone=1e9).seconds < slow.seconds


def test_processors_have_no_such_terms() -> None:
    """The same device with its lanes in vectors, asked about the same kernel."""
    spec = ff.loads(DEVICE.replace("ITEMS", "64").replace("ALONE", "1e9") + product(8))
    assert spec.opencl is not None
    fanouts = constantdict({"Core": "group.0", "Lane": "vector"})
    machine = Machine.of(spec.replace(opencl=dataclasses.replace(spec.opencl, fanouts=fanouts)))
    assert machine is not None and machine.items == 1
    nest = ff.lower(spec).nest(ff.cascade(spec).kernel())
    assert Occupancy.of(nest, nest.body, 4, machine) is None
