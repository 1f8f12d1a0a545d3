"""Names that compilers, headers or loopy use for something else are others in the text, for good."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.names import identifier, is_reserved
from feinsum_fuse.device.catalogue import devices, find_device
from tests.attack.compiler_words import header_words, library_words, refused
from tests.sweeps import SLOW

WORDS = """
    NULL _Complex _Imaginary _Bool _Atomic _Generic _Float16 _BitInt __kernel __attribute__ vec_step pipe addrspace_cast generic uniform
    linux unix this class template asm typeof constexpr alignas bool true complex imaginary convert_float8_rte as_uint4 atomic_add
    read_imagef vload16 vstore_half8_rtz image2d_array_msaa_t CLK_LOCAL_MEM_FENCE cl_khr_fp16
    intel_sub_group_shuffle get_global_id FLT_MAX M_PI_F
    INT_MAX HALF_MAX HALF_MIN_10_EXP
    double4 size_t ndrange_t work_group_barrier sub_group_reduce_add HUGE_VALF printf barrier memory_order_relaxed float3x3 half16
"""


@pytest.mark.parametrize("device", devices() or [None], ids=lambda device: device.platform.name.split()[0] if device else "none")
def test_no_word_of_a_compiler_is_left(device: cl.Device) -> None:
    """``python -m tests.attack.compiler_words`` asks of every word in the compilers' own libraries; the fast suite takes a hundredth."""
    words = (*WORDS.split(), *header_words(), *library_words(device, 1 if SLOW else 100))
    assert not refused(device, map(identifier, words))


@pytest.mark.parametrize("device", devices() or [None], ids=lambda device: device.platform.name.split()[0] if device else "none")
def test_words_of_a_compiler_are_seen(device: cl.Device) -> None:
    assert refused(device, ["A", "NULL", "float", "x"]) == ["NULL", "float"]


@pytest.mark.parametrize("word", WORDS.split())
def test_words_are_others_in_the_text(word: str) -> None:
    assert identifier(word) != word
    assert not is_reserved(identifier(word))


@pytest.mark.parametrize("name", ["A", "x", "Q", "weights", "T1", "hidden_state", "asset", "gets", "clock", "image", "reader", "m_0"])
def test_other_names_stay(name: str) -> None:
    assert identifier(name) == name


def test_tensors_of_such_names_compute() -> None:
    cascade = ["NULL[pipe, step] = _Complex[pipe, asm] * vec_step[asm, step]", "linux[pipe] = NULL[pipe, step] + __kernel[step]"]
    names = ("pipe", "asm", "step")
    made = ff.cascade(cascade, sizes={name.upper(): size for name, size in zip(names, (5, 7, 3), strict=True)}, dtypes={"All": "float32"})
    program = ff.compile(ff.spec(made), find_device())
    inputs = {name: np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32) for name, shape in program.input_shapes.items()}
    product = inputs["_Complex"] @ inputs["vec_step"]
    np.testing.assert_allclose(program(**inputs)["linux"], (product + inputs["__kernel"]).sum(axis=1), rtol=1e-4, atol=1e-5)
