"""``ff.compile``: from a Spec to a program on a device."""

from __future__ import annotations

import pyopencl as cl

from .cascades.reading.reader import cascade as cascade_of
from .device.catalogue import find_device
from .device.program.program import Program, build, lowered
from .device.runtime.isolation import TIMEOUT
from .formats.spec import Spec, expect_spec
from .progress import Hook, Stage


def compile(spec: Spec, device: cl.Device | str | None = None, *, timeout_s: float = TIMEOUT, progress: Hook | None = None) -> Program:
    """The Spec's workload by its mapping, lowered, and built and verified once in a child process; by the default mapping without one.

    ``device`` is a device or a part of its name (default: PoCL); ``progress`` is told of stages. Raises
    :class:`~feinsum_fuse.errors.Error` for what cannot be lowered, and :class:`~feinsum_fuse.device.timing.outcome.KernelError`, which
    carries the :class:`~feinsum_fuse.device.timing.outcome.Outcome`, for a kernel that fails or computes something else within
    ``timeout_s`` seconds.
    """
    chosen = device if isinstance(device, cl.Device) else find_device(device)
    with Stage("lowering", progress):
        mapped, schedule = lowered(expect_spec(spec), chosen)
    return build(cascade_of(mapped), schedule, chosen, spec=mapped, timeout_s=timeout_s, progress=progress)
