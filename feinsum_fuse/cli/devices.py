"""``devices``: the OpenCL devices that can be chosen."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from .console import emit_json, table
from .options import JsonOption

if TYPE_CHECKING:
    from ..device.catalogue import DeviceInfo


def command(as_json: JsonOption = False) -> None:
    """List the OpenCL devices; the first is the default. --device takes a number, part of a platform's name, or of a device's.

    Where both could be meant: platform:NAME, vendor:NAME (who made it) and name:NAME.
    """
    from ..device.catalogue import DeviceInfo, devices, find_device

    found = [DeviceInfo.of(device) for device in devices()]
    if not found:
        find_device()
    if as_json:
        emit_json([asdict(info) for info in found])
        return
    rows = [
        [str(number), info.name, info.platform, info.kind, str(info.units), *map(_size, _memories(info))]
        for number, info in enumerate(found, 1)
    ]
    table(["", "device", "platform", "kind", "units", "main memory", "cache", "local"], rows)


def _memories(info: DeviceInfo) -> tuple[int, int, int]:
    return info.global_bytes, info.cache_bytes, info.local_bytes


def _size(count: int) -> str:
    """A number of bytes with a binary unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"
