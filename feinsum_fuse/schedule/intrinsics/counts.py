"""How many iterations of a block's loops count: what their ends and the conditions of the statement say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...formats.affine import Affine
from ..statement import Statement
from ..tree.nest import For


@dataclass(frozen=True)
class IterationCount:
    """How many iterations of joined loops are wanted: at most ``extent``, and each of ``most``."""

    extent: int
    most: tuple[Affine, ...] = ()


def limits_of(chain: tuple[For, ...], statement: Statement, inside: set[str]) -> tuple[list[Affine], list[Affine]]:
    """The conditions of the block that speak of its loops, and those that hold for all of it or for nothing."""
    single = {loop.name: Affine((), 0) for loop in chain if loop.extent == 1}
    everything = [limit for loop in chain for limit in loop.limits] + list(statement.guards)
    every = list(dict.fromkeys(limit.substituted(single) for limit in everything))
    outside = [limit for limit in every if not inside & set(limit.variables)]
    return [limit for limit in every if limit not in outside], outside


def counted(loops: Sequence[For], index: Affine, limits: list[Affine], inside: set[str]) -> IterationCount:
    """How many values of a joined index are wanted; the limits that say so are taken off the list."""
    extent = 1
    for loop in loops:
        extent *= loop.extent or 1
    own = {loop.name for loop in loops}
    found = {limit: most for limit in limits if (most := _most(limit, own, index, inside)) is not None}
    # A loop runs as long as any iteration inside it does: what it says besides is known.
    whole = [limit for limit in found if limit.restricted(own) == -index]
    found = {limit: most for limit, most in found.items() if limit in whole or not any(_implies(other, limit, own) for other in whole)}
    limits[:] = [limit for limit in limits if limit not in found and not any(_implies(other, limit, own) for other in whole)]
    return IterationCount(extent, tuple(dict.fromkeys(found.values())))


def _implies(one: Affine, other: Affine, own: set[str]) -> bool:
    """Whether a limit that holds makes another one hold: what this adds is never negative."""
    beside = other - one
    return beside.constant >= 0 and all(name in own and factor > 0 for name, factor in beside.terms)


def _most(limit: Affine, own: set[str], index: Affine, inside: set[str]) -> Affine | None:
    """How many values of the joined index a limit allows; ``None`` if it says something else."""
    inner = limit.restricted(own)
    rest = limit - inner
    if not inner.terms or inside & set(rest.variables):
        return None
    if inner == -index:
        return rest + 1
    # A limit of an outer loop alone: so many whole runs of the loop inside.
    if len(inner.terms) != 1:
        return None
    ((name, factor),) = inner.terms
    run = index.coefficients.get(name, 0)
    if factor >= 0 or any(term % factor for _, term in rest.terms):
        return None
    times = Affine(tuple((other, term // -factor) for other, term in rest.terms), rest.constant // -factor) + 1
    return times * run
