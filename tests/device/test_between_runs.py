"""What a last cache loses between runs, as probes of a calibration say."""

from __future__ import annotations

import math
from unittest.mock import patch

import pytest

from feinsum_fuse.device.calibration.between_runs import NAMES, OWN_PERCENTS, PERCENTS, figures, own_figures, own_probes, probes
from feinsum_fuse.device.calibration.probes import Bench, Probe, sample_in_turns
from feinsum_fuse.device.catalogue import find_device


def test_lost_is_the_part_of_main_memorys_time_that_a_run_takes() -> None:
    """A run at twice memory's rate has lost half; one that samples put below memory's rate has lost all."""
    rates = dict.fromkeys(NAMES, 2e10) | {"1_200": 0.9e10}
    found = dict(figures(rates.__getitem__, 6e10, 1e10))
    assert found == pytest.approx({f"last_cache_lost_{name}": 1.0 if name == "1_200" else 0.5 for name in NAMES})


def test_a_run_about_as_fast_as_the_last_cache_has_lost_nothing() -> None:
    """Of a quarter and half of the cache on a quiet host; where a busy one's other guests take of it a part is lost of these, too."""
    assert min(PERCENTS) <= 25
    rates = dict.fromkeys(NAMES, 2e10) | {"1_25": 5.8e10, "8_25": 6.1e10}
    found = dict(figures(rates.__getitem__, 6e10, 1e10))
    assert found["last_cache_lost_1_25"] == found["last_cache_lost_8_25"] == 0
    assert found["last_cache_lost_1_50"] == found["last_cache_lost_8_50"] == pytest.approx(0.5)


def test_its_probes_run_behind_others_as_programs_do() -> None:
    """Before a sample: others' data, then a run that is not timed. A sample is of whole runs, each over all of its bytes."""
    bench = Bench(find_device(), "float32", 4)
    found = dict(probes(bench, 1 << 20, 4 << 20, 8))
    assert tuple(found) == NAMES
    probe = found["8_100"]
    assert probe.between is not None and probe.work == 1 << 20 and probe.between.work == 4 << 20
    ran: list[tuple[bool, int]] = []
    with patch.object(Probe, "run", lambda one, repeats: ran.append((one is probe, repeats))):
        probe.sample()
    assert ran == [(False, 1), (True, 1), (True, 8)]
    sample_in_turns(found.values(), 0.01)
    assert all(0 < part <= 1 for part in dict(figures(lambda name: found[name].rate().value, math.inf, 1e9)).values())


def test_of_a_cores_own_cache_lost_is_how_far_a_run_is_from_the_rate_of_what_lies_beyond() -> None:
    """A byte takes 1 ns from the cache and 5 from beyond it; in 2 ns a quarter was lost, and as soon as the cache nothing."""
    seconds = dict(zip(OWN_PERCENTS, (0.9, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0), strict=True))
    found = dict(own_figures(lambda percent: 1e9 / seconds[percent], 1e9, 0.2e9))
    lost = (0, 0, 0.25, 0.5, 0.75, 1, 1)
    assert found == pytest.approx({f"own_cache_lost_{percent}": part for percent, part in zip(OWN_PERCENTS, lost, strict=True)})


def test_less_data_lose_no_more() -> None:
    """Of a short run a larger part is what starting it takes, of which a calibration may be wrong."""
    seconds = dict(zip(OWN_PERCENTS, (3.0, 2.0, 1.4, 2.0, 3.0, 4.0, 5.0), strict=True))
    found = [part for _, part in own_figures(lambda percent: 1e9 / seconds[percent], 1e9, 0.2e9)]
    assert found == pytest.approx([0.1, 0.1, 0.1, 0.25, 0.5, 0.75, 1.0])


def test_cores_go_through_their_own_caches_worth_of_an_array_of_its_own() -> None:
    """Launch by launch; a buffer that other probes share would lie on other pages than an array of that size does."""
    bench = Bench(find_device(), "float32", 4)
    found = dict(own_probes(bench, 1 << 20, 2, 8))
    assert tuple(found) == OWN_PERCENTS
    assert [probe.work for probe in found.values()] == [2 * (1 << 20) * percent // 100 for percent in OWN_PERCENTS]
    assert all(probe.launches and probe.kernel is not None and probe.repeats > 1 for probe in found.values())
    buffers = {buffer.int_ptr for probe in found.values() for place in probe.places for buffer in place}
    assert len(buffers) == 2 * len(OWN_PERCENTS)
