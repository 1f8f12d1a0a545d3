"""Whether there is memory for a cascade's arrays and their reference, asked before anything is allocated."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path

import numpy as np
import pyopencl as cl

from ...arguments import COUNT, NOTHING, expect
from ...cascades.cascade import Cascade
from ...cascades.reference.jumps import has_jumps
from ...cascades.reference.parts import parts
from ...cascades.reference.reference import held_bytes
from ...cascades.reference.slabs import NotSlicedError
from ...errors import DeviceError

_MEMORY = Path("/proc/meminfo")
SHARE = 0.5
"""Of the free memory that a reference takes by default; the rest is left to compilers and other programs."""


class NoRoomError(DeviceError):
    """The arrays of a cascade, or what it takes to verify them, are larger than the memory."""


def check_room(cascade: Cascade, device: cl.Device, free: int | None = None, budget: int | None = None) -> int:
    """The bytes that the reference may hold; :class:`NoRoomError` with the bytes if arrays do not fit the device, or this machine.

    ``free``: bytes, as the system says if not given. ``budget``: bytes of the reference, by default :data:`SHARE` of what is free beside
    the arrays; what does not fit it whole is computed in parts.
    """
    expect(budget, COUNT | NOTHING, "reference_bytes", DeviceError)
    sizes = {tensor: prod(cascade.fixed_shape(tensor)) * np.dtype(cascade.tensors[tensor].dtype).itemsize for tensor in cascade.tensors}
    passed = {tensor: sizes[tensor] for tensor in (*cascade.inputs, *cascade.outputs)}
    largest = max(passed, key=passed.__getitem__)
    which = f"the largest, {largest}, is {cascade.tensors[largest].dtype}{list(cascade.fixed_shape(largest))}, {_text(passed[largest])}"
    hint = "Take smaller sizes: --set NAME=VALUE if the workload has variables."
    most = int(device.max_mem_alloc_size)
    if passed[largest] > most:
        raise NoRoomError(f"the arrays do not fit {device.name.strip()}, which allots at most {_text(most)} at once: {which}", hint=hint)
    free = free_bytes() if free is None else free
    arrays = array_bytes(cascade)
    least = arrays + held_bytes(cascade) + jump_bytes(cascade)
    allowed = _rounded((free - arrays) * SHARE) if budget is None else budget
    if held_bytes(cascade) + jump_bytes(cascade) <= allowed:
        return allowed
    reason = f"and in parts of {_text(max(0, allowed))} it cannot be computed"
    try:
        if arrays + allowed <= free and allowed > 0:
            parts(cascade, allowed)
            return allowed
    except NotSlicedError as error:
        reason += f" ({error.message})"
        if budget is None and least <= free:
            return free
    taken = f"verifying this takes {_text(least)} of memory, of which {_text(free)} are free"
    raise NoRoomError(f"{taken}, {reason}: {which}", hint=hint)


def check_trial(count: int) -> None:
    """:class:`NoRoomError` if a kernel's arrays, of so many bytes, are too long to be tried: held here and in two child processes."""
    needed, free = 3 * count, free_bytes()
    if needed > free:
        taken = f"trying the kernel takes {_text(needed)} of memory, of which {_text(free)} are free"
        raise NoRoomError(taken, hint="Give the kernel with shorter lengths, or as it is to schedules (Schedule.apply), which run nothing.")


def array_bytes(cascade: Cascade) -> int:
    """About what is held beside the reference: the device's arrays, inputs here and in a child process, outputs that are read back and
    compared."""
    sizes = {name: prod(cascade.fixed_shape(name)) * np.dtype(tensor.dtype).itemsize for name, tensor in cascade.tensors.items()}
    return sum(sizes.values()) + 2 * sum(sizes[name] for name in (*cascade.inputs, *cascade.outputs))


def jump_bytes(cascade: Cascade) -> int:
    """What the reference holds besides where maps have jumps: outputs twice more."""
    return 2 * sum(8 * prod(cascade.fixed_shape(name)) for name in cascade.outputs) if has_jumps(cascade) else 0


def _rounded(count: float) -> int:
    """The next lower power of two: what is free changes from call to call, and should not change what is computed in parts."""
    return 1 << (int(count).bit_length() - 1) if count >= 1 else 0


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
