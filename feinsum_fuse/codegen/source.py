"""The text of a program: what its kernels need, and the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import loopy as lp
from cgen import Collection, Generable
from loopy.codegen import TranslationUnitCodeGenerationResult
from loopy.codegen.result import process_preambles

from ..schedule.kernel.definitions import definitions
from ..schedule.kernel.intrinsics import Intrinsic
from ..schedule.target import Quirks
from .arithmetic import function_of
from .expressions import VectorCall, within
from .quirks import AGREED, AGREED_DEFINITION
from .statements import Head, Kernel, all_statements, expressions

_AXES_PREAMBLE = "00_declare_gid_lid"
"""loopy's own name for the macros of the device's axes."""
_FIRST_PREAMBLE = "00_agreed"
_AXES = {"lid": "get_local_id", "gid": "get_group_id"}


def source_of(generated: TranslationUnitCodeGenerationResult, unit: lp.TranslationUnit, quirks: Quirks) -> str:
    """The OpenCL C of what loopy has generated of a program."""
    functions = [function for program in generated.device_programs for function in functions_of(program.ast)]
    ours = {tag for f in unit.callables_table.values() if isinstance(f, Intrinsic) for tag, _ in f.generate_preambles(unit.target)}
    preambles = [(tag, text) for tag, text in generated.device_preambles if tag not in ours and tag != _AXES_PREAMBLE]
    texts = ["".join(f"{line}\n" for line in function.generate()) for function in functions]
    return _head(functions, preambles, quirks) + "\n".join(texts)


def functions_of(tree: Generable) -> Iterator[Kernel | Head]:
    """The functions and their declarations in what loopy has put together."""
    if isinstance(tree, Collection):
        for part in tree.contents:
            yield from functions_of(part)
    else:
        assert isinstance(tree, Kernel | Head)
        yield tree


def _head(functions: Sequence[Kernel | Head], preambles: Sequence[tuple[str, str]], quirks: Quirks) -> str:
    """What stands before the kernels: loopy's functions, and the functions and macros that the kernels use."""
    bodies = [function.body for function in functions if isinstance(function, Kernel)]
    parts = [part for body in bodies for s in all_statements(body) for e in expressions(s) for part in within(e)]
    used = {function_of(part) for part in parts}
    texts = dict(preambles)
    for operation in {part.operation for part in parts if isinstance(part, VectorCall)}:
        texts |= definitions(operation, quirks)
    axes = [f"#define {axis}(N) ((int) {function}(N))" for axis, function in _AXES.items() if axis in used]
    texts |= {_AXES_PREAMBLE: "\n".join(axes)} if axes else {}
    texts |= {_FIRST_PREAMBLE: AGREED_DEFINITION} if AGREED in used else {}
    head: list[str] = []
    was_long = False
    for text in (text.strip("\n") for text in process_preambles(list(texts.items()))):
        is_long = "\n" in text
        head += ["", text] if head and (is_long or was_long) else [text]
        was_long = is_long
    return "".join(f"{text}\n" for text in [*head, ""]) if head else ""
