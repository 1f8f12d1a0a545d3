"""The roles that indices play in an Einsum, and patterns of them: structure and sizes, never names or what is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from constantdict import constantdict

from ..cascades.terms import Access, Einsum

ROLES = ("batch", "left", "right", "contracted", "summed", "window")
"""
* ``batch``: indexes the output and every operand;
* ``right``: indexes the output, and an operand that has the output's last index, but not all operands;
* ``left``: indexes the output and other operands alone;
* ``contracted``: is reduced, and indexes two operands or more;
* ``summed``: is reduced, and indexes one operand, or none;
* ``window``: is reduced, and stands beside another variable in an index, as in a convolution.
"""
IndexCount = int | tuple[int, int | None] | None
"""How many indices have a role: exactly so many, from one number to another (``None``: any), or any."""


@dataclass(frozen=True)
class Extents:
    """What a pattern may look at: for each role the lengths of its indices, the longest first, and how operands lie in memory."""

    batch: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    contracted: tuple[int, ...] = ()
    summed: tuple[int, ...] = ()
    window: tuple[int, ...] = ()
    operands: int = 1
    last: tuple[str, ...] = ()
    """The role of the last index of the output, then of each operand that has indices; empty for an index of several variables."""

    def points(self, *roles: str) -> int:
        """The product of the lengths of all indices with these roles; all roles if none is named."""
        return prod(length for role in roles or ROLES for length in getattr(self, role))


@dataclass(frozen=True)
class Roles:
    """An Einsum's rank variables by their roles."""

    einsum: Einsum
    variables: constantdict[str, tuple[str, ...]]
    """Role -> variables, the longest first."""

    @classmethod
    def of(cls, einsum: Einsum) -> Roles | None:
        """The roles; ``None`` for an Einsum with symbolic sizes, a recurrence, and one that scatters its output."""
        if einsum.is_recurrence or not einsum.has_injective_output or not all(isinstance(n, int) for n in einsum.sizes.values()):
            return None
        found: dict[str, list[str]] = {role: [] for role in ROLES}
        for variable in einsum.variables:
            found[_role(einsum, variable)].append(variable)
        longest = {role: tuple(sorted(names, key=lambda v: -_length(einsum, v))) for role, names in found.items()}
        return cls(einsum, constantdict(longest))

    @property
    def name(self) -> str:
        """The Einsum's name."""
        return self.einsum.name

    def __str__(self) -> str:
        having = [f"{len(names)} {role} ({', '.join(names)})" for role, names in self.variables.items() if names]
        count = len(self.einsum.operands)
        return ", ".join([f"{count} operand{'s' * (count != 1)}", *having])

    def longest(self, *roles: str) -> str | None:
        """The longest variable with one of these roles; ``None`` if there is none."""
        found = [v for role in roles for v in self.variables[role]]
        return max(found, key=lambda v: _length(self.einsum, v), default=None)

    def length(self, variable: str) -> int:
        """A variable's extent."""
        return _length(self.einsum, variable)

    def operand(self, role: str) -> int | None:
        """The position of the first operand that has an index of this role; ``None`` if there is none."""
        wanted = set(self.variables[role])
        return next((k for k, access in enumerate(self.einsum.operands) if wanted & set(access.variables)), None)

    @cached_property
    def extents(self) -> Extents:
        """The lengths, without names."""
        role_of = {v: role for role, names in self.variables.items() for v in names}
        accesses = [a for a in (self.einsum.output, *self.einsum.operands) if a.indices]
        last = tuple(role_of.get(access.indices[-1].bare or "", "") for access in accesses)
        lengths: Mapping[str, tuple[int, ...]] = {r: tuple(_length(self.einsum, v) for v in names) for r, names in self.variables.items()}
        return Extents(**lengths, operands=len(self.einsum.operands), last=last)


def _length(einsum: Einsum, variable: str) -> int:
    size = einsum.sizes[variable]
    assert isinstance(size, int)
    return size


def _role(einsum: Einsum, variable: str) -> str:
    indexed = [access for access in einsum.operands if access.variables]
    having = [access for access in indexed if variable in access.variables]
    if variable not in einsum.output_variables:
        if any(variable in index.variables and index.bare is None for access in having for index in access.indices):
            return "window"
        return "contracted" if len(having) > 1 else "summed"
    if len(having) == len(indexed):
        return "batch"
    return "right" if any(access in having for access in _columns(einsum, indexed)) else "left"


def _columns(einsum: Einsum, indexed: list[Access]) -> list[Access]:
    """The operands that have the output's last index; the last operand if all have it."""
    last = einsum.output_variables[-1]
    found = [access for access in indexed if last in access.variables]
    return found if len(found) < len(indexed) else indexed[-1:]


@dataclass(frozen=True)
class Pattern:
    """Which Einsums: how many operands, how many indices of each role, and how the sizes relate. No field knows a name or a map."""

    operands: IndexCount = None
    batch: IndexCount = None
    left: IndexCount = None
    right: IndexCount = None
    contracted: IndexCount = None
    summed: IndexCount = None
    window: IndexCount = None
    where: Callable[[Extents], bool] | None = None
    """A relation of sizes."""

    def matches(self, extents: Extents) -> bool:
        """Whether an Einsum with these extents is one of those that the pattern is for."""
        counts = [(self.operands, extents.operands), *((getattr(self, role), len(getattr(extents, role))) for role in ROLES)]
        return all(_counts(wanted, count) for wanted, count in counts) and (self.where is None or self.where(extents))

    def __str__(self) -> str:
        parts = [f"{_text(count)} {role}" for role in ("operands", *ROLES) if (count := getattr(self, role)) is not None]
        return ", ".join([*parts, *(["a relation of sizes"] if self.where is not None else [])]) or "any Einsum"


def _counts(wanted: IndexCount, count: int) -> bool:
    if wanted is None:
        return True
    low, high = wanted if isinstance(wanted, tuple) else (wanted, wanted)
    return low <= count and (high is None or count <= high)


def _text(count: IndexCount) -> str:
    if not isinstance(count, tuple):
        return str(count)
    low, high = count
    return f"{low} or more" if high is None else f"{low} to {high}"
