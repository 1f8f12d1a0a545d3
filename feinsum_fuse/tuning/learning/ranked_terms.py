"""The kernel model's own terms of a mapping, as numbers that a correction learns from."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...model.kernel.kernel_time import BlockTime, KernelTime
from ...model.kernel.machine import Machine

ROLES = ("fetch", "drain", "reload", "init", "combine", "update", "map")
"""Of statements: which of them time is spent in."""
NO_LINES = 1e-9
"""Stands for no line at all where logarithms are taken."""


def terms_of(time: KernelTime, machine: Machine) -> dict[str, float]:
    """What the model takes a kernel for, by name; nothing depends on how much there is to compute, so that workloads can be compared."""
    return dict(_terms(time, [level.name for level in machine.levels[1:]]))


def _terms(time: KernelTime, levels: list[str]) -> Iterator[tuple[str, float]]:
    parts, whole = time.parts, time.seconds
    arithmetic = sum(part.code.arithmetic for part in parts) or 1.0
    longest = max(parts, key=lambda part: part.seconds)

    def weighted(figure: float, part: BlockTime) -> float:
        return figure * part.seconds / whole

    yield "core", sum(part.core for part in parts) / whole
    yield "core bound", sum(part.seconds for part in parts if part.bound == "core") / whole
    for level in levels:
        yield level, sum(part.memory.get(level, 0.0) for part in parts) / whole
        yield f"{level} bound", sum(part.seconds for part in parts if part.bound == level) / whole
        yield f"{level} lines", math.log2(NO_LINES + sum(part.lines.get(level, 0.0) for part in parts) / arithmetic)
    yield "launches", time.launches / whole
    yield "waking", time.waking / whole
    yield "queued", sum(part.queued for part in parts) / whole
    yield "not overlapping", sum(part.seconds + part.queued - max((part.core, *part.memory.values())) for part in parts) / whole
    yield "loads", math.log2(1 + sum(part.code.loads for part in parts) / arithmetic)
    yield "stores", math.log2(1 + sum(part.code.stores for part in parts) / arithmetic)
    yield "lanes", sum(weighted(part.code.lanes, part) for part in parts)
    yield "spilled", sum(weighted(part.code.spilled, part) for part in parts)
    yield "stretch", sum(weighted(part.stretch, part) for part in parts)
    yield "blocks", float(len(parts))
    yield "longest", longest.seconds / whole
    yield "longest: lanes", float(longest.code.lanes)
    yield "longest: loads", longest.code.loads / (longest.code.arithmetic or 1.0)
    yield "longest: spilled", longest.code.spilled
    yield "longest: stretch", longest.stretch
    for role in ROLES:
        yield role, sum(part.seconds for part in parts if part.role == role) / whole
