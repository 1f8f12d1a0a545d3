"""Rewritings of a cascade that a search tries: rules that look at indices and sizes, never at what is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice
from math import prod

from ...cascades.cascade import Cascade
from ...cascades.rewriting.contraction_order import ContractionOrder, best_order, sums_first
from ...cascades.rewriting.intermediates import Recompute, without_doubles
from ...cascades.rewriting.split_reduction import SplitReduction
from ...cascades.terms import Einsum
from ...errors import CascadeError
from ...schedule.target import ANY_DEVICE, Target
from .contracted import MOST_FACTORS, multiplications
from .suited import suited

PARTS = (0.25, 1, 4)
"""Into how many parts reductions are split, in terms of the groups that are enough for all cores."""
LEAST_PART = 16
"""Iterations of a part at the least: the second reduction reads each part's result again."""
MOST_BEGUN = 4
"""Factors of which each pair is tried as the first step: six orders."""
MOST_VARIANTS = 8
"""Each has a family of its own, and what is learned of one says less about another."""


def variants(cascade: Cascade, target: Target = ANY_DEVICE) -> tuple[Cascade, ...]:
    """The cascade as the default mapping takes it, as given, and further rewritten ones; no two the same."""
    found: dict[str, Cascade] = {}
    for made in _all(cascade, target):
        found.setdefault(made.key, made)
        if len(found) == MOST_VARIANTS:
            break
    return tuple(found.values())


def _all(cascade: Cascade, target: Target) -> Iterator[Cascade]:
    yield suited(cascade, target)
    yield cascade
    if cascade.size_parameters:
        return
    contracted = _contracted(cascade)
    yield contracted
    # One of these, which leaves room for reductions in parts.
    yield from islice((made for einsum in cascade.einsums for made in _recomputed(cascade, einsum, target)), 1)
    for base in (contracted, cascade):
        for einsum in base.einsums:
            yield from _split(base, einsum, target.groups)


def _contracted(cascade: Cascade) -> Cascade:
    """The cascade with each Einsum of several factors in steps, whatever that saves; what several have in common is computed once.

    Each Einsum takes the order that leaves the fewest multiplications to all of them, two times in turn: the order of one decides what
    others find computed.
    """
    orders = {einsum.name: found for einsum in cascade.einsums if (found := _orders(cascade, einsum))}
    chosen = {name: found[0] for name, found in orders.items()}
    for name, found in [*orders.items()] * 2 if len(orders) > 1 else ():
        chosen[name] = min(found, key=lambda order: _cost(cascade, {**chosen, name: order}.values()))
    return _in_steps(cascade, chosen.values())


def _orders(cascade: Cascade, einsum: Einsum) -> list[ContractionOrder]:
    """The best order of an Einsum's factors, and of few factors the others that begin with any two of them; none if it is no product."""
    try:
        first, left = sums_first(einsum)
        count = len(left)
        if count > MOST_FACTORS or (count < 3 and not first):
            return []
        orders = [best_order(einsum)]
        for pair in combinations(range(count), 2) if 3 <= count <= MOST_BEGUN else ():
            begun = ContractionOrder(einsum.name, (*first, pair, tuple(range(count - 1)))).apply(cascade)
            rest = best_order(begun.einsum(einsum.name)).path if count > 3 else ((0, 1),)
            orders.append(ContractionOrder(einsum.name, (*first, pair, *rest)))
    except CascadeError:
        return []
    return orders


def _in_steps(cascade: Cascade, orders: Iterable[ContractionOrder]) -> Cascade:
    for order in orders:
        cascade = order.apply(cascade)
    return without_doubles(cascade)


def _cost(cascade: Cascade, orders: Iterable[ContractionOrder]) -> int:
    return sum(map(multiplications, _in_steps(cascade, orders).einsums))


def _recomputed(cascade: Cascade, einsum: Einsum, target: Target) -> Iterator[Cascade]:
    """The cascade without an intermediate that maps single elements, as a default mapping takes it then."""
    try:
        yield suited(Recompute(einsum.name).apply(cascade), target)
    except CascadeError:
        return


def _split(cascade: Cascade, einsum: Einsum, groups: int) -> Iterator[Cascade]:
    """The cascade with the longest reduction of this Einsum in parts, as long as their results are no more than what they are made of."""
    sizes = {v: n for v in einsum.reduction_variables if isinstance(n := einsum.sizes[v], int)}
    if not sizes:
        return
    variable = max(sizes, key=lambda v: sizes[v])
    outputs = prod(n for v in einsum.output_variables if isinstance(n := einsum.sizes[v], int))
    read = sum(prod(cascade.fixed_shape(access.tensor)) for access in einsum.operands)
    for parts in (int(share * groups) for share in PARTS):
        if sizes[variable] >= LEAST_PART * parts and parts * outputs <= read:
            try:
                yield SplitReduction(einsum.name, variable, parts).apply(cascade)
            except CascadeError:
                return
