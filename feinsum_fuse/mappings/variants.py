"""Rewritings of a cascade that a search tries: rules that look at indices and sizes, never at what is computed."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..cascades.cascade import Cascade
from ..cascades.rewriting.contraction_order import best_order, factors
from ..cascades.rewriting.split_reduction import SplitReduction
from ..cascades.terms import Einsum
from ..errors import CascadeError
from ..schedule.target import ANY_DEVICE, Target
from .suited import MOST_FACTORS, suited

PARTS = (0.25, 1, 4)
"""Into how many parts reductions are split, in terms of the groups that are enough for all cores."""
LEAST_PART = 16
"""Iterations of a part at the least: the second reduction reads each part's result again."""
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
    contracted = cascade
    for einsum in cascade.einsums:
        contracted = _contracted(contracted, einsum)
    yield contracted
    for base in (contracted, cascade):
        for einsum in base.einsums:
            yield from _split(base, einsum, target.groups)


def _contracted(cascade: Cascade, einsum: Einsum) -> Cascade:
    """The cascade with this Einsum along its best path, whatever that saves."""
    try:
        if 3 <= len(factors(einsum)) <= MOST_FACTORS:
            return best_order(einsum).apply(cascade)
    except CascadeError:
        pass
    return cascade


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
