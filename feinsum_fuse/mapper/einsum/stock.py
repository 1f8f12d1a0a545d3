"""Stocks: the tables of Einsums that differ in names alone, made once and kept from stage to stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...model.quantity import Array
from .pareto import SLACK
from .space import EinsumSpace
from .tables import Block, Homes, Limit, Tables

Limits = Mapping[Homes, Limit]
"""Homes -> what one Einsum with these homes may need at most."""


@dataclass
class Stock:
    """The blocks made so far, by how many loops are fused: those of a looser limit hold those of a tighter one."""

    tables: Tables
    """Of the first of the Einsums."""
    _made: dict[int, tuple[Limits, list[Block]]] = field(default_factory=dict)
    _floors: dict[tuple[int, ...], dict[Homes, Array]] = field(default_factory=dict)

    def floors(self, figures: Sequence[int]) -> dict[Homes, Array]:
        """As :meth:`Tables.floors`."""
        key = tuple(figures)
        if key not in self._floors:
            self._floors[key] = self.tables.floors(figures)
        return self._floors[key]

    def missing(self, fused: int, limits: Limits) -> list[int]:
        """The numbers of fused loops, up to a largest, whose blocks are not made within these limits."""
        return [loops for loops in range(fused + 1) if loops not in self._made or not _covers(self._made[loops][0], limits)]

    def make(self, loops: int, limits: Limits) -> None:
        """Make the blocks with so many fused loops."""
        self._made[loops] = limits, self.tables.blocks(loops, limits)

    def blocks(self, fused: int, limits: Limits, space: EinsumSpace) -> list[Block]:
        """The blocks within limits with at most so many fused loops, for one of the Einsums, whose space has its names."""
        for loops in self.missing(fused, limits):
            self.make(loops, limits)
        bounded = "budget" not in self.tables.options.without
        made = (block for loops in range(fused + 1) for block in self._made[loops][1])
        found = (block.seen(space, limits[block.frame.homes] if bounded else None) for block in made)
        return [block for block in found if len(block.cost)]


def loosest(limits: Sequence[Limits]) -> Limits:
    """The limits within which all of these are."""
    first = limits[0]
    if len(limits) == 1:
        return first
    return {homes: (max(own[homes][0] for own in limits), max(own[homes][1] for own in limits)) for homes in first}


def _covers(made: Limits, wanted: Limits) -> bool:
    """Whether blocks within the first limits have all that are within the second."""
    return all(bool(np.all(np.array(wanted[homes]) <= np.array(made[homes]) * (1 + SLACK / 2))) for homes in wanted)
