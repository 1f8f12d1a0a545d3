"""What a device allows: a plain value, so that lowering needs no device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceLimits:
    """Limits that are checked before OpenCL is reached.

    The defaults are PoCL's: beyond 1 MiB of local memory, or beyond the 8 MiB stack of the thread that runs a group, it dies of a
    segmentation fault instead of reporting an error.
    """

    max_work_group_size: int = 4096
    max_work_item_sizes: tuple[int, int, int] = (4096, 4096, 4096)
    local_bytes: int = 1 << 20
    private_bytes: int = 6 << 20
    """For all work-items of a group together; what the stack holds beside our arrays is left out."""
