"""The mapspace of one Einsum on one compute unit: what may be held where, how it may be spread, and what each holder costs.

Tensors, variables and memories go by number here, so that Einsums which differ in names alone have equal spaces.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...formats.arch import Memory, Network
from ...formats.relevance import simple_variables
from ...model.accelforge.einsum_terms import FULL, NONE, PARTIAL, Integers, Link, Spreads, Terms
from ...model.accelforge.hop_terms import HopTerms
from ...model.accelforge.network_traffic import actions_per_value
from ...model.quantity import Floats
from ..merging import Merging
from .rules import PathRules
from .spreads import effect
from .storage_choices import HolderBits
from .tile_table import TileTable

NOTHING_SHARED = -1
"""The innermost memory above which loops in space are shared, where none is."""
HEAD, BATCH = "head", "batch"
"""Ranks that searches may treat in ways of their own are called so."""
ROWS = 1 << 16
"""Rows of figures that are made at once: some MB."""


@dataclass
class EinsumSpace:
    """One Einsum on the way to one compute unit, by numbers."""

    terms: Terms
    options: tuple[HolderBits, ...]
    """The storage choices."""
    tolls: tuple[tuple[int, frozenset[int]], ...]
    """(place of a toll on the way, the tensors that pass it)."""
    shared: tuple[bool, ...]
    """Tensors that other Einsums touch too."""
    spreads: Spreads
    tracked: tuple[int, ...]
    """The memories whose capacity may bind, by number."""
    imperfect: bool = False
    """Whether tiles may leave a remainder."""
    coarseness: float = 1.0
    """Of the tiles that a variable may be cut into, those less than so many times the one before are left out."""
    merging: Merging | None = None
    """The variables that are one in chains, if there are any."""
    merged: EinsumSpace | None = field(default=None, repr=False)
    """The space in which they are; it has the ways in space, too."""
    _links: dict[tuple[int, int, int], Link] = field(default_factory=dict, repr=False)
    _full: dict[frozenset[int], list[int]] = field(default_factory=dict, repr=False)
    _served: dict[tuple[int, int], Floats] = field(default_factory=dict, repr=False)
    _filled: dict[tuple[int, int], Floats] = field(default_factory=dict, repr=False)
    _hops: dict[tuple[HolderBits, int], HopTerms | None] = field(default_factory=dict, repr=False)
    shared_ways: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    """What the enumeration of loops in space that Einsums share has found out already."""
    _classes: dict[int, dict[bytes, int]] = field(default_factory=dict, repr=False)
    _classed: dict[int, Integers] = field(default_factory=dict, repr=False)

    @cached_property
    def rules(self) -> PathRules:
        """The architecture's constraints."""
        return PathRules.of(self.terms)

    @cached_property
    def tensors(self) -> range:
        """The tensors' numbers."""
        return range(len(self.terms.accesses))

    @cached_property
    def n_memories(self) -> int:
        """How many memories lie on the way."""
        return len(self.terms.memories)

    @cached_property
    def levels(self) -> tuple[range, ...]:
        """The memories, outermost first: those whose holders may stand in any order together."""
        starts = [m for m in range(self.n_memories) if not any(outer < m <= inner for outer, inner in self.rules.free)]
        return tuple(range(a, b) for a, b in itertools.pairwise([*starts, self.n_memories]))

    @cached_property
    def tiles(self) -> tuple[TileTable, ...]:
        """A table for each variable; those that loops in space take are cut without remainder."""
        tables = []
        for v, bound in enumerate(map(int, self.terms.bounds)):
            ragged = self.imperfect and not np.any(self.spreads.factors[:, :, v] > 1)
            table = TileTable.imperfect(bound, rounds=self.simple[v]) if ragged else TileTable.perfect(bound)
            tables.append(table.thinned(self.coarseness))
        return tuple(tables)

    @cached_property
    def simple(self) -> tuple[bool, ...]:
        """The variables whose outermost loop makes whole trips for the tensors that it is irrelevant to (section 5.3)."""
        found = simple_variables(self.terms.einsum)
        return tuple(v in found for v in self.terms.variables)

    @cached_property
    def rounded(self) -> tuple[int, ...]:
        """The variables whose trips are rounded up to more than their bound needs."""
        ragged = [v for v, table in enumerate(self.tiles) if np.any(self.terms.bounds[v] % table.outermost)]
        return tuple(v for v in ragged if self.simple[v])

    @cached_property
    def sinks(self) -> tuple[bool, ...]:
        """Whether a loop right below a holder of each tensor may be worth the space that it saves there."""
        return tuple(bool(np.any(kinds == PARTIAL) or any(kinds[v] == FULL for v in self.rounded)) for kinds in self.terms.kinds)

    def only(self, options: Sequence[HolderBits]) -> EinsumSpace:
        """The space with some of its storage choices."""
        result = copy.copy(self)
        result.options = tuple(options)
        result.merged = None if self.merged is None else self.merged.only(options)
        result.__dict__.pop("least", None)
        return result

    @property
    def chain(self) -> EinsumSpace:
        """The space in which chains are made, with merged variables if there are any."""
        return self if self.merged is None else self.merged

    def in_chain(self, tiles: Integers) -> Integers:
        """Tile vectors as those of that space."""
        return tiles if self.merging is None else self.merging.tiles(tiles)

    def called(self, word: str) -> list[int]:
        """The variables that have a word in their name, or in that of a rank that they index."""
        ranks = [(rank, index.variables) for access in self.terms.accesses for rank, index in access.projection.items()]
        names = [{variable, *(rank for rank, variables in ranks if variable in variables)} for variable in self.terms.variables]
        return [v for v, own in enumerate(names) if any(word in name.lower() for name in own)]

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for spaces that differ in names alone, but for those of heads and batches."""
        return (self.options, *self._signature, *(() if self.merged is None else self.merged.signature))

    @cached_property
    def _signature(self) -> tuple[object, ...]:
        """What of the signature is the same for any storage choices."""
        places = (*self.terms.memories, len(self.terms.components) - 1)
        pairs = [(t, i, j) for t in self.tensors for i in range(len(places)) for j in range(i + 1, len(places))]
        copies = self.terms.einsum.is_copy_operation
        links = () if copies else tuple(self.link(*pair) for pair in pairs)
        moves = itertools.permutations(self.terms.memories, 2) if copies else ()
        copied = tuple(self.terms.copied(self.spreads, *move) for move in moves)
        integers = (self.terms.bounds, self.terms.kinds, self.spreads.factors)
        served = (a for link in links for a in (link.fill, link.first))
        figures = (self.sizes, self.leak, self.terms.compute(self.spreads), *copied, *served)
        widths = tuple(self.bits(t, m) for t in self.tensors for m in range(self.n_memories))
        order = {v: place for place, v in enumerate(self.terms.variables)}
        shapes = tuple(
            tuple((tuple((order.get(v, -1), f) for v, f in index.terms), index.constant) for index in access.projection.values())
            for access in self.terms.accesses
        )
        levels = (self.fanout_levels, self.crossed, tuple(dimension.fanout.fanout for dimension in self.terms.dimensions))
        rules = (levels, self.rules.tiles, self.rules.not_refetched, self.rules.not_resent, repr(self.rules.orders), self.rules.free)
        structure = (self.tolls, self.shared, self.tracked, self.imperfect, self.coarseness, self.simple, self.terms.columns)
        named = tuple(tuple(self.called(word)) for word in (HEAD, BATCH))
        return (*structure, named, widths, shapes, rules, self._across, *(a.tobytes() for a in integers), *(a.tobytes() for a in figures))

    @property
    def _across(self) -> tuple[object, ...]:
        """What hops across networks hang on, besides."""
        networks = [(place, leaf) for place, leaf in enumerate(self.terms.components) if isinstance(leaf, Network)]
        if not networks:
            return ()
        axes = tuple((dimension.owner, dimension.fanout.name) for dimension in self.terms.dimensions)
        orders = b"" if self.spreads.order is None else self.spreads.order.tobytes()
        scales = [(n.actions_scale, n.energy_scale, n.throughput_scale, n.n_parallel_instances) for _, n in networks]
        widths = [[actions_per_value(n, a.name, a.bits_per_value) for a in self.terms.accesses] for _, n in networks]
        carried = tuple((place, n.topology, n.actions) for place, n in networks)
        return (axes, orders, carried, tuple(scales), tuple(map(tuple, widths)))

    def hops(self, option: HolderBits, settled: int) -> HopTerms | None:
        """The hops of a storage choice; ``None`` where no tensor crosses a network.

        ``settled``: the innermost memory above which loops in space are those that Einsums share, or :data:`NOTHING_SHARED`.
        """
        key = (option, settled)
        if key not in self._hops:
            found = self.hops_of(self.spreads, option, settled)
            self._hops[key] = found if found.crossings else None
        return self._hops[key]

    def hops_of(self, spreads: Spreads, option: HolderBits, settled: int) -> HopTerms:
        """The same under other spreads."""
        single = self.terms.einsum.is_copy_operation
        held = [levels(bits & -bits if single else bits) for bits in option]
        shared = self.terms.memories[settled] if settled > NOTHING_SHARED else -1
        return HopTerms(self.terms, spreads, [[self.terms.memories[m] for m in own] for own in held], shared)

    def rounding(self, tiles: Integers) -> Floats:
        """What rounding up the trips of outermost loops that leave these tiles multiplies; (rows, :attr:`rounded`)."""
        bounds, own = self.terms.bounds[list(self.rounded)], tiles[:, list(self.rounded)]
        return np.asarray(-(-bounds // own) * own / bounds)

    @cached_property
    def sizes(self) -> Floats:
        """The bits of each tracked memory."""
        return np.array([self.terms.memory(self.terms.memories[m]).size for m in self.tracked], dtype=np.float64)

    @cached_property
    def spatial_level(self) -> int:
        """The outermost memory with a used fanout above it; the number of memories if only compute units are spread."""
        factors = self.chain.spreads.factors
        owners = [d.owner for number, d in enumerate(self.terms.dimensions) if np.any(factors[:, number] > 1)]
        first = min(owners, default=len(self.terms.components))
        return sum(1 for place in self.terms.memories if place < first)

    @cached_property
    def fanout_levels(self) -> tuple[int, ...]:
        """Dimension by dimension, the memory right above whose holders its loops stand; of the outermost memory, which stands on top, the
        next."""
        return tuple(max(1, sum(place < dimension.owner for place in self.terms.memories)) for dimension in self.terms.dimensions)

    @cached_property
    def crossed(self) -> bool:
        """Whether a network lies on the way: then the order of loops in space counts."""
        return any(isinstance(leaf, Network) for leaf in self.terms.components)

    def above(self, factors: Integers, order: Integers | None, level: int) -> bytes:
        """What a spread, (dimensions, variables), does above the holders of a memory and of those further out; ``order``: of its loops,
        where it counts."""
        within = np.array([own <= level for own in self.fanout_levels], dtype=bool)
        does = effect(self.terms, np.where(within[:, None], factors, 1))
        return does if order is None else does + np.where(within[:, None], order, 0).tobytes()

    def classes(self, level: int) -> dict[bytes, int]:
        """What spreads may do above the holders of a memory -> a number."""
        if level not in self._classes:
            self._classes[level] = {key: number for number, key in enumerate(dict.fromkeys(self._every_above(level)))}
        return self._classes[level]

    def class_of(self, level: int) -> Integers:
        """The number of what each spread does above the holders of a memory."""
        if level not in self._classed:
            known = self.classes(level)
            self._classed[level] = np.array([known[key] for key in self._every_above(level)], dtype=np.int64)
        return self._classed[level]

    def _every_above(self, level: int) -> list[bytes]:
        """:meth:`above` of each spread."""
        orders = [None] * len(self.spreads) if self.spreads.order is None else self.spreads.order
        return [self.above(factors, order, level) for factors, order in zip(self.spreads.factors, orders, strict=True)]

    @cached_property
    def all_steps(self) -> tuple[Integers, ...]:
        """Memory by memory, the compute unit last, :meth:`_step`."""
        return tuple(self._step(level) for level in range(self.n_memories + 1))

    @cached_property
    def spreading(self) -> tuple[bool, ...]:
        """Whether any spread takes instances right above the holders of each memory."""
        return tuple(bool(np.any(step > 1)) for step in self.all_steps)

    def _step(self, level: int) -> Integers:
        """What loops in space take from a tile right above the holders of a memory, or of the compute unit; (spreads, variables)."""
        places = (-1, *self.terms.memories, len(self.terms.components))
        above, here = places[level], places[level + 1]
        result = np.ones((len(self.spreads), len(self.terms.variables)), dtype=np.int64)
        for number, dimension in enumerate(self.terms.dimensions):
            if above < dimension.owner <= here:
                result *= self.spreads.factors[:, number]
        return result

    @cached_property
    def pending(self) -> tuple[Integers, ...]:
        """Memory (or compute unit) -> the product of the steps above its holders that lie at it or further in, (spreads, variables)."""
        result = [np.ones((len(self.spreads), len(self.terms.variables)), dtype=np.int64)]
        for level in range(self.n_memories, -1, -1):
            result.append(result[-1] * self.all_steps[level])
        return tuple(reversed(result))

    def link(self, tensor: int, parent: int, child: int) -> Link:
        """The cost of the traffic between two memories, by number; ``child`` may be the compute unit."""
        key = (tensor, parent, child)
        if key not in self._links:
            self._links[key] = self.link_of(self.spreads, tensor, parent, child)
        return self._links[key]

    def link_of(self, spreads: Spreads, tensor: int, parent: int, child: int) -> Link:
        """The same under other spreads."""
        places = (*self.terms.memories, len(self.terms.components) - 1)
        return self.terms.link(spreads, tensor, places[parent], places[child], self.passed(tensor, parent, child))

    def passed(self, tensor: int, parent: int, child: int) -> tuple[int, ...]:
        """The places of the tolls that a tensor passes between two memories."""
        places = (*self.terms.memories, len(self.terms.components) - 1)
        return tuple(p for p, names in self.tolls if places[parent] < p < places[child] and tensor in names)

    def cost(self, link: Link, tensor: int, tiles: Integers, spread: Integers, rounding: Floats | None = None) -> Floats:
        """Figures of holders of a tensor at these tile vectors, each under its spread; (rows, columns)."""
        fill, first = self.terms.fill(tensor, tiles)[:, None], self.terms.first(tensor, tiles)
        if rounding is not None and self.rounded:
            fill = fill * self.repeated(tensor, rounding)[:, None]
        if len(link.fill) == 1:
            rest = link.first[0] * (first if isinstance(first, float) else first[:, None])
            return np.asarray(fill * link.fill[0] + rest)
        rest = link.first[spread] * (first if isinstance(first, float) else first[:, None])
        return np.asarray(fill * link.fill[spread] + rest)

    def repeated(self, tensor: int, rounding: Floats) -> Floats:
        """How often more a tensor is moved because the trips of loops that are irrelevant to it are rounded up."""
        irrelevant = self.terms.kinds[tensor][list(self.rounded)] == NONE
        return np.asarray(rounding[:, irrelevant].prod(axis=1))

    def constant(self, option: HolderBits, settled: int) -> Floats:
        """What no tile changes: the operations, and what they read and write in the innermost holders; (spreads, columns).

        ``settled``: as of :meth:`hops`; what crosses networks along the loops of those fanouts is not in it.
        """
        hops = self.hops(option, settled)
        if self.terms.einsum.is_copy_operation:
            source, target = homes(option)[0], homes(option)[-1]
            figures = self.terms.copied(self.spreads, self.terms.memories[source], self.terms.memories[target])
            return figures if hops is None else figures + hops.constant
        figures = self._operations if hops is None else self._operations + hops.constant
        return np.asarray(sum((self._serve(tensor, option[tensor]) for tensor in self.tensors), figures))

    def least_constant(self, option: HolderBits, settled: int) -> Floats:
        """The same with the least that may cross networks along loops that Einsums share; (spreads, columns)."""
        figures, hops = self.constant(option, settled), self.hops(option, settled)
        return figures if hops is None else figures + hops.least

    @cached_property
    def _operations(self) -> Floats:
        return self.terms.compute(self.spreads)

    def _serve(self, tensor: int, bits: int) -> Floats:
        """What operations read and write of a tensor in the innermost of these memories; (spreads, columns)."""
        last = bits.bit_length() - 1
        if (tensor, last) not in self._served:
            ones = np.ones((len(self.spreads), len(self.terms.variables)), dtype=np.int64)
            every = np.arange(len(self.spreads))
            self._served[tensor, last] = self.cost(self.link(tensor, last, self.n_memories), tensor, ones, every)
        return self._served[tensor, last]

    @cached_property
    def leak(self) -> Floats:
        """Watts leaked under each spread."""
        return self.terms.leak(self.spreads)

    def bits(self, tensor: int, memory: int) -> int:
        """The width of a tensor's values in a memory."""
        return self.terms.bits(tensor, self.terms.memories[memory])

    def memory_name(self, memory: int) -> str:
        """The name of a memory."""
        leaf = self.terms.components[self.terms.memories[memory]]
        assert isinstance(leaf, Memory)
        return leaf.name

    def occupied(self, tensor: int, memory: int, tiles: Integers) -> Floats:
        """Bits that a tensor's tile takes in each tracked memory; (rows, tracked)."""
        if self.tracked == (memory,):
            return np.asarray(self.bits(tensor, memory) * self.terms.volume(tensor, tiles))[:, None]
        result = np.zeros((len(tiles), len(self.tracked)))
        if memory in self.tracked:
            result[:, self.tracked.index(memory)] = self.bits(tensor, memory) * self.terms.volume(tensor, tiles)
        return result

    def full(self, tensors: frozenset[int]) -> list[int]:
        """The variables that are fully relevant to every one of these tensors."""
        if tensors not in self._full:
            self._full[tensors] = [int(v) for v in np.flatnonzero(np.all(self.terms.kinds[sorted(tensors)] == FULL, axis=0))]
        return self._full[tensors]

    def compulsory(self, option: HolderBits) -> Floats:
        """The figures of a storage choice if each holder is filled once, wherever loops in space stand; (spreads, columns)."""
        figures = self.least_constant(option, self.n_memories - 1)
        if self.terms.einsum.is_copy_operation:
            return figures
        return np.asarray(sum((self._fill(tensor, option[tensor]) for tensor in self.tensors), figures))

    def _fill(self, tensor: int, bits: int) -> Floats:
        """What it costs to fill each of a tensor's holders once; (spreads, columns)."""
        if (tensor, bits) not in self._filled:
            spread = np.arange(len(self.spreads))
            figures = np.zeros((len(spread), len(self.terms.columns)))
            for parent, child in itertools.pairwise(levels(bits)):
                tiles = self.terms.bounds[None] // (self.pending[0] // self.pending[child + 1])
                figures = figures + self.cost(self.link(tensor, parent, child), tensor, tiles, spread)
            self._filled[tensor, bits] = figures
        return self._filled[tensor, bits]

    @cached_property
    def least(self) -> Floats:
        """The least energy and latency, each on its own, of each storage choice if each holder is filled once; (choices, 2)."""
        return self.bounded(lambda: None)

    def bounded(self, check: Callable[[], None]) -> Floats:
        """:attr:`least`, kept; ``check`` is called now and then and may end it."""
        if "least" not in self.__dict__:
            self.__dict__["least"] = self._bounded(check)
        return np.asarray(self.__dict__["least"])

    def _bounded(self, check: Callable[[], None]) -> Floats:
        if self.terms.einsum.is_copy_operation:
            every = np.arange(len(self.spreads))
            return np.array([objectives(self, self.compulsory(option), every).min(axis=0) for option in self.options])
        chosen = np.array(self.options)
        known, tables = [], []
        for tensor in self.tensors:
            bits, place = np.unique(chosen[:, tensor], return_inverse=True)
            known.append(place)
            tables.append(np.array([self._serve(tensor, int(b)) + self._fill(tensor, int(b)) for b in bits]))
        result = np.empty((len(chosen), 2))
        step = max(1, ROWS // len(self.spreads))
        for first in range(0, len(chosen), step):
            check()
            some = slice(first, first + step)
            figures = sum((table[place[some]] for table, place in zip(tables, known, strict=True)), self._operations)
            spread = np.tile(np.arange(len(self.spreads)), len(figures))
            both = objectives(self, figures.reshape(len(spread), -1), spread)
            result[some] = both.reshape(len(figures), -1, 2).min(axis=1)
        return result


def homes(placed: HolderBits) -> tuple[int, ...]:
    """Tensor by tensor, the memory it lives in: its outermost holder's."""
    return tuple((bits & -bits).bit_length() - 1 for bits in placed)


def levels(bits: int) -> list[int]:
    """The memories of a set of bits, outermost first."""
    return [m for m in range(bits.bit_length()) if bits >> m & 1]


def objectives(space: EinsumSpace, figures: Floats, spread: Integers) -> Floats:
    """Energy, leakage included, and latency, of one instance; (rows, 2). Without columns of seconds the latency is 0."""
    latency = space.terms.latency(figures)
    return np.stack([figures[:, 0] + space.leak[spread] * latency, latency], axis=1)
