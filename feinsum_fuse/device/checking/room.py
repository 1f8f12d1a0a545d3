"""Whether there is memory for a cascade's arrays and their reference, asked before anything is allocated."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path

import numpy as np
import pyopencl as cl

from ...cascades.cascade import Cascade
from ...cascades.reference.jumps import has_jumps
from ...errors import DeviceError

_MEMORY = Path("/proc/meminfo")


class NoRoomError(DeviceError):
    """The arrays of a cascade, or what it takes to verify them, are larger than the memory."""


def check_room(cascade: Cascade, device: cl.Device, free: int | None = None) -> None:
    """Raise :class:`NoRoomError` with the bytes if arrays do not fit the device, or their verification this machine's free memory.

    ``free``: bytes, as the system says if not given.
    """
    sizes = {tensor: prod(cascade.fixed_shape(tensor)) * np.dtype(cascade.tensors[tensor].dtype).itemsize for tensor in cascade.tensors}
    passed = {tensor: sizes[tensor] for tensor in (*cascade.inputs, *cascade.outputs)}
    largest = max(passed, key=passed.__getitem__)
    which = f"the largest, {largest}, is {cascade.tensors[largest].dtype}{list(cascade.fixed_shape(largest))}, {_text(passed[largest])}"
    hint = "Take smaller sizes: --set NAME=VALUE if the workload has variables."
    most = int(device.max_mem_alloc_size)
    if passed[largest] > most:
        raise NoRoomError(f"the arrays do not fit {device.name.strip()}, which allots at most {_text(most)} at once: {which}", hint=hint)
    free = free_bytes() if free is None else free
    needed = verification_bytes(cascade)
    if needed > free:
        raise NoRoomError(f"verifying this takes {_text(needed)} of memory, of which {_text(free)} are free: {which}", hint=hint)


def verification_bytes(cascade: Cascade) -> int:
    """About what is held at once: inputs here and in a child process, every tensor in the reference's width, and the device's arrays.

    Where maps have jumps, outputs are held three times.
    """
    copies = 2 if has_jumps(cascade) else 0
    given = wide = passed = 0
    for name, tensor in cascade.tensors.items():
        kind = np.dtype(tensor.dtype)
        elements = prod(cascade.fixed_shape(name))
        wide += elements * (16 if kind.kind == "c" else 8) * (1 + copies * (name in cascade.outputs))
        given += elements * kind.itemsize if name in cascade.inputs else 0
        passed += elements * kind.itemsize if name in cascade.inputs or name in cascade.outputs else 0
    return 2 * given + wide + passed


def free_bytes() -> int:
    """What programs can still have of this machine's memory."""
    try:
        fields = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _text(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
