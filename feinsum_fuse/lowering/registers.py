"""Which loops are written out so that private tiles can live in registers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..formats.opencl import MEMORIES
from ..schedule.kernel.writing import FULLY_UNROLLED
from ..schedule.steps.loop_steps import Unroll
from ..schedule.tree.nest import For, Nest, Statement, statements

KERNEL_STATEMENTS = 256
"""A kernel of more unrolled statements takes seconds to generate; beyond it loops stay loops."""


def unrolled(nest: Nest) -> Iterator[Unroll]:
    """Steps that unroll the loops over private tiles which a statement updates, innermost Einsums' budgets permitting."""
    total = 0
    done: set[str] = set()
    for above, statement in statements(nest.body):
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


def _over_private(nest: Nest, above: tuple[For, ...], statement: Statement) -> list[For]:
    """The loops that index a private tile written by the statement, and stand at the bottom with no other loop inside."""
    tile = nest.tiles.get(statement.target.source)
    if tile is None or not MEMORIES[tile.memory].is_register:
        return []
    names = {v for index in statement.target.indices for v in index.variables}
    found: list[For] = []
    for loop in reversed(above):
        if loop.binding == "vector" or loop.binding.startswith("local."):
            continue
        if loop.name not in names or loop.binding != "loop" or not loop.refs:
            break
        found.insert(0, loop)
    return found
