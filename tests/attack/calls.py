"""Making calls and seeing how they end."""

from __future__ import annotations

import contextlib
import inspect
import io
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from unittest import mock

import feinsum_fuse as ff
from feinsum_fuse.cli.__main__ import main

from .functions import Function, OneOf
from .values import spoilt
from .verbs import command_line

PACKAGE = Path(ff.__file__).resolve().parent
SECONDS = 60
"""A call that takes longer hangs; on an idle machine the longest takes two."""
CODES = {0, 1, 2, 3}
FIRST_CHECK = 2
"""Frames of ours in the traceback of an error that the called function, or what checks arguments for it, raised."""
Site = tuple[str, int]
"""A file of the package, and a line in it."""


class Hung(BaseException):
    """A call that did not end."""


@dataclass(frozen=True)
class Ending:
    """How a call ended: ``foreign`` says what escaped that is not ours, and is empty if nothing did."""

    call: str
    foreign: str = ""
    passed: bool = False
    """Whether the call came further than the first check of its arguments."""
    sites: frozenset[Site] = frozenset()
    """Where errors were raised that the caller saw, or that led to these."""


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    used, again = time.process_time(), [True]

    def hung(number: int, frame: FrameType | None) -> None:
        if again and time.process_time() - used < seconds / 10:
            # Who stops all processes for a while has stopped this one too: what stood still is given the time once more.
            again.clear()
            signal.alarm(seconds)
            return
        raise Hung(f"no end after {seconds} s, at {''.join(traceback.format_stack(frame)[-3:])}")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _frames(trace: TracebackType | None) -> list[Site]:
    found = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace))
    return [(str(Path(name).relative_to(PACKAGE)), line) for name, line in found if name.startswith(f"{PACKAGE}/")]


def _sites(error: BaseException) -> frozenset[Site]:
    sites: set[Site] = set()
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        now = waiting.pop()
        if now is None or any(now is other for other in seen):
            continue
        seen.append(now)
        sites.update(_frames(now.__traceback__)[-1:])
        waiting += [now.__cause__, now.__context__]
    return frozenset(sites)


def _text(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return text if len(text) < 400 else f"{text[:400]} ..."


def _ending(call: str, action: Callable[[], object]) -> Ending:
    try:
        with _limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action()
    except ff.Error as error:
        if not str(error) or "\x1b" in str(error):
            return Ending(call, f"a message that says nothing, or obeys: {str(error)!r}")
        return Ending(call, "", len(_frames(error.__traceback__)) > FIRST_CHECK, _sites(error))
    except (Exception, Hung) as error:
        return Ending(call, "".join(traceback.format_exception(error, limit=-6)))
    return Ending(call, passed=True)


def function_call(given: Sequence[Function], choose: random.Random) -> Ending:
    """Call one of the functions, mostly with one argument that is not right."""
    (called,) = choose.choices(given, [function.weight for function in given])
    arguments = [choose.choice(a) if isinstance(a, OneOf) else a for a in called.arguments]
    parameters = inspect.signature(called.function).parameters.values()
    needed = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
    named = [name for name in called.keywords if choose.random() < 0.7 or name in needed]
    keywords = {k: choose.choice(v) if isinstance(v := called.keywords[k], OneOf) else v for k in named}
    places: list[int | str] = [*range(len(arguments)), *keywords]
    if places and choose.random() < 0.85:
        place = choose.choice(places)
        if isinstance(place, int):
            arguments[place] = spoilt(arguments[place], choose)
        else:
            keywords[place] = spoilt(keywords[place], choose)
    shown = ", ".join([*map(_text, arguments), *(f"{name}={_text(value)}" for name, value in keywords.items())])
    return _ending(f"{called.name}({shown})", lambda: called.function(*arguments, **keywords))


def verb_call(folder: Path, choose: random.Random) -> Ending:
    """Run a command line, right or wrong, in this process, which stands in the folder."""
    return line_call(command_line(folder, choose))


def line_call(words: Sequence[str]) -> Ending:
    """Run a command line in this process; ``passed`` says whether it came further than its words and the names of its files."""
    out, err = io.StringIO(), io.StringIO()
    site: list[BaseException] = []

    def run() -> None:
        with mock.patch.object(sys, "argv", ["feinsum-fuse", *words]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as ended:
                site.append(ended)

    ended = _ending(f"feinsum-fuse {list(words)}", run)
    if ended.foreign:
        return ended
    code = site[0].code or 0 if site and isinstance(site[0], SystemExit) else None
    text = out.getvalue() + err.getvalue()
    if code not in CODES or "Traceback" in text or "\x1b" in text:
        return Ending(ended.call, f"exit code {code}:\n{text[-3000:]}")
    return Ending(ended.call, "", code != 2 and "There is no file" not in text, _sites(site[0]))
