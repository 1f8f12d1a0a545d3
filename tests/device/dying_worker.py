"""A worker whose compiler dies under it: it leaves half an entry in the cache, says why, and aborts.

Runs in place of :mod:`feinsum_fuse.device.runtime.worker`, on the same files: no source is known that kills every compiler.
``DYING_STAGE`` names the stage, since some runtimes compile when a program is built and others when a kernel is launched.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from feinsum_fuse.device.runtime import worker
from feinsum_fuse.device.runtime.compiler_cache import VARIABLE
from feinsum_fuse.device.runtime.loaded_executable import Loaded

STAGE = "DYING_STAGE"
LAST_WORDS = "LLVM ERROR: Cannot select: t7"


def _die(*_: object) -> None:
    entry = Path(os.environ[VARIABLE]) / "AB" / "CDEF"
    entry.mkdir(parents=True)
    (entry / "program.bc").write_bytes(b"half")
    sys.stderr.write(LAST_WORDS + "\n")
    sys.stderr.flush()
    os.abort()


if __name__ == "__main__":
    setattr(Loaded, {"build": "__init__", "launch": "enqueue"}[os.environ[STAGE]], _die)
    worker.main(*sys.argv[1:])
