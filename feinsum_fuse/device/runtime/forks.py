"""A process that was forked from one that used OpenCL cannot use it: the runtime's threads are gone there, and calls wait for ever."""

from __future__ import annotations

import os

from ...errors import DeviceError

_user: int | None = None


def enter() -> None:
    """Before OpenCL is used: raises :class:`~feinsum_fuse.errors.DeviceError` in a fork of a process that used it."""
    global _user
    if _user is None:
        _user = os.getpid()
    elif _user != os.getpid():
        raise DeviceError(
            f"this process was forked from one that had used OpenCL (process {_user}), whose runtime does not survive that",
            hint="Start processes with multiprocessing.get_context('spawn'), or fork before the first use of a device.",
        )
