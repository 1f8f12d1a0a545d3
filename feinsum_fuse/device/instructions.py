"""Which instruction a device's compiler takes for dot products of 8-bit integers; its preprocessor is asked, and nothing runs."""

from __future__ import annotations

import pyopencl as cl

from ..codegen.executable import Executable
from ..schedule.intrinsics.product_text import DOT_INSTRUCTIONS
from .runtime.loaded import Loaded, context_of


def dot_instruction(device: cl.Device) -> str | None:
    """The name of the instruction, such as ``AVX-512 VNNI``; ``None`` if products are taken in halves of 16 bits."""
    conditions = list(DOT_INSTRUCTIONS.values())
    cases = [f"#{'el' * bool(k)}if {condition}\n#define SHAPE {k + 2}, 1, 1\n" for k, condition in enumerate(conditions)]
    kernel = "__kernel __attribute__((reqd_work_group_size(SHAPE)))\nvoid asked(__global int *x) { x[0] = 0; }\n"
    source = f"{''.join(cases)}#else\n#define SHAPE 1, 1, 1\n#endif\n{kernel}"
    try:
        program = Loaded(Executable(source, (), (), ()), context_of(device)).program
        shape = cl.Kernel(program, "asked").get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device)
    except cl.Error:
        return None
    return dict(enumerate(DOT_INSTRUCTIONS, 2)).get(int(shape[0]))
