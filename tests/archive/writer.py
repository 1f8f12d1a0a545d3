"""A process whose children record facts: ``python -m tests.archive.writer``, commands on its standard input.

The command ``DATABASE COUNT FILE_SIZE NUMBER ...`` forks a child for each number, which may make no file larger than that many bytes
(-1: any). The answer is a line ``children PID ...``, a line with the identifier of each fact as soon as a child has had it acknowledged
(the samples of the fact are the child's number and a counter), a line ``error TEXT`` for a child that could not record, and, when all
children have ended, ``ended CODE ...``.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile

from feinsum_fuse.archive import record
from feinsum_fuse.errors import ArchiveError

from .samples import measurement, product


def say(line: str) -> None:
    """One write for one line, so that children do not mix theirs."""
    os.write(1, f"{line}\n".encode())


def write(url: str, count: int, file_size: int, number: int) -> int:
    """Record ``count`` facts."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    cascade = product()
    for k in range(count):
        try:
            say(record(measurement(cascade, samples=[float(number), float(k)]), url=url))
        except ArchiveError as error:
            say(f"error {str(error)!r}")
            return 1
    return 0


def prepare() -> None:
    """Whatever is imported and compiled on first use, here once and not once in each child."""
    with contextlib.suppress(ImportError):
        import psycopg  # noqa: F401 (where it is not installed, no server is written to)
    with tempfile.TemporaryDirectory() as folder:
        record(measurement(), url=f"{folder}/facts.sqlite3")


def main() -> None:
    """Obey commands until there are no more."""
    prepare()
    for line in sys.stdin:
        url, count, file_size, *numbers = line.split()
        children = []
        for number in numbers:
            child = os.fork()
            if child == 0:
                os._exit(write(url, int(count), int(file_size), int(number)))
            children.append(child)
        say(f"children {' '.join(map(str, children))}")
        say(f"ended {' '.join(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in children)}")


if __name__ == "__main__":
    main()
