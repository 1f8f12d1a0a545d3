"""What the inner loop of a kernel consists of, read from the binary that PoCL made of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyopencl as cl

_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
_BACK = re.compile(r"^j\w+$")
LONGEST = 1000
"""Instructions of a loop that counts as an inner one."""


def inner_loop(source: str, options: Sequence[str], device: cl.Device) -> str:
    """Of all loops without a loop inside, in all kernels: the one with the most vector arithmetic, by kinds of instructions."""
    if shutil.which("objdump") is None or not device.platform.name.startswith("Portable"):
        return "needs objdump and PoCL"
    best: Counter[str] = Counter()
    for body in _loops(disassembled(source, options)):
        mix = Counter(kind for name, operands in body for kind in _kinds(name, operands))
        if (mix["multiply-adds"], mix["arithmetic"]) > (best["multiply-adds"], best["arithmetic"]):
            best = mix
    return ", ".join(f"{count} {kind}" for kind, count in sorted(best.items())) or "no inner loop"


def disassembled(source: str, options: Sequence[str]) -> str:
    """All kernels of a text: built and run once by a child whose cache is its own, since PoCL compiles when a kernel is started."""
    code = (
        "import sys, pyopencl as cl, numpy as np\n"
        "from feinsum_fuse.device.catalogue import find_device\n"
        "d = find_device(); c = cl.Context([d]); q = cl.CommandQueue(c)\n"
        "p = cl.Program(c, open(sys.argv[1]).read()).build(options=sys.argv[2:])\n"
        "b = cl.Buffer(c, cl.mem_flags.READ_WRITE, 1 << 28)\n"
        "for k in p.all_kernels():\n"
        "    n = k.num_args\n"
        "    k.set_args(*[b] * n)\n"
        "    local = k.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, d)\n"
        "    local = tuple(max(1, x) for x in local)\n"
        "    cl.enqueue_nd_range_kernel(q, k, local, local)\n"
        "q.finish()\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "kernel.cl"
        text.write_text(source)
        environment = {**os.environ, "POCL_CACHE_DIR": folder, "PYOPENCL_NO_CACHE": "1"}
        command = [sys.executable, "-c", code, str(text), *options]
        subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
        files = [str(file) for file in Path(folder).rglob("*.so")]
        show = ["objdump", "-d", "--no-show-raw-insn", "-M", "intel"]
        return "\n".join(subprocess.run([*show, file], capture_output=True, text=True, check=True).stdout for file in files)


def _loops(text: str) -> Iterator[list[tuple[str, str]]]:
    """The instructions (name, operands) of each loop that holds no other: what lies between a jump back and its aim."""
    lines = [(int(m[1], 16), m[2], m[3]) for m in map(_LINE.match, text.splitlines()) if m]
    where = {}
    for number, (address, name, operands) in enumerate(lines):
        where[address] = number
        if _BACK.match(name) and (aim := re.match(r"([0-9a-f]+)", operands)):
            start = where.get(int(aim[1], 16))
            if start is not None and 0 < number - start <= LONGEST:
                body = [(n, o) for _, n, o in lines[start : number + 1]]
                if not any(_BACK.match(n) for n, _ in body[:-1]):
                    yield body


def _kinds(name: str, operands: str) -> Iterator[str]:
    """What an instruction does, as often as it counts."""
    width = next((bits for register, bits in (("zmm", 512), ("ymm", 256), ("xmm", 128)) if register in operands), 0)
    reads = "[" in operands
    if "fmadd" in name or "fnmadd" in name:
        yield "multiply-adds"
        yield f"multiply-adds of {width if not name.endswith('ss') else 32} bits"
    elif name.startswith("v") and not name.startswith(("vmov", "vbroadcast")):
        yield "arithmetic"
    if reads and not name.startswith(("lea", "j", "nop")):
        is_stack = "rsp" in operands or "rbp" in operands
        is_store = operands.lstrip().split(",")[0].count("[") > 0 and "mov" in name
        broadcast = "1to" in operands or name.startswith("vbroadcast")
        yield "stack accesses" if is_stack else "stores" if is_store else "loads of one for all lanes" if broadcast else "loads"
    if name.startswith("call"):
        yield "calls"
    yield "instructions"
