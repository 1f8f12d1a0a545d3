"""One context and one profiling queue for each device, kept for the life of the process.

Intel's runtime fails with INVALID_CONTEXT once a context has been collected, so they are never given up.
"""

from __future__ import annotations

import functools

import pyopencl as cl

from . import forks


def context_of(device: cl.Device) -> cl.Context:
    """Our context on this device; raises :class:`~feinsum_fuse.errors.DeviceError` in a fork of a process that used OpenCL."""
    forks.enter()
    return _context(device)


def queue_of(device: cl.Device) -> cl.CommandQueue:
    """Our in-order queue on this device, whose events carry times; raises as :func:`context_of` does."""
    forks.enter()
    return _queue(device)


@functools.cache
def _context(device: cl.Device) -> cl.Context:
    return cl.Context([device])


@functools.cache
def _queue(device: cl.Device) -> cl.CommandQueue:
    return cl.CommandQueue(context_of(device), properties=cl.command_queue_properties.PROFILING_ENABLE)
