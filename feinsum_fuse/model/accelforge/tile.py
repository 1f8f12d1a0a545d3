"""Tiles: how many values of a tensor an iteration of the loops above touches (AccelForge's ``_common.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...errors import ModelError
from ...formats.relevance import Relevance, simple_variables
from ...formats.workload import TensorAccess
from ..quantity import Number, Ratio, ceiling
from .einsum_nest import EinsumNest, NestLoop


@dataclass(frozen=True)
class Tiling:
    """Tile shapes and trip counts of the loops of one nest; loops are named by their index in the nest."""

    bounds: Mapping[str, int]
    tiles: Mapping[int, Number]
    """The tile of the loop's variable below it."""
    outer: Mapping[int, Number]
    """The tile of the loop's variable above it."""
    whole: Mapping[int, Ratio]
    """Trips as paid by a tensor that the variable is irrelevant to."""

    def trips(self, loop: NestLoop) -> Ratio:
        """``current / tile``: the average number of iterations, fractional where the tile does not divide (section 5.3)."""
        return self.outer[loop.index], self.tiles[loop.index]

    def trips_for(self, loop: NestLoop, kind: Relevance) -> Ratio:
        """The trips of a loop as a tensor of this relevance pays them: whole ones if it is reused, averages if it moves."""
        return self.whole[loop.index] if kind is Relevance.NONE else self.trips(loop)


def tiling(nest: EinsumNest, tile_shapes: Mapping[tuple[int, ...], Number]) -> Tiling:
    """Trip counts of every loop of a nest.

    A loop over ``v`` cuts the current tile (at first the bound) into tiles of its ``tile_shape``: ``f = current / tile``. For tensors that
    ``v`` is irrelevant to, the outermost loop on a simple ``v`` makes ``ceil(bound / tile)`` trips (section 5.3).
    ``tile_shapes`` overrides the mapping's shapes by a loop's position in the tree.
    """
    current: dict[str, Number] = dict(nest.bounds)
    simple = simple_variables(nest.einsum)
    tiles: dict[int, Number] = {}
    outer: dict[int, Number] = {}
    whole: dict[int, Ratio] = {}
    seen: set[str] = set()
    for loop in nest.loops:
        variable = loop.variable
        tile = 1 if nest.bounds[variable] == 1 else tile_shapes.get(loop.position, loop.tile_shape)
        if np.any(tile < 1):
            raise ModelError(f"The loop over {variable} in Einsum {nest.einsum.name} has tile shape {tile}.", hint="Use 1 or more.")
        tiles[loop.index], outer[loop.index] = tile, current[variable]
        outermost = variable not in seen
        whole[loop.index] = (ceiling(nest.bounds[variable], tile), 1) if outermost and variable in simple else (current[variable], tile)
        seen.add(variable)
        current[variable] = tile
    return Tiling(nest.bounds, tiles, outer, whole)


def values(access: TensorAccess, shapes: Mapping[str, Number]) -> Number:
    """Values of a tensor in a tile: the product over its ranks of ``index(v -> s[v] - 1 for every v) + 1`` (section 5.2).

    A negative coefficient counts by its magnitude, where the formula as it stands would make a window of negative size.
    """
    result: Number = 1
    for index in access.projection.values():
        extent: Number = index.constant + 1 if all(factor > 0 for _, factor in index.terms) and index.constant > 0 else 1
        for variable, factor in index.terms:
            extent = extent + abs(factor) * (shapes[variable] - 1)
        result = result * extent
    return result


def shapes_below(access: TensorAccess, loops: tuple[NestLoop, ...], tiles: Tiling) -> dict[str, Number]:
    """The tile of each of a tensor's variables after these loops, outermost first."""
    shapes: dict[str, Number] = {v: tiles.bounds[v] for v in access.rank_variables}
    for loop in loops:
        if loop.variable in shapes:
            shapes[loop.variable] = tiles.tiles[loop.index]
    return shapes
