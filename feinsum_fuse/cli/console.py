"""How the command line prints: text to stdout, progress and errors to stderr; no colour and no wrapping unless on a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import Error, Progress
from ..errors import shown
from ..whole_file import write_whole

WIDE = 10_000
"""The width where output is no terminal: lines are never wrapped."""

PLAIN = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
"""A table with one line under its header."""


def _console() -> Console:
    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, force_terminal=terminal, no_color=not terminal, width=None if terminal else WIDE, highlight=False)


def emit(text: object) -> None:
    """Print text; what a terminal would obey is shown instead, here as everywhere."""
    print(shown(str(text)))


def emit_json(value: object) -> None:
    """Print a value as indented JSON; infinities and NaN become strings, since JSON has none."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False)
    print("".join(c if shown(c) == c or c == "\n" else f"\\u{ord(c):04x}" for c in text) if shown(text) != text else text)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; columns of figures are aligned to the right."""
    terminal = sys.stdout.isatty()
    result = Table(box=box.SIMPLE_HEAD if terminal else PLAIN, show_edge=False, pad_edge=False)
    for position, name in enumerate(header):
        figures = all(row[position][:1].isdigit() for row in rows)
        result.add_column(escape(shown(name)), justify="right" if figures else "left", no_wrap=not terminal, overflow="fold")
    for row in rows:
        result.add_row(*(escape(shown(cell)) for cell in row))
    console = _console()
    with console.capture() as capture:
        console.print(result)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def fail(message: str) -> None:
    """Print one error to stderr."""
    print(f"error: {shown(message)}", file=sys.stderr)


def check_places(folder: Path | None, *files: Path | None) -> None:
    """What is to be written has a folder, and is none itself: said before an hour of work, and not after.

    Raises :class:`~feinsum_fuse.errors.Error`.
    """
    for place in filter(None, (folder, *files)):
        if not place.parent.is_dir():
            raise Error(f"cannot write {place}: there is no folder {place.parent}")
    for file in filter(None, files):
        if file.is_dir():
            raise Error(f"cannot write {file}: it is a folder")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise Error(f"cannot write into {folder}: it is no folder")


def draw(file: Path, picture: str | bytes) -> None:
    """Write a picture; raises :class:`~feinsum_fuse.errors.Error` if the file cannot be written."""
    try:
        write_whole(file, picture)
    except OSError as error:
        raise Error(f"cannot write {file}: {error.strerror}") from error
    note(f"wrote {file}")


def note(message: str) -> None:
    """Print one remark to stderr, so that stdout stays the result alone."""
    print(shown(message), file=sys.stderr)


LONG = 2.0
"""Seconds from which on a stage's time is said."""
OFTEN, SELDOM = 0.1, 10.0
"""Seconds between two reports of one stage: on a terminal, and where every report is a line that stays."""


class _Display:
    """Shows on stderr where the command is. On a terminal it is one line, which vanishes at the end; elsewhere the outermost stages are
    lines, a long one with its count now and then. Nothing moves between reports: times may be being taken."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._last = 0.0

    def __call__(self, now: Progress) -> None:
        begins = not now.ended and now.done == 0
        if begins:
            self._open.append(now.stage)
        outermost = self._open[:1] == [now.stage]
        if now.ended and now.stage in self._open:
            del self._open[self._open.index(now.stage) :]
        if sys.stderr.isatty():
            self._on_terminal(now, at_once=begins)
        elif begins and outermost:
            self._line(f"{now.stage} ...")
        elif now.ended and outermost and now.seconds >= LONG:
            self._line(str(now))
        elif not begins and not now.ended and time.monotonic() - self._last > SELDOM:
            self._line(f"{now} ...")

    def _on_terminal(self, now: Progress, *, at_once: bool) -> None:
        if now.ended and not self._open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        elif at_once or time.monotonic() - self._last > OFTEN:
            self._last = time.monotonic()
            print(f"\r\x1b[K{shown(str(now))} ...", end="", file=sys.stderr, flush=True)

    def _line(self, text: str) -> None:
        self._last = time.monotonic()
        print(shown(text), file=sys.stderr, flush=True)


progress = _Display()
"""The command line's hook."""


def passing(now: Progress) -> None:
    """The hook for what is seldom long: on a terminal its line vanishes, elsewhere it would be a line of every command."""
    if sys.stderr.isatty():
        progress(now)
