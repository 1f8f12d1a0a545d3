"""``devices``: the OpenCL devices that can be chosen."""

from __future__ import annotations

from dataclasses import asdict

from .console import emit_json, table
from .options import JsonOption


def command(as_json: JsonOption = False) -> None:
    """List the OpenCL devices; the first is the default, and --device takes any part of a platform's or device's name."""
    from ..device.catalogue import DeviceInfo, devices, find_device

    found = [DeviceInfo.of(device) for device in devices()]
    if not found:
        find_device()
    if as_json:
        emit_json([asdict(info) for info in found])
        return
    rows = [
        [info.name, info.platform, info.kind, str(info.units), _size(info.global_bytes), _size(info.cache_bytes), _size(info.local_bytes)]
        for info in found
    ]
    table(["device", "platform", "kind", "units", "main memory", "cache", "local"], rows)


def _size(count: int) -> str:
    """A number of bytes with a binary unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"
