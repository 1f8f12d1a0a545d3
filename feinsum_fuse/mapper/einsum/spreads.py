"""Spreads: how an Einsum may take the fanouts of an architecture."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...errors import ConstraintWarning
from ...formats.arch import Network
from ...formats.sets import tensor_set
from ...model.accelforge.einsum_terms import NONE, Integers, SpatialDimension, Spreads, Terms
from .rules import SizeBound
from .tile_table import divisors

MOST_WAYS = 20_000
"""Ways along one dimension beyond which they are not counted."""
FEW_SPREADS = 1000
"""Ways along one dimension among which one is looked for that is found at once."""


def spreads(terms: Terms, per_dimension: float | None = None, check: Callable[[], None] = lambda: None) -> Spreads:
    """Every way to give each dimension factors of the variables that its fanout and its constraints allow.

    ``per_dimension``: the most variables along one dimension. Ways that take as many instances of every variable from every group of
    dimensions that nothing tells apart are one. ``check`` is called now and then and may end it.
    """
    choices: list[list[tuple[int, ...]]] = []
    for dimension in terms.dimensions:
        choices.append([])
        for way in _factors(terms, dimension, per_dimension):
            check()
            choices[-1].append(way)
    found: dict[bytes, Integers] = {}
    for combination in _dividing(choices, terms.bounds.tolist()):
        check()
        factors = np.array(combination, dtype=np.int64).reshape(len(terms.dimensions), len(terms.variables))
        found.setdefault(effect(terms, factors), factors)
    every = np.array(list(found.values()), dtype=np.int64).reshape(len(found), len(terms.dimensions), len(terms.variables))
    used = _used_enough(terms, every)
    crossed = any(isinstance(leaf, Network) for leaf in terms.components)
    return _in_every_order(terms, used) if crossed else Spreads(used)


def _dividing(choices: Sequence[Sequence[tuple[int, ...]]], left: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """One way from each list, all of which together divide what is left of the variables."""
    if not choices:
        yield ()
        return
    for way in choices[0]:
        if not any(extent % factor for extent, factor in zip(left, way, strict=True)):
            for rest in _dividing(choices[1:], [extent // factor for extent, factor in zip(left, way, strict=True)]):
                yield (way, *rest)


def shared_factors(terms: Terms, chosen: Sequence[int], variables: frozenset[int], most: float | None) -> Iterator[Integers]:
    """Every way to give the chosen dimensions factors of these variables, (dimensions, variables) each; the others take nothing.

    All of them, also those that one Einsum alone could not tell apart: those that share the loops call them each by their own names.
    """
    ones = (1,) * len(terms.variables)
    choices = [
        [way for way in _factors(terms, dimension, most) if all(factor == 1 or v in variables for v, factor in enumerate(way))]
        if number in chosen
        else [ones]
        for number, dimension in enumerate(terms.dimensions)
    ]
    for combination in _dividing(choices, terms.bounds.tolist()):
        yield np.array(combination, dtype=np.int64).reshape(len(terms.dimensions), len(terms.variables))


def ways(terms: Terms, dimension: SpatialDimension) -> int | None:
    """How many ways there are to spread an Einsum along a dimension; ``None`` for more than can be counted soon."""
    found = sum(1 for _ in itertools.islice(_factors(terms, dimension, None), MOST_WAYS + 1))
    return found if found <= MOST_WAYS else None


def first_spread(terms: Terms, per_dimension: float | None = None) -> Spreads:
    """One way that is found at once: nothing is spread but along dimensions that must be used, and these as far as few tries go."""
    left = terms.bounds.copy()
    chosen: list[Integers] = []
    for dimension in terms.dimensions:
        best = np.ones(len(terms.variables), dtype=np.int64)
        for factors in itertools.islice(_factors(terms, dimension, per_dimension), FEW_SPREADS) if dimension.fanout.min_usage else ():
            own = np.array(factors, dtype=np.int64)
            if not np.any(left % own) and own.prod() > best.prod():
                best = own
        left //= best
        chosen.append(best)
    return Spreads(np.array(chosen, dtype=np.int64).reshape(1, len(terms.dimensions), len(terms.variables)))


def _in_every_order(terms: Terms, factors: Integers) -> Spreads:
    """Each spread once for every order of the loops of one component: what crosses a network may pass it along one axis before another."""
    repeated: list[Integers] = []
    orders: list[Integers] = []
    owners = np.array([dimension.owner for dimension in terms.dimensions])
    for one in factors:
        loops = np.argwhere(one > 1)
        groups = [[(n, v) for n, v in loops if owners[n] == owner] for owner in dict.fromkeys(owners[loops[:, 0]])]
        for chosen in itertools.product(*(itertools.permutations(group) for group in groups)):
            order = np.zeros_like(one)
            for group in chosen:
                for place, (n, v) in enumerate(group):
                    order[n, v] = place
            repeated.append(one)
            orders.append(order)
    shape = (len(orders), *factors.shape[1:])
    return Spreads(np.array(repeated, dtype=np.int64).reshape(shape), np.array(orders, dtype=np.int64).reshape(shape))


def _used_enough(terms: Terms, factors: Integers) -> Integers:
    """Those that use each dimension as much as ``min_usage`` asks for, or, if none does, as much as any."""
    for number, dimension in enumerate(terms.dimensions):
        least = dimension.fanout.min_usage
        if not least or terms.einsum.is_copy_operation or not len(factors):
            continue
        usage = np.prod(factors[:, number], axis=1) / dimension.fanout.fanout * dimension.fanout.usage_scale
        if usage.max() < least * (1 - 1e-9):
            where = f"{dimension.component} along {dimension.fanout.name}"
            message = f"Einsum {terms.einsum.name} uses at most {usage.max():.3g} of {where}, less than min_usage: {least:g}."
            warnings.warn(f"{message} Only mappings that use so much are searched.", ConstraintWarning, stacklevel=2)
        factors = factors[usage >= min(least, usage.max()) * (1 - 1e-9)]
    return factors


def effect(terms: Terms, factors: Integers) -> bytes:
    """What a spread, (dimensions, variables), does: the factors of dimensions that nothing tells apart taken together."""
    groups: dict[tuple[object, ...], Integers] = {}
    networks = any(isinstance(leaf, Network) for leaf in terms.components)
    for number, dimension in enumerate(terms.dimensions):
        fanout = dimension.fanout
        alike: tuple[object, ...] = (dimension.owner, dimension.may_reuse)
        if networks:
            alike = (*alike, number)
        if fanout.power_gateable:
            alike = (*alike, number)
        if fanout.loop_bounds or fanout.reuse != "Nothing" or fanout.min_usage:
            alike = (*alike, fanout)
        groups[alike] = groups.get(alike, np.ones(len(terms.variables), dtype=np.int64)) * factors[number]
    return b"".join(group.tobytes() for group in groups.values())


def _factors(terms: Terms, dimension: SpatialDimension, most: float | None) -> Iterator[tuple[int, ...]]:
    """The factors of all variables along one dimension."""
    reused = tensor_set(dimension.fanout.reuse, terms.spec.workload, terms.einsum.name)
    must = [t for t, access in enumerate(terms.accesses) if access.name in reused]
    allowed = [v for v in range(len(terms.variables)) if all(terms.kinds[t][v] == NONE for t in must)]
    per_variable = [divisors(int(bound)) if v in allowed else [1] for v, bound in enumerate(terms.bounds)]

    def walk(v: int, left: int, used: int) -> Iterator[tuple[int, ...]]:
        if v == len(per_variable):
            yield ()
            return
        for factor in per_variable[v]:
            if factor > left or (factor > 1 and most is not None and used >= most):
                break
            for rest in walk(v + 1, left // factor, used + (factor > 1)):
                yield (factor, *rest)

    bounds = [SizeBound.of(terms, comparison) for comparison in dimension.fanout.loop_bounds]
    for factors in walk(0, dimension.fanout.fanout, 0):
        sizes = np.array([factors], dtype=np.int64).reshape(1, len(factors))
        if all(bool(bound.holds(sizes, sizes > 1)[0]) for bound in bounds):
            yield factors
