"""What cores find in the largest cache that each has for itself when a kernel comes to an array again.

What a core touched since decides what is left, and which core had it: groups that share an array along the same axes as those before
mostly run on the same cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class CoreArrays(NamedTuple):
    """What each core touches in one kernel."""

    claimed: Mapping[str, float]
    """Array -> bytes of a cache that one core's part of it takes."""
    dealt: Mapping[str, tuple[int, ...]]
    """Array -> its stored axes along which groups go, none where each core touches all of it."""
    cores: int
    """Cores that have groups."""

    @property
    def every(self) -> float:
        """Bytes of all arrays."""
        return sum(self.claimed.values())


def lost_parts(kernels: Sequence[CoreArrays], number: int, size: float, lost: Callable[[float], float]) -> dict[str, float]:
    """Array of the kernel of that number -> the part of it that cores do not find in their caches of so many bytes.

    ``lost``: the part that is gone of data of so many times such a cache when it is touched again. Kernels follow one another, and behind
    the last one comes the first of the next run.
    """
    now, found = kernels[number], {}
    for name in now.claimed:
        steps = next(step for step in range(1, len(kernels) + 1) if name in kernels[number - step].claimed)
        last = kernels[number - steps]
        between = {other: of.claimed[other] for step in range(1, steps) for of in (kernels[number - step],) for other in of.claimed}
        inside = sum(claimed for other, claimed in between.items() if other not in now.claimed and other not in last.claimed)
        # Of the first element all of the kernel before was touched since, of the last one all of this one.
        kept = 1 - lost(((now.every + last.every) / 2 + inside) / size)
        found[name] = 1 - kept * same_core(last, now, name)
    return found


def same_core(last: CoreArrays, now: CoreArrays, name: str) -> float:
    """The part of what a core touches of an array that it had in the kernel before."""
    if not last.dealt[name]:
        return min(1.0, last.cores / now.cores)
    if last.dealt[name] == now.dealt[name] and last.cores == now.cores:
        return 1.0
    return 1 / max(last.cores, now.cores)
