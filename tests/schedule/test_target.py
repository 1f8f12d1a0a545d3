"""What a kernel is written for, as a plain value: the neutral target, its figures, and its quirks."""

from __future__ import annotations

import dataclasses

import pytest

from feinsum_fuse.schedule.target import ANY_DEVICE, POCL, DeviceLimits, Quirks, Target


def test_a_target_has_no_quirk_that_nobody_names() -> None:
    assert Target().quirks == Quirks()
    assert not any(dataclasses.astuple(Quirks()))


def test_the_neutral_target_avoids_every_quirk() -> None:
    """But for that of compilers that find no instruction for words of bytes, whose text is right everywhere."""
    assert ANY_DEVICE.quirks == POCL
    assert {name for name, is_set in dataclasses.asdict(ANY_DEVICE.quirks).items() if not is_set} == {"unknown_instructions"}
    assert dataclasses.replace(ANY_DEVICE, quirks=Quirks()) == Target()


def test_the_neutral_targets_limits() -> None:
    assert ANY_DEVICE.limits == DeviceLimits(4096, (4096, 4096, 4096), 1 << 20, 6 << 20)


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 8), ("float64", 4), ("int64", 4), ("float16", 16), ("int8", 16)])
def test_lanes_of_an_element_type(dtype: str, lanes: int) -> None:
    assert ANY_DEVICE.lanes(dtype) == lanes


def test_scalars_where_vectors_are_of_no_use() -> None:
    assert [Target(widest_vector=1).lanes(dtype) for dtype in ("int8", "float64")] == [1, 1]
    assert Target(vector_bytes=4).lanes("float64") == 1
