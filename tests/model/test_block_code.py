"""Code of blocks that is kept: one object for equal blocks of different nests, another one where anything that it depends on differs."""

from __future__ import annotations

import dataclasses

from constantdict import constantdict

from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.model.kernel.basic_blocks import blocks, in_registers
from feinsum_fuse.model.kernel.compiler.block_code import Cases, code_of
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.schedule.tree.nest import Nest, Tile
from tests.model.test_each_term import mapped

SPEC = mapped(
    "{rank_sizes: {M: 64, N: 48, K: 16}, bits_per_value: {All: 32}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}",
    "[A, B, Z]",
    "- !Temporal {rank_variable: n, tile_shape: 16}\n  - !Storage {tensors: [B], component: Local}\n"
    "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Temporal {rank_variable: k, tile_shape: 1}\n"
    "  - !Temporal {rank_variable: n, tile_shape: 1}",
)
MACHINE = Machine.of(SPEC)


def with_tile(nest: Nest, **changes: object) -> Nest:
    """The nest with its only tile changed."""
    ((name, tile),) = nest.tiles.items()
    changed: Tile = dataclasses.replace(tile, **changes)  # type: ignore[arg-type]
    return nest.replace(tiles=constantdict({name: changed}))


def code(nest: Nest) -> list[Cases]:
    """Of its blocks: one fills the tile, one sets the sums, one adds to them."""
    assert MACHINE is not None
    return [code_of(MACHINE, nest, in_registers(nest), block) for block in blocks(nest, nest.body)]


def test_code_is_kept_for_equal_blocks_and_made_anew_for_others() -> None:
    nest = lower(SPEC).nest(unscheduled(SPEC).kernel)
    fills, starts, adds = code(nest)
    for other in (with_tile(nest), with_tile(nest, origin=())):  # where a tile starts is no matter of the code that uses it
        for one, found in zip((fills, starts, adds), code(other), strict=True):
            assert found is one
    ((_, tile),) = nest.tiles.items()
    assert tile.shape == (16, 16)
    for other in (with_tile(nest, padding=1), with_tile(nest, dtype="float64"), with_tile(nest, axes=(1, 0))):
        filled, started, added = code(other)
        assert filled is not fills and added is not adds and started is starts
    without_start = nest.replace(body=nest.body, sources=nest.sources, accumulators=constantdict({"Z": "float64"}))
    assert code(without_start)[2] is adds
