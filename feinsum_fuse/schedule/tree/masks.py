"""What is known of a nest's values before it runs: where a mask makes them constant.

A map such as ``where(p <= m, S, -inf)`` makes part of a tensor a constant, and what reads it may be constant there, too:
``exp(-inf - X)`` is 0 wherever ``X`` is finite. All inputs are taken to be finite numbers, and no sum or product of finite numbers to
overflow; whatever could still be infinite or no number (a quotient, a logarithm, the maximum of nothing) counts as unknown.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import cast

import islpy as isl
import numpy as np
from constantdict import constantdict
from loopy.symbolic import DependencyMapper, TypeCast
from pymbolic import primitives as p
from pymbolic.typing import Expression

from ...formats.affine import Affine
from ...formats.integer_sets import NotAffineError, affine_function, integer_set
from ...formats.language.functions import IN_KERNELS
from ...formats.language.reductions import REDUCTIONS, Reduction
from ...formats.workload import operand_name
from ..sameness import KEPT_WORKLOADS, Same
from ..statement import Place, Statement
from .initial_values import ElementBox
from .nest import For, Nest, PlacedStatement
from .polyhedra import points


@dataclass(frozen=True)
class KnownValues:
    """Parts of a set: where a value is which constant, and where it is finite. The rest may be anything."""

    constants: Mapping[float, isl.Set]
    finite: isl.Set

    def where(self, value: float) -> isl.Set:
        """The part on which the value is this constant."""
        return self.constants.get(value, self._nowhere)

    @cached_property
    def _nowhere(self) -> isl.Set:
        return _none(self.finite)

    def mapped(self, change: Callable[[isl.Set], isl.Set]) -> KnownValues:
        """The same with every part replaced."""
        return KnownValues({value: change(part) for value, part in self.constants.items()}, change(self.finite))


def _none(part: isl.Set) -> isl.Set:
    return isl.Set.empty(part.get_space())


def constant(value: float, everywhere: isl.Set) -> KnownValues:
    """The same number everywhere."""
    return KnownValues({float(value): everywhere}, everywhere if math.isfinite(value) else _none(everywhere))


def _collected(parts: Iterator[tuple[float, isl.Set]], finite: isl.Set) -> KnownValues:
    constants: dict[float, isl.Set] = {}
    for value, part in parts:
        if not math.isnan(value) and not part.is_empty():
            constants[value] = constants[value] | part if value in constants else part
            finite = finite | part if math.isfinite(value) else finite
    return KnownValues(constants, finite)


def _pairs(function: Callable[[float, float], float], one: KnownValues, other: KnownValues, finite: isl.Set) -> KnownValues:
    with np.errstate(all="ignore"):
        parts = [(_number(function, a, b), x & y) for a, x in one.constants.items() for b, y in other.constants.items()]
    return _collected(iter(parts), finite)


def _number(function: Callable[..., float], *arguments: float) -> float:
    try:
        return float(function(*arguments))
    except (ArithmeticError, ValueError):
        return math.nan


def _sum(one: KnownValues, other: KnownValues) -> KnownValues:
    known = _pairs(operator.add, one, other, one.finite & other.finite)
    infinite = [(v, (one.where(v) & other.finite) | (other.where(v) & one.finite)) for v in (math.inf, -math.inf)]
    return _collected(iter([*known.constants.items(), *infinite]), known.finite)


def _product(one: KnownValues, other: KnownValues) -> KnownValues:
    known = _pairs(operator.mul, one, other, one.finite & other.finite)
    zero = (one.where(0.0) & other.finite) | (other.where(0.0) & one.finite)
    return _collected(iter([*known.constants.items(), (0.0, zero)]), known.finite)


def _quotient(one: KnownValues, other: KnownValues) -> KnownValues:
    divisors = [part for value, part in other.constants.items() if value and math.isfinite(value)]
    finite = one.finite & reduce(operator.or_, divisors, _none(one.finite))
    zero = one.where(0.0) & reduce(operator.or_, divisors, _none(one.finite))
    known = _pairs(operator.truediv, one, other, finite)
    return _collected(iter([*known.constants.items(), (0.0, zero)]), finite)


def _extremum(reduction: Reduction, one: KnownValues, other: KnownValues) -> KnownValues:
    lost = -math.inf * reduction.extremum
    finite = (one.finite & other.finite) | (one.where(lost) & other.finite) | (other.where(lost) & one.finite)
    return _pairs(reduction.ufunc, one, other, finite)


KEPT_SETS = 2048
"""Sets of points that are kept: mappings of a search differ in a few decisions, and cut most Einsums alike."""
SamePoint = tuple[tuple[Same[For], ...], Same[Statement]]
"""A statement with the loops around it as a key: what is not cut anew stays one object from mapping to mapping."""


def same_point(point: PlacedStatement) -> SamePoint:
    """The key of a statement and the loops around it."""
    above, statement = point
    return tuple(map(Same, above)), Same(statement)


def placed(point: SamePoint) -> PlacedStatement:
    """The inverse of :func:`same_point`."""
    above, statement = point
    return tuple([loop.value for loop in above]), statement.value


class Masks:
    """What is known of each array of a nest that holds no tiles yet."""

    @staticmethod
    def of(nest: Nest) -> Masks:
        """Those of a nest; one is asked for each of its loops that could end early."""
        return _masks(Same(nest))

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.arrays: dict[str, KnownValues | None] = {}
        self.written: dict[str, list[tuple[tuple[For, ...], Statement]]] = {}
        for above, statement in nest.points:
            self.written.setdefault(statement.target.source, []).append((above, statement))

    def array(self, source: str) -> KnownValues | None:
        """What is known of an array that the nest writes; ``None`` for one that several statements compute, or one out of itself."""
        if source not in self.arrays:
            self.arrays[source] = None
            writers = self.written[source]
            computing = [(above, s) for above, s in writers if s.role in {"map", "update"}]
            inits = [s for _, s in writers if s.role == "init"]
            if len(computing) == 1 and len(inits) <= 1 and len(writers) == len(computing) + len(inits):
                self.arrays[source] = self._kept(source, *computing[0], inits)
        return self.arrays[source]

    def value(self, above: Sequence[For], statement: Statement) -> KnownValues:
        """What is known of a statement's value, over the points of its loops."""
        return _value(same_point((tuple(above), statement)), tuple([self._held(place.source) for place in statement.operands]))

    def _held(self, source: str) -> Same[KnownValues | None] | None:
        """What is known of an array; ``None`` for an input."""
        return Same(self.array(source)) if source in self.written else None

    def neutral(self, above: Sequence[For], statement: Statement) -> isl.Set | None:
        """The points of a statement that reduces at which it changes nothing; ``None`` if there are none."""
        if statement.reduce is None or not REDUCTIONS[statement.reduce].combines:
            return None
        lost = float(REDUCTIONS[statement.reduce].neutral_of(self.nest.sources[statement.target.source].dtype))
        space = self.nest.spaces.get(statement.einsum)
        operands = tuple([self._held(place.source) for place in statement.operands])
        return _neutral(same_point((tuple(above), statement)), None if space is None else Same(space), operands, lost)

    def _kept(self, source: str, above: tuple[For, ...], statement: Statement, inits: Sequence[Statement]) -> KnownValues:
        """What is known of an array is a matter of its elements, however loops reach them: it is looked at once for all mappings."""
        box = ElementBox.of(above, statement)
        if box is None:
            return self._computed(above, statement, inits)
        kept = _arrays_of(Same(self.nest.spaces))
        if (source, box) not in kept:
            kept[source, box] = self._computed(above, statement, inits)
        return kept[source, box]

    def _computed(self, above: tuple[For, ...], statement: Statement, inits: Sequence[Statement]) -> KnownValues:
        known = self.value(above, statement)
        domain = points(above, statement.guards)

        def some(part: isl.Set) -> isl.Set:
            return elements(part, statement.target, above)

        def every(part: isl.Set) -> isl.Set:
            """Elements into which nothing goes that lies outside the part."""
            return reached - some(domain - part)

        reached = some(domain)
        if statement.reduce is None:
            return known.mapped(every)
        if not inits or not np.isscalar(inits[0].value) or np.iscomplexobj(inits[0].value):
            return KnownValues({}, _none(reached))
        start = float(cast(float, inits[0].value))
        reduction = REDUCTIONS[statement.reduce]
        if reduction.is_sum and math.isfinite(start):
            low, high = known.where(-math.inf), known.where(math.inf)
            parts = [(v, some(part) & every(part | known.finite)) for v, part in ((-math.inf, low), (math.inf, high))]
            parts += [(start, every(known.where(0.0)))]
            return _collected(iter(parts), every(known.finite))
        if reduction.extremum:
            lost = -math.inf * reduction.extremum
            nothing = known.where(lost)
            finite = every(known.finite | nothing)
            if start == lost:
                return _collected(iter([(lost, every(nothing))]), finite & some(known.finite))
            return KnownValues({}, finite if math.isfinite(start) else _none(reached))
        return KnownValues({}, _none(reached))


@lru_cache(4)
def _masks(nest: Same[Nest]) -> Masks:
    return Masks(nest.value)


@lru_cache(KEPT_SETS)
def _neutral(
    point: SamePoint, space: Same[tuple[For, ...]] | None, operands: tuple[Same[KnownValues | None] | None, ...], lost: float
) -> isl.Set | None:
    """The points at which a statement's value is ``lost``. However its loops are cut, they are those of its loops before any step."""
    above, statement = placed(point)
    whole = None if space is None else uncut(statement, space.value)
    if space is None or whole is None:
        return _value(point, operands).where(lost)
    part = _value_before(space, whole, operands).where(lost)
    if part.is_empty():
        return None
    values = tuple([statement.values[loop.name] for loop in space.value])
    return points_at(part, Place("", values), above, points(above, statement.guards))


@lru_cache(KEPT_SETS)
def _value_before(space: Same[tuple[For, ...]], statement: Statement, operands: tuple[Same[KnownValues | None] | None, ...]) -> KnownValues:
    """What is known of a statement's value over its loops before any step."""
    return _Evaluation(space.value, statement, operands).of(statement.value)


def uncut(statement: Statement, space: Sequence[For]) -> Statement | None:
    """The statement in terms of its loops before any step; ``None`` where what it reads is no function of them."""
    if statement.guards or statement.first or any(loop.name not in statement.values for loop in space):
        return None
    values = {loop.name: statement.values[loop.name] for loop in space}
    operands = [tuple([_uncut(index, values) for index in place.indices]) for place in statement.operands]
    if any(None in indices for indices in operands):
        return None
    places = tuple([Place(place.source, indices) for place, indices in zip(statement.operands, operands, strict=True)])  # type: ignore[arg-type]
    own = constantdict({name: Affine.variable(name) for name in values})
    return dataclasses.replace(statement, operands=places, values=own)


def _uncut(index: Affine, values: Mapping[str, Affine]) -> Affine | None:
    """The expression of these variables that an index is if they have these values; ``None`` if there is none."""
    steps = {name: min(value.terms, key=lambda term: abs(term[1])) for name, value in values.items() if value.terms}
    moved = index.coefficients
    whole = Affine.of({name: moved.get(loop, 0) // factor for name, (loop, factor) in steps.items()})
    rest = index - whole.substituted(values)
    return whole + rest.constant if not rest.terms else None


@lru_cache(KEPT_SETS)
def _value(point: SamePoint, operands: tuple[Same[KnownValues | None] | None, ...]) -> KnownValues:
    """What is known of a statement's value, given what is known of the arrays that it reads; ``None`` for an input."""
    above, statement = placed(point)
    return _Evaluation(above, statement, operands).of(statement.value)


@lru_cache(KEPT_WORKLOADS)
def _arrays_of(spaces: Same[Mapping[str, tuple[For, ...]]]) -> dict[tuple[str, ElementBox], KnownValues]:
    """Array and the elements that are computed -> what is known of it; steps leave the loops of a nest before any step as they are."""
    return {}


def elements(part: isl.Set, place: Place, above: Sequence[For]) -> isl.Set:
    """The elements that a place is at these points of the loops around it."""
    return part.apply(isl.Map.from_multi_aff(affine_function([loop.name for loop in above], place.indices)))


def points_at(part: isl.Set, place: Place, above: Sequence[For], domain: isl.Set) -> isl.Set:
    """The points of the domain at which a place is one of these elements."""
    return domain & part.preimage_multi_aff(affine_function([loop.name for loop in above], place.indices))


def points_using(point: SamePoint, position: int) -> isl.Set:
    """The points at which a statement uses an operand: a choice by rank variables leaves out the side that it does not take."""
    above, statement = placed(point)
    name, domain, value = operand_name(position), points(above, statement.guards), statement.value
    while isinstance(value, TypeCast | p.If):
        if isinstance(value, TypeCast):
            value = value.child
            continue
        sides = [name in _names(side) for side in (value.then, value.else_)]
        if all(sides) or name in _names(value.condition):
            break
        try:
            holds = integer_set([loop.name for loop in above], [value.condition], values=statement.values)
        except NotAffineError:
            break
        domain = domain & holds if sides[0] else domain - holds
        value = value.then if sides[0] else value.else_
    return domain


def _names(expr: Expression) -> set[str]:
    return set() if np.isscalar(expr) else {found.name for found in DependencyMapper(include_calls="descend_args")(expr)}


class _Evaluation:
    """A statement's value over the points of its loops."""

    def __init__(self, above: Sequence[For], statement: Statement, operands: Sequence[Same[KnownValues | None] | None]) -> None:
        self.above = above
        self.statement = statement
        self.domain = points(above, statement.guards)
        places = zip(statement.operands, operands, strict=True)
        self.operands = {operand_name(k): self._read(place, held) for k, (place, held) in enumerate(places)}

    def _read(self, place: Place, held: Same[KnownValues | None] | None) -> KnownValues:
        """What is known of an operand, of whose array this is known."""
        if held is None:
            return KnownValues({}, self.domain)
        if held.value is None:
            return KnownValues({}, _none(self.domain))
        return held.value.mapped(lambda part: points_at(part, place, self.above, self.domain))

    def of(self, expr: Expression) -> KnownValues:
        """What is known of an expression."""
        if isinstance(expr, int | float | np.number) and not np.iscomplexobj(expr):
            return constant(float(expr), self.domain)
        if isinstance(expr, p.Variable):
            return self.operands.get(expr.name, KnownValues({}, self.domain if expr.name in self.statement.values else _none(self.domain)))
        if isinstance(expr, TypeCast):
            return self.of(expr.child)
        if isinstance(expr, p.Sum | p.Product):
            return reduce(_sum if isinstance(expr, p.Sum) else _product, map(self.of, expr.children))
        if isinstance(expr, p.Quotient):
            return _quotient(self.of(expr.numerator), self.of(expr.denominator))
        if isinstance(expr, p.If):
            return self._choice(expr)
        if isinstance(expr, p.Call) and isinstance(expr.function, p.Variable):
            return self._call(expr.function.name, [self.of(argument) for argument in expr.parameters])
        return KnownValues({}, _none(self.domain))

    def _call(self, name: str, arguments: Sequence[KnownValues]) -> KnownValues:
        function = IN_KERNELS.get(name)
        extremum = next((r for r in REDUCTIONS.values() if r.extremum and r.operator == name), None)
        if extremum is not None and len(arguments) == 2:
            return _extremum(extremum, *arguments)
        if function is not None and function.is_finite and function.numpy is not None and len(arguments) == 1:
            with np.errstate(all="ignore"):
                parts = [(_number(function.numpy, value), part) for value, part in arguments[0].constants.items()]
            return _collected(iter(parts), arguments[0].finite)
        return KnownValues({}, _none(self.domain))

    def _choice(self, expr: p.If) -> KnownValues:
        then, otherwise = self.of(expr.then), self.of(expr.else_)
        try:
            holds = integer_set([loop.name for loop in self.above], [expr.condition], values=self.statement.values) & self.domain
        except NotAffineError:
            both = [(value, then.where(value) & otherwise.where(value)) for value in then.constants]
            return _collected(iter(both), then.finite & otherwise.finite)
        parts = [(value, part & holds) for value, part in then.constants.items()]
        parts += [(value, part - holds) for value, part in otherwise.constants.items()]
        return _collected(iter(parts), (then.finite & holds) | (otherwise.finite - holds))


class _Conditions(DependencyMapper):  # type: ignore[misc]
    """Collects a marker for each choice."""

    def map_if(self, expr: p.If) -> set[p.Variable]:
        return {p.Variable("if")}


def has_masks(nest: Nest) -> bool:
    """Whether any value of the nest is chosen by a condition on rank variables."""
    return any(mentions_choice(s.value) for _, s in nest.points)


@lru_cache(1024)
def mentions_choice(expr: Expression) -> bool:
    """Whether a value is chosen by a condition."""
    return not np.isscalar(expr) and p.Variable("if") in _Conditions(include_calls="descend_args")(expr)
