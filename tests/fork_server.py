"""A process that has imported what the package's child processes import, and forks one of them for each request.

``python -P fork_server.py SOCKET MODULE ...``: requests come through the socket with that number, one a message, as JSON with the files of
the child beside it: a pipe for its number and how it ended, standard input, output and error. See :mod:`tests.forked_children`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any

LARGEST_REQUEST = 1 << 20
FILES = 4


def serve(requests: socket.socket) -> None:
    """Fork for each request, until the other end is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch a child
    while True:
        message, files, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, FILES)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _watch(json.loads(message), files)
        for file in files:
            os.close(file)


def _watch(request: dict[str, Any], files: Sequence[int]) -> None:
    """Fork the child, and tell how it ended."""
    importlib.import_module("feinsum_fuse.device.runtime.worker").die_with_parent(os.getppid())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answers, *standard = files
    child = os.fork()
    if child == 0:
        _become(request, answers, standard)
    for file in standard:
        os.close(file)
    _, status = os.waitpid(child, 0)
    os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], answers: int, standard: Sequence[int]) -> None:
    """The child: all that an interpreter of its own would have got, then its ``main``."""
    os.setsid()
    for number, file in enumerate(standard):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os.write(answers, f"{os.getpid()}\n".encode())
    os.close(answers)
    try:
        importlib.import_module(request["module"]).main(request["job"], str(os.getppid()))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
