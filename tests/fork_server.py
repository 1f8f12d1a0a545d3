"""A process that has imported what the package's child processes import, and has children which do one job after another.

``python -P fork_server.py SOCKET MODULE ...``: requests come through the socket with that number, one a message, as JSON with the files of
the child beside it: a pipe for its number and how it ended, standard input, output and error. See :mod:`tests.forked_children`.

PoCL reads its library of functions (7 MB) for a process's first kernel, which takes longer than most kernels. So a child that has ended
its job as it should gets the next one. What PoCL remembers of a kernel it does not write again: a program that is to be written into a
cache of its own is no job for a child that has met it, or that may have.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import socket
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LARGEST_REQUEST = 1 << 20
FILES = 4
MOST_MET = 100
"""Programs of one child, whose compiler keeps some memory of each."""
MOST_IDLE = 2
CACHE = "POCL_CACHE_DIR"
"""PoCL reads it once in a process."""
UNKNOWN = ""
"""The programs that a child is told of while it is at work."""


class _Ended(BaseException):
    """What a child's end is while it stays for another job."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass
class _Child:
    """A child, the socket to it, the programs that it has met, and where to tell how its job ended; ``None`` while it has none."""

    pid: int
    link: socket.socket
    met: set[str] = field(default_factory=set)
    answers: int | None = None

    def start(self, message: bytes, answers: int, standard: Sequence[int], program: str) -> None:
        """Give it a job."""
        self.met.add(program)
        self.answers = answers
        os.write(answers, f"{self.pid}\n".encode())
        with contextlib.suppress(OSError):  # it is dead, which shows as the end of its socket
            socket.send_fds(self.link, [message], list(standard))

    def end(self, code: int) -> None:
        """Tell how its job ended."""
        if self.answers is not None:
            with contextlib.suppress(OSError):  # nobody asks
                os.write(self.answers, f"{code}\n".encode())
            os.close(self.answers)
        self.answers = None


class _Server:
    """The children of one environment."""

    def __init__(self, requests: socket.socket, folder: Path) -> None:
        self.requests = requests
        self.folder = folder
        self.selector = selectors.DefaultSelector()
        self.selector.register(requests, selectors.EVENT_READ)
        self.children: list[_Child] = []

    def serve(self) -> None:
        """Do what is asked for, until the other end is closed."""
        while True:
            for key, _ in self.selector.select():
                if key.data is not None:
                    self.hear(key.data)
                elif not self.take():
                    return

    def take(self) -> bool:
        """Start the job that is asked for, if there is one."""
        message, files, _, _ = socket.recv_fds(self.requests, LARGEST_REQUEST, FILES)
        if not message:
            return False
        answers, *standard = files
        request = json.loads(message)
        program = _program(request)
        hinders = {program, UNKNOWN} if program != UNKNOWN and CACHE in request["environment"] else set()
        idle = [child for child in self.children if child.answers is None and not hinders & child.met]
        child = max(idle, key=lambda child: UNKNOWN in child.met) if idle else self.fork()
        child.start(message, answers, standard, program)
        for file in standard:
            os.close(file)
        return True

    def hear(self, child: _Child) -> None:
        """A child has ended its job, or has ended."""
        try:
            answer = child.link.recv(LARGEST_REQUEST)
        except ConnectionError:
            answer = b""
        if not answer:
            self.drop(child)
            return
        child.end(int(answer))
        idle = sorted((other for other in self.children if other.answers is None), key=lambda other: (UNKNOWN in other.met, len(other.met)))
        for other in idle:
            if other in idle[MOST_IDLE:] or len(other.met) >= MOST_MET:
                self.drop(other)

    def drop(self, child: _Child) -> None:
        """A child is to end, unless it has."""
        self.selector.unregister(child.link)
        self.children.remove(child)
        child.link.close()
        _, status = os.waitpid(child.pid, 0)
        child.end(os.waitstatus_to_exitcode(status))

    def fork(self) -> _Child:
        """A new child."""
        own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            self.requests.close()
            for child in self.children:
                child.link.close()
                if child.answers is not None:
                    os.close(child.answers)
            own.close()
            _work(theirs, self.folder / f"cache-{os.getpid()}")
        theirs.close()
        child = _Child(pid, own)
        self.children.append(child)
        self.selector.register(own, selectors.EVENT_READ, child)
        return child


def _program(request: dict[str, Any]) -> str:
    """The program of a job."""
    executable = json.loads(Path(request["job"], "job.json").read_text()).get("executable")
    return str(json.loads(executable)["source"]) if executable else UNKNOWN


def _work(link: socket.socket, cache: Path) -> None:
    """The child: one job after another; what is no ordinary end of one is its own."""
    importlib.import_module("feinsum_fuse.device.runtime.worker").die_with_parent(os.getppid())
    os.setsid()
    leave = os._exit
    os._exit = _end
    while True:
        message, standard, _, _ = socket.recv_fds(link, LARGEST_REQUEST, FILES)
        if not message:
            leave(0)
        for number, file in enumerate(standard):
            os.dup2(file, number)
            os.close(file)
        try:
            _do(json.loads(message), cache)
        except _Ended as end:
            if end.code:
                leave(end.code)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            leave(1)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(FILES - 1):
            os.dup2(nowhere, number)
        os.close(nowhere)
        link.send(b"0")


def _do(request: dict[str, Any], cache: Path) -> None:
    """All that an interpreter of its own would have got, then its ``main``. ``cache`` is to PoCL wherever this job's is."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    kept = importlib.import_module("feinsum_fuse.device.runtime.compiler_cache").shared_cache()
    kept.mkdir(parents=True, exist_ok=True)
    cache.unlink(missing_ok=True)
    cache.symlink_to(kept)
    os.environ[CACHE] = str(cache)
    importlib.import_module(request["module"]).main(request["job"], str(os.getppid()))


def _end(code: int) -> None:
    raise _Ended(code)


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="feinsum-fuse-") as name:
        _Server(socket.socket(fileno=int(sys.argv[1])), Path(name)).serve()
