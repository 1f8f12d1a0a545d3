"""``ff.compile``: from a Spec to a program on a device."""

from __future__ import annotations

import loopy as lp
import pyopencl as cl

from .cascades.matching.match import match
from .cascades.reading.reader import cascade as cascade_of
from .device.catalogue import DeviceInfo, find_device, target_of
from .device.program.program import Program, build, lowered
from .device.runtime.isolation import TIMEOUT
from .errors import MatchError
from .formats.spec import Spec, expect_spec
from .mappings.default_mapping import default_schedule
from .progress import Hook, Stage


def compile(
    spec: Spec | lp.TranslationUnit,
    device: cl.Device | str | None = None,
    *,
    timeout_s: float = TIMEOUT,
    reference_bytes: int | None = None,
    progress: Hook | None = None,
) -> Program:
    """The Spec's workload by its mapping, lowered, and built and verified once in a child process; by the default mapping without one.

    A loopy kernel is matched first, and runs by the default mapping of its cascade; the program takes its arrays, row-major, by name.
    ``device`` is a device or a part of its name (default: PoCL); ``progress`` is told of stages. ``reference_bytes``: memory for the
    float64 reference, which is computed in parts where it does not fit; by default half of what is free. Raises
    :class:`~feinsum_fuse.errors.Error` for what cannot be lowered, and :class:`~feinsum_fuse.device.timing.outcome.KernelError`, which
    carries the :class:`~feinsum_fuse.device.timing.outcome.Outcome`, for a kernel that fails or computes something else within
    ``timeout_s`` seconds.
    """
    chosen = device if isinstance(device, cl.Device) else find_device(device)
    if isinstance(spec, lp.TranslationUnit):
        return _of_kernel(spec, chosen, timeout_s, reference_bytes, progress)
    with Stage("lowering", progress):
        mapped, schedule = lowered(expect_spec(spec), chosen)
    cascade = cascade_of(mapped)
    return build(cascade, schedule, chosen, spec=mapped, timeout_s=timeout_s, reference_bytes=reference_bytes, progress=progress)


def _of_kernel(
    kernel: lp.TranslationUnit, device: cl.Device, timeout_s: float, reference_bytes: int | None, progress: Hook | None
) -> Program:
    """A program from somebody's kernel, all of whose operands are elements of arrays."""
    with Stage("matching", progress):
        matched = match(kernel)
    if matched.computed:
        raise MatchError(
            f"the kernel computes {', '.join(matched.computed)} on the way in, which a program of arrays cannot take",
            hint="ff.optimize(kernel, device) gives a loopy kernel with the same arguments.",
        )
    with Stage("lowering", progress):
        schedule = default_schedule(matched.cascade, target_of(DeviceInfo.of(device)))
    return build(matched.cascade, schedule, device, timeout_s=timeout_s, reference_bytes=reference_bytes, progress=progress)
