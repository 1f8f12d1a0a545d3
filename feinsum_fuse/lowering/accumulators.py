"""Where sums are held that are taken in another type than they are stored in, while they are not finished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np

from ..cascades.cascade import Cascade
from ..errors import ScheduleError
from ..schedule.kernel.writing import FULLY_UNROLLED
from ..schedule.step import Step
from ..schedule.steps.tile_steps import CacheWrite
from ..schedule.target import Target
from ..schedule.tree.accumulators import rounds
from ..schedule.tree.loops import chain_of, is_reduction
from ..schedule.tree.nest import For, LoopRef, Nest
from ..schedule.tree.parallel import check_kernels
from ..schedule.tree.sizes import check_limits

LOCAL_SHARE = 4
"""Such tiles take at most this part of a device's local memory; larger ones are held in global memory."""


def rounded_sums(cascade: Cascade) -> frozenset[str]:
    """The Einsums whose unfinished sums lose something in the type that they are stored in."""
    return frozenset(e.name for e in cascade.einsums if e.reduces and _rounds(cascade, e.name))


def _rounds(cascade: Cascade, name: str) -> bool:
    einsum = cascade.einsum(name)
    stored = cascade.tensors[einsum.output.tensor].dtype
    return not np.can_cast(einsum.accumulate, stored) and rounds(einsum.reduce, stored, einsum.accumulate)


def with_accumulators(steps: Iterable[Step], nest: Nest, sums: frozenset[str], target: Target) -> Iterator[Step]:
    """The steps that place tiles, with a tile around the whole reduction for each of these sums that has none there.

    What a mapping spills from a tile to the output's own array would be rounded to the stored type each time, and so would a sum without
    any tile. The tile is private if it is small, else local, else global; a sum for which none of them is legal stays as it is.
    """
    waiting = set(sums & nest.accumulators.keys())
    for step in steps:
        if isinstance(step, CacheWrite) and step.einsum in waiting:
            waiting.remove(step.einsum)
            if not _is_around(nest, step):
                for extra in _accumulator(nest, step.einsum, target):
                    yield extra
                    nest = extra.apply(nest)
        yield step
        nest = step.apply(nest)
    for einsum in sorted(waiting):
        for extra in _accumulator(nest, einsum, target):
            yield extra
            nest = extra.apply(nest)


def _above_reductions(nest: Nest, einsum: str, step: Step | None = None) -> tuple[For, ...]:
    """The loops around an Einsum that stand outside all of its reduction loops."""
    chain = chain_of(nest, einsum, step or CacheWrite(einsum, None, "private"))
    reductions = [is_reduction(nest, loop, einsum) for loop in chain]
    return chain[: reductions.index(True)] if True in reductions else chain


def _is_around(nest: Nest, step: CacheWrite) -> bool:
    """Whether no reduction loop of the Einsum stands above the place of this tile."""
    return step.at is None or any(step.at in loop.refs for loop in _above_reductions(nest, step.einsum, step))


def _accumulator(nest: Nest, einsum: str, target: Target) -> Iterator[CacheWrite]:
    """The first legal tile around the whole reduction, if there is one."""
    at = _place(nest, einsum)
    for step, most in (
        (CacheWrite(einsum, at, "private"), FULLY_UNROLLED * np.dtype(nest.accumulators[einsum]).itemsize),
        (CacheWrite(einsum, at, "local"), target.limits.local_bytes // LOCAL_SHARE),
        (CacheWrite(einsum, None, "global"), None),
    ):
        try:
            after = step.apply(nest)
            check_kernels(after)
            check_limits(after, target.limits)
        except ScheduleError:
            continue
        (name,) = after.tiles.keys() - nest.tiles.keys()
        if most is None or prod(after.tiles[name].shape) * np.dtype(after.tiles[name].dtype).itemsize <= most:
            yield step
            return


def _place(nest: Nest, einsum: str) -> LoopRef | None:
    """The innermost loop of the Einsum's own outside its reductions; none if they are outermost."""
    own = [ref for loop in _above_reductions(nest, einsum) for ref in loop.refs if ref.einsum == einsum]
    return own[-1] if own else None
