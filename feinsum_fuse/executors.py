"""What runs calls somewhere else, as callers hand it in: an executor of ``concurrent.futures``, Dask's client, anything with ``submit``.

Processes of ours end with the one that started them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .arguments import NOTHING, Kind

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """A result that comes later: a future, whosever."""

    def result(self, timeout: float | None = None, /) -> T_co:
        """The result, waited for so many seconds at the most."""
        ...


class Executor(Protocol):
    """Whatever has ``submit``."""

    def submit(self, function: Callable[..., T], /, *arguments: Any) -> Pending[T]:
        """Start a call somewhere."""
        ...


_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Have this process killed when its parent, which has this number, ends, however that happens; on Linux.

    A parent that was killed before this is called is no parent any more: then the process ends here.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


EXECUTOR = Kind("an executor, which has a method submit", lambda value: callable(getattr(value, "submit", None))) | NOTHING
