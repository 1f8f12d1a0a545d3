"""Numbers in four bits: layout, errors of rounding, awkward lengths."""

from __future__ import annotations

import numpy as np
import pytest

import feinsum_fuse as ff


def test_layout() -> None:
    packed, scales = ff.quantize4([[-8.0, 1.0, 7.0, 0.0, 4.0, -2.0, 0.0, 1.0]], group=4)
    assert (packed.dtype, packed.shape, scales.dtype, scales.shape) == (np.uint8, (1, 2, 2), np.float32, (1, 2))
    np.testing.assert_array_equal(scales, [[1.0, -0.5]])
    # Element h of a group is in the low bits of byte h, element h + 2 in the high ones.
    np.testing.assert_array_equal(packed[0, 0], [0 | 15 << 4, 9 | 8 << 4])
    np.testing.assert_array_equal(packed[0, 1], [0 | 8 << 4, 12 | 6 << 4])


@pytest.mark.parametrize(("length", "group"), [(1, 2), (7, 4), (13, 6), (64, 32), (70, 32), (97, 128)])
def test_rounding(length: int, group: int) -> None:
    array = np.random.default_rng(1).normal(size=(3, 5, length))
    packed, scales = ff.quantize4(array, group)
    groups = -(-length // group)
    assert packed.shape == (3, 5, groups, group // 2) and scales.shape == (3, 5, groups)
    found = ff.dequantize4(packed, scales, length)
    factors = np.repeat(np.abs(scales), group, axis=-1)[..., :length]
    opposite = np.sign(array) == np.sign(np.repeat(scales, group, axis=-1)[..., :length])
    assert (np.abs(found - array) <= factors * np.where(opposite, 1.0001, 0.5001)).all()
    filled = ff.dequantize4(packed, scales)[..., length:]
    assert filled.shape[-1] == groups * group - length and not filled.any()
    np.testing.assert_array_equal(ff.quantize4(np.zeros((2, length)), group).scales, 0)


def test_long_arrays_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(1).normal(size=(9, 8)).astype(np.float32)
    whole = ff.quantize4(array, 4)
    monkeypatch.setattr("feinsum_fuse.quantization._ELEMENTS", 16)
    for one, other in zip(whole, ff.quantize4(array, 4), strict=True):
        np.testing.assert_array_equal(one, other)
    assert ff.quantize4(np.zeros((0, 8)), 4).packed.shape == (0, 2, 2) and ff.quantize4(np.zeros((2, 0)), 4).scales.shape == (2, 0)


@pytest.mark.parametrize("group", [0, 1, 3, -2, 2.0, True, "32", 1 << 20])
def test_groups_that_are_refused(group: object) -> None:
    with pytest.raises(ff.UnsupportedTypeError, match="cannot lie two to a byte"):
        ff.quantize4(np.ones(4), group)  # type: ignore[arg-type]


@pytest.mark.parametrize("array", [3.0, [1j, 2j], ["a"], [True], [np.nan, 1.0], [np.inf]])
def test_arrays_that_are_refused(array: object) -> None:
    with pytest.raises(ff.UnsupportedTypeError, match="cannot be quantized"):
        ff.quantize4(array, 2)  # type: ignore[arg-type]


def test_parts_that_do_not_go_together() -> None:
    packed, scales = ff.quantize4(np.ones((2, 8)), 4)
    for wrong in ((packed.astype(int), scales), (packed, scales[:1]), (packed[0, 0], scales)):
        with pytest.raises(ff.UnsupportedTypeError, match="are no numbers in four bits"):
            ff.dequantize4(*wrong)
    with pytest.raises(ff.UnsupportedTypeError, match="9 is no length of 8"):
        ff.dequantize4(packed, scales, 9)


@pytest.mark.parametrize(
    "array",
    [
        *([[1, 2], [3]], np.zeros(3, "V4"), np.ma.masked_array([1.0, 2.0], [1, 0])),
        *(np.broadcast_to(np.float32(1), (2**24, 2**24)), [1e400], [object()]),
    ],
    ids=["ragged", "bytes", "masked", "huge", "infinite", "objects"],
)
def test_what_has_no_numbers_is_refused(array: object) -> None:
    with pytest.raises(ff.UnsupportedTypeError):
        ff.quantize4(array)  # type: ignore[arg-type]
    with pytest.raises(ff.UnsupportedTypeError):
        ff.dequantize4(array, array)  # type: ignore[arg-type]
