"""Vectors of work-items: called aligned only where every place is a multiple of their length, and right on PoCL at awkward sizes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pymbolic import parse

import feinsum_fuse as ff
from feinsum_fuse.cascades.names import chosen_names
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.mappings.default_mapping import default_spec
from feinsum_fuse.schedule.kernel.coalescing import divisor
from feinsum_fuse.schedule.target import ANY_GPU, POCL, DeviceLimits

GPU = dataclasses.replace(ANY_GPU, units=1, items_in_step=8, limits=DeviceLimits(64, (64, 64, 64), 32 << 10, 1 << 20), quirks=POCL)
"""So small that little work is enough for it, and with what PoCL gets wrong avoided: its kernels run there."""


def made(lines: list[str], **sizes: int) -> tuple[ff.Cascade, Executable]:
    """The default kernel for the GPU."""
    cascade = ff.cascade(lines, sizes=sizes)
    spec = default_spec(cascade, target=GPU)
    arrays = chosen_names(cascade).arrays
    kernel = lower(spec, target=GPU).apply(cascade.kernel(), target=GPU)
    found = executable(kernel, outputs=[arrays[tensor] for tensor in cascade.outputs], target=GPU)
    return cascade, found.renamed({array: tensor for tensor, array in arrays.items()})


def behind_four_bytes(array: np.ndarray) -> np.ndarray:
    """The same numbers where no vector begins."""
    return np.frombuffer(b"\0" * 4 + array.tobytes(), array.dtype, offset=4).reshape(array.shape)


@pytest.mark.parametrize(
    ("index", "number"),
    [("8*i + 4*j", 4), ("8*i + 2", 2), ("4*(i % 6)", 4), ("(12*i) % 8", 4), ("6*i*2*j", 12), ("i//2", 1), ("0", 0), ("4*(i // 3) + 8", 4)],
)
def test_what_divides_an_index(index: str, number: int) -> None:
    assert divisor(parse(index)) == number


@pytest.mark.parametrize(
    ("lines", "sizes", "aligned"),
    [
        (["Y[m] = 2 * A[m] + B[m]"], {"M": 20_000}, {"A": 4, "B": 4, "Y": 4}),
        (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 8200, "N": 256, "K": 9}, {"B": 4, "Z": 4}),
        (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 8201, "N": 254, "K": 8}, {"B": 2, "Z": 2}),
        (["Z[m,n] = A[m,k] * B[k,n]"], {"M": 37, "N": 257, "K": 8}, {}),
        (["Z[m,n] = A[m,k] * B[k,n]", "Y[m,n] = exp(Z[m,n])"], {"M": 129, "N": 300, "K": 8}, {"Y": 2}),
        (["Y[n,m] = A[m,n]"], {"M": 256, "N": 256}, {}),
        (["Y[m] = A[m]"], {"M": 1}, {}),
    ],
    ids=["elementwise", "product", "pairs", "odd", "two", "transposed", "one"],
)
def test_work_items_move_vectors_where_rows_are_made_of_them(lines: list[str], sizes: dict[str, int], aligned: dict[str, int]) -> None:
    """An odd row, or one that others cross, leaves single elements; arrays have to begin where vectors may."""
    cascade, found = made(lines, **sizes)
    assert dict(found.vectors).items() >= aligned.items()
    assert ("vloadaligned" in found.source) == bool(aligned)
    assert "vload_global" not in found.source
    assert all(found.alignment(name) == 4 * lanes for name, lanes in found.vectors)
    trial = example(cascade)
    # Where the device shares the host's memory, arrays that begin elsewhere are copied to where vectors may.
    for inputs in (trial.inputs, {name: behind_four_bytes(array) for name, array in trial.inputs.items()}):
        results = Runner(found, find_device("Portable"))(inputs)
        for name, expected in trial.expected.items():
            np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-4)


def test_processors_move_vectors_anywhere() -> None:
    cascade = ff.cascade(["Y[m] = 2 * A[m]"], sizes={"M": 4096})
    kernel = lower(default_spec(cascade)).apply(cascade.kernel())
    found = executable(kernel)
    assert "aligned_" not in found.source and found.vectors == ()
