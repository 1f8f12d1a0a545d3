"""What one iteration of a block needs, counted."""

from __future__ import annotations

from dataclasses import dataclass

from .machine import Machine


@dataclass
class CodeCounts:
    """What one iteration of a block needs."""

    arithmetic: float = 0.0
    additions: float = 0.0
    """Those of the arithmetic operations that no multiplication is part of."""
    split_loads: float = 0.0
    """Loads of vectors that lie in two lines."""
    split_stores: float = 0.0
    narrow_stores: float = 0.0
    """Stores of half a vector or less."""
    functions: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    packed: float = 0.0
    lane_stores: float = 0.0
    """Elements that are stored from vectors to lines of their own."""
    narrow_lane_stores: float = 0.0
    """Those of half a vector or less."""
    other: float = 0.0
    before: float = 0.0
    live: float = 0.0
    """Vectors of sums that registers hold."""
    kept: float = 0.0
    """Vectors of operands that the loop does not move."""
    updates: float = 0.0
    """Vectors in memory that are changed where they are."""

    def storing(self, machine: Machine) -> float:
        """Seconds in which the stores of an iteration leave the core."""
        whole, split = machine.seconds("store"), machine.seconds("split_store")
        parts = ((self.narrow_stores, "narrow_store"), (self.lane_stores, "lane_store"), (self.narrow_lane_stores, "narrow_lane_store"))
        others = sum(count for count, _ in parts)
        return (
            (self.stores - others) * whole
            + sum(count * machine.seconds(name) for count, name in parts)
            + self.split_stores * max(0.0, split - whole)
        )
