"""Integer sets and relations, made by ISL from affine conditions, and read back.

ISL takes conditions one by one where they are affine, in a quarter of the time in which it reads a text, and reads a text where they are
not, or where variables are hidden. No name of a loop, a size or a kernel stands in such a text, only numbered ones: a loop may be called
``floor``. The names are given to the set afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

import islpy as isl
import numpy as np
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ..errors import Error
from .affine import Affine

Condition: TypeAlias = "Affine | Expression"
"""An affine expression that is >= 0, or pymbolic's comparisons of quasi-affine expressions, joined by and, or and not."""
Index: TypeAlias = "Affine | Expression"
"""An affine expression, or pymbolic's sums, multiples, floor divisions and remainders by numbers."""

_Part = TypeVar("_Part", isl.Set, isl.BasicSet, isl.Map, isl.MultiAff)
_RELATIONS = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "=", "!=": "!="}


class NotAffineError(Error):
    """A condition or an index that integer sets cannot express."""


def below(index: Affine, size: int | str) -> Affine:
    """``index < size`` for a number or the name of a parameter."""
    return (Affine((), size) if isinstance(size, int) else Affine.variable(size)) - index - 1


@lru_cache(4096)
def within(name: str, size: int | str | None) -> tuple[Affine, ...]:
    """``0 <= name < size``; ``None`` leaves the upper end open."""
    index = Affine.variable(name)
    return (index,) if size is None else (index, below(index, size))


def equal(left: Affine, right: Affine | int) -> tuple[Affine, Affine]:
    """``left = right`` as two conditions."""
    return left - right, -(left - right)


def integer_set(
    names: Sequence[str],
    conditions: Iterable[Condition],
    *,
    hidden: Sequence[str] = (),
    parameters: Sequence[str] | None = None,
    values: Mapping[str, Affine] | None = None,
) -> isl.Set:
    """The points that satisfy all conditions.

    ``hidden`` variables are projected out, other names that occur are parameters (in this order, if it is given). ``values`` is what the
    variables of pymbolic's conditions stand for, if not for themselves. Raises :class:`NotAffineError`.
    """
    given = None if parameters is None else tuple(parameters)
    return _set(tuple(names), tuple(conditions), tuple(hidden), given, tuple((values or {}).items()))


def basic_set(names: Sequence[str], conditions: Iterable[Affine], *, parameters: Sequence[str] | None = None) -> isl.BasicSet:
    """The points that satisfy all conditions, as one set without alternatives."""
    given = tuple(conditions)
    others = sorted({v for condition in given for v in condition.variables}.difference(names)) if parameters is None else parameters
    space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, len(others), len(names))
    places = {name: (isl.dim_type.param, k) for k, name in enumerate(others)}
    places |= {name: (isl.dim_type.set, k) for k, name in enumerate(names)}
    found, every = isl.BasicSet.universe(space), isl.LocalSpace.from_space(space)
    for condition in given:
        constraint = isl.Constraint.alloc_inequality(every).set_constant_val(condition.constant)
        for name, factor in condition.terms:
            constraint = constraint.set_coefficient_val(*places[name], factor)
        found = found.add_constraint(constraint)
    return _named(found, isl.dim_type.set, names, others)


def integer_map(
    names: Sequence[str], indices: Sequence[Index], conditions: Iterable[Condition] = (), *, hidden: Sequence[str] = ()
) -> isl.Map:
    """From the points that satisfy all conditions to what the indices are there, for any values of ``hidden`` variables."""
    return _map(tuple(names), tuple(indices), tuple(conditions), tuple(hidden))


def affine_function(names: Sequence[str], indices: Sequence[Affine]) -> isl.MultiAff:
    """From any values of these names to what the indices are there; other names that occur are parameters."""
    return _function(tuple(names), tuple(indices))


@lru_cache(4096)
def _function(names: tuple[str, ...], indices: tuple[Affine, ...]) -> isl.MultiAff:
    text = _SetText(names, (), None, (), indices, {})
    values = ", ".join([f"({text.value(index)})" for index in indices])
    found = _read_function(f"{text.parameters} -> {{ [{', '.join(text.own)}] -> [{values}] }}")
    return _named(found, isl.dim_type.in_, names, text.parameter_names)


@lru_cache(4096)
def _set(
    names: tuple[str, ...],
    conditions: tuple[Condition, ...],
    hidden: tuple[str, ...],
    parameters: tuple[str, ...] | None,
    values: tuple[tuple[str, Affine], ...],
) -> isl.Set:
    """The same few sets are asked for over and over, and ISL takes longer to make one than to work with it."""
    affine = [condition for condition in conditions if isinstance(condition, Affine)]
    if not hidden and len(affine) == len(conditions):
        return isl.Set.from_basic_set(basic_set(names, affine, parameters=parameters))
    text = _SetText(names, hidden, parameters, conditions, (), dict(values))
    found = _read_set(f"{text.parameters} -> {{ [{', '.join(text.own)}] : {text.condition} }}")
    return _named(found, isl.dim_type.set, names, text.parameter_names)


@lru_cache(4096)
def _map(names: tuple[str, ...], indices: tuple[Index, ...], conditions: tuple[Condition, ...], hidden: tuple[str, ...]) -> isl.Map:
    text = _SetText(names, hidden, None, conditions, indices, {})
    found = _read_map(f"{text.parameters} -> {{ [{', '.join(text.own)}] -> {text.targets} : {text.condition} }}")
    return _named(found, isl.dim_type.in_, names, text.parameter_names)


@lru_cache(4096)
def _read_set(text: str) -> isl.Set:
    return isl.Set(text)


@lru_cache(4096)
def _read_function(text: str) -> isl.MultiAff:
    return isl.MultiAff(text)


@lru_cache(4096)
def _read_map(text: str) -> isl.Map:
    return isl.Map(text)


class _SetText:
    """A set's parts as ISL reads them, with numbered names."""

    def __init__(
        self,
        names: Sequence[str],
        hidden: Sequence[str],
        parameters: Sequence[str] | None,
        conditions: Sequence[Condition],
        indices: Sequence[Index],
        values: Mapping[str, Affine],
    ) -> None:
        mentioned = {v for part in (*conditions, *indices) for v in _mentioned(part, values)}
        others = sorted(mentioned.difference(names, hidden)) if parameters is None else parameters
        self.parameter_names = tuple(others)
        self.own = [f"i{k}" for k in range(len(names))]
        self.values = values
        self.aliases = {
            **{name: f"p{k}" for k, name in enumerate(others)},
            **{name: f"e{k}" for k, name in enumerate(hidden)},
            **dict(zip(names, self.own, strict=True)),
        }
        self.parameters = f"[{', '.join(f'p{k}' for k in range(len(others)))}]"
        results = [f"x{k}" for k in range(len(indices))]
        self.targets = f"[{', '.join(results)}]"
        texts = [*map(self._condition, conditions)]
        texts += [f"{result} = {self._index(index)}" for result, index in zip(results, indices, strict=True)]
        condition = " and ".join(texts) or "true"
        self.condition = f"exists {', '.join(f'e{k}' for k in range(len(hidden)))}: {condition}" if hidden else condition

    def value(self, index: Affine) -> str:
        """An affine expression."""
        return str(Affine(tuple((self.aliases[name], factor) for name, factor in index.terms), index.constant))

    def _condition(self, node: Condition) -> str:
        if isinstance(node, Affine):
            return f"{self.value(node)} >= 0"
        if isinstance(node, p.LogicalAnd | p.LogicalOr):
            return f"({(' and ' if isinstance(node, p.LogicalAnd) else ' or ').join(map(self._condition, node.children))})"
        if isinstance(node, p.LogicalNot):
            return f"not ({self._condition(node.child)})"
        if isinstance(node, p.Comparison):
            return f"({self._index(node.left)} {_RELATIONS[node.operator]} {self._index(node.right)})"
        raise NotAffineError(f"{node} is no condition on whole numbers")

    def _index(self, node: Index) -> str:
        if isinstance(node, Affine):
            return self.value(node)
        if isinstance(node, p.Variable):
            return f"({self.value(self.values[node.name] if self.values else Affine.variable(node.name))})"
        if isinstance(node, int | np.integer):
            return f"({int(node)})"
        if isinstance(node, p.Sum):
            return f"({' + '.join(map(self._index, node.children))})"
        if isinstance(node, p.Product):
            numbers = [int(child) for child in node.children if isinstance(child, int | np.integer)]
            others = [self._index(child) for child in node.children if not isinstance(child, int | np.integer)]
            if len(others) <= 1:
                return f"({' * '.join([str(math.prod(numbers)), *others])})"
        if isinstance(node, p.FloorDiv | p.Remainder) and isinstance(node.denominator, int | np.integer) and node.denominator > 0:
            numerator = self._index(node.numerator)
            is_quotient = isinstance(node, p.FloorDiv)
            return f"floor({numerator} / {node.denominator})" if is_quotient else f"({numerator} mod {node.denominator})"
        raise NotAffineError(f"{node} is not affine")


def _mentioned(node: object, values: Mapping[str, Affine]) -> Iterator[str]:
    """The names that occur in a condition or an index."""
    if isinstance(node, Affine):
        yield from node.variables
    elif isinstance(node, p.Variable):
        if values and node.name not in values:
            raise NotAffineError(f"{node.name} is no whole number")
        yield from values[node.name].variables if values else (node.name,)
    elif isinstance(node, p.Sum | p.Product | p.LogicalAnd | p.LogicalOr):
        for child in node.children:
            yield from _mentioned(child, values)
    elif isinstance(node, p.FloorDiv | p.Remainder):
        yield from _mentioned(node.numerator, values)
    elif isinstance(node, p.LogicalNot):
        yield from _mentioned(node.child, values)
    elif isinstance(node, p.Comparison):
        yield from _mentioned(node.left, values)
        yield from _mentioned(node.right, values)


def _named(part: _Part, kind: isl.dim_type, names: Sequence[str], parameters: Sequence[str]) -> _Part:
    for where, given in ((kind, names), (isl.dim_type.param, parameters)):
        for position, name in enumerate(given):
            part = part.set_dim_name(where, position, name)
    return part


def value_on(points: isl.Set, names: Sequence[str], index: Affine) -> isl.Aff:
    """An index expression as a function on a set whose dimensions have these names."""
    result = isl.Aff.zero_on_domain_space(points.space) + index.constant
    for name, factor in index.terms:
        result = result.add_coefficient_val(isl.dim_type.in_, names.index(name), factor)
    return result


def constraint_value(constraint: isl.Constraint) -> Affine:
    """The expression that a constraint takes for >= 0, or for 0, over the names of its dimensions and parameters."""
    terms = {name: int(value.to_python()) for name, value in constraint.get_coefficients_by_name().items()}
    return Affine.of({name: factor for name, factor in terms.items() if name != 1}, terms.get(1, 0))


def conditions_of(part: isl.BasicSet) -> Iterator[Affine]:
    """What is >= 0 in a set without alternatives; constraints with divisions are left out."""
    for constraint in part.get_constraints():
        if any(constraint.involves_dims(isl.dim_type.div, k, 1) for k in range(constraint.dim(isl.dim_type.div))):
            continue
        value = constraint_value(constraint)
        yield value
        if constraint.is_equality():
            yield -value


def projected(part: isl.Set, kept: Collection[str]) -> isl.Set:
    """The part with all dimensions but these projected out."""
    names = [part.get_dim_name(isl.dim_type.set, position) for position in range(part.dim(isl.dim_type.set))]
    end = len(names)
    while end:
        start = end
        while start and names[start - 1] not in kept:
            start -= 1
        if start < end:
            part = part.project_out(isl.dim_type.set, start, end - start)
        end = start - 1 if start else 0
    return part
