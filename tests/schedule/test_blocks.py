"""Blocks: what TensorIR's validation refuses and accepts, and that every scheduled kernel passes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from pymbolic import primitives as p

from feinsum_fuse.formats.integer_sets import Index
from feinsum_fuse.schedule import refusals
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, ShareLoop
from feinsum_fuse.schedule.steps.tile_steps import ComputeAt
from feinsum_fuse.schedule.tree.blocks import Block, BlockIterator, BlockLoop, blocks, check_flow
from feinsum_fuse.schedule.tree.nest import For, NestItem, rebuilt

from .scripts import SCRIPTS, Script, Sizes, chain, ref, refs

LOOP = p.Variable("i")


def bound(*bindings: Index, extents: tuple[int, ...], loop: int = 16) -> Block:
    """A block under one loop ``i``."""
    iterators = tuple(
        BlockIterator(f"v{k}", extent, "data-parallel", index) for k, (index, extent) in enumerate(zip(bindings, extents, strict=True), 1)
    )
    return Block("Z", (BlockLoop("i", loop),), iterators)


def test_dependent_iterators_are_refused() -> None:
    """``v1 = i, v2 = 2*i``: not every pair of values is reached."""
    with pytest.raises(refusals.IteratorBindingError, match="do not reach all of the iterators' domain"):
        bound(LOOP, 2 * LOOP, extents=(16, 31)).validate()


def test_quotient_and_remainder_are_accepted() -> None:
    """``v1 = i / 4, v2 = i % 4`` is one-to-one."""
    bound(LOOP // 4, LOOP % 4, extents=(4, 4)).validate()


def test_points_taken_twice_are_refused() -> None:
    """``v1 = i / 2`` takes each value twice."""
    with pytest.raises(refusals.IteratorBindingError, match="take a point more than once"):
        bound(LOOP // 2, extents=(8,)).validate()


def test_points_outside_are_refused() -> None:
    """A tile that does not divide needs its limit."""
    with pytest.raises(refusals.IteratorBindingError, match="leave the iterators' domain"):
        bound(LOOP, extents=(13,)).validate()


def test_a_reduction_in_parallel_is_refused() -> None:
    """A work-item each would add to one element at the same time."""
    block = Block("Z", (BlockLoop("i", 4), BlockLoop("k", 8, "local.0")), (
        BlockIterator("vi", 4, "data-parallel", LOOP), BlockIterator("vk", 8, "reduction", p.Variable("k"))
    ))  # fmt: skip
    with pytest.raises(refusals.ReductionBindingError, match=r"the reduction iterator vk is bound to k, which runs on local\.0"):
        block.validate()


def test_a_read_that_no_write_covers_is_refused() -> None:
    """The producer writes one element less than the consumer reads."""
    cascade = chain((6, 5, 4, 3))
    nest = Schedule((Explicate(),)).nest(cascade.kernel())

    def shorter(node: NestItem) -> tuple[NestItem, ...]:
        return (dataclasses.replace(node, extent=5),) if isinstance(node, For) and node.name == "m_T" else (node,)

    check_flow(nest)
    with pytest.raises(refusals.ProducerConsumerError, match=r"Z reads T\[m_Z, n_Z\], which nothing has written by then"):
        check_flow(nest.replace(body=rebuilt(nest.body, shorter)))


def test_a_private_tile_across_work_items_is_refused() -> None:
    """loopy accepts it without a word."""
    cascade = chain((6, 5, 4, 3))
    steps = (Explicate(), ShareLoop(refs("T.m Z.m")), ComputeAt("T", ref("T.m"), "private"), Bind(ref("T.n"), "local.0"))
    with pytest.raises(refusals.ScopeError, match="which another work-item or group wrote"):
        check_flow(Schedule(steps).nest(cascade.kernel()))


@pytest.mark.parametrize("sizes", [(13, 7, 11, 5), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scheduled_kernels_are_valid(script: Script, sizes: Sizes) -> None:
    """After every step."""
    cascade, schedule = script.at(sizes)
    for count in range(len(schedule) + 1):
        blocks(schedule.upto(count).apply(cascade.kernel())).validate()


def test_text(golden: Callable[[str, str], None]) -> None:
    """Loops, iterators with kind and binding, regions, and the initial value."""
    cascade, schedule = SCRIPTS[0].at((13, 7, 11, 5))
    golden("blocks_tiled_product", str(blocks(schedule.apply(cascade.kernel()))))
