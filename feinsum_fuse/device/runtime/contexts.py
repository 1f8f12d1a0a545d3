"""One context and one profiling queue for each device, kept for the life of the process.

Intel's runtime fails with INVALID_CONTEXT once a context has been collected, so they are never given up.
"""

from __future__ import annotations

import functools

import pyopencl as cl


@functools.cache
def context_of(device: cl.Device) -> cl.Context:
    """Our context on this device."""
    return cl.Context([device])


@functools.cache
def queue_of(device: cl.Device) -> cl.CommandQueue:
    """Our in-order queue on this device; its events carry times."""
    return cl.CommandQueue(context_of(device), properties=cl.command_queue_properties.PROFILING_ENABLE)
