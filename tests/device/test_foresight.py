"""What caches foresee, as probes of a calibration say."""

from __future__ import annotations

import math

import pytest

from feinsum_fuse.device.calibration.foresight import ForesightBench, figures, halfway
from feinsum_fuse.device.calibration.probes import Bench, sample_in_turns
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.model.processor import FIGURES


def core_with(rows: int, step: int) -> dict[str, float]:
    """Seconds of a line of each probe on a core whose caches follow so many rows and steps up to this one."""
    found = {f"{count}_rows": 2e-9 if count <= rows else 4e-9 for count in (4, 8, 16, 32, 64, 128)}
    found |= {f"{lines}_lines": 3e-9 if lines < 16 else 2e-9 for lines in (1, 4, 16, 64)}
    return found | {f"{apart}_bytes": 2e-9 if apart <= step else 3e-9 for apart in (64, 128, 256, 512, 1024, 2048, 4096, 8192)}


@pytest.mark.parametrize(("rows", "step"), [(32, 2048), (16, 64)])
def test_caches_say_what_they_foresee(rows: int, step: int) -> None:
    """Between the last that is foreseen and the first that is not lies a factor of two."""
    found = figures(core_with(rows, step).__getitem__, 64)
    assert found["followed_rows"] == pytest.approx(rows * math.sqrt(2))
    assert found["far_bytes"] == pytest.approx(step * math.sqrt(2))
    assert found["foreseen_bytes"] == 2 * 4 * 64, "between pieces of four lines and of sixteen"
    assert set(found) <= set(FIGURES)


def test_halfway_is_on_a_line_between_logarithms() -> None:
    assert halfway({4: 1.0, 8: 1.0, 16: 2.0, 32: 3.0}) == pytest.approx(16)
    assert halfway({4: 2.0, 8: 1.0, 16: 1.0}) == 16, "times that fall show nothing that is not foreseen"


def test_its_probes_run_and_do_the_work_that_they_count() -> None:
    bench = Bench(find_device(), "float32", 4)
    probes = dict(ForesightBench(bench, 1 << 20).probes())
    for probe in probes.values():
        probe.repeats = 1
    sample_in_turns(probes.values(), 0.01)
    found = figures(lambda name: 1 / probes[name].rate().value, 64)
    assert 4 <= found["followed_rows"] <= 128 and 64 <= found["far_bytes"] <= 8192
