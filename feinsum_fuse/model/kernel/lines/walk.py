"""How a core goes to the lines of a place, as far as caches foresee it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....number_types import bytes_of
from ....schedule.statement import Place
from ....schedule.tree.nest import For, Nest
from ..basic_blocks import is_written_out, moves
from ..machine import Machine


class Walk(NamedTuple):
    """How a core goes to the lines of a place: row by row, each row being a piece of lines that follow one another."""

    unforeseen: float = 0.0
    """The part of the lines that no cache asks for ahead of the core: first ones of rows."""
    crowded: float = 0.0
    """The part of the lines that begin rows which meet in few sets of the first cache and drive one another out of them, times the sets of
    a calibration's columns over theirs."""


def walk(nest: Nest, machine: Machine, place: Place, loops: Sequence[For], *, far: bool = False) -> Walk:
    """How the lines of a place are gone to, in the order in which loops touch them; ``far``: from main memory.

    What is written out of a loop are streams of their own. Of the loops that turn, the innermost one that moves the place decides: caches
    follow small steps; after a large one the first line of a row comes as a surprise, unless few rows take turns and are followed along
    by a loop around. Rows that are read side by side and lie behind one another are one run, which the next ones continue.
    """
    width = bytes_of(nest.dtype_of(place.source))
    line, followed = machine.figure("line_bytes"), machine.figure("followed_rows")
    run, streams, is_walked = width, 1, False
    piece = run
    beside: list[tuple[int, int]] = []
    rows: list[tuple[int, int]] = []
    steps = moves(nest, place) or {}

    def seen(part: float) -> Walk:
        return Walk(part, machine.crowding(rows) * line / max(piece, line))

    def surprising() -> float:
        """The part of the lines of a run that nobody foresees: the first one, of a short run from main memory all."""
        return 1.0 if far and run < machine.figure("foreseen_bytes") else line / max(run, line)

    for loop in reversed(loops):
        step = abs(steps.get(loop.name, 0)) * width
        if not step or loop.extent == 1:
            continue
        written_out = is_written_out(nest, loop)
        if written_out:
            beside.append((step, loop.extent or 1))
        while near := [one for one in beside if one[0] <= run]:
            run += sum(apart * (count - 1) for apart, count in near)
            beside = [one for one in beside if one not in near]
        piece = piece if rows else run
        if written_out:
            continue
        if step <= run or (step < machine.figure("far_bytes") and not is_walked):
            if streams > followed:
                return seen(surprising())
            run, is_walked = max(run, step) + step * ((loop.extent or 1) - 1), True
        elif is_walked:
            # A piece of a row, and then one of another row: nobody foresees where that one begins, and only from afar it shows.
            begins = far and step >= machine.figure("far_bytes")
            return seen(surprising() if begins else 0.0)
        else:
            streams *= loop.extent or 1
            rows.append((step, loop.extent or 1))
    return seen(surprising() if streams > followed else 0.0)
