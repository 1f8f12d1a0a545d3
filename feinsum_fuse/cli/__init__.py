"""The command line. :func:`main` is what ``feinsum-fuse`` and ``python -m feinsum_fuse.cli`` call."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType

INTERRUPTED = 130
CLOSED_PIPE = 141
"""What a shell has for a program whose reader went away, 128 and the number of SIGPIPE."""


def main() -> None:
    """Load the command line and run it; Ctrl-C ends it with one line whatever it is at, also while it loads."""
    _open_closed_streams()
    kept = signal.getsignal(signal.SIGINT)
    if kept is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    run = import_module(f"{__name__}.__main__").main
    signal.signal(signal.SIGINT, kept)
    try:
        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        # All is said: what Python does at its exit is no one's to interrupt.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _open_closed_streams() -> None:
    """A stream that the caller closed leads nowhere: else the next file that is opened would take its place, and be written to as it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End at once: nothing has begun yet, and an exception could not leave every module that is being loaded."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
