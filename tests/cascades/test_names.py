"""Names that compilers, headers or loopy use for something else are others in the text, for good."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.names import identifier, is_reserved
from feinsum_fuse.device.catalogue import devices, find_device
from feinsum_fuse.device.runtime.loaded import context_of

WORDS = """
    NULL _Complex _Imaginary _Bool _Atomic _Generic _Float16 _BitInt __kernel __attribute__ vec_step pipe addrspace_cast generic uniform
    linux unix this class template asm typeof constexpr alignas bool true complex imaginary convert_float8_rte as_uint4 atomic_add
    read_imagef vload16 vstore_half8_rtz image2d_array_msaa_t CLK_LOCAL_MEM_FENCE cl_khr_fp16
    intel_sub_group_shuffle get_global_id FLT_MAX M_PI_F
    INT_MAX double4 size_t ndrange_t work_group_barrier sub_group_reduce_add HUGE_VALF printf barrier memory_order_relaxed float3x3 half16
"""


def headers() -> list[str]:
    """Every word in the headers that PoCL's compiler reads; none where they are not found."""
    try:
        from pocl_binary_distribution import __file__ as package
    except ImportError:
        return []
    files = Path(package).parent.rglob("opencl-c*.h")
    code = [re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read_text(errors="replace"), flags=re.DOTALL) for file in files]
    return sorted({word for text in code for word in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)})


def source_with(names: list[str]) -> str:
    """A kernel for each name, with an argument and a variable that are called so."""
    kernels = (
        f"__kernel void k{number}(__global float *{name}, int at_) {{ {name}[at_] = 1; {{ float {name} = at_; if ({name} < 0) return; }} }}"
        for number, name in enumerate(names)
    )
    return "\n".join(kernels)


@pytest.mark.parametrize("device", devices() or [None], ids=lambda device: device.platform.name.split()[0] if device else "none")
def test_no_word_of_a_compiler_is_left(device: cl.Device) -> None:
    names = sorted({identifier(word) for word in (*WORDS.split(), *headers())})
    cl.Program(context_of(device), source_with(names)).build()


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
