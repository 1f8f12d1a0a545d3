"""Steps that no node of a mapping asks for and that follow from what stands there.

Sums that are taken in another type than they are stored in are held in a tile until they are finished. Loops end early where a mask
excludes what is left of them. A reduction that runs on work-items or lanes has partial results. Loops over private tiles are written out,
so that these can live in registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from math import prod

import numpy as np

from ..cascades.cascade import Cascade
from ..errors import ScheduleError
from ..formats.mapping import Placed, Position, Spatial, Storage, Temporal
from ..formats.opencl import MEMORIES, nearest_space
from ..schedule.intrinsics.function_intrinsic import FunctionIntrinsic
from ..schedule.intrinsics.function_matching import pays
from ..schedule.intrinsics.intrinsic import DOT_PRODUCT
from ..schedule.intrinsics.registration import intrinsics
from ..schedule.kernel.operations import LANES, has_vectors
from ..schedule.refusals import NothingMaskedError
from ..schedule.statement import Statement
from ..schedule.step import Step
from ..schedule.steps.block_steps import Blockize, Tensorize
from ..schedule.steps.factor_steps import RFactor
from ..schedule.steps.loop_steps import Unroll
from ..schedule.steps.rounding_steps import RoundUp
from ..schedule.steps.skip_steps import SkipTiles, lives_throughout
from ..schedule.steps.tile_steps import CacheWrite
from ..schedule.steps.vector_steps import Vectorize, consecutive_axis, lane_axis
from ..schedule.target import Target
from ..schedule.tree.accumulators import rounds
from ..schedule.tree.loops import FULLY_UNROLLED, chain_of, is_reduction
from ..schedule.tree.masks import has_masks
from ..schedule.tree.nest import For, LoopRef, Nest
from ..schedule.tree.parallel import check_kernels
from ..schedule.tree.sizes import check_limits
from .binding import Bindings
from .branch import EinsumBranch

LOCAL_SHARE = 4
"""Tiles of unfinished sums take at most this part of a device's local memory; larger ones are held in global memory."""
CHAINS = 4
"""Sums of one element that stand side by side at the most: an addition takes about so many cycles, and a load of memory hardly one."""
KERNEL_STATEMENTS = 256
"""A kernel of more unrolled statements takes seconds to generate; beyond it loops stay loops."""


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


def skipped(nest: Nest, uncut: Nest, branches: Sequence[EinsumBranch], bindings: Bindings) -> Iterator[tuple[SkipTiles, Nest]]:
    """Steps for each Einsum that a mask allows to do less, each with the nest after it, consumers first: its outermost loop in time that
    can end early and, where that is over blocks of a reduction and no other Einsum runs in them, the loop over a block's single values.
    ``uncut`` is the nest before any step.

    The end depends on loops in time and on groups, never on work-items or lanes: all of a group's work-items run a loop equally often.
    """
    if not has_masks(nest):
        return
    often = Counter(placed.position for branch in branches for placed in branch.path)
    for branch in reversed(branches):
        ended: LoopRef | None = None
        for placed, loop, per in _candidates(branch, bindings):
            is_single = isinstance(placed.node, Temporal) and placed.node.tile_shape == 1
            if ended is not None and not (is_single and loop.variable == ended.variable):
                continue
            if lives_throughout(uncut, loop.einsum, [part.variable for part in (*per, loop)]):
                continue  # as of most loops: what the step itself asks takes longer
            step = SkipTiles(loop, per)
            try:
                nest = step.apply(nest)
            except NothingMaskedError:
                continue
            yield step, nest
            if loop.variable not in branch.einsum.reduction_variables or often[placed.position] > 1:
                break
            ended = loop


def _candidates(branch: EinsumBranch, bindings: Bindings) -> Iterator[tuple[Placed, LoopRef, tuple[LoopRef, ...]]]:
    """The Einsum's loops in time, outermost first, each with the loops around it that do not run on work-items or lanes."""
    around: tuple[LoopRef, ...] = ()
    for placed in branch.path:
        ref = branch.refs.get(placed.position)
        if ref is None:
            continue
        level = bindings.level(placed.node) if isinstance(placed.node, Spatial) else "loop"
        if level == "loop":
            yield placed, ref, around
        if level in {"loop", "group"}:
            around += (ref,)


def factored(branch: EinsumBranch, position: Position, bindings: Bindings, shared: Container[Position]) -> Iterator[RFactor]:
    """The step that a Spatial over work-items or lanes needs if it runs over a reduction variable of the Einsum; none otherwise.

    Partial results are combined as seldom as possible: they are held above the outermost reduction loop, unless another Einsum runs under a
    loop further in (the positions ``shared``), the output's own tile lies there, or the memory is not seen across a loop in between.
    """
    spatial = next(placed.node for placed in branch.path if placed.position == position)
    ref = branch.refs[position]
    assert isinstance(spatial, Spatial)
    if ref.variable not in branch.einsum.reduction_variables:
        return
    memory = nearest_space({bindings.fanout(spatial)})
    above = [placed for placed in branch.path if placed.position in branch.refs and placed.position < position]
    reductions = [branch.refs[placed.position].variable in branch.einsum.reduction_variables for placed in above]
    depth = reductions.index(True) if True in reductions else len(above)
    for number, placed in enumerate(above, 1):
        is_hidden = isinstance(placed.node, Spatial) and MEMORIES[memory].is_hidden_from(bindings.fanout(placed.node))
        if is_hidden or placed.position in shared:
            depth = max(depth, number)
    depth = max(depth, _tile_depth(branch, position, bindings))
    yield RFactor(ref, branch.refs[above[depth - 1].position] if depth else None, memory)


def side_by_side(branch: EinsumBranch, factor: RFactor) -> Iterator[RFactor]:
    """The step by which a few vectors of partial results stand side by side, where lanes add up and the loop around them is cut twice.

    ``for k in tiles of 64`` right above ``for k in tiles of 16`` and sixteen lanes are four sums, none of which waits for another: a sum
    waits for the one before it as long as an addition takes. The inner loop has at most :data:`CHAINS` iterations; what is left of a row in
    the end is added to the first of them.
    """
    sums = [
        (number, placed.node, branch.refs[placed.position])
        for number, placed in enumerate(branch.path)
        if placed.position in branch.refs and branch.refs[placed.position].variable in branch.einsum.reduction_variables
    ]
    loops = [(number, node, ref) for number, node, ref in sums if ref != factor.loop and type(node) is Temporal]
    if len(loops) < 2:
        return
    (first, outer, around), (second, inner, ref) = loops[-2:]
    assert isinstance(outer, Temporal) and isinstance(inner, Temporal)
    count, rest = divmod(outer.tile_shape, inner.tile_shape)
    size = branch.einsum.sizes[ref.variable]
    is_cut_twice = second == first + 1 and around.variable == ref.variable
    if is_cut_twice and rest == 0 and 1 < count <= CHAINS and isinstance(size, int):
        yield RFactor(ref, factor.at, factor.memory)


def _tile_depth(branch: EinsumBranch, position: Position, bindings: Bindings) -> int:
    """How many loops lie around the innermost tile of the output that lies above this position."""
    tensor = branch.einsum.output.tensor
    depth = 0
    for start in branch.storages(tensor):
        node = branch.path[start].node
        assert isinstance(node, Storage)
        if branch.path[start].position < position and MEMORIES[bindings.memory(node.component)].holds_copies:
            end = start if start == branch.storages(tensor)[0] else branch.reservation(start, tensor)
            depth = sum(placed.position in branch.refs for placed in branch.path[:end])
    return depth


def unrolled(nest: Nest) -> Iterator[Unroll]:
    """Steps that unroll the loops over private tiles which a statement updates or reads, innermost Einsums' budgets permitting."""
    total = 0
    done: set[str] = set()
    for above, statement in nest.points:
        if statement.role not in {"update", "map"}:
            continue
        loops = _over_private(nest, above, statement)
        count = prod(loop.extent or FULLY_UNROLLED + 1 for loop in loops)
        if 1 < count <= FULLY_UNROLLED and total + count <= KERNEL_STATEMENTS:
            total += count
            for loop in loops:
                if (loop.extent or 0) > 1 and loop.name not in done:
                    done.add(loop.name)
                    yield Unroll(loop.refs[0])


def in_pieces(nest: Nest, target: Target) -> Iterator[Vectorize]:
    """The step that makes vectors of what each work-item does with neighbours in rows, where work-items run in step.

    Before: ``for l [local.0]: for i in [0, 4): acc[4*l + i] += a * B[4*l + i]``. After: ``acc[l] += a * vload4(&B[4*l])``, a load of 16
    bytes in place of four. Only loops whose every access is to neighbours, of as many bytes as the target moves at once.
    """
    if not target.lanes_are_items:
        return
    found: dict[int, dict[str, LoopRef]] = {}
    others: set[str] = set()
    for above, statement in nest.points:
        *around, loop = above or (None,)
        if loop is None or not loop.refs or loop.binding != "loop" or not loop.extent:
            continue
        if any(a.is_over_items for a in around if a is not None) and _is_piece(nest, loop, statement, target):
            found.setdefault(loop.extent, {})[loop.name] = loop.refs[0]
        else:
            others.add(loop.name)
    for loops in found.values():
        step = Vectorize(tuple(ref for name, ref in loops.items() if name not in others))
        if step.loops and _after(nest, [step]) is not None:
            yield step
            return


def _is_piece(nest: Nest, loop: For, statement: Statement, target: Target) -> bool:
    """Whether the iterations of a loop touch neighbours, no more of them than are moved at once."""
    places = [p for p in (statement.target, *statement.operands) if any(loop.name in index.variables for index in p.indices)]
    types = {nest.dtype_of(place.source) for place in places}
    if len(types) != 1 or loop.extent not in LANES or not has_vectors(dtype := types.pop()):
        return False
    near = all(lane_axis(place, loop.name) is not None and lane_axis(place, loop.name) == consecutive_axis(nest, place) for place in places)
    return near and loop.extent * np.dtype(dtype).itemsize <= target.vector_bytes


def rounded_up(nest: Nest, target: Target) -> Iterator[RoundUp]:
    """Steps by which work-items compute whole tiles in registers, where they run in step: those that would do less wait for the others.

    On a processor what lies behind the end of a tensor would take as long as what does not.
    """
    if not target.lanes_are_items:
        return
    for einsum in dict.fromkeys(s.einsum for _, s in nest.points if s.role == "update"):
        step = RoundUp(einsum)
        after = _after(nest, [step])
        if after is not None and after is not nest:
            yield step
            nest = after


def tensorized(nest: Nest, target: Target) -> Iterator[Step]:
    """Steps that let an intrinsic compute the largest block of each Einsum for which one is usual."""
    for above, statement in nest.points:
        types = tuple(nest.dtype_of(place.source) for place in (statement.target, *statement.operands))
        for intrinsic in intrinsics().values():
            if not intrinsic.is_usual or not intrinsic.takes(types) or (intrinsic is DOT_PRODUCT and not target.adds_words(types)):
                continue
            for loop in above:
                steps: list[Step] = [Blockize(loop.refs[0]), Tensorize(loop.refs[0], intrinsic.key)] if loop.refs else []
                after = _after(nest, steps)
                if steps and after is not None and (not isinstance(intrinsic, FunctionIntrinsic) or pays(nest, loop, intrinsic)):
                    yield from steps
                    nest = after
                    break


def _after(nest: Nest, steps: Sequence[Step]) -> Nest | None:
    """The nest after these steps; ``None`` if one of them is not legal."""
    try:
        for step in steps:
            nest = step.apply(nest)
    except ScheduleError:
        return None
    return nest


def _over_private(nest: Nest, above: tuple[For, ...], statement: Statement) -> list[For]:
    """The loops that index a private tile written by the statement, and stand at the bottom with no other loop inside.

    Of a tile that it reads all loops from the outermost on that indexes it, if so few are left: it was added up in registers.
    """
    written = statement.target.loops if _is_register(nest, statement.target.source) else frozenset()
    read = {name for place in statement.operands if _is_register(nest, place.source) for name in place.loops}
    found: list[For] = []
    inside: list[For] = []
    around: list[For] = []
    for loop in reversed(above):
        if loop.binding == "vector" or loop.is_over_items or loop.extent == 1:
            continue
        if loop.binding != "loop" or not loop.refs:
            break
        inside.insert(0, loop)
        if loop.name in written and len(found) == len(inside) - 1:
            found = list(inside)
        if loop.name in read:
            around = list(inside)
    return around if len(around) > len(found) and prod(loop.extent or FULLY_UNROLLED + 1 for loop in around) <= FULLY_UNROLLED else found


def _is_register(nest: Nest, source: str) -> bool:
    """Whether an array is a tile in registers."""
    tile = nest.tiles.get(source)
    return tile is not None and MEMORIES[tile.memory].is_register
