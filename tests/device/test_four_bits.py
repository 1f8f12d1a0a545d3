"""Programs that read weights in four bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.program.export import export
from feinsum_fuse.errors import DeviceError


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("text", "sizes", "group"),
    [
        ("Z[m] = W[m,k] * x[k]", {"M": 40, "K": 64}, 32),
        ("Z[m] = W[m,k] * x[k]", {"M": 3, "K": 13}, 4),
        ("Z[m] = W[m,k] * x[k]", {"M": 1, "K": 1}, 2),
        ("Z[m,n] = W[m,k] * x[k,n]", {"M": 17, "N": 24, "K": 40}, 32),
    ],
)
def test_products(text: str, sizes: dict[str, int], group: int) -> None:
    cascade = ff.cascade([text], sizes=sizes).in_four_bits("W", group)
    program = ff.compile(cascade)
    packed, scales = ff.quantize4(numbers(sizes["M"], sizes["K"]), group)
    x = numbers(*program.input_shapes["x"])
    found = program(W_packed=packed, W_scales=scales, x=x)["Z"]
    expected = ff.dequantize4(packed, scales, sizes["K"]).astype("f8") @ x
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("given", ["W x", "W W_packed W_scales x"])
def test_whoever_passes_the_numbers_is_told_how_to_pass_them(given: str) -> None:
    """The tensor itself in place of its two, and beside them."""
    program = ff.compile(ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 6, "K": 8}).in_four_bits("W", 4))
    packed, scales = ff.quantize4(numbers(6, 8), 4)
    arrays = {"W": numbers(6, 8), "W_packed": packed, "W_scales": scales, "x": numbers(8)}
    with pytest.raises(DeviceError, match="four bits: W_packed, W_scales") as told:
        program(**{name: arrays[name] for name in given.split()})
    assert "group=4" in told.value.hint


def test_numbers_are_taken_apart_on_vectors(tmp_path: Path) -> None:
    cascade = ff.cascade(["Z[m] = W[m,k] * x[k]"], sizes={"M": 12, "K": 64}).in_four_bits("W")
    program = ff.compile(cascade)
    assert "vload_global_uchar16(W_packed[" in program.source and "vconvert" not in program.source
    assert ff.match(cascade.kernel()).cascade.key == cascade.key
    url = f"sqlite:///{tmp_path}/facts.sqlite3"
    ff.record(ff.measure(program, repeats=2), url=url)
    assert len(ff.query(cascade, program.device, url=url)) == 1
    export(program.executable, tmp_path / "files")
    assert "typedef uint8_t W_packed_element;" in (tmp_path / "files" / "program.h").read_text()


def test_scalars() -> None:
    bytes_ = np.arange(256, dtype=np.uint8)
    cascade = ff.cascade(["Z[i] = 16*high4(B[i]) + low4(B[i])"], sizes={"I": 256}, dtypes={"B": "uint8", "Other": "float64"})
    found = ff.compile(cascade)(B=bytes_)["Z"]
    np.testing.assert_array_equal(found, bytes_.astype(float) - 136)


SIXTEEN_LANES = """
workload:
  rank_sizes: {I: 250}
  bits_per_value: {All: 32}
  einsums:
    - "Z[i] = 16*high4(B[i]) + low4(B[i])"
mapping:
  nodes:
    - !Storage {tensors: [B, Z], component: MainMemory}
    - !Temporal {rank_variable: i, tile_shape: 16}
    - !Spatial {rank_variable: i, tile_shape: 1, name: lane, component: Lane}
    - !Compute {einsum: Z, component: MAC}
opencl:
  memories: {MainMemory: global}
  fanouts: {Lane: vector}
  dtypes: {B: uint8, Z: float32}
"""


def test_the_widest_vectors_are_taken_apart_by_halves() -> None:
    """Where a compiler cannot convert them whole, it ended the process."""
    given = np.arange(250, dtype=np.uint8)
    found = ff.compile(ff.loads(SIXTEEN_LANES), "portable")(B=given)["Z"]
    np.testing.assert_array_equal(found, 16.0 * (given // 16 - 8.0) + (given % 16 - 8.0))
