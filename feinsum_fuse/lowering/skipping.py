"""Which loops end early because a mask in a map excludes what is left of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..formats.mapping import Spatial
from ..schedule.errors import NothingMaskedError
from ..schedule.steps.skip_steps import SkipTiles
from ..schedule.tree.masks import has_masks
from ..schedule.tree.nest import LoopRef, Nest
from .binding import Bindings
from .branch import Branch


def skipped(nest: Nest, branches: Sequence[Branch], bindings: Bindings) -> Iterator[SkipTiles]:
    """One step for each Einsum that a mask allows to do less, consumers first: its outermost loop in time that can end early.

    The end depends on loops in time and on groups, never on work-items or lanes: all of a group's work-items run a loop equally often.
    """
    if not has_masks(nest):
        return
    for branch in reversed(branches):
        for loop, per in _candidates(branch, bindings):
            step = SkipTiles(loop, per)
            try:
                nest = step.apply(nest)
            except NothingMaskedError:
                continue
            yield step
            break


def _candidates(branch: Branch, bindings: Bindings) -> Iterator[tuple[LoopRef, tuple[LoopRef, ...]]]:
    """The Einsum's loops in time, outermost first, each with the loops around it that do not run on work-items or lanes."""
    around: tuple[LoopRef, ...] = ()
    for placed in branch.path:
        ref = branch.refs.get(placed.position)
        if ref is None:
            continue
        kind = bindings.fanout(placed.node) if isinstance(placed.node, Spatial) else "loop"
        if kind == "loop":
            yield ref, around
        if kind == "loop" or kind.startswith("group."):
            around += (ref,)
