"""Short loops that a compiler writes out before it looks for sums that it can keep in registers."""

from __future__ import annotations

import math

from ....schedule.statement import Statement
from ....schedule.tree.nest import For, Nest, NestItem, rebuilt
from ..basic_blocks import conditional
from ..machine import Machine

CHOSEN = 2
"""Lanes of a vector that is stored whole or by its first element: compilers choose the value of the other one, and keep both."""


def as_written_out(nest: Nest, machine: Machine) -> Nest:
    """The nest with the loops unrolled that the compiler writes out: those of known length in a loop that goes on with the same sums.

    Their sums have places of their own then, which the loop around does not move, so that each has a register; short sums inside a longer
    one become a part of it. A calibration measures how many copies the compiler makes; where it makes none, nothing changes.
    """
    most = machine.figure("written_out_sums")
    if most <= 1:
        return nest

    every = tuple(loop for node in nest.body if isinstance(node, For) for loop in node.loops)

    def copies(node: NestItem) -> float:
        """How many copies of its longest statement a node is when it is written out; infinitely many if it cannot be."""
        if isinstance(node, Statement):
            return 1
        inner = max(map(copies, node.body), default=1)
        if node.binding == "vector":
            # What is stored under a condition has to be in memory; of two elements the other one is chosen.
            return math.inf if (node.extent or 1) > CHOSEN and conditional(node, every) else inner
        is_known = node.extent is not None and not node.limits and not node.intrinsic and node.binding in ("loop", "unroll")
        return inner * node.extent if is_known and node.extent is not None else math.inf

    def written(node: NestItem) -> tuple[NestItem, ...]:
        if not isinstance(node, For) or node.binding != "loop" or len(node.body) > 1:
            return (node,)
        child = node.body[0]
        if not isinstance(child, For) or child.binding != "loop" or not _goes_on(child, node) or copies(child) > most:
            return (node,)
        return (node.around((_unrolled(child),)),)

    return nest.replace(body=rebuilt(nest.body, written))


def _goes_on(child: For, around: For) -> bool:
    """Whether the loop around goes on with some of a loop's sums."""
    return any(s.reduce is not None and around.name not in s.target.loops for _, s in child.points)


def _unrolled(node: NestItem) -> NestItem:
    """A loop with all loops in it unrolled; lanes stay lanes."""
    if isinstance(node, Statement):
        return node
    inner = node.around(tuple(map(_unrolled, node.body)))
    return inner if node.binding != "loop" else inner.changed(binding="unroll")
