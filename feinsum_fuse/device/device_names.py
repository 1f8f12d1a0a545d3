"""Which device a text names: platforms, makers and the devices' own names are told apart, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import DeviceError


@dataclass(frozen=True)
class DeviceNames:
    """What a device, its maker and its platform are called."""

    platform: str
    platform_vendor: str
    vendor: str
    """Who made the hardware: PoCL's device on an Intel processor has ``GenuineIntel``."""
    name: str
    description: str
    """How it stands in a list."""


NAME_KINDS: dict[str, Callable[[DeviceNames], tuple[str, ...]]] = {
    "platform": lambda names: (names.platform, names.platform_vendor),
    "vendor": lambda names: (names.vendor,),
    "name": lambda names: (names.name,),
}
"""What may stand before a colon, and the names in which the rest is then looked for."""
FORMS = "Give part of a platform's or device's name, a number of this list, or platform:, vendor: or name: and part of such a name."


def position_of(text: str, listed: Sequence[DeviceNames]) -> int:
    """The position of the one device that a text names; case does not count.

    ``KIND:PART`` looks in the names of one of :data:`NAME_KINDS`; a number is a place in the list, from 1 on. Any other text is part of a
    platform's name or its vendor's, and where no platform has it, of a device's own name. A maker's name alone names no device: on an Intel
    processor every platform has a device of Intel's. Where several have the text, the one that is called exactly so is meant. Raises
    :class:`~feinsum_fuse.errors.DeviceError` with the list for a text that names no device, or several.
    """
    wanted = text.strip().casefold()
    if wanted.isdecimal() and len(wanted) < 10 and 1 <= int(wanted) <= len(listed):
        return int(wanted) - 1
    kind, colon, rest = wanted.partition(":")
    if colon and kind in NAME_KINDS:
        return _only(text, _holding(rest.strip(), listed, kind), listed)
    platforms = _holding(wanted, listed, "platform")
    if platforms:
        return _only(text, platforms, listed)
    own, made = _holding(wanted, listed, "name"), _holding(wanted, listed, "vendor")
    if made and set(own) <= set(made):
        raise DeviceError(f"no platform is called {text!r}: it is the maker of {_numbers(made)}, by another's platform", hint=hint(listed))
    return _only(text, own, listed)


def hint(listed: Sequence[DeviceNames]) -> str:
    """How a device is named, and the list of those that there are."""
    rows = [f"    {number}  {one.description}" for number, one in enumerate(listed, 1)]
    return "\n".join([f"{FORMS} There are:", *rows])


def _holding(text: str, listed: Sequence[DeviceNames], kind: str) -> list[int]:
    """The positions of the devices with this text in a name of this kind; only of those that are called exactly so, if there are any."""
    names = [[name.strip().casefold() for name in NAME_KINDS[kind](one)] for one in listed]
    exactly = [position for position, own in enumerate(names) if text in own]
    return exactly or [position for position, own in enumerate(names) if any(text in name for name in own)]


def _only(text: str, positions: list[int], listed: Sequence[DeviceNames]) -> int:
    if not positions:
        raise DeviceError(f"no OpenCL device matches {text!r}", hint=hint(listed))
    if len(positions) > 1:
        raise DeviceError(f"{text!r} names {len(positions)} OpenCL devices, {_numbers(positions)}", hint=hint(listed))
    return positions[0]


def _numbers(positions: Sequence[int]) -> str:
    """As they stand in the list."""
    return ", ".join(f"number {position + 1}" for position in positions)
