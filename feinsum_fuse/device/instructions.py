"""Which instruction a device's compiler takes for dot products of 8-bit integers; its preprocessor is asked, and nothing runs."""

from __future__ import annotations

import pyopencl as cl

from ..schedule.intrinsics.product_text import DOT_INSTRUCTIONS
from .runtime.loaded import context_of


def dot_instruction(device: cl.Device) -> str | None:
    """The name of the instruction, such as ``AVX-512 VNNI``; ``None`` if products are taken in halves of 16 bits."""
    for name, condition in DOT_INSTRUCTIONS.items():
        source = f"#if !({condition})\n#error\n#endif\n__kernel void asked(__global int *x) {{ x[0] = 0; }}\n"
        try:
            cl.Program(context_of(device), source).build()
        except cl.Error:
            continue
        return name
    return None
