"""What each constraint leaves of an Einsum's storage choices, of its tiles, of the orders of what is held, and of its ways in space."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...formats.arch import Leaf, Memory, TensorRules, Toll
from ...formats.workload import Workload, WorkloadEinsum
from ..failures import UnsearchedError
from .einsum_space import EinsumSpace
from .rules import ordered
from .spreads import ways
from .storage_choices import Choices

MOST = 20_000
"""Storage choices beyond which they are not counted."""
MOST_ORDERED = 7
"""Tensors of an Einsum beyond which orders are not counted."""
MOST_TILES = 1 << 17
"""Tile vectors beyond which those that a comparison leaves are not counted."""


def constraint_counts(workload: Workload, einsum: WorkloadEinsum, components: Sequence[Leaf]) -> list[str]:
    """Of how many storage choices those of the architecture are left, and how many each constraint alone removes."""
    given = list(_storage_rules(components))
    free = tuple(without(leaf, leaf.name, "") for leaf in components)
    every = _count(workload, einsum, free)
    left = _count(workload, einsum, components)
    result = [f"Einsum {einsum.name} has {left} of {every} storage choices."]
    for place, key, value in given:
        name = components[place].name
        alone = tuple(leaf if leaf.name == name else one for leaf, one in zip(components, free, strict=True))
        others = [other for at, other, _ in given if at == place and other != key]
        for other in others:
            alone = tuple(without(leaf, name, other) for leaf in alone)
        kept = _count(workload, einsum, alone)
        back = _count(workload, einsum, tuple(without(leaf, name, key) for leaf in components))
        result.append(f"  {key} of {name} ({value}) alone removes {_less(every, kept)}; without it there would be {back}.")
    return result


def tile_counts(space: EinsumSpace) -> Iterator[str]:
    """What each constraint on tiles, traffic, order and fanouts, alone, leaves of an Einsum's possibilities."""
    yield from _on_tiles(space)
    yield from _on_traffic(space)
    yield from _on_orders(space)
    yield from _on_fanouts(space)


def _on_tiles(space: EinsumSpace) -> Iterator[str]:
    """Of ``tile_shape``: how many of the tile vectors of an Einsum may stand at the first node of a memory."""
    axes = [table.all for table in space.tiles]
    every = math.prod(map(len, axes))
    for place, bounds in zip(space.terms.memories, space.rules.tiles, strict=True):
        memory = space.terms.memory(place)
        for bound, comparison in zip(bounds, memory.tensors.tile_shape, strict=True):
            told = f"  tile_shape of {memory.name} ({comparison}) alone"
            if every > MOST_TILES:
                yield f"{told} leaves some of {every} tiles."
                continue
            tiles = np.array(list(itertools.product(*axes)), dtype=np.int64).reshape(every, len(axes))
            fits = int(bound.holds(tiles, tiles < space.terms.bounds).sum())
            yield f"{told} removes {every - fits} of {every} tiles."


def _on_traffic(space: EinsumSpace) -> Iterator[str]:
    """Of constraints that let no values of a tensor come or go again: how many tiles, or pairs of a tile and one below it, do not."""
    for key, flagged in (("no_refetch_from_above", space.rules.not_refetched), ("no_resend_to_below", space.rules.not_resent)):
        for tensor, m in sorted(flagged, key=lambda pair: (pair[1], pair[0])):
            moving = space.rules.moving(tensor)
            once = [len(table.all) if key == "no_refetch_from_above" else int(table.count.sum()) for table in space.tiles]
            still = [len(table.all) if key == "no_resend_to_below" else 1 for table in space.tiles]
            every = math.prod(once)
            left = math.prod(still[v] if v in moving else once[v] for v in range(len(once)))
            what = "tiles" if key == "no_refetch_from_above" else "pairs of a tile and one that it is cut into"
            name = space.terms.accesses[tensor].name
            yield f"  {key} of {space.memory_name(m)} alone removes {every - left} of {every} {what} of {name}."


def _on_orders(space: EinsumSpace) -> Iterator[str]:
    """Of ``tensor_order_options``: how many orders of all tensors of the Einsum are left."""
    for m, place in enumerate(space.terms.memories):
        memory = space.terms.memory(place)
        if not memory.tensors.tensor_order_options or len(space.tensors) > MOST_ORDERED:
            continue
        orders = list(itertools.permutations(space.tensors))
        left = sum(
            any(all(ordered(order, m, one[:n], tensor) for n, tensor in enumerate(one)) for order in space.rules.orders) for one in orders
        )
        yield f"  tensor_order_options of {memory.name} alone removes {len(orders) - left} of {len(orders)} orders of its tensors."


def _on_fanouts(space: EinsumSpace) -> Iterator[str]:
    """Of a fanout's constraints: how many ways to spread the Einsum along it are left."""
    for dimension in space.terms.dimensions:
        fanout = dimension.fanout
        free = dataclasses.replace(fanout, reuse="Nothing", loop_bounds=())
        alone = {
            "reuse": dataclasses.replace(free, reuse=fanout.reuse),
            "loop_bounds": dataclasses.replace(free, loop_bounds=fanout.loop_bounds),
        }
        every = ways(space.terms, dataclasses.replace(dimension, fanout=free))
        for key, given in alone.items():
            if given != free and every is not None:
                left = ways(space.terms, dataclasses.replace(dimension, fanout=given)) or 0
                told = f"  {key} of {dimension.component} along {fanout.name} alone"
                yield f"{told} removes {every - left} of {every} ways to spread it."


def _storage_rules(components: Sequence[Leaf]) -> Iterator[tuple[int, str, str]]:
    """(place, key, value) of each constraint on what memories hold."""
    for place, leaf in enumerate(components):
        if isinstance(leaf, Memory | Toll):
            for key in ("keep", "may_keep", "back"):
                value = getattr(leaf.tensors, key)
                if value != getattr(TensorRules(), key):
                    yield place, key, value
            if leaf.enabled != "True":
                yield place, "enabled", leaf.enabled


def without(leaf: Leaf, name: str, key: str) -> Leaf:
    """The component without one of its constraints, all of them for no key, if it is called so."""
    if leaf.name != name or not isinstance(leaf, Memory | Toll):
        return leaf
    if not key:
        return dataclasses.replace(leaf, tensors=TensorRules(), enabled="True")
    if key == "enabled":
        return dataclasses.replace(leaf, enabled="True")
    return dataclasses.replace(leaf, tensors=dataclasses.replace(leaf.tensors, **{key: getattr(TensorRules(), key)}))


def _count(workload: Workload, einsum: WorkloadEinsum, components: Sequence[Leaf]) -> str:
    """How many storage choices there are."""
    try:
        found = sum(1 for _ in itertools.islice(Choices(workload, einsum, tuple(components)).subsets(), MOST + 1))
    except UnsearchedError:
        found = MOST + 1
    return str(found) if found <= MOST else f"more than {MOST}"


def _less(every: str, kept: str) -> str:
    return str(int(every) - int(kept)) if every.isdecimal() and kept.isdecimal() else f"all but {kept}"
