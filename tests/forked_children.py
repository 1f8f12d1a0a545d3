"""The package's child processes without the 0.3 s that each takes to import NumPy and pyopencl: they are forked from one that has.

What a child does is the package's own from ``main`` on, in a session, an environment and files of its own. No OpenCL is called before the
fork. The tests of the processes themselves start real ones (:func:`tests.conftest.own_processes`).
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from . import fork_server

CHILDREN = ("feinsum_fuse.device.runtime.worker", "feinsum_fuse.device.timing.measuring_worker")
OF_A_CHILD = {"POCL_CACHE_DIR", "PYTEST_CURRENT_TEST", "XDG_DATA_HOME", "FEINSUM_FUSE_DATABASE"}
"""Variables that may differ from child to child: nothing that is imported reads them."""
NO_PROCESS = 1 << 30
"""Beyond all that Linux gives: whoever kills what has ended meets nobody, while the child does another job."""

_servers: dict[frozenset[tuple[str, str]], socket.socket] = {}
_asked: Counter[frozenset[tuple[str, str]]] = Counter()


class ForkedProcess:
    """As much of ``subprocess.Popen`` as the package asks of its children."""

    def __init__(self, server: socket.socket, command: list[str], files: dict[str, Any], environment: dict[str, str]) -> None:
        self.command = command
        self.returncode: int | None = None
        self.stdin: BinaryIO | None = None
        self.stdout: BinaryIO | None = None
        own, answers = os.pipe()
        theirs = [answers]
        if files["stdin"] == subprocess.PIPE:
            read, write = os.pipe()
            theirs.append(read)
            self.stdin = os.fdopen(write, "wb")
        else:
            theirs.append(os.open(os.devnull, os.O_RDONLY))
        if files["stdout"] == subprocess.PIPE:
            read, write = os.pipe()
            theirs.append(write)
            self.stdout = os.fdopen(read, "rb")
        else:
            theirs.append(os.dup(files["stdout"].fileno()))
        theirs.append(os.dup(theirs[2] if files["stderr"] == subprocess.STDOUT else files["stderr"].fileno()))
        module = command.index("-m") + 1
        request = {"module": command[module], "job": command[module + 1], "environment": environment, "folder": os.getcwd()}
        socket.send_fds(server, [json.dumps(request).encode()], theirs)
        for file in theirs:
            os.close(file)
        self._answers = os.fdopen(own, "rb", buffering=0)
        self.pid = int(self._answers.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal; raises ``subprocess.TimeoutExpired``."""
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.command, timeout)
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self.pid = NO_PROCESS
        return self.returncode


def _server(environment: dict[str, str]) -> socket.socket | None:
    """The server for an environment; ``None`` the first time that it is asked for."""
    key = frozenset((name, value) for name, value in environment.items() if name not in OF_A_CHILD)
    _asked[key] += 1
    if key not in _servers and _asked[key] > 1:
        own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", str(Path(fork_server.__file__)), str(theirs.fileno()), *CHILDREN]
        with theirs:
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=environment, start_new_session=True, cwd="/"
            )
        _servers[key] = own
    return _servers.get(key)


def _started(command: list[str], **options: Any) -> ForkedProcess | subprocess.Popen[bytes]:
    """A child of the package's as a fork, any other process as it would be."""
    if "-m" in command and command[command.index("-m") + 1] in CHILDREN and (server := _server(options["env"])) is not None:
        files = {name: options[name] for name in ("stdin", "stdout", "stderr")}
        return ForkedProcess(server, command, files, options["env"])
    return subprocess.Popen(command, **options)


def forking() -> ModuleType:
    """The module ``subprocess``, but that children of the package's are forked."""
    module = ModuleType("subprocess")
    module.__dict__.update(vars(subprocess))
    module.__dict__["Popen"] = _started
    return module
