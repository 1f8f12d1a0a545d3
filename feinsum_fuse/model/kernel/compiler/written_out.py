"""Short loops that a compiler writes out before it looks for sums that it can keep in registers."""

from __future__ import annotations

import math

from ....schedule.statement import Statement
from ....schedule.tree.nest import For, Nest, NestItem, rebuilt
from ..basic_blocks import conditional, stride
from ..machine import Machine

CHOSEN = 2
"""Lanes of a vector that is stored whole or by its first element: compilers choose the value of the other one, and keep both."""


def as_written_out(nest: Nest, machine: Machine) -> Nest:
    """The nest with the loops unrolled that the compiler writes out: those of known length in a loop that goes on with the same sums, and
    those that only compute values.

    Sums have places of their own then, which the loop around does not move, so that each has a register; short sums inside a longer
    one become a part of it. What such values are made of is computed before the loop around, if that does not move it. A calibration
    measures how many copies the compiler makes; where it makes none, nothing changes.
    """
    most = machine.figure("written_out_sums")
    if most <= 1:
        return nest

    every = tuple(loop for node in nest.body if isinstance(node, For) for loop in node.loops)

    def copies(node: NestItem, around: frozenset[str], unrolled: frozenset[str] = frozenset()) -> float:
        """How many copies of its longest statement a node is when it is written out in loops of these names, inside others; infinitely many
        if it cannot be."""
        if isinstance(node, Statement):
            return 1
        inner = max((copies(one, around, unrolled | {node.name}) for one in node.body), default=1)
        if node.binding == "vector":
            # What is stored under a condition has to be in memory; of two elements the other one is chosen.
            return math.inf if (node.extent or 1) > CHOSEN and conditional(node, every) and not _is_known(nest, node, unrolled) else inner
        is_known = node.extent is not None and not node.intrinsic and node.binding in ("loop", "unroll")
        # Of a loop that a group skips, or runs whole, the length is known; sums under such a condition stay in memory all the same.
        is_whole = not node.limits or _is_decided(node, around) or (not unrolled and _only_computes(node) and not conditional(node, every))
        return inner * node.extent if is_known and is_whole and node.extent is not None else math.inf

    def written(node: NestItem) -> tuple[NestItem, ...]:
        if not isinstance(node, For) or node.binding != "loop" or len(node.body) > 1:
            return (node,)
        child = node.body[0]
        if not isinstance(child, For) or child.binding != "loop" or not (_goes_on(child, node) or _only_computes(child)):
            return (node,)
        few = copies(child, frozenset(one.name for one in node.loops)) <= most
        return (node.around((unrolled(child),)),) if few else (node,)

    return nest.replace(body=rebuilt(nest.body, written))


def _goes_on(child: For, around: For) -> bool:
    """Whether the loop around goes on with some of a loop's sums."""
    return any(s.reduce is not None and around.name not in s.target.loops for _, s in child.points)


def _only_computes(loop: For) -> bool:
    """Whether all statements of a loop compute values of maps, none of which is a sum."""
    return all(s.role == "map" and s.reduce is None for _, s in loop.points)


def _is_decided(loop: For, around: frozenset[str]) -> bool:
    """Whether it is decided before the loops around a loop how long it is, in one way: compilers write these once for either length. Only
    where it computes vectors, or values of maps: sums of scalars stay in memory all the same."""
    deciding = [{*limit.variables} - {loop.name} for limit in loop.limits]
    is_computing = all(
        (s.role == "map" and s.reduce is None) or any(one.binding == "vector" for one in loops) for loops, s in loop.points
    )
    return is_computing and len(deciding) == 1 and not deciding[0] & around


def _is_known(nest: Nest, lane: For, unrolled: frozenset[str]) -> bool:
    """Whether copies in which these loops are written out know how many lanes they have: some have all, and others a part of a row."""
    deciding = [{*limit.variables} - {lane.name} for limit in lane.limits]
    return all(names and unrolled >= names for names in deciding) and all(stride(nest, s.target, lane.name) == 1 for _, s in lane.points)


def unrolled(node: NestItem) -> NestItem:
    """A loop with all loops in it unrolled; lanes stay lanes."""
    if isinstance(node, Statement):
        return node
    inner = node.around(tuple(map(unrolled, node.body)))
    return inner if node.binding != "loop" else inner.changed(binding="unroll")
