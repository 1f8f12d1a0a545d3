"""What the innermost loops of a compiled x86-64 kernel are made of, read from its disassembly in AT&T syntax (``objdump -d``)."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ... import cache_folder
from ...codegen.executable import Executable
from ...errors import DeviceError
from ...presentation import table
from ..runtime.isolation import compiled
from ..runtime.loaded_executable import Loaded, queue_of

if TYPE_CHECKING:
    import pyopencl as cl

DISASSEMBLERS = ("objdump", "llvm-objdump")
_ELF = b"\x7fELF"
"""How such a file begins."""
_KIND, _OBJECT = slice(16, 18), b"\x01\x00"
"""Where it says what kind of a file it is, and what an object file says."""
_MACHINE, _X86_64 = slice(18, 20), b"\x3e\x00"
"""Where an ELF file says what it is for, and what it says then."""
_CALLED = re.compile(r".*_workgroup$")
"""PoCL writes each kernel three times; this is the one that it calls."""

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(?:[0-9a-f]{2} )*\s*\t?([a-z][\w.]*)(?:\s+(.*))?$")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_MULTIPLY_ADD = re.compile(r"vfn?m(?:add|sub)|vpdp|vpmadd")
"""Of numbers, and of pairs and fours of integers whose products are added up at once."""
_ARITHMETIC = re.compile(r"v?(?:add|sub|mul|div|max|min|sqrt)[ps][sd]$")
_MEMORY = re.compile(r"(?:-?0x[0-9a-f]+)?\((?:%\w+)?(?:,%\w+)?(?:,\d)?\)")
_STACK = re.compile(r"\(%r[sb]p")
_JUMP = re.compile(r"j[a-z]+$")
_WIDTHS = (("zmm", 512), ("ymm", 256), ("xmm", 128))
_ONLY_READ = re.compile(r"v?u?comis|cmp|test|bt$|prefetch")


@dataclass(frozen=True)
class MachineInstruction:
    """One instruction: where it is, what it does, and to what."""

    address: int
    name: str
    operands: str

    @property
    def target(self) -> int | None:
        """Where a jump goes."""
        found = re.match(r"([0-9a-f]+)\b", self.operands) if _JUMP.match(self.name) else None
        return int(found[1], 16) if found else None

    @property
    def width(self) -> int:
        """Bits of the registers that it works on; 32 or 64 for a scalar."""
        if re.search(r"(?:sd|ss)$", self.name):
            return 64 if self.name.endswith("sd") else 32
        return next((bits for register, bits in _WIDTHS if register in self.operands), 0)

    @property
    def place(self) -> str | None:
        """The memory that it touches; of an address that is only computed, none."""
        found = None if self.name.startswith(("lea", "nop", "data16")) else _MEMORY.search(self.operands)
        return found[0] if found else None

    @property
    def is_store(self) -> bool:
        """Whether the memory is what it writes: in this syntax the last operand."""
        return self.place is not None and self.operands.rstrip().endswith(self.place) and not _ONLY_READ.match(self.name)


@dataclass(frozen=True)
class InnermostLoop:
    """A loop without loops in it."""

    function: str
    instructions: tuple[MachineInstruction, ...]

    @cached_property
    def multiply_adds(self) -> Counter[int]:
        """Bits of a register -> multiply-adds of that width."""
        return Counter(i.width for i in self.instructions if _MULTIPLY_ADD.match(i.name))

    @cached_property
    def arithmetic(self) -> Counter[int]:
        """Bits of a register -> other arithmetic on numbers with fractions."""
        return Counter(i.width for i in self.instructions if _ARITHMETIC.match(i.name))

    @cached_property
    def loads(self) -> int:
        """Reads of memory, those of the stack left out."""
        return sum(i.place is not None and not i.is_store and not _STACK.search(i.place) for i in self.instructions)

    @cached_property
    def stores(self) -> int:
        """Writes of memory, those of the stack left out."""
        return sum(i.is_store and not _STACK.search(i.place or "") for i in self.instructions)

    @cached_property
    def stack(self) -> int:
        """Reads and writes of the stack: values that found no register."""
        return sum(_STACK.search(i.place or "") is not None for i in self.instructions)

    @cached_property
    def calls(self) -> int:
        """Calls of functions."""
        return sum(i.name.startswith("call") for i in self.instructions)

    @property
    def weight(self) -> int:
        """Bits of arithmetic in one iteration, by which loops are ordered."""
        return sum(bits * (2 * self.multiply_adds[bits] + self.arithmetic[bits]) for bits in (32, 64, 128, 256, 512))


def loops(disassembly: str) -> tuple[InnermostLoop, ...]:
    """The innermost loops of all functions, the one with most arithmetic first."""
    found = [InnermostLoop(name, body) for name, code in _functions(disassembly) for body in _innermost(code)]
    called = [loop for loop in found if _CALLED.match(loop.function)]
    return tuple(sorted(called or found, key=lambda loop: -loop.weight))


def machine_loops(executable: Executable, device: cl.Device) -> tuple[InnermostLoop, ...]:
    """The innermost loops of a program's machine code; :class:`~feinsum_fuse.errors.DeviceError` where there is none to be read."""
    tool = next(filter(None, map(shutil.which, DISASSEMBLERS)), None)
    if tool is None:
        raise DeviceError(f"none of {', '.join(DISASSEMBLERS)} is installed", hint="Machine code is read with it; install binutils.")
    text = ""
    for code in compiled(executable, device) or _binaries(executable, device):
        if code[_MACHINE] != _X86_64:
            raise DeviceError("the kernel is no x86-64 code, which is all that can be read", hint="See the OpenCL C with --source.")
        with tempfile.NamedTemporaryFile(suffix=".so", dir=cache_folder.scratch()) as file:
            file.write(code)
            file.flush()
            text += subprocess.run([tool, "-d", "--no-show-raw-insn", file.name], capture_output=True, text=True, check=True).stdout
    return loops(text)


def _binaries(executable: Executable, device: cl.Device) -> list[bytes]:
    """The object files in what a runtime gives out of a program, which a child process has run before: Intel's holds one in a file of
    a kind of its own.
    """
    every = b"".join(Loaded(executable, queue_of(device).context).program.binaries)
    starts = [found.start() for found in re.finditer(re.escape(_ELF), every)]
    objects = [every[start:] for start in starts if every[start:][_KIND] == _OBJECT]
    if not objects:
        raise DeviceError(f"{device.platform.name} gives out no machine code that can be read", hint="Take a device of PoCL's.")
    return objects


def mix_table(found: Sequence[InnermostLoop]) -> str:
    """Loops as rows of text."""
    head = ("function", "instructions", "multiply-adds", "arithmetic", "loads", "stores", "stack", "calls")
    rows = [
        (
            *(loop.function, str(len(loop.instructions)), _by_width(loop.multiply_adds), _by_width(loop.arithmetic)),
            *(str(n) for n in (loop.loads, loop.stores, loop.stack, loop.calls)),
        )
        for loop in found
    ]
    return table(head, rows, numbers=7)


def _by_width(counts: Counter[int]) -> str:
    return " + ".join(f"{number} of {bits} bits" for bits, number in sorted(counts.items(), reverse=True)) or "0"


def _functions(disassembly: str) -> Iterator[tuple[str, list[MachineInstruction]]]:
    name = ""
    code: list[MachineInstruction] = []
    for line in disassembly.splitlines():
        if start := _FUNCTION.match(line):
            if code:
                yield name, code
            name, code = start[1], []
        elif found := _LINE.match(line):
            code.append(MachineInstruction(int(found[1], 16), found[2], (found[3] or "").split("#")[0].strip()))
    if code:
        yield name, code


def _innermost(code: Sequence[MachineInstruction]) -> Iterator[tuple[MachineInstruction, ...]]:
    """What stands between a jump backwards and its target, where no such jump stands inside."""
    places = {instruction.address: place for place, instruction in enumerate(code)}
    spans = {
        (places[i.target], end) for end, i in enumerate(code) if i.target is not None and i.target in places and places[i.target] <= end
    }
    for start, end in sorted(spans):
        if not any((a, b) != (start, end) and start <= a and b <= end for a, b in spans):
            yield tuple(code[start : end + 1])
