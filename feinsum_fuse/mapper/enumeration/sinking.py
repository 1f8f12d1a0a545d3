"""Below which fused loops the space of what is held above them is reserved (AccelForge's ``_symbolic.py``).

A holder's space is reserved below the loops right under it that move its tile: any number of those that move it wholly, then one that moves
its window in part. Another storage node of its Einsum ends that, so of the holders that stand between two loops the last one alone sinks;
which one that is may be chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from ...model.accelforge.einsum_terms import NONE, PARTIAL
from ..einsum.einsum_space import EinsumSpace
from .prefixes import Frame, Held
from .shared_space import TIME


def sunk(space: EinsumSpace, frame: Frame, held: tuple[Held, ...]) -> Iterator[tuple[Held, ...]]:
    """The holders with the loops under each that their space sinks below, for every choice of which of them stand last."""
    homes = [(m, frame.depths[t]) for t, m in enumerate(frame.homes) if m > 0]
    stops = {depth for _, depth in homes} | {h.depth for h in held}
    choices = []
    for depth in sorted({h.depth for h in held}):
        here = [h for h in held if h.depth == depth]
        deepest = max((m for m, d in homes if d == depth), default=0)
        last = [h for h in here if _may_be_last(space, h, here, deepest) and _loops(space, frame, stops, h)]
        choices.append([[replace(h, sunk=_loops(space, frame, stops, h)) if h is low else h for h in here] for low in last] or [here])
    for combination in itertools.product(*choices):
        yield tuple(h for here in combination for h in here)


def _loops(space: EinsumSpace, frame: Frame, stops: set[int], holder: Held) -> int:
    """How many loops a holder's space sinks below if it is the last node above them."""
    count = 0
    for depth in range(holder.depth, len(frame.loops)):
        kind = space.terms.kinds[holder.tensor][frame.loops[depth]]
        if frame.spaces[depth] != TIME or kind == NONE or (depth > holder.depth and depth in stops):
            break
        count += 1
        if kind == PARTIAL:
            break
    return count


def _may_be_last(space: EinsumSpace, holder: Held, here: list[Held], deepest: int) -> bool:
    """Whether nothing beside a holder has to stand below it; ``deepest``: the innermost memory that a tensor lives in there."""
    free = space.rules.free
    return holder.memory >= deepest and all(
        o.memory <= holder.memory or (o.tensor != holder.tensor and (holder.memory, o.memory) in free) for o in here
    )
