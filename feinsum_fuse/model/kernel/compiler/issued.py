"""How fast a core is given what a block is made of."""

from __future__ import annotations

from pymbolic.primitives import Variable

from ...processor import ENTRY_OPERATIONS, SHORT_COPY
from ..basic_blocks import BasicBlock, CodeLine
from ..machine import Machine


def issuing_seconds(machine: Machine, block: BasicBlock, operations: float, *, vectorised: int) -> float:
    """Seconds in which all operations of an entry are issued, so many of an iteration, and those around a loop.

    Of copies in a loop that is known to be shorter than any vector compilers leave nothing but loads and stores one after another: each
    takes what a calibration found.
    """
    copied = machine.variable("short_copy_seconds", 0.0)
    if copied and vectorised == 1 and _is_short(block) and all(map(_is_copy, block.lines)):
        return block.trips * sum(line.copies for line in block.lines) * copied
    around = ENTRY_OPERATIONS if block.is_loop else 0.0
    return (block.trips * operations + around) * machine.seconds("issue")


def _is_short(block: BasicBlock) -> bool:
    loop = block.loop
    return loop is not None and loop.extent is not None and not loop.limits and loop.extent <= SHORT_COPY


def _is_copy(line: CodeLine) -> bool:
    """Whether scalars are stored as they are loaded."""
    statement = line.statement
    is_alone = line.lane is None and statement.reduce is None and not statement.guards
    return is_alone and isinstance(statement.value, Variable) and len(statement.operands) == 1
