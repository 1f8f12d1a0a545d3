"""Programs that loopy's executors and tests build themselves: with the functions that they use alone, as the package builds its own."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from feinsum_fuse.device.runtime.pocl_functions import WITHOUT_HEADER, shortened

_build = cl.Program.build


def quick_build(program: cl.Program, options: Sequence[str] | None = None, *others: object, **named: object) -> cl.Program:
    """In place of ``pyopencl.Program.build``."""
    source = getattr(program, "_source", None)
    short = shortened(program._context, source) if isinstance(source, str) and not isinstance(options, str) else None
    if short is not None:
        try:
            quick = _build(cl.Program(program._context, short), [*(options or ()), WITHOUT_HEADER], *others, **named)
        except cl.RuntimeError:
            pass
        else:
            vars(program).update(vars(quick))
            return program
    return _build(program, options, *others, **named)
