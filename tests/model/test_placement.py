"""Caches placed by the model: where, and that it never makes a mapping worse or illegal."""

from __future__ import annotations

import random

import pytest

from feinsum_fuse import loads
from feinsum_fuse.formats.mapping import Storage
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model import bounds, place_caches, predict, predicted_seconds
from feinsum_fuse.model.accelforge.estimate import estimate
from feinsum_fuse.model.hardware.footprint import lines
from feinsum_fuse.model.hardware.launches import groups, kernels, launch_seconds
from tests.sweeps import SEED, sweep_size

DEVICE = """
arch:
  variables: {launch_seconds: 1e-5, group_seconds: 1e-8, line_bytes: LINE, cache_share: 0.5, lookahead_operations: 64}
  nodes:
  - !Memory {name: Main, size: 1e12, leak_power: 0, area: 0,
      actions: [{name: read, energy: 0, throughput: 1e11}, {name: write, energy: 0, throughput: 1e11}]}
  - !Memory {name: L3, size: LARGE, leak_power: 0, area: 0,
      actions: [{name: read, energy: 0, throughput: 1e12}, {name: write, energy: 0, throughput: 1e12}]}
  - !Container {name: Core, spatial: [{name: core, fanout: 2}]}
  - !Memory {name: L1, size: SMALL, leak_power: 0, area: 0,
      actions: [{name: read, energy: 0, throughput: 1e12}, {name: write, energy: 0, throughput: 1e12}]}
  - !Memory {name: Scratch, size: 1e9, leak_power: 0, area: 0,
      actions: [{name: read, energy: 0, throughput: 1e12}, {name: write, energy: 0, throughput: 1e12}]}
  - !Memory {name: Register, size: 1e6, leak_power: 0, area: 0,
      actions: [{name: read, energy: 0, throughput: inf}, {name: write, energy: 0, throughput: inf}]}
  - !Container {name: Lane, spatial: [{name: lane, fanout: 4}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 0, throughput: 1e9}]}
opencl:
  memories: {Main: global, L3: cache, L1: cache, Scratch: local, Register: private}
  fanouts: {Core: group.0, Lane: vector}
"""


def device(large: float = 1e9, small: float = 1e6, line: int = 64) -> str:
    return DEVICE.replace("LARGE", f"{large:g}").replace("SMALL", f"{small:g}").replace("LINE", str(line))


def product(nodes: list[str], large: float, small: float, m: int = 64, n: int = 64, k: int = 64, line: int = 64) -> Spec:
    einsum = "Z[m, n] = A[m, k] * B[k, n]"
    workload = f"workload: {{rank_sizes: {{M: {m}, N: {n}, K: {k}}}, bits_per_value: {{All: 32}}, einsums: ['{einsum}']}}\n"
    return loads(workload + device(large, small, line) + "mapping:\n  nodes:\n" + "\n".join(f"  - {node}" for node in nodes))


WHOLE = "!Storage {tensors: [A, B, Z], component: Main}"
ORDER = [f"!Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in "mnk"]
COMPUTE = "!Compute {einsum: Z, component: MAC}"


def stored(spec: Spec, memory: str) -> dict[str, int]:
    """Tensor -> how many loops are above its node in a memory."""
    assert spec.mapping is not None
    path = spec.mapping.path("Z")
    loops, result = 0, {}
    for placed in path:
        node = placed.node
        if isinstance(node, Storage):
            result.update({tensor: loops for tensor in node.tensors if node.component == memory})
        elif hasattr(node, "rank_variable"):
            loops += 1
    return result


def test_what_fits_whole_is_kept_whole() -> None:
    placed = place_caches(product([WHOLE, *ORDER, COMPUTE], large=1e9, small=1e6), cold=True)
    assert stored(placed, "L3") == {"A": 0, "B": 0, "Z": 0}
    assert stored(placed, "L1") == {"A": 0, "B": 0, "Z": 0}


def test_a_row_at_a_time_keeps_the_other_operand() -> None:
    """All of B and a row of A and of Z fit: B stays for all rows, the others come row by row."""
    spec = product([WHOLE, *ORDER, COMPUTE], large=1e3, small=2 * (64 * 64 + 2 * 64) * 32)
    assert stored(place_caches(spec), "L1") == {"A": 1, "B": 0, "Z": 1}
    less = product([WHOLE, *ORDER, COMPUTE], large=1e3, small=2 * (64 * 64 + 2 * 64) * 32 - 1)
    assert stored(place_caches(less), "L1") == {"A": 1, "B": 2, "Z": 2}


def test_a_column_is_paid_in_lines() -> None:
    spec = product([WHOLE, *ORDER, COMPUTE], 1e9, 1e9, n=64, k=64)
    access = {a.name: a for a in spec.workload.einsums[0].tensor_accesses}
    bounds = {"m": 64, "n": 64, "k": 64}
    column = {"m": 64.0, "n": 1.0, "k": 64.0}
    assert lines(access["B"], column, bounds, 512) == 64 * 512
    assert lines(access["A"], column, bounds, 512) == 64 * 64 * 32
    assert lines(access["A"], {"m": 3.0, "n": 1.0, "k": 17.0}, bounds, 512) == 3 * 2 * 512


@pytest.mark.parametrize(("stride", "expected"), [(1, 4), (8, 32), (16, 64), (100, 64)])
def test_a_stride_is_paid_in_lines(stride: int, expected: int) -> None:
    """64 values of 32 bits in lines of 512: from a stride of a line on, each has a line of its own."""
    spec = loads(f"workload: {{rank_sizes: {{M: 64}}, bits_per_value: {{All: 32}}, einsums: ['Z[m] = A[M: {stride}*m]']}}")
    (access,) = (a for a in spec.workload.einsums[0].tensor_accesses if a.name == "A")
    assert lines(access, {"m": 64.0}, {"m": 64}, 512) == expected * 512


def test_operands_of_an_accumulator_tile_are_kept_in_registers() -> None:
    nodes = [
        WHOLE,
        "!Temporal {rank_variable: m, tile_shape: 4}",
        "!Temporal {rank_variable: n, tile_shape: 4}",
        "!Storage {tensors: [Z], component: Register}",
        "!Temporal {rank_variable: k, tile_shape: 1}",
        "!Temporal {rank_variable: m, tile_shape: 1}",
        "!Spatial {rank_variable: n, tile_shape: 1, name: lane, component: Lane}",
        COMPUTE,
    ]
    spec = product(nodes, 1e9, 1e6)
    assert stored(place_caches(spec), "Register") == {"Z": 2, "A": 3, "B": 3}
    actions = predict(spec).actions
    assert actions["Z", "L1", "A", "read"] == 64**3 / 4 * 32


def test_a_spec_without_caches_is_left_alone() -> None:
    spec = product([WHOLE, *ORDER, COMPUTE], 1e9, 1e6)
    bare = spec.replace(opencl=None)
    assert place_caches(bare) is bare
    named = product([WHOLE, "!Storage {tensors: [A], component: L1}", *ORDER, COMPUTE], 1e9, 1e6)
    assert place_caches(named) is named


def test_placing_twice_changes_nothing() -> None:
    placed = place_caches(product([WHOLE, *ORDER, COMPUTE], 1e9, 1e6))
    assert place_caches(placed) == placed


def test_a_warm_cache_serves_what_a_run_before_left() -> None:
    spec = product([WHOLE, *ORDER, COMPUTE], large=1e9, small=1e3)
    assert predict(spec, cold=True).actions["Z", "Main", "A", "read"] == 64 * 64 * 32
    assert predict(spec).actions["Z", "Main", "A", "read"] == 0
    assert predict(spec).actions["Z", "L3", "A", "read"] >= 64 * 64 * 32
    small = product([WHOLE, *ORDER, COMPUTE], large=6e4, small=1e3)
    assert predict(small) == predict(small, cold=True)


def test_tiles_that_are_not_contiguous_cost_whole_lines() -> None:
    """A column of B at a time: each of its values brings a line of 16."""
    nodes = [WHOLE, "!Temporal {rank_variable: n, tile_shape: 1}", "!Storage {tensors: [B], component: Scratch}", *ORDER[::2], COMPUTE]
    spec = product(nodes, large=1e3, small=1e3)
    assert predict(spec).actions["Z", "Main", "B", "read"] == 64 * 64 * 32 * 16


def random_nodes(chance: random.Random) -> list[str]:
    sizes = dict.fromkeys("mnk", 16)
    tensors = ["A", "B", "Z"]
    nodes = [WHOLE]
    middle: list[tuple[str, str]] = [("loop", v) for v in "mnk" for _ in range(chance.choice([0, 1, 1, 2]))]
    middle += [("hold", t) for t in tensors if chance.random() < 0.4]
    chance.shuffle(middle)
    if chance.random() < 0.7:
        middle.insert(chance.randint(0, len([kind for kind, _ in middle[:3] if kind == "loop"])), ("core", chance.choice("mn")))
    for kind, name in middle:
        if kind == "hold":
            nodes.append(f"!Storage {{tensors: [{name}], component: Scratch}}")
        elif kind == "core":
            if sizes[name] > 1 and not any("Scratch" in node for node in nodes):
                tile = max(1, sizes[name] // 2)
                nodes.append(f"!Spatial {{rank_variable: {name}, tile_shape: {tile}, name: core, component: Core}}")
                sizes[name] = tile
        else:
            sizes[name] = chance.choice([d for d in range(1, sizes[name] + 1) if sizes[name] % d == 0])
            nodes.append(f"!Temporal {{rank_variable: {name}, tile_shape: {sizes[name]}}}")
    if chance.random() < 0.5:
        nodes.append("!Storage {tensors: [Z], component: Register}")
    lane = chance.choice("mnk")
    tile = next(t for t in range(1, sizes[lane] + 1) if sizes[lane] % t == 0 and sizes[lane] // t <= 4)
    nodes.append(f"!Spatial {{rank_variable: {lane}, tile_shape: {tile}, name: lane, component: Lane}}")
    rest = list("mnk")
    chance.shuffle(rest)
    return [*nodes, *(f"!Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in rest), COMPUTE]


def test_caches_do_not_change_what_a_mapping_reserves() -> None:
    loops = ["!Storage {tensors: [A], component: Scratch}", *ORDER, COMPUTE]
    found = predict(product([WHOLE, *loops], 1e9, 3e5))  # B stays in L1 from below A's node on
    (tile,) = (bits for (_, component, tensor), bits in found.occupancy.items() if (component, tensor) == ("Scratch", "A"))
    assert tile == 64 * 32, "one row of A: the loop over m moves it, wherever caches hold B and Z"


@pytest.mark.parametrize("number", range(sweep_size(1000)))
def test_caches_never_hurt(number: int) -> None:
    chance = random.Random(SEED * 30_000 + number)
    large = chance.choice([1e3, 1e4, 1e5, 1e6])
    spec = product(random_nodes(chance), large, large / chance.choice([1, 4, 16]), m=16, n=16, k=16, line=4)
    plain, placed = estimate(spec).einsums["Z"].actions, predict(spec, cold=True).actions
    for tensor in "ABZ":
        for action in ("read", "write"):
            assert placed["Z", "Main", tensor, action] <= plain["Main", tensor, action]  # type: ignore[operator]


@pytest.mark.parametrize("number", range(sweep_size(400)))
def test_the_floor_stays_below(number: int) -> None:
    chance = random.Random(SEED * 40_000 + number)
    large = chance.choice([1e3, 1e4, 1e5, 1e6])
    spec = product(random_nodes(chance), large, large / chance.choice([1, 4, 16]), m=16, n=16, k=16)
    for cold in (False, True):
        predicted = predict(spec, cold=cold).latency * (1 + 1e-12)
        assert bounds(spec, cold=cold).latency <= predicted
        assert bounds(spec.replace(mapping=None), cold=cold).latency <= predicted


def test_the_floor_of_what_a_shared_cache_keeps_between_runs() -> None:
    """Without a mapping: main memory was counted, and runs out of a cache beat a floor that they cannot beat."""
    nodes = [WHOLE, *ORDER, COMPUTE]
    bits = 3 * 64 * 64 * 32
    for large, cold, memory in ((bits, False, "L3"), (bits, True, "Main")):
        floor = bounds(product(nodes, large, 1e3).replace(mapping=None), cold=cold)
        assert set(floor.seconds) == {memory, "MAC"}


def test_the_floor_of_what_a_shared_cache_keeps_a_part_of() -> None:
    """All of main memory's time was counted, and matrices of twice the cache's size beat the floor: what fits need not be read again."""
    nodes = [WHOLE, *ORDER, COMPUTE]
    bits = 3 * 64 * 64 * 32
    whole, cached = (bounds(product(nodes, large, 1e3).replace(mapping=None), cold=large < bits).seconds for large in (1e3, bits))
    floor = bounds(product(nodes, bits / 4, 1e3).replace(mapping=None)).seconds
    assert floor["Main"] == pytest.approx(0.75 * whole["Main"])
    assert floor["L3"] == pytest.approx(0.25 * cached["L3"])


def test_kernels_and_groups() -> None:
    nodes = [
        WHOLE,
        "!Temporal {rank_variable: m, tile_shape: 8}",
        "!Spatial {rank_variable: m, tile_shape: 4, name: core, component: Core}",
        *ORDER,
        COMPUTE,
    ]
    spec = product(nodes, 1e9, 1e6)
    assert kernels(spec) == 1
    assert groups(spec) == 64 / 8 * 2
    assert launch_seconds(spec) == pytest.approx(1e-5 + 16 * 1e-8)
    assert predicted_seconds(spec) == pytest.approx(predict(spec).latency)


def test_branches_at_the_root_are_kernels() -> None:
    text = """
workload: {rank_sizes: {M: 4}, bits_per_value: {All: 32}, einsums: ["Y[m] = X[m]", "Z[m] = Y[m]"]}
mapping:
  nodes:
  - !Storage {tensors: [X, Y, Z], component: Main}
BETWEEN
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: Y, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: Z, component: MAC}]}
"""
    assert kernels(loads(text.replace("BETWEEN\n", "") + device())) == 2
    assert kernels(loads(text.replace("BETWEEN", "  - !Storage {tensors: [Y], component: Scratch}") + device())) == 1
    assert kernels(loads(text.replace("BETWEEN", "  - !Temporal {rank_variable: m, tile_shape: 2}") + device())) == 1
