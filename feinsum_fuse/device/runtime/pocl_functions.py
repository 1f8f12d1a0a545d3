"""Programs for PoCL with those functions of OpenCL C alone that they use.

PoCL has Clang read the declarations of all functions (``opencl-c.h``, 18,000 lines) twice for every program, which is four fifths of the
time that a kernel of three lines takes to be built. Whoever defines the header's own guard keeps it out. What a program uses of it then
stands before the program, in the header's words and under its conditions, so that the same is compiled.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import pyopencl as cl

from .pocl_processor import POCL_PLATFORM

MAPS = Path("/proc/self/maps")
FOLDERS = (".", "../../pocl_binary_distribution/.libs")
HEADER = "share/pocl/include/opencl-c.h"
"""Beside PoCL's library, or in the package where pyopencl's wheels have it."""
GUARD = "_OPENCL_H_"
WITHOUT_HEADER = f"-D{GUARD}"
NAME = re.compile(r"[A-Za-z_]\w*")
UNSEEN = ("##", "#include", "??", "%:")
"""With these a program may use a name that is not in its text."""
COMMENTS = ("//", "/*", "*")
JOINED = re.compile(r"\\[ \t]*\n")
OPENING = ("#if", "#ifdef", "#ifndef")
ANY_LENGTH = '#pragma clang diagnostic ignored "-Wpsabi"\n'
"""Vectors longer than the processor's are passed to functions that are inlined: that they would be passed otherwise elsewhere is nothing to
warn of, and PoCL says how many warnings there were, amid a user's output."""
Conditions = tuple[str, ...]


@dataclass
class Functions:
    """A header's declarations by name and its other directives, each with its place in the header and the conditions around it."""

    named: dict[str, list[tuple[int, Conditions, str]]] = field(default_factory=dict)
    always: list[tuple[int, Conditions, str]] = field(default_factory=list)

    @classmethod
    def of(cls, header: str) -> Functions | None:
        """``None`` for one that is written otherwise than Clang's."""
        functions, begun = cls(), ""
        conditions: Conditions = ()
        for number, line in enumerate(JOINED.sub(" ", header).split("\n")):
            if not begun and line.endswith(");") and line[0] not in "#/ ":
                functions._declare(number, conditions, line)
            elif line.startswith("#"):
                directive = line.partition("//")[0].partition("/*")[0].rstrip()
                word = directive.partition(" ")[0]
                if begun or word in ("#else", "#elif"):
                    return None
                if word in OPENING:
                    conditions = (*conditions, directive)
                elif word == "#endif":
                    conditions = conditions[:-1]
                elif word != "#include":
                    functions.always.append((number, conditions, directive))
            elif line and not line.lstrip().startswith(COMMENTS):
                begun = f"{begun} {line.partition('//')[0].strip()}".strip()
                if begun.endswith(";"):
                    functions._declare(number, conditions, begun)
                    begun = ""
        return functions

    def _declare(self, number: int, conditions: Conditions, text: str) -> None:
        before = text.partition("(")[0].rstrip()
        self.named.setdefault(before[before.rfind(" ") + 1 :], []).append((number, conditions, text))

    def used_by(self, source: str) -> str:
        """What stands before a program in place of the header."""
        names = self.named.keys() & set(NAME.findall(source))
        kept = sorted([*self.always, *(entry for name in names for entry in self.named[name])])
        lines, around = [f"#undef {GUARD}"], Conditions()
        for _, conditions, line in [*kept, (0, (), "#line 1")]:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(around, conditions, strict=False)))
            lines += ["#endif"] * (len(around) - same) + list(conditions[same:]) + [line]
            around = conditions
        return "\n".join(lines) + "\n"


@functools.cache
def _functions() -> Functions | None:
    """Those of the PoCL that this process has loaded, if it has its header beside it."""
    try:
        folders = {Path(line.split(maxsplit=5)[-1]).parent for line in MAPS.read_text().splitlines() if "/libpocl" in line}
        headers = [path for folder in folders for near in FOLDERS if (path := folder / near / HEADER).is_file()]
        return Functions.of(headers[0].read_text()) if len(headers) == 1 else None
    except OSError:
        return None


_failed: list[str] = []
"""The first program that PoCL builds with its whole header alone."""


def built(context: cl.Context, source: str, options: Sequence[str], cache_dir: str | None = None) -> cl.Program:
    """The program built for a context; raises pyopencl's errors."""
    if (short := shortened(context, source)) is None:
        return cl.Program(context, source).build(options=list(options), cache_dir=cache_dir)
    try:
        return cl.Program(context, short).build(options=[*options, WITHOUT_HEADER], cache_dir=cache_dir)
    except cl.RuntimeError:
        program = cl.Program(context, source).build(options=list(options), cache_dir=cache_dir)
        _failed.append(source)
        return program


def shortened(context: cl.Context, source: str) -> str | None:
    """The program behind what it uses, or ``None`` where it needs the header as it is."""
    if any(device.platform.name.strip() != POCL_PLATFORM for device in context.devices):
        return None
    if _failed or GUARD in source or any(text in source for text in UNSEEN) or (functions := _functions()) is None:
        return None
    return ANY_LENGTH + functions.used_by(source) + source
