"""Caches as small as those of any device, for calibrations: measuring beyond a last level of hundreds of MiB takes half a minute."""

from __future__ import annotations

import dataclasses

import pyopencl as cl

from feinsum_fuse.device.calibration.caches import Cache, caches

LARGEST = 4 << 20
"""Bytes."""


def small_caches(device: cl.Device) -> tuple[Cache, ...]:
    """The caches of a device, none larger than 4 MiB."""
    return tuple(dataclasses.replace(cache, size=min(cache.size, LARGEST)) for cache in caches(device))
