"""What a nest allocates, against what a device has."""

from __future__ import annotations

from math import prod

from ...number_types import bytes_of
from ..refusals import LocalSizeError, PrivateSizeError, WorkGroupSizeError
from ..target import DeviceLimits
from .nest import Nest
from .parallel import axes_of


def allocated(nest: Nest) -> dict[str, int]:
    """Tile -> bytes."""
    return {tile.name: tile.elements * bytes_of(tile.dtype) for tile in nest.tiles.values()}


def check_limits(nest: Nest, limits: DeviceLimits) -> None:
    """Raise :class:`LocalSizeError`, :class:`PrivateSizeError` or :class:`WorkGroupSizeError` if the nest does not fit the device."""
    sizes = axes_of(nest, "local")
    items = prod(sizes.values())
    if items > limits.max_work_group_size or any(n > most for n, most in zip(sizes.values(), limits.max_work_item_sizes, strict=False)):
        shown = " x ".join(map(str, sizes.values()))
        raise WorkGroupSizeError(
            f"a group of {shown} work-items is larger than the device's {limits.max_work_group_size}",
            hint="Use larger tiles below the Spatial loops that are bound to work-items.",
        )
    size = allocated(nest)
    by_memory = {memory: {t: size[t] for t, tile in nest.tiles.items() if tile.memory == memory} for memory in ("local", "private")}
    local = sum(by_memory["local"].values())
    if local > limits.local_bytes:
        raise LocalSizeError(
            f"the kernel needs {local} bytes of local memory, the device has {limits.local_bytes}: {_largest(by_memory['local'])}",
            hint="Use smaller tiles, or move a Storage node below a loop.",
        )
    private = sum(by_memory["private"].values()) * items
    if private > limits.private_bytes:
        raise PrivateSizeError(
            f"the {items} work-items of a group need {private} bytes of private memory, the device has {limits.private_bytes}: "
            f"{_largest(by_memory['private'])}",
            hint="Use smaller tiles, or move a Storage node below a loop.",
        )


def _largest(sizes: dict[str, int]) -> str:
    ordered = sorted(sizes.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {size}" for name, size in ordered)
