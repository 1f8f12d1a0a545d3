"""The problem of a search: for every Einsum its spaces, one per compute unit that may run it."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ..formats.arch import NETWORK_LATENCY, Arch, Compute, Leaf, Memory, Network
from ..formats.language.expressions import evaluate
from ..formats.sets import ElementSet, Symbols
from ..formats.spec import Spec
from ..formats.workload import WorkloadEinsum
from ..model.accelforge.component import localised
from ..model.accelforge.einsum_terms import Terms
from ..model.accelforge.latency import component_latency
from ..model.quantity import Floats
from .budget import Budget
from .einsum.constraint_counts import constraint_counts
from .einsum.einsum_space import EinsumSpace, homes
from .einsum.spreads import first_spread, spreads
from .einsum.storage_choices import Choices, HolderBits
from .einsum.tile_table import EXHAUSTIVE
from .enumeration.block import Limit
from .enumeration.prefixes import Fusible
from .enumeration.tables import BEAM, PROMISING, Homes, Tables
from .failures import NoMappingError, UnsearchedError
from .joining.lifetimes import Floors, Lifetimes, NamedHomes
from .joining.structures import Additive, Piece
from .merging import Merging
from .options import Options
from .request.flips import roles, with_einsums
from .stocks.stock import Limits, Stock, loosest, make_blocks, make_floors
from .stocks.store import Shelf, Store

ENDLESS = 2.0**60
"""Bits of a memory that holds whatever it may; finite, so that its peak is counted and no axis of a front is infinite."""


@dataclass(frozen=True)
class Counted:
    """Which figures a search adds up."""

    energy: bool
    seconds: bool
    floors: tuple[int, ...] = (0, 1)
    """Those that are bounded from below: 0 is energy, 1 latency."""


@dataclass
class Problem:
    """A workload on an architecture, ready to be searched."""

    spec: Spec
    arch: Arch
    options: Options
    figures: Counted
    budget: Budget
    expressible: bool = False
    """Whether tensors that Einsums share are held for one of them only below the loops that they share."""
    quick: bool = False
    """Whether only the storage choice and the way in space are taken that are found at once."""

    @classmethod
    def of(cls, spec: Spec, options: Options, figures: Counted, budget: Budget, expressible: bool = False) -> Problem:
        """The problem of a spec that has an architecture and Einsums."""
        assert spec.arch is not None
        return cls(spec, spec.arch, options, figures, budget, expressible)

    @cached_property
    def cascade(self) -> Lifetimes:
        """The Einsums and the life of their tensors."""
        return Lifetimes(self.spec.workload)

    @cached_property
    def tracked(self) -> tuple[Memory, ...]:
        """The memories whose size may bind: finite, and not large enough for everything at once."""
        usage = "usage" in self.options.pareto
        leaves = [leaf for leaf in self.arch.components if isinstance(leaf, Memory) and np.isfinite(leaf.size)]
        return tuple(leaf for leaf in leaves if usage or leaf.size < self._most_bits)

    @cached_property
    def _most_bits(self) -> float:
        """More bits than any memory ever holds: all tensors of all Einsums whole, in the widest form that a memory gives them."""
        widest = max([b for leaf in self.arch.components if isinstance(leaf, Memory) for b in leaf.bits_per_value.values()], default=0)
        workload = self.spec.workload
        return sum(
            float(np.prod([float(size) for size in workload.shape(access.name).values()]))
            * max(access.bits_per_value, widest)
            * max(1, self._instances(einsum))
            for einsum in workload.einsums
            for access in einsum.tensor_accesses
        )

    def _instances(self, einsum: WorkloadEinsum) -> int:
        return self.spec.workload.n_instances * einsum.n_instances

    @cached_property
    def tables(self) -> list[list[Tables]]:
        """Einsum by Einsum, one for each compute unit that may run it."""
        return [self._tables_of(number, einsum) for number, einsum in enumerate(self.spec.workload.einsums)]

    @property
    def listed(self) -> bool:
        """Whether the storage choices of all Einsums have been listed."""
        return "tables" in self.__dict__

    def _tables_of(self, number: int, einsum: WorkloadEinsum) -> list[Tables]:
        units = [leaf for leaf in self.arch.components if isinstance(leaf, Compute) and self._enabled(leaf, einsum)]
        reasons = [] if units else ["no compute unit is enabled"]
        ways = roles(self.spec, einsum) if self.options.flip else (einsum,)
        spaces = [space for unit in units for way in ways if (space := self._space(way, unit.name, reasons)) is not None]
        if not spaces:
            ways_down = [localised(self.spec, einsum, leaf) for unit in units[:1] for leaf in self.arch.path(unit.name)]
            lines = constraint_counts(self.spec.workload, einsum, ways_down) if units else []
            raise NoMappingError("\n  ".join([f"Einsum {einsum.name} has no mapping: {'; '.join(dict.fromkeys(reasons))}.", *lines]))
        inside = frozenset(t for t in self.spec.workload.shared if t in self.spec.workload.intermediates)
        passing = self.cascade.passing(number, inside)
        result = []
        for space in spaces:
            fusible, fixed = self._fusible(number, space, passing), self._persistent(space)
            result.append(Tables(space, self.options, self.budget, self._instances(einsum), fusible, fixed, self.expressible))
        return result

    def _fusible(self, number: int, space: EinsumSpace, passing: Sequence[str]) -> Fusible:
        """The variables over which loops may be open above the shared tensors of an Einsum, and above those that pass it."""
        cutting = self.cascade.cutting

        def variables(tensor: str) -> frozenset[int]:
            return frozenset(v for v, name in enumerate(space.terms.variables) if name in cutting[tensor][number])

        own = [variables(access.name) if space.shared[t] else frozenset[int]() for t, access in enumerate(space.terms.accesses)]
        return Fusible(tuple(own), tuple(sorted(map(variables, passing), key=sorted)))

    def _persistent(self, space: EinsumSpace) -> frozenset[int]:
        return frozenset(t for t, access in enumerate(space.terms.accesses) if access.persistent)

    def _enabled(self, leaf: Leaf, einsum: WorkloadEinsum) -> bool:
        value = evaluate(leaf.enabled, Symbols(self.spec.workload, einsum))
        return len(value) > 0 if isinstance(value, ElementSet) else bool(value)

    def _space(self, einsum: WorkloadEinsum, unit: str, reasons: list[str]) -> EinsumSpace | None:
        """The space of an Einsum on one compute unit; ``None``, and the reason, if constraints leave nothing of it."""
        workload = with_einsums(self.spec.workload, [einsum])
        spec = dataclasses.replace(self.spec, workload=workload)
        terms = Terms.of(spec, einsum, unit, energy=self.figures.energy, seconds=self.figures.seconds)
        listed = Choices(workload, einsum, terms.components, self.budget.check)
        choices = listed.first() if self.quick else listed.subsets()
        if not choices:
            reasons.append(f"keep, may_keep and back of the memories on the way to {unit} contradict one another")
            return None
        passed = {tuple(sorted(tolls.items())) for _, tolls in choices}
        if len(passed) > 1:
            raise UnsearchedError(f"What passes the tolls of Einsum {einsum.name} depends on what other memories hold.")
        self._refuse(terms)
        names = einsum.tensors
        tolls = tuple((place, frozenset(names.index(t) for t in tensors)) for place, tensors in passed.pop())
        tracked = {memory.name for memory in self.tracked}
        numbers = tuple(m for m, place in enumerate(terms.memories) if terms.components[place].name in tracked)
        shared = tuple(name in self.spec.workload.shared for name in names)
        options = tuple(placed for placed, _ in choices)
        most = self.options.per_dimension
        imperfect, coarseness = self.options.imperfect, self.options.coarseness
        space = EinsumSpace(terms, options, tolls, shared, terms.alone, numbers, imperfect, coarseness)
        apart = imperfect or coarseness > 1 or most is not None or space.rules.on_tiles or "merge" in self.options.without
        space.merging = None if apart else Merging.of(terms)
        one = terms if space.merging is None else space.merging.terms(terms)
        spread = first_spread(one, most) if self.quick else spreads(one, most, self.budget.check)
        if space.merging is None:
            return dataclasses.replace(space, spreads=spread)
        space.merged = EinsumSpace(one, options, tolls, shared, spread, numbers)
        return space

    def _refuse(self, terms: Terms) -> None:
        """Refuse, by name, what the closed forms and the joins do not cover."""
        for leaf in terms.components:
            if isinstance(leaf, Network):
                _refuse_network(leaf, terms)
            if unknown := [name for name in leaf.unknown(terms.einsum.name) if name not in ("area", "area_scale")]:
                message = f"{leaf.name} has no number for {', '.join(unknown)}, which a component model would give."
                raise UnsearchedError(message, hint="Write the numbers into the architecture.")
        persistent = [access.name for access in terms.accesses if access.persistent]
        if persistent and self.tracked:
            names = ", ".join(memory.name for memory in self.tracked)
            if persistent[0] in self.spec.workload.intermediates or any(m.name == self._outermost(terms) for m in self.tracked):
                raise UnsearchedError(f"The search does not cover {persistent[0]}, which persists, in a memory that may overflow: {names}.")

    def _outermost(self, terms: Terms) -> str:
        return terms.components[terms.memories[0]].name

    @cached_property
    def size(self) -> float:
        """Decimal logarithm of the number of mappings: of each Einsum, orders of its holders times descending tile vectors at them."""
        total = 0.0
        for own in self.tables:
            holders = [Counter(sum(bits.bit_count() for bits in o) - len(o) for o in tables.space.options) for tables in own]
            counts = [(_count(t.space, number), many) for t, some in zip(own, holders, strict=True) for number, many in some.items()]
            most = max(count for count, _ in counts)
            total += most + math.log10(sum(many * 10 ** (count - most) for count, many in counts))
        return total

    @cached_property
    def stocks(self) -> list[list[Stock]]:
        """The tables that are made: one for all Einsums that differ in names alone."""
        known: dict[object, Stock] = {}
        cache = self.options.cache
        store = cache if cache is None or isinstance(cache, Shelf) else Store.at(cache)
        return [[known.setdefault(tables.signature, Stock(tables, store)) for tables in own] for own in self.tables]

    @property
    def _distinct(self) -> list[Stock]:
        return list({id(stock): stock for stocks in self.stocks for stock in stocks}.values())

    @cached_property
    def floors(self) -> Floors:
        """Floors under each Einsum alone, with capacity, and under all; 0 where that rule is switched off."""
        each: list[dict[NamedHomes, Floats]] = []
        if "floor" in self.options.without:
            nothing = [{named(t.space, where): np.zeros(2) for t in own for where in t.by_homes} for own in self.tables]
            return Floors(self.cascade, nothing)
        make_floors(self._distinct, self.figures.floors, self.options.jobs)
        for own, stocks in zip(self.tables, self.stocks, strict=True):
            merged: dict[NamedHomes, Floats] = {}
            for tables, stock in zip(own, stocks, strict=True):
                found = stock.floors(self.figures.floors)
                tables.witnesses |= stock.tables.witnesses
                for where, least in found.items():
                    name = named(tables.space, where)
                    merged[name] = np.minimum(merged[name], least) if name in merged else least
            each.append(merged)
        return Floors(self.cascade, each)

    def simplest(self) -> Problem:
        """The problem with one storage choice for each Einsum: tensors live as far out as they may, and the fewest are held further in."""
        return self._narrowed(_simplest)

    def at_once(self, figure: int) -> Problem:
        """The problem with one storage choice for each Einsum, one way in space, few partial mappings, and no floors: it is soon solved."""
        options = dataclasses.replace(self.options, without=frozenset({"floor"}), jobs=1, cache=None)
        result = dataclasses.replace(self, options=options, budget=Budget(self.options.max_rows), quick=True)
        for tables in (t for own in result.tables for t in own):
            tables.beam = (BEAM, figure)
        return result

    def witnesses(self) -> Problem:
        """The problem with the storage choices alone that reach a floor of their Einsum; the floors under all of them stay."""
        floors = self.floors
        result = self._narrowed(lambda tables: [tables.space.options[n] for n in sorted(tables.witnesses)] or list(tables.space.options))
        result.floors = floors
        return result

    def greedy(self, figure: int) -> Problem:
        """The problem with the storage choices that promise least of a figure, and few partial mappings of each; its best is a bound."""
        floors = self.floors
        result = self._narrowed(partial(_promising, figure=figure))
        for tables in (t for own in result.tables for t in own):
            tables.beam = (BEAM, figure)
        result.floors = floors
        return result

    @cached_property
    def large(self) -> bool:
        """Whether the space of an Einsum is so large that a quick bound from above is worth its time."""
        return any(tables.large for own in self.tables for tables in own)

    def _narrowed(self, choose: Callable[[Tables], Sequence[HolderBits]]) -> Problem:
        """The problem with some of its storage choices."""
        result = dataclasses.replace(self, options=dataclasses.replace(self.options, without=frozenset()))
        result.tables = [
            [dataclasses.replace(t, space=t.space.only(choose(t)), options=result.options) for t in own] for own in self.tables
        ]
        return result

    def pieces(self, fused: int, limit: Limit) -> list[list[Piece]]:
        """The blocks of all Einsums for mappings within a limit on energy and latency of all Einsums together."""
        names = [memory.name for memory in self.tracked]
        own_limits = [[self._limits(number, tables, limit) for tables in own] for number, own in enumerate(self.tables)]
        wanted: dict[int, list[Limits]] = {}
        for stocks, limits in zip(self.stocks, own_limits, strict=True):
            for stock, one in zip(stocks, limits, strict=True):
                wanted.setdefault(id(stock), []).append(one)
        distinct = self._distinct
        make_blocks(distinct, [loosest(wanted[id(stock)]) for stock in distinct], fused, self.options.jobs)
        result: list[list[Piece]] = []
        for own, stocks, limits in zip(self.tables, self.stocks, own_limits, strict=True):
            found = [b for t, stock, one in zip(own, stocks, limits, strict=True) for b in stock.blocks(fused, one, t.space)]
            result.append([Piece.of(block, names, self._additive) for block in found])
        return result

    @property
    def _additive(self) -> Additive:
        """What Einsums add up while they share loops."""
        if self.options.footprint == "exact":
            return "own"
        return "all" if self.options.head_is_tiled_fusion else "all but heads"

    def _limits(self, number: int, tables: Tables, limit: Limit) -> Limits:
        """Homes -> what one Einsum may need at most, as the others need their least; negative where the others have no such homes."""
        others = self.floors.others[number]
        result: dict[Homes, Limit] = {}
        for where in tables.by_homes:
            rest = others.get(named(tables.space, where))
            result[where] = (-1.0, -1.0) if rest is None else (limit[0] - float(rest[0]), limit[1] - float(rest[1]))
        return result

    @cached_property
    def thinned(self) -> bool:
        """Whether not every tile with a remainder is tried."""
        return self.options.imperfect and any(
            int(bound) > EXHAUSTIVE for own in self.tables for tables in own for bound in tables.space.terms.bounds
        )

    @cached_property
    def most_fused(self) -> int:
        """More fused loops than this no mapping needs: the variables of the Einsums that share a tensor which all of them index it by."""
        counts = []
        for tensor in sorted(self.spec.workload.intermediates):
            spaces = [t.space for own in self.tables for t in own if any(a.name == tensor for a in t.space.terms.accesses)]
            if any(self._inside(space, tensor) for space in spaces):
                counts.append(min(self._full(space, tensor) for space in spaces))
        return max(counts, default=0)

    def _inside(self, space: EinsumSpace, tensor: str) -> bool:
        number = next(t for t, access in enumerate(space.terms.accesses) if access.name == tensor)
        return any(not placed[number] & 1 for placed in space.options)

    def _full(self, space: EinsumSpace, tensor: str) -> int:
        number = next(t for t, access in enumerate(space.terms.accesses) if access.name == tensor)
        return len(space.full(frozenset({number})))


def _refuse_network(network: Network, terms: Terms) -> None:
    """Refuse a network that has no time, or one that it takes even where nothing hops."""
    hop = network.action("hop")
    if network.total_latency == NETWORK_LATENCY and (hop is None or hop.latency is None):
        message = f"A hop of the network {network.name} has no latency."
        raise UnsearchedError(message, hint="Give the action hop a latency in seconds, which may be 0.")
    names = {**terms.spec.variables, **terms.arch.variables, "max_hops": 0, "max_link_traffic": 0}
    if np.any(component_latency(network, {}, names)):
        raise UnsearchedError(f"The search does not cover the network {network.name}, which takes time even if nothing hops.")


def _simplest(tables: Tables) -> list[HolderBits]:
    """The storage choice that moves least from place to place."""
    return [min(tables.space.options, key=lambda placed: (homes(placed), sum(bits.bit_count() for bits in placed), placed))]


def _promising(tables: Tables, figure: int) -> list[HolderBits]:
    """Of each homes the storage choices that cost least if each holder is filled once."""
    least = tables.space.chain.least[:, figure]
    ranked = (sorted(numbers, key=lambda n: float(least[n]))[:PROMISING] for numbers in tables.by_homes.values())
    return [tables.space.options[n] for numbers in ranked for n in numbers]


def _count(space: EinsumSpace, holders: int) -> float:
    """Decimal logarithm of the mappings of one storage choice: ``h! * prod_v C(d(B_v) + h - 1, h)`` for ``h`` holders further in."""
    chains = [math.comb(len(table.all) + holders - 1, holders) if holders else 1 for table in space.tiles]
    return math.log10(math.factorial(holders)) + sum(math.log10(count) for count in chains) + math.log10(len(space.chain.spreads))


def named(space: EinsumSpace, homes: Homes) -> NamedHomes:
    """Homes by names, of the shared tensors."""
    return tuple(sorted((access.name, space.memory_name(homes[t])) for t, access in enumerate(space.terms.accesses) if space.shared[t]))
