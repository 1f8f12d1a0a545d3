"""Schedules for a short length, made to run over any length.

Where an axis is short, a mapping keeps the whole of it in registers, as no tile of a symbolic length can be. Cut into tiles of just that
length first, the same schedule serves all lengths: those up to the short one by one tile, as it was meant, and longer ones by more.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..cascades.cascade import Cascade
from ..schedule.schedule import Schedule
from ..schedule.step import NewNames, Step
from ..schedule.steps.explicate import Explicate
from ..schedule.steps.factor_steps import RFactor
from ..schedule.steps.loop_steps import Bind, Reorder, Split
from ..schedule.steps.tile_steps import CacheRead, CacheWrite
from ..schedule.tree.nest import LoopRef


@dataclass(frozen=True)
class _InsideTiles(NewNames):
    """Loops that are cut are called by their inner parts."""

    cut: frozenset[tuple[str, str]] = frozenset()

    def loop(self, loop: LoopRef) -> LoopRef:
        is_cut = (loop.einsum, loop.variable) in self.cut
        return LoopRef(loop.einsum, loop.variable, f"1{loop.path}") if is_cut else loop


def over_tiles(schedule: Schedule, cascade: Cascade, lengths: Mapping[tuple[str, str], int]) -> Schedule:
    """The schedule of a cascade with rank variables, (Einsum, variable) -> length, cut into tiles of that length before all else.

    Tiles run one after another just inside the loops that are bound to the device, and what they index is held for a tile at a time.
    Whether the result is legal its steps say when they are applied.
    """
    reads = {(e.name, operand.tensor, v) for e in cascade.einsums for operand in e.operands for v in operand.variables}
    indexed = {(einsum, tensor) for einsum, tensor, variable in reads if (einsum, variable) in lengths}
    names = _InsideTiles({}, {}, {}, frozenset(lengths))
    first = [step for step in schedule.steps if isinstance(step, Explicate)]
    rest = [step.renamed(names) for step in schedule.steps if not isinstance(step, Explicate)]
    splits = [Split(LoopRef(*place), length) for place, length in lengths.items()]
    bound = {step.loop for step in rest if isinstance(step, Bind)}
    outer: defaultdict[str, tuple[LoopRef, ...]] = defaultdict(tuple)
    for split in splits:
        outer[split.loop.einsum] += (split.loop.outer,)
    return Schedule((*first, *splits, *(_with_tiles(step, outer, bound, indexed) for step in rest)))


def _with_tiles(step: Step, outer: Mapping[str, tuple[LoopRef, ...]], bound: set[LoopRef], indexed: Collection[tuple[str, str]]) -> Step:
    """A step where there are loops over tiles besides."""
    if isinstance(step, Reorder) and step.einsum in outer:
        place = next((k for k, loop in enumerate(step.order) if loop not in bound), len(step.order))
        return dataclasses.replace(step, order=(*step.order[:place], *outer[step.einsum], *step.order[place:]))
    held: tuple[str, ...] = ()
    if isinstance(step, CacheWrite | RFactor):
        held = (step.einsum if isinstance(step, CacheWrite) else step.loop.einsum,)
    elif isinstance(step, CacheRead):
        held = tuple(einsum for einsum in step.einsums if (einsum, step.tensor) in indexed)
    loops = [outer[einsum][-1] for einsum in held if einsum in outer]
    if loops and isinstance(step, CacheRead | CacheWrite | RFactor) and (step.at is None or step.at in bound):
        return dataclasses.replace(step, at=loops[0])
    return step
