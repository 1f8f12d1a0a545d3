"""A calibration is an ordinary architecture, and says what this machine could do."""

from __future__ import annotations

import math
import platform
import re
import shutil
import time
import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from feinsum_fuse.device.calibration import calibration, device_file
from feinsum_fuse.device.calibration.between_runs import OWN_PERCENTS
from feinsum_fuse.device.calibration.caches import Cache, caches, held_bytes, share_of
from feinsum_fuse.device.calibration.calibration import OVERLAP, PROBE_KINDS, SHORTLY
from feinsum_fuse.device.calibration.core_probes import BODIES, CoreBench, pack_loss, written
from feinsum_fuse.device.calibration.probes import PLACED_BYTES, PLACES, Bench, Probe, Rate, sample_in_turns, source_of, usual_length
from feinsum_fuse.device.catalogue import DeviceInfo, devices, find_device, target
from feinsum_fuse.device.program.instruction_mix import DISASSEMBLERS, machine_loops
from feinsum_fuse.formats.arch import Compute, Container, Memory
from feinsum_fuse.formats.reading.load import loads
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.processor import MANY_RUNS
from feinsum_fuse.schedule.target import POCL, Quirks


@pytest.fixture(scope="module")
def calibrated() -> Spec:
    """A calibration as short as it gets: of the tests' processes, the first that asks for one measures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return device_file.calibrate(find_device())


def test_hierarchy(calibrated: Spec) -> None:
    assert calibrated.arch is not None and calibrated.opencl is not None
    names = [component.name for component in calibrated.arch.components]
    levels = [cache.name for cache in caches(find_device())]
    assert names[0] == "MainMemory"
    assert names[-4:] == ["Scratchpad", "Register", "Lane", "MAC"]
    assert set(levels) <= set(names)
    core = calibrated.arch.component("Core")
    assert isinstance(core, Container) and core.spatial[0].fanout == DeviceInfo.of(find_device()).units
    assert dict(calibrated.opencl.fanouts) == {"Core": "group.0", "Lane": "vector"}
    assert calibrated.opencl.memories["MainMemory"] == "global"
    assert all(calibrated.opencl.memories[name] == "cache" for name in levels)


def test_rates_are_plausible(calibrated: Spec) -> None:
    assert calibrated.arch is not None
    main = calibrated.arch.component("MainMemory")
    for action in main.actions:
        assert 8e8 < action.throughput < 8e14, "bits a second"
    mac = calibrated.arch.component("MAC")
    assert isinstance(mac, Compute) and 1e7 < mac.actions[0].throughput < 1e12
    inner = [c for c in calibrated.arch.components if isinstance(c, Memory) and c.name.startswith("L")]
    assert all(math.isfinite(a.throughput) and a.throughput > 0 for memory in inner for a in memory.actions)
    variables = calibrated.arch.variables
    assert 0 < variables["launch_seconds"] < 0.1
    assert 0 < variables["warm_launch_seconds"] < 0.1
    assert 0 <= variables.get("busy_launch_seconds", 0) < 0.1
    assert variables["assumed_energies"] == 1
    assert 0 <= variables["lookahead_operations"] < 5000
    assert variables["vector_registers"] == target(find_device()).vector_registers
    assert variables["line_bytes"] == caches(find_device())[-1].line
    assert 1e-10 < variables["multiply_add_latency_seconds"] < 1e-6
    operations = ["load", "store", "pack", "memory_chain", "vector_memory_chain", "vector_memory_update"]
    operations += ["exp_vector", "exp_half_vector", "exp_divided_vector", "exp_divided_half_vector", "max_scalar", "max_chain_vector"]
    operations += ["mixed_addition", "addition_latency", "split_load"]
    operations += ["split_store", "narrow_store", "narrow_load", "narrow_multiply_add", "crowded_line", "crowded_set_line"]
    operations += ["scattered", "forwarded", "issue", "short_copy"]
    assert all(1e-11 < variables[f"{name}_seconds"] < 1e-5 for name in operations)
    assert 0 <= variables["pack_loss"] <= 1
    assert all(1e7 < variables[f"multiply_adds_{dtype}"] < 1e15 for dtype in ("float32", "float64"))


@pytest.mark.parametrize(("lanes", "is_halved"), [(16, True), (8, False)])
def test_functions_are_probed_as_kernels_call_them(lanes: int, is_halved: bool) -> None:
    """Where functions on 16 lanes do not link, they are called on halves; no other device pays for that."""
    text, names = written("float32", lanes, Quirks(widest_builtins=True))
    assert (f"{names['log']}_by_halves" in text) is is_halved
    assert "_by_halves" not in written("float32", lanes, Quirks())[0]
    text, names = written("float32", lanes, POCL)
    assert f"{names['erf']}_of" in text
    assert written("float32", 1, POCL)[0] == ""


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
def test_functions_are_probed_on_every_device(device: cl.Device, lanes: int) -> None:
    bench = Bench(device, "float32", lanes)
    for name, probe in CoreBench(bench, 1 << 26).functions(bench):
        assert probe.sample() > 0, name


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
@pytest.mark.parametrize("lanes", [4, 16])
def test_stores_past_the_caches_are_probed_on_every_device(device: cl.Device, lanes: int) -> None:
    assert Bench(device, "float32", lanes).streamed(1 << 20, 2).sample() > 0


@pytest.mark.skipif(platform.machine() != "x86_64" or not any(map(shutil.which, DISASSEMBLERS)), reason="machine code cannot be read here")
def test_what_arithmetic_does_not_hide_of_filling_lanes() -> None:
    """Two vectors of 16 are filled in 15 ns, 66 multiply-adds take 13.2: of the shorter a half shows in 21.6, at most all of it."""
    found = [pack_loss(both, 0.5, 0.2, 16) for both in (15.0, 21.6, 40.0)]
    assert found == pytest.approx([0.0, 0.5, 1.0])


def test_lanes_are_filled_without_an_address_for_each() -> None:
    """As in kernels, where they lie at known distances from one place: Intel's compiler once computed a place for every other one."""
    device = next((device for device in devices() if "Intel" in device.platform.name), None)
    if device is None:
        pytest.skip("Intel's runtime is not installed")
    found = [loop for loop in machine_loops(CoreBench(Bench(device, "float32", 8), 1 << 26)._core.executable, device) if loop.loads >= 16]
    filled = [loop for loop in found if "pack" in loop.function and "beside" not in loop.function]
    assert filled
    assert all(len(loop.instructions) < 2.5 * loop.loads for loop in filled)


def test_device_whose_work_items_fill_the_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SWEEP_BYTES", 1 << 20)
    session = calibration._Session(Bench(find_device(), "float32", 1, group=16), quick=True)
    sample_in_turns(session.probes.values(), 0.1)
    spec = session.spec()
    assert spec.arch is not None and spec.opencl is not None
    names = [component.name for component in spec.arch.components]
    assert names[-5:] == ["Scratchpad", "Register", "Row", "Lane", "MAC"]
    assert dict(spec.opencl.fanouts) == {"Core": "group.0", "Row": "local.1", "Lane": "local.0"}
    row, mac = spec.arch.component("Row").spatial[0].fanout, spec.arch.component("MAC").actions[0].throughput
    assert mac * row == pytest.approx(spec.arch.variables["multiply_adds_float32"] / 16)
    assert spec.arch.variables["items_at_once"] == target(find_device()).items_a_unit
    assert spec.arch.variables["one_core_read_MainMemory_bytes"] > 0


def test_calibration_is_an_ordinary_file(calibrated: Spec) -> None:
    again = loads(calibrated.to_yaml())
    assert again.arch == calibrated.arch
    assert again.opencl == calibrated.opencl


def test_reads_and_writes_overlap_if_a_copy_says_so() -> None:
    session = calibration._Session.__new__(calibration._Session)
    rates = {"read": 100.0, "write": 100.0}
    for copy, latency in ((195.0, OVERLAP), (105.0, calibration.DEFAULT_TOTAL_LATENCY)):
        known = {**rates, "copy": copy}
        session.rate = lambda name, known=known: calibration.Rate(known[name.partition(" ")[0]], 0)  # type: ignore[method-assign]
        memory = session.memory("MainMemory", 8.0, shared=True)
        assert memory.total_latency == latency
        assert [action.throughput for action in memory.actions] == [800, 800]


def test_unit_used_by_somebody_else_is_measured_alone() -> None:
    session = calibration._Session.__new__(calibration._Session)
    session.units = 2
    rates = {"x alone": 10.0, "x together": 19.0, "y alone": 10.0, "y together": 11.0}
    session.rate = lambda name: calibration.Rate(rates[name], 0)  # type: ignore[method-assign]
    assert session.of_one_unit("x") == 9.5
    assert session.of_one_unit("y") == 10


def test_a_launch_behind_one_that_works_is_what_its_work_does_not_tell() -> None:
    session = calibration._Session.__new__(calibration._Session)
    seconds = {"launches busy 1": 1e-6 + 50e-6, "launches busy shortly": 1e-6 + 50e-6 / SHORTLY}
    session.rate = lambda name: calibration.Rate(1 / seconds[name], 0)  # type: ignore[method-assign]
    assert session.busy_launch_seconds() == pytest.approx(1e-6)


def test_what_starting_takes_is_no_part_of_what_a_cache_lost() -> None:
    """Of a sample of eight runs: a launch, seven behind ones that work, and eight times half of what the other core begins later."""
    session = calibration._Session.__new__(calibration._Session)
    session.units, session.others, session.bench = 2, 0.0, Bench(find_device(), "float32", 4)
    seconds = {"launches busy 1": 2e-6 + 50e-6, "launches busy shortly": 2e-6 + 50e-6 / SHORTLY}
    session.rate = lambda name: calibration.Rate(1 / seconds[name], 0)  # type: ignore[method-assign]
    session.wake_seconds = lambda: 6e-6  # type: ignore[method-assign]
    starting, working = {1: 10e-6 + 3e-6, 8: 10e-6 + 7 * 2e-6 + 8 * 3e-6}, 100e-6
    session.probes = {"launch": SimpleNamespace(seconds=[10e-6])}  # type: ignore[dict-item]
    for runs, beside in starting.items():
        probe = Probe.__new__(Probe)
        probe.work, probe.repeats, probe.seconds = 8e6, runs, [beside + runs * working]
        session.probes[f"again {runs}_25"] = probe
        assert session._again(f"{runs}_25") == pytest.approx(8e6 / working)


def test_cores_that_work_together() -> None:
    session = calibration._Session.__new__(calibration._Session)
    session.units, session.others, session.bench = 6, 0.0, Bench(find_device(), "float32", 4)
    assert session.counts == [2, 4, 6]
    rates = {"multiply_adds_float32 alone": 10.0, "2 cores": 19.0, "4 cores": 36.0, "multiply_adds_float32 together": 48.0}
    session.rate = lambda name: calibration.Rate(rates[name], 0)  # type: ignore[method-assign]
    assert dict(session.together()) == {f"cores_together_{n}": work for n, work in ((1, 1.25), (2, 2.375), (4, 4.5), (6, 6.0))}
    rates["multiply_adds_float32 together"] = 30.0
    assert dict(session.together())["cores_together_6"] == 3, "cores that are threads of fewer cores: the rate written is of one alone"
    session.others = 0.5
    assert dict(session.together()) == {}, "somebody else was using them"
    session.units = 1
    assert session.counts == []


def test_launches_behind_one_another_are_probed() -> None:
    probe = Bench(find_device(), "float32", 4).launches(2)
    assert probe.launches
    sample_in_turns([probe], 0.02)  # on a busy machine a first sample may look long enough
    assert probe.repeats > 1 and probe.seconds


def test_a_single_launch_is_sampled_behind_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind other probes wakes threads first: no kernel of a measurement does, nor does one of a probe that repeats."""
    probe = Bench(find_device(), "float32", 4).empty(1)
    pauses = [0.02, 0.0]
    monkeypatch.setattr(Probe, "run", lambda self, repeats: time.sleep(pauses.pop(0)))
    assert probe.sample() < 0.02
    assert pauses == []


def test_caches_of_a_listing(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    from feinsum_fuse.device.calibration import caches as module

    root = Path(str(tmp_path))
    listing = [("1", "Data", "32K", "0"), ("1", "Instruction", "32K", "0"), ("2", "Unified", "1024K", "0"), ("3", "Unified", "32M", "0-7")]
    for index, (level, kind, size, shared) in enumerate(listing):
        directory = root / f"index{index}"
        directory.mkdir()
        for name, text in {"level": level, "type": kind, "size": size, "shared_cpu_list": shared, "coherency_line_size": "64"}.items():
            (directory / name).write_text(text + "\n")
    monkeypatch.setattr(module, "_SYSTEM", root)
    assert [c for c in caches(find_device()) if c.level != 1] == [Cache(3, 32 << 20, 64, True), Cache(2, 1 << 20, 64, False)]


def test_a_cache_that_nobody_tells_of_shows_by_its_rate() -> None:
    """Sizes that are read nearer to the fastest rate than to memory's; nothing where memory is about as fast."""
    assert held_bytes({8: 9.0, 16: 10.0, 32: 9.5, 64: 6.0, 128: 4.0, 256: 3.0}) == 64
    assert held_bytes({8: 3.2, 16: 3.3, 32: 3.0}) == held_bytes({}) == 0


def test_of_a_cache_that_a_host_shares_out_the_share_counts() -> None:
    """As two cores of a virtual machine read that was told of 480 MiB; and as those of one that has all of 32 MiB, or nearly."""
    measured = {480: 29.0, 240: 29.3, 120: 28.7, 60: 41.0, 30: 51.0, 15: 52.0}
    assert share_of(480, measured) == 60
    measured = {300: 30.2, 150: 39.9, 75: 51.1, 37: 51.2, 18: 52.1, 9: 51.4, 4: 77.0}
    assert share_of(300, measured) == 75, "of half of it a part is there"
    assert share_of(32, {32: 60.0, 16: 95.0, 8: 100.0}) == 32, "half of it is read faster than all of it: so it is there"
    assert share_of(32, {32: 98.0, 16: 100.0, 8: 101.0}) == share_of(32, {}) == 32
    assert share_of(32, {16: 30.0, 8: 60.0}) == 32, "there was no room for all of it"


def test_a_cache_is_full_before_its_size_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 MB a Xeon finds all only from the fifth run on: as large a share as 120 MB was found to be 60 in one calibration of two."""
    session = calibration._Session(Bench(find_device(), "float32", 4), quick=True)
    runs: list[int] = []
    monkeypatch.setattr(Probe, "run", lambda self, repeats: runs.append(repeats) or ())
    monkeypatch.setattr(Probe, "sample", lambda self: self.seconds.append(1e-3) or runs.append(0))
    sizes = [size for size, _ in session._sweep(1 << 20, 2 << 20, 2)]
    assert sizes == [2 << 20, 1 << 20]
    assert [count for count in runs if count] == [MANY_RUNS] * 2
    first = runs.index(MANY_RUNS)
    assert runs[first + 1 : first + 6] == [0] * 5


def test_a_share_of_the_last_cache_is_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """And memory is measured on so many times what is held, not on so many times what is told."""
    levels = (Cache(3, 480 << 20, 64, True), Cache(2, 2 << 20, 64, False), Cache(1, 48 << 10, 64, False))
    asked: list[int] = []

    def rates(session: object, least: int, most: int, groups: int) -> Iterator[tuple[int, float]]:
        asked.extend((least, most))
        yield from ((most >> power, rate) for power, rate in enumerate((29.0, 29.0, 29.0, 41.0, 51.0, 52.0)))

    monkeypatch.setattr(calibration, "caches", lambda device: levels)
    monkeypatch.setattr(calibration._Session, "_sweep", rates)
    session = calibration._Session(Bench(find_device(), "float32", 4), quick=True)
    assert session.levels == (Cache(3, 60 << 20, 64, True), *levels[1:])
    assert asked == [2 * session.units * (2 << 20), 480 << 20], "beyond what the cores have for themselves"
    assert session._outside() == min(120 << 20, session._room)
    within = max(session.units * (2 << 20), (60 << 20) // 16)
    assert session._working_set(session.levels[0]) == min(int((within * (60 << 20)) ** 0.5), session._outside() // 2), "well within it"
    assert session._working_set(session.levels[1]) == 1 << 20
    assert {name for name, probe in session.probes.items() if probe.warmed_by > 1} == {
        *(f"{kind} {level} together" for kind in PROBE_KINDS for level in ("L3", "L2")),
        *("read L3 alone", "stream L3", "read L2 alone", "write L2 alone", "copy L2 alone", "stream L2"),
        *(f"again own {percent}" for percent in (OWN_PERCENTS if session.units > 1 else ())),
    }, "a cache beyond the nearest wants several runs until it keeps what it can"
    sample_in_turns(session.probes.values(), 0.1)
    arch = session.spec().arch
    assert arch is not None and arch.component("L3").size == 8.0 * (60 << 20)


def test_what_a_core_does_not_hide_is_measured_where_it_computes_as_long_as_it_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten multiply-adds for each line of the second cache, five times as long as it takes, calibrations of a Xeon said 0 to 1."""
    levels = (Cache(3, 32 << 20, 64, True), Cache(2, 1 << 20, 64, False), Cache(1, 32 << 10, 64, False))
    monkeypatch.setattr(calibration, "caches", lambda device: levels)
    monkeypatch.setattr(calibration._Session, "_sweep", lambda *_: iter(()))
    session = calibration._Session(Bench(find_device(), "float32", 4), quick=True)
    streams = {"near": 2.3e-9, "near, brief": 0.6e-9, "L2": 0.8e-9, "L3": 2.9e-9, "MainMemory": 4.1e-9}
    lines = {"L2": 0.5e-9, "L3": 2.4e-9, "MainMemory": 4e-9}
    seconds = {f"stream {name}": taken for name, taken in streams.items()}
    seconds |= {f"read {name} alone": taken / 16 for name, taken in lines.items()}
    assert {name for name in session.probes if name.startswith("stream")} == {f"stream {name}" for name in streams}
    monkeypatch.setattr(session, "rate", lambda name: Rate(1 / seconds[name], 0.0))
    losses = dict(session.overlap_losses())
    assert losses == pytest.approx({"overlap_loss_L2": 0.2 / 0.5, "overlap_loss_L3": 0.5 / 2.3, "overlap_loss_MainMemory": 0.1 / 2.3})


def test_groups_of_work_items_go_through_one_another_s_parts() -> None:
    """A unit of a GPU has a cache of its own that would keep a group's part."""
    assert "get_num_groups" in source_of("PART", "float32", 1, 256, 128)
    assert "get_num_groups" not in source_of("PART", "float32", 8, 1, 64)


def test_disagreement_is_between_the_halves() -> None:
    bench = Bench(find_device(), "float32", 4)
    probe = bench.empty(1)
    probe.seconds = [1.0, 5.0, 9.0, 2.0, 7.0, 8.0]
    assert probe.rate() == Rate(1.0, 1.0)
    probe.seconds = [1.0, 5.0, 9.0, 1.05, 7.0, 8.0]
    assert probe.rate().disagreement == pytest.approx(0.05)


def test_samples_that_look_long_on_a_busy_machine_are_lengthened() -> None:
    probe = Bench(find_device(), "float32", 4).multiply_adds(1)
    probe.repeats = 1
    probe.kernel.set_arg(3, np.int32(1))
    sample_in_turns([probe], 0.05)
    assert probe.repeats > 100
    assert probe.rate().value < 1e12


def test_probes_of_little_memory_are_sampled_on_several_buffers_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, seen = Bench(find_device(), "float32", 4), []
    probe = bench.chained()
    assert len({id(buffer) for pair in probe.places for buffer in pair}) == 2 * PLACES
    assert len(bench.bandwidth("read", PLACED_BYTES + 4096, 1).places) == 1
    own: list[tuple[int, object]] = []
    kernel = SimpleNamespace(set_arg=lambda number, value: own.append((number, value)))
    monkeypatch.setattr(probe, "kernel", kernel)
    monkeypatch.setattr(probe, "run", lambda repeats: seen.append(dict(own)))
    for _ in range(PLACES + 1):
        probe.sample()
    used = [(one[0], one[1]) for one in seen[:: len(seen) // (PLACES + 1)]]
    assert used == [*probe.places, probe.places[0]]


def test_probe_does_the_work_that_it_counts() -> None:
    bench = Bench(find_device(), "float32", 4)
    one, two = bench.multiply_adds(1), bench.bandwidth("read", 1 << 14, 1)
    sample_in_turns([one, two], 0.05)
    assert min(len(one.seconds), len(two.seconds)) >= 5
    assert one.rate().value > 0 and two.rate().value > 0


def test_of_lengths_that_are_as_fast_the_usual_one_is_that_of_a_register() -> None:
    """Units that are half as wide as registers compute as fast in halves; those that are narrower than what a driver reports do not."""
    widths = [16, 32, 64]
    assert usual_length(widths, [58, 115, 116], register=64) == 2
    assert usual_length(widths, [58, 115, 116], register=32) == 1
    assert usual_length(widths, [58, 115, 60], register=64) == 1
    assert usual_length(widths, [110, 115, 60], register=64) == 0


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
def test_functions_take_of_a_map_what_they_were_measured_at(device: cl.Device) -> None:
    """Ten logarithms whose values stay in registers took one and a half times as long on one compiler: kernels have none such."""
    text = CoreBench(Bench(device, "float32", 8), 1 << 26)._functions(Bench(device, "float32", 8)).executable.source
    log = text.partition("void probe_log(")[2].partition("}\n")[0]
    assert "y[i] = " in log and "x[i]" in log and "a9 = " not in log
    assert "a9 = " in text.partition("void probe_max(")[2].partition("}\n")[0], "of one instruction a map would be its stores"


def test_indices_of_probes_are_written_as_those_of_kernels() -> None:
    """Sums of products: compilers do not see in products of sums that iterations are neighbours."""
    assert not [name for name, body in BODIES.items() if re.search(r"\[[^\]]*\) \*", body)]
