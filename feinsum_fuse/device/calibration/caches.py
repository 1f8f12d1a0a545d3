"""Which caches a device has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyopencl as cl

from ...schedule.target import Target

SHOWS = 1.25
"""Times as fast as memory a cache is at least: below, what is measured may be noise."""
_SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")
LAST_CACHE = "last_cache_bytes"
"""The cache that all units share, in ``arch.variables``: as many bytes of it as this machine gets."""
FAR_LINE_COST = "far_line_cost"
"""What a line from what all units share costs more than one from a unit's own caches, in multiply-adds of vectors: in the same place."""
OWN_LINE_COST = "own_line_cost"
"""What a line from the largest of a unit's own caches costs: in the same place."""
OWN_LINE_LOSS = "own_line_loss"
"""The part of that which computing does not hide."""
SUMS_AT_ONCE = "sums_at_once"
"""Multiply-adds of vectors that begin while one is done: in the same place."""
LOAD_COST = "load_cost"
"""What a load of a vector costs beside multiply-adds, in multiply-adds: in the same place."""


@dataclass(frozen=True)
class Cache:
    """One level; ``shared`` by all compute units, or one for each. Sizes in bytes."""

    level: int
    size: int
    line: int
    shared: bool

    @property
    def name(self) -> str:
        """What the level is called: L1, L2, L3."""
        return f"L{self.level}"


def caches(device: cl.Device) -> tuple[Cache, ...]:
    """The data caches, outermost first: as the system lists them for processors, else the one that OpenCL knows of."""
    found = _of_the_system() if device.type & cl.device_type.CPU else []
    size = int(device.global_mem_cache_size)
    if not found and size:
        found = [Cache(2, size, int(device.global_mem_cacheline_size) or Target.line_bytes, shared=True)]
    return tuple(sorted(found, key=lambda cache: -cache.level))


def held_bytes(rates: Mapping[int, float]) -> int:
    """The size of a cache that all units share, by the bytes a second that they read of so many bytes; 0 if it does not show.

    It holds the sizes that are read nearer to the fastest rate than to that of the largest size, which is memory's.
    """
    if not rates:
        return 0
    fastest, beyond = max(rates.values()), rates[max(rates)]
    return max(size for size, rate in rates.items() if rate * rate >= fastest * beyond) if fastest > SHOWS * beyond else 0


def share_of(told: int, rates: Mapping[int, float]) -> int:
    """Bytes that this machine gets of a last cache of ``told`` bytes, by the bytes a second that all units read of so many bytes.

    All that is told, unless half of it is read more slowly than less is: a guest of a virtual machine is told of its host's cache and has a
    share of it. Two cores that are told of 480 MiB read 52 GB/s of up to 48 MB, and 29 of 96 MB or more; two that are told of 300 MiB read
    51 of up to 75 MB, 30 to 40 of 150 MB and 30 of all.
    """
    whole, half = rates.get(told, 0.0), rates.get(told // 2, 0.0)
    if not whole or not half:
        return told
    # Of the smallest size the units' own caches hold a part.
    fastest = max(rate for size, rate in rates.items() if size > min(rates) or size == told // 2)
    return (held_bytes(rates) if SHOWS * half < fastest else 0) or told


def own_caches(device: cl.Device) -> tuple[int, int] | None:
    """Bytes of a core's first data cache, and of the largest that it has for itself; ``None`` where nobody says."""
    sizes = [cache.size for cache in caches(device) if not cache.shared and cache.size]
    return (sizes[-1], max(sizes)) if sizes else None


def shared_cache(device: cl.Device) -> int:
    """Bytes of the largest cache that cores share; 0 where nobody tells of one."""
    return max([cache.size for cache in caches(device) if cache.shared], default=0)


def line_bytes(device: cl.Device) -> int:
    """The line of the nearest cache; that of the neutral target where nobody says."""
    return next((cache.line for cache in reversed(caches(device))), Target.line_bytes)


def _of_the_system() -> list[Cache]:
    result = []
    for index in sorted(_SYSTEM.glob("index*")):
        if (index / "type").read_text().strip() == "Instruction":
            continue
        threads = _count((index / "shared_cpu_list").read_text().strip())
        siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
        own = _count(siblings.read_text().strip()) if siblings.exists() else 1
        line = int((index / "coherency_line_size").read_text())
        result.append(Cache(int((index / "level").read_text()), _bytes((index / "size").read_text().strip()), line, threads > own))
    return result


def _bytes(text: str) -> int:
    return int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)


def _count(cpus: str) -> int:
    """How many processors a list such as ``0-3,8`` names."""
    total = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total
