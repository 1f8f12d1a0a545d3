"""Relevance of a rank variable to a tensor, and how far it lets a reservation sink (AccelForge's model, sections 5.1 and 5.6)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from .workload import TensorAccess, WorkloadEinsum


class Relevance(Enum):
    """How a rank variable moves the window of a tensor that an iteration touches."""

    NONE = "none"
    """It occurs in no index expression: iterating over it reuses the same values."""
    FULL = "full"
    """Its index expression has no other term (``p``, ``2*p``): each iteration touches values of its own."""
    PARTIAL = "partial"
    """It occurs in a sum (``2*p + r``): successive windows overlap."""


def relevance(access: TensorAccess, variable: str) -> Relevance:
    """The relevance of a variable to an access; the first rank whose index has the variable decides."""
    for index in access.projection.values():
        if variable in index.variables:
            alone = len(index.terms) == 1 and index.constant == 0
            return Relevance.FULL if alone else Relevance.PARTIAL
    return Relevance.NONE


def window(accesses: Iterable[TensorAccess], tensor: str) -> TensorAccess:
    """How an Einsum touches a tensor; the access that writes if it both reads and writes it, else the last one."""
    found = [access for access in accesses if access.name == tensor]
    return next((access for access in found if access.output), found[-1])


def sunk(below: Iterable[Relevance]) -> int:
    """How many of the nodes below its holder a reservation passes, given how each of them moves the window.

    It passes all that are fully relevant, comes to rest right below the first that is partially relevant, and above any other.
    """
    passed = 0
    for kind in below:
        if kind is Relevance.NONE:
            break
        passed += 1
        if kind is Relevance.PARTIAL:
            break
    return passed


def simple_variables(einsum: WorkloadEinsum) -> frozenset[str]:
    """The variables that every access which uses them indexes some rank with alone (section 5.3).

    Only such a variable may be cut into tiles that do not divide its extent without the fractional averages losing their meaning.
    """
    compound: set[str] = set()
    for access in einsum.tensor_accesses:
        bare = {index.bare for index in access.projection.values()}
        compound |= {v for v in access.rank_variables if v not in bare}
    return frozenset(einsum.rank_variables) - compound
