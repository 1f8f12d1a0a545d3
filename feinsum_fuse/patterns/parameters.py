"""What a transform leaves open: typed parameters whose values depend on the sizes of the Einsums that it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .roles import Roles

ParameterValue = int | bool | str
"""Of a parameter."""


class Domain(Protocol):
    """The values that a parameter of a transform can have."""

    def values(self, matched: tuple[Roles, ...]) -> tuple[ParameterValue, ...]:
        """Its values for the Einsums that were matched, the usual one first; never empty."""
        ...


@dataclass(frozen=True)
class Powers:
    """Powers of two from ``low`` to ``high``, no larger than the longest index of a role rounded up to one."""

    low: int
    high: int
    usual: int
    role: str = ""

    def values(self, matched: tuple[Roles, ...]) -> tuple[ParameterValue, ...]:
        """The usual one, or the nearest to it that there is, and the others."""
        most = self.high
        if self.role:
            longest = max((n for roles in matched for n in getattr(roles.extents, self.role)), default=1)
            most = min(most, 1 << max(0, longest - 1).bit_length())
        found = [1 << k for k in range(most.bit_length()) if self.low <= 1 << k <= most] or [self.low]
        return _first(min(found, key=lambda n: abs(n - self.usual)), found)

    def __str__(self) -> str:
        return f"powers of two from {self.low} to {self.high}{f', as long as the {self.role} index' if self.role else ''}"


@dataclass(frozen=True)
class Divisors:
    """Divisors of the longest index of a role, from 1 to ``high``; the usual one is the largest up to ``usual``."""

    role: str
    high: int
    usual: int

    def values(self, matched: tuple[Roles, ...]) -> tuple[ParameterValue, ...]:
        """The usual one and the others."""
        length = max((n for roles in matched for n in getattr(roles.extents, self.role)), default=1)
        found = [n for n in range(1, min(self.high, length) + 1) if length % n == 0]
        return _first(max(n for n in found if n <= max(1, self.usual)), found)

    def __str__(self) -> str:
        return f"divisors of the {self.role} index up to {self.high}"


@dataclass(frozen=True)
class OneOf:
    """One of several values, the usual one first."""

    options: tuple[ParameterValue, ...]

    def values(self, matched: tuple[Roles, ...]) -> tuple[ParameterValue, ...]:
        """All of them."""
        return self.options

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.options))}"


def _first(usual: int, found: list[int]) -> tuple[int, ...]:
    return (usual, *(n for n in found if n != usual))
