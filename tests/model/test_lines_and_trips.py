"""Lines that runs touch, and iterations of loops under limits, against counting them one by one."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from random import Random

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.affine import Affine
from feinsum_fuse.model.kernel.basic_blocks import average_trips
from feinsum_fuse.model.kernel.kernel_time import seconds_a_line
from feinsum_fuse.model.kernel.line_traffic import Fetched, touched
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.schedule.tree.nest import For

DEVICE_FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "fidelity" / "data" / "xeon_avx512" / "device.yaml"


@pytest.mark.parametrize(("run", "apart"), [(4, 4), (64, 64), (64, 4), (64, 16), (72, 8), (200, 8), (256, 64), (32, 32), (1000, 4)])
def test_lines_of_runs_that_start_anywhere(run: int, apart: int) -> None:
    counted = [len({(start + byte) // 64 for byte in range(run)}) for start in range(0, 64, apart)]
    assert touched(run, 64, apart) == pytest.approx(statistics.fmean(counted))


@pytest.mark.parametrize("seed", range(6))
def test_iterations_under_limits_are_counted(seed: int) -> None:
    random = Random(seed)
    names, extents = ["a", "b"], [random.randint(1, 9), random.randint(1, 30)]
    outer = [For(name, extent, ()) for name, extent in zip(names, extents, strict=True)]
    limits = tuple(
        Affine.of({"x": random.choice((-3, -1, 0, 2)), "a": random.randint(-3, 3), "b": random.randint(-2, 2)}, random.randint(-4, 20))
        for _ in range(3)
    )
    found = average_trips(For("x", 7, (), limits), outer)
    points = [dict(zip(names, at, strict=True)) for at in itertools.product(*map(range, extents))]

    def runs(values: dict[str, int]) -> int:
        return sum(all(sum(f * values[n] for n, f in k.terms) + k.constant >= 0 for k in limits) for values["x"] in range(7))

    assert found == pytest.approx(statistics.fmean(map(runs, points)))


def test_lines_that_nobody_foresaw_take_a_core_longer() -> None:
    machine = Machine.of(ff.loads(DEVICE_FILE.read_text()))
    assert machine is not None
    own, *_, shared = machine.levels
    alone, foreseen = Fetched(1.0, 64, 8192, False, 1.0), Fetched(1.0, 64, 8192, False, 0.0)
    assert seconds_a_line(machine, shared, alone) == machine.seconds("lone_line") > seconds_a_line(machine, shared, foreseen)
    assert seconds_a_line(machine, own, alone) == seconds_a_line(machine, own, foreseen)
