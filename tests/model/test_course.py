"""What memories hold as loops run: the model's peak is reached and never passed, and tiles come and go with their loops."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.course import MOST_STEPS, MemoryCourse, memory_courses
from feinsum_fuse.model.hardware.placement import place_caches


def matvecs(root: Path, mapping: str) -> Spec:
    return ff.load(*(root / "examples" / "matvecs" / f"{part}.yaml" for part in ("workload", "arch", mapping)))


def course(spec: Spec) -> MemoryCourse:
    (found,) = memory_courses(place_caches(spec), ff.predict(spec))
    return found


@pytest.mark.parametrize("mapping", ["mapping", "mapping_a_above", "mapping_a_off_chip", "mapping_unfused"])
def test_the_peak_is_the_most_of_any_step(root: Path, mapping: str) -> None:
    spec = matvecs(root, mapping)
    found = course(spec)
    assert max(sum(tile.bits for tile in step.tiles) for step in found.steps) == ff.predict(spec).peak["OnChipBuffer"]
    assert found.memory == "OnChipBuffer" and len(found.steps) <= MOST_STEPS


def test_tiles_come_and_go_with_their_loops(root: Path) -> None:
    """WA's row stays for an iteration of nA while EinsumA runs; I's value for one of nI; A's for EinsumB, too."""
    found = course(matvecs(root, "mapping"))
    names = [step.name for step in found.steps]
    assert names[:4] == ["EinsumA nA=0 nI=0", "EinsumA nA=0 nI=1", "EinsumA nA=0 nI=2", "EinsumB nA=0 nB=0"]
    first, second, third, last = ({tile.tensor: tile for tile in found.steps[n].tiles} for n in (0, 1, 3, 6))
    assert first["WA"] == second["WA"] and first["I"] != second["I"]
    assert first["A"] == third["A"] and "WA" not in third
    assert last["A"] != first["A"] and last["WA"] != first["WA"]
    assert found.left_out == "3 of 64 of nA, 3 of 64 of nI, 3 of 64 of nB"


def test_the_steps_of_an_einsum_share_its_time(root: Path) -> None:
    spec = matvecs(root, "mapping_unfused")
    prediction = ff.predict(spec)
    for step in course(spec).steps:
        runs = math.prod(count for _, _, count in step.iterations)
        assert step.seconds * runs == pytest.approx(prediction.einsum_latency[step.einsum])
