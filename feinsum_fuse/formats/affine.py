"""Affine index expressions: sums of integer multiples of rank variables, and a constant."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

import numpy as np
from pymbolic import primitives as p
from pymbolic.typing import Expression

_new = tuple.__new__
"""What a named tuple's own constructor calls, which takes as long as the rest of most of what makes one here."""


class Affine(NamedTuple):
    """``sum(coefficient * variable) + constant``; terms are sorted by variable and have no zero coefficients.

    A tuple, since a search makes a thousand of them for each candidate, and compares and hashes several thousand.
    """

    terms: tuple[tuple[str, int], ...]
    constant: int = 0

    @classmethod
    def of(cls, coefficients: Mapping[str, int], constant: int = 0) -> Affine:
        """The expression with these coefficients; zero coefficients are dropped."""
        return _new(cls, (tuple(sorted([item for item in coefficients.items() if item[1]])), constant))

    @classmethod
    def variable(cls, name: str) -> Affine:
        """The expression that is just this variable."""
        return _new(cls, (((name, 1),), 0))

    @property
    def coefficients(self) -> dict[str, int]:
        """Variable -> coefficient."""
        return dict(self.terms)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that occur, sorted."""
        return tuple([name for name, _ in self.terms])

    @property
    def bare(self) -> str | None:
        """The variable's name if the expression is a bare variable, else ``None``."""
        return self.terms[0][0] if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1 else None

    def digits(self, sizes: Mapping[str, object], length: object) -> tuple[str, ...]:
        """The variables, most significant first, if the values over their box are the numbers below ``length``, each once.

        ``25*c + d`` has the digits ``c`` and ``d`` where ``d`` has 25 values and ``c`` has ``length / 25``. Empty for anything else.
        """
        place = 1
        found: list[str] = []
        lengths = {name: size for name, _ in self.terms if isinstance(size := sizes[name], int)}
        if len(lengths) < len(self.terms):
            return ()
        for name, factor in sorted(self.terms, key=lambda term: (term[1], lengths[term[0]])):
            if factor != place:
                return ()
            place *= lengths[name]
            found.insert(0, name)
        return tuple(found) if self.constant == 0 and place == length else ()

    def extent(self, sizes: Mapping[str, int]) -> int:
        """How many integers lie between the least and the largest value over a box of these sizes, both included."""
        return sum(abs(factor) * (sizes[name] - 1) for name, factor in self.terms) + 1

    def largest(self, sizes: Mapping[str, int]) -> int:
        """The largest value over the box ``0 <= v < sizes[v]``."""
        return sum(factor * (sizes[name] - 1) for name, factor in self.terms if factor > 0) + self.constant

    def smallest(self, sizes: Mapping[str, int]) -> int:
        """The least value over the box ``0 <= v < sizes[v]``."""
        return sum(factor * (sizes[name] - 1) for name, factor in self.terms if factor < 0) + self.constant

    def renamed(self, names: Mapping[str, str]) -> Affine:
        """The expression with variables renamed; names that are missing stay."""
        result: dict[str, int] = {}
        for name, factor in self.terms:
            new = names.get(name, name)
            result[new] = result.get(new, 0) + factor
        return Affine.of(result, self.constant)

    def substituted(self, values: Mapping[str, Affine]) -> Affine:
        """The expression with variables replaced by expressions; names that are missing stay."""
        for name, _ in self.terms:
            if name in values:
                break
        else:  # as of most indices, which a search asks for by the thousand
            return self
        result: dict[str, int] = {}
        constant = self.constant
        for name, factor in self.terms:
            value = values.get(name)
            if value is None:
                result[name] = result.get(name, 0) + factor
            else:
                constant += factor * value.constant
                for inner, inner_factor in value.terms:
                    result[inner] = result.get(inner, 0) + factor * inner_factor
        return Affine.of(result, constant)

    def restricted(self, names: Container[str]) -> Affine:
        """The terms over these variables alone, without the constant."""
        return _new(Affine, (tuple([term for term in self.terms if term[0] in names]), 0))

    def __add__(self, other: Affine | int) -> Affine:  # type: ignore[override]
        return Affine(self.terms, self.constant + other) if isinstance(other, int) else self._plus(other, 1)

    def _plus(self, other: Affine, sign: int) -> Affine:
        if not other.terms:
            return Affine(self.terms, self.constant + sign * other.constant)
        result = dict(self.terms)
        for name, factor in other.terms:
            result[name] = result.get(name, 0) + sign * factor
        return Affine.of(result, self.constant + sign * other.constant)

    def __mul__(self, factor: int) -> Affine:  # type: ignore[override]
        return _new(Affine, (tuple([(name, value * factor) for name, value in self.terms]) if factor else (), self.constant * factor))

    def __rmul__(self, factor: int) -> Affine:  # type: ignore[override]
        return self * factor

    def times(self, other: Affine) -> Affine | None:
        """The product, if one of the two is a number; ``None`` otherwise."""
        return self * other.constant if not other.terms else other * self.constant if not self.terms else None

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | int) -> Affine:
        return Affine(self.terms, self.constant - other) if isinstance(other, int) else self._plus(other, -1)

    def __str__(self) -> str:
        parts: list[str] = []
        for name, factor in self.terms:
            sign = "-" if factor < 0 else "+"
            term = name if abs(factor) == 1 else f"{abs(factor)}*{name}"
            parts.append(f"{sign}{term}" if parts or sign == "-" else term)
        if self.constant or not parts:
            parts.append(f"{self.constant:+d}" if parts else str(self.constant))
        return "".join(parts)


def read_affine(expression: Expression) -> Affine | None:
    """A pymbolic expression of variables, whole numbers, sums and products as an affine one; ``None`` if it is anything else."""
    if isinstance(expression, p.Variable):
        return Affine.variable(expression.name)
    if isinstance(expression, int | np.integer) and not isinstance(expression, bool):
        return Affine((), int(expression))
    if not isinstance(expression, p.Sum | p.Product):
        return None
    result: Affine | None = Affine((), 0 if isinstance(expression, p.Sum) else 1)
    for child in expression.children:
        part = read_affine(child)
        if part is None or result is None:
            return None
        result = result + part if isinstance(expression, p.Sum) else result.times(part)
    return result
