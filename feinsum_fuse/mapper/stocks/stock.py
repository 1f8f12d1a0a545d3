"""Stocks: the tables of Einsums that differ in names alone, made once, by several processes, and kept from stage to stage and on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import cached_property, partial

import numpy as np

from ...formats.arch import DEFAULT_TOTAL_LATENCY
from ...model.quantity import Floats
from ..einsum.einsum_space import EinsumSpace
from ..enumeration.block import Limit, Packed, TableBlock
from ..enumeration.pareto import SLACK
from ..enumeration.tables import Homes, Tables
from .processes import answers
from .store import Shelf, Store

Limits = Mapping[Homes, Limit]
"""Homes -> what one Einsum with these homes may need at most."""
OF_JOINS = ("objective", "top", "pareto", "tolerance", "seconds", "jobs", "cache", "progress", "max_rows", "footprint", "fused", "resume")
"""The options that do not change the tables of an Einsum, ``ffmr`` apart."""


@dataclass
class Stock:
    """The blocks made so far, by how many loops are fused: those of a looser limit hold those of a tighter one."""

    tables: Tables
    """Of the first of the Einsums."""
    store: Store | Shelf | None = None
    _made: dict[int, tuple[Limits, list[TableBlock]]] = field(default_factory=dict)
    _floors: dict[tuple[int, ...], dict[Homes, Floats]] = field(default_factory=dict)

    def floors(self, figures: Sequence[int]) -> dict[Homes, Floats]:
        """As :meth:`Tables.floors`; made by :func:`make_floors`."""
        return self._floors[tuple(figures)]

    def missing(self, fused: int, limits: Limits) -> list[int]:
        """The numbers of fused loops, up to a largest, whose blocks are not made within these limits."""
        return [loops for loops in range(fused + 1) if not self._has(loops, limits)]

    def _has(self, loops: int, limits: Limits) -> bool:
        if loops not in self._made and self.store is not None and (loaded := self.store.load(f"blocks {loops} {self.key}")):
            about, blocks = loaded
            made = {tuple(homes): (float(energy), float(latency)) for homes, (energy, latency) in about}
            self._made[loops] = made, [self.held(block) for block in blocks]
        return loops in self._made and _covers(self._made[loops][0], limits)

    def held(self, packed: Packed) -> TableBlock:
        """A block that is counted as held while it lives."""
        block = packed.unpacked(self.tables.space)
        self.tables.budget.hold(block, packed.rows)
        return block

    def keep(self, loops: int, limits: Limits, blocks: list[TableBlock]) -> None:
        """The blocks with so many fused loops within limits, from now on."""
        self._made[loops] = limits, blocks
        if self.store is not None:
            self.store.save(f"blocks {loops} {self.key}", list(limits.items()), [block.packed() for block in blocks])

    def blocks(self, fused: int, limits: Limits, space: EinsumSpace) -> list[TableBlock]:
        """The blocks within limits with at most so many fused loops, for one of the Einsums, whose space has its names."""
        bounded = "budget" not in self.tables.options.without
        made = (block for loops in range(fused + 1) for block in self._made[loops][1])
        found = (block.seen(space, limits[block.frame.homes] if bounded else None) for block in made)
        return [block for block in found if len(block.cost)]

    def has_floors(self, figures: Sequence[int]) -> bool:
        """Whether the floors are known, here or on disk."""
        key = tuple(figures)
        if key not in self._floors and self.store is not None and (loaded := self.store.load(f"floors {key} {self.key}")):
            about = loaded[0]
            self._floors[key] = {tuple(homes): np.array(least) for homes, least in about["floors"]}
            self.tables.witnesses |= set(about["witnesses"])
        return key in self._floors

    def keep_floors(self, figures: Sequence[int], floors: dict[Homes, Floats]) -> None:
        """The floors, from now on."""
        key = tuple(figures)
        self._floors[key] = floors
        if self.store is not None and not self.tables.coarse:
            about = {"floors": [(homes, least.tolist()) for homes, least in floors.items()], "witnesses": sorted(self.tables.witnesses)}
            self.store.save(f"floors {key} {self.key}", about)

    @cached_property
    def key(self) -> str:
        """Equal for tables that are equal, whatever the workload and the architecture they are of."""
        terms, options = self.tables.space.terms, self.tables.options
        asked = [(item.name, getattr(options, item.name)) for item in fields(options) if item.name not in OF_JOINS]
        timed = [leaf for leaf in terms.components if leaf.total_latency.strip() != DEFAULT_TOTAL_LATENCY]
        variables = (dict(terms.spec.variables), dict(terms.arch.variables)) if timed else ()
        return _written((self.tables.signature, asked, [repr(leaf) for leaf in timed], variables, terms.energy, options.fused == "ffmr"))


def make_floors(stocks: Sequence[Stock], figures: Sequence[int], jobs: int) -> None:
    """See to it that all of these stocks have their floors."""
    wanted = [stock for stock in stocks if not stock.has_floors(figures)]
    for stock in wanted:
        # Known before processes start, so that none of them finds it out again.
        stock.tables.space.chain.bounded(stock.tables.budget.check)
    tasks = [partial(_floor, stock.tables, homes, figures) for stock in wanted for homes in stock.tables.by_homes]
    with closing(answers(tasks, jobs, stocks[0].tables.budget)) as found:
        for stock in wanted:
            floors = {}
            for homes in stock.tables.by_homes:
                least, witnesses, coarse = next(found)
                stock.tables.witnesses |= witnesses
                stock.tables.coarse |= coarse
                if np.isfinite(least).all():
                    floors[homes] = least
            stock.keep_floors(figures, floors)


def _floor(tables: Tables, homes: Homes, figures: Sequence[int]) -> tuple[Floats, set[int], bool]:
    least = tables.floor_of(homes, figures)
    return least, tables.witnesses, tables.coarse


def make_blocks(stocks: Sequence[Stock], limits: Sequence[Limits], fused: int, jobs: int) -> None:
    """See to it that all of these stocks have the blocks with at most so many fused loops, each within its limits."""
    wanted = [(stock, own, loops) for stock, own in zip(stocks, limits, strict=True) for loops in stock.missing(fused, own)]
    tasks = [partial(stock.tables.blocks_of, loops, homes, limit) for stock, own, loops in wanted for homes, limit in own.items()]
    with closing(answers(tasks, jobs, stocks[0].tables.budget)) as found:
        for stock, own, loops in wanted:
            stock.keep(loops, own, [stock.held(packed) for _ in own for packed in next(found)])


def loosest(limits: Sequence[Limits]) -> Limits:
    """The limits within which all of these are."""
    first = limits[0]
    if len(limits) == 1:
        return first
    return {homes: (max(own[homes][0] for own in limits), max(own[homes][1] for own in limits)) for homes in first}


def _covers(made: Limits, wanted: Limits) -> bool:
    """Whether blocks within the first limits have all that are within the second."""
    return all(bool(np.all(np.array(wanted[homes]) <= np.array(made[homes]) * (1 + SLACK / 2))) for homes in wanted)


def _written(value: object) -> str:
    """A text that is the same in every process: sets in order."""
    if isinstance(value, frozenset | set):
        return f"{{{','.join(sorted(map(_written, value)))}}}"
    if isinstance(value, dict):
        return _written({(key, item) for key, item in value.items()})
    if isinstance(value, tuple | list):
        return f"({','.join(map(_written, value))})"
    return repr(value)
