"""Processes that prepare candidates while this one waits: an executor of our own, whose tasks may hang or take their process with them.

``python -m feinsum_fuse.tuning.helpers`` is such a process. ``concurrent.futures`` starts processes that import the caller's main module,
which a script without a guard cannot bear, and gives up all of them when one dies.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import queue
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from .. import __file__ as package
from ..errors import SearchError
from ..executors import end_with

T = TypeVar("T")
GARBAGE = 1_000_000
"""Objects, of a hundred bytes, between two searches for circles of garbage. Candidates leave none: what is looked through each time, at
Python's usual 700 after every few of them, is what a search keeps."""


class _Helper:
    """One child, that answers one task after another."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(Path(package).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-m", "feinsum_fuse.tuning.helpers", str(os.getpid())]
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
        )

    def call(self, function: Callable[..., object], arguments: tuple[object, ...], timeout_s: float) -> object:
        """The result of a task; raises what it raised, and :class:`~feinsum_fuse.errors.SearchError` if the child ended or hung."""
        assert self.child.stdin is not None and self.child.stdout is not None
        alarm = threading.Timer(timeout_s, self.child.kill)
        alarm.daemon = True
        alarm.start()
        try:
            send(self.child.stdin, (function, arguments))
            worked, result = receive(self.child.stdout)
        except (OSError, EOFError) as error:
            self.child.kill()
            self.child.wait()
            raise SearchError(f"a process that prepared a candidate ended, or took more than {timeout_s:g} s") from error
        finally:
            alarm.cancel()
        if not worked:
            raise result
        return result

    def end(self) -> None:
        """Kill it."""
        self.child.kill()
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout):
            if stream is not None:
                stream.close()


class Helpers:
    """So many processes; a context, at whose end they are gone."""

    def __init__(self, count: int, timeout_s: float = 120.0) -> None:
        self._timeout_s = timeout_s
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[..., object], tuple[object, ...]] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]
        self._helpers: list[_Helper] = []
        self._ended = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._ended = True
            helpers = list(self._helpers)
        for helper in helpers:
            helper.child.kill()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def submit(self, function: Callable[..., T], /, *arguments: Any) -> Future[T]:
        """The call's result, from whichever process is free first."""
        future: Future[T] = Future()
        self._tasks.put((future, function, arguments))
        return future

    def _serve(self) -> None:
        helper: _Helper | None = None
        while (task := self._tasks.get()) is not None:
            future, function, arguments = task
            if self._ended or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                helper = helper or self._started()
                future.set_result(helper.call(function, arguments, self._timeout_s))
            except BaseException as error:  # handed to whoever asks for the result
                if helper is not None and helper.child.poll() is not None:
                    helper.end()
                    helper = None
                future.set_exception(error)
        if helper is not None:
            helper.end()

    def _started(self) -> _Helper:
        with self._lock:
            if self._ended:
                raise SearchError("the search has ended")
            helper = _Helper()
            self._helpers.append(helper)
        return helper


def seldom_collected() -> None:
    """Look for circles of garbage seldom, and never again among what is there now: modules that were imported."""
    gc.freeze()
    gc.set_threshold(GARBAGE)


def send(stream: IO[bytes], value: object) -> None:
    """A value with its length before it."""
    data = pickle.dumps(value)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """What the process at the other end sent, which is ours; raises ``EOFError`` at the end."""
    length = stream.read(8)
    data = stream.read(int.from_bytes(length, "little")) if len(length) == 8 else b""
    if not data:
        raise EOFError
    return pickle.loads(data)


def main(parent: str) -> None:
    """Call what standard input says until it ends, and answer to what standard output was."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    end_with(int(parent))
    warnings.simplefilter("ignore")  # of mappings that nobody keeps
    importlib.import_module(f"{__package__}.preparation")  # what a search calls, before what is imported is set apart
    seldom_collected()
    while True:
        try:
            function, arguments = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = True, function(*arguments)
        except Exception as error:  # the parent raises it
            answer = False, error
        send(answers, answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
