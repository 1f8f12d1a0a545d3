"""When two devices are the same, and when the facts of one may help the other."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import pyopencl as cl

from ... import arguments
from ...device.catalogue import DeviceInfo, find_device
from ...errors import ArchiveError

Device: TypeAlias = cl.Device | DeviceInfo | str
"""A device, its description, or a part of its name."""


def device_identity(info: DeviceInfo) -> str:
    """What decides how fast a kernel runs and how it is compiled. Twins in one machine are alike.

    These are the platform, the name, usable units, the driver, and which processor it is where that is known.
    """
    processor = f" | {info.processor}" if info.processor else ""
    return f"{info.platform} | {info.name} | {info.units} units | {info.driver}{processor}"


def is_same_device(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Whether what was measured on one holds for the other.

    Where one of them does not know its processor, the version has to be the same: it says for which processor PoCL compiles.
    """
    if one.processor and other.processor:
        return device_identity(one) == device_identity(other)
    known_alike, other_alike = (device_identity(dataclasses.replace(info, processor="")) for info in (one, other))
    return known_alike == other_alike and one.version == other.version


def device_family(info: DeviceInfo) -> str:
    """Platform and kind: the same compiler for the same sort of hardware."""
    return f"{info.platform} | {info.kind}"


def described(device: Device) -> DeviceInfo:
    """The description of a device; a name is looked up on this machine (:class:`~feinsum_fuse.errors.DeviceError` if it is not there)."""
    if isinstance(device, DeviceInfo):
        return device
    if isinstance(device, cl.Device):
        return DeviceInfo.of(device)
    if isinstance(device, str):
        return DeviceInfo.of(find_device(device))
    text = arguments.described(device)
    raise ArchiveError(f"{text} is no device", hint="give a pyopencl device, a DeviceInfo, or a part of a device's name")
