"""Loops over scalars whose text asks for a group's index: to some compilers that calls a function in each iteration, and the loop stays
one over scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....codegen.repeats import REPEATED
from ....schedule.statement import Place
from ....schedule.tree.nest import Nest
from ..basic_blocks import BasicBlock, moves
from ..machine import Machine

CALLED = 2.0
"""Times what a loop in vectors takes from which on the same loop is none with a group's index in it."""


def looks_elsewhere(machine: Machine) -> bool:
    """Whether it matters to a block what others of its kernel read and write: an index may have a name then."""
    return machine.figure("group_index_times") >= CALLED


def are_left_alone(machine: Machine, nest: Nest, block: BasicBlock) -> bool:
    """Whether the compiler makes no vectors of a block's loop because its text asks for a group's index."""
    if block.loop is None or not looks_elsewhere(machine):
        return False
    groups = frozenset(loop.name for loop in block.above if loop.is_over_groups and loop.extent != 1)
    places = [place for line in block.lines for place in (line.statement.target, *line.statement.operands)]
    return any(_asks(place, groups) and not _has_name(nest, block, place, groups) for place in places)


def _asks(place: Place, groups: frozenset[str]) -> bool:
    """Whether an index of a place has a group's index in it; where a part starts that several decide has a name of its own."""
    return any(len(groups.intersection(index.variables)) == 1 for index in place.indices)


def _has_name(nest: Nest, block: BasicBlock, place: Place, groups: frozenset[str]) -> bool:
    """Whether what other loops than the block's move a place by is long enough for a name, and another block reads or writes there, too,
    or where one of its indices is the same: it is computed before both then.
    """
    around = {loop.name for loop in block.above[:-1] if loop.extent != 1}

    def start(steps: Mapping[str, int]) -> Mapping[str, int]:
        return {name: step for name, step in steps.items() if name in around}

    def starts(of: Place) -> Iterator[Mapping[str, int]]:
        yield start(moves(nest, of) or {})
        yield from (start(dict(index.terms)) for index in of.indices)  # Z[32*M_at + j] beside M[M_at]

    own, here = start(moves(nest, place) or {}), {id(line.statement) for line in block.lines}
    length = sum(step != 1 for step in own.values()) + len(own) - 1 - max(0, len(groups & own.keys()) - 1)
    others = (of for _, s in nest.points if id(s) not in here for of in (s.target, *s.operands))
    return length >= REPEATED and any(own in starts(of) for of in others)
