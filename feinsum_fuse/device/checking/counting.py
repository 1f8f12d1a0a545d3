"""Counting the integer points of ISL sets exactly, without barvinok.

A basic set falls apart into groups of variables that no constraint links; their counts multiply. Within a group one variable is counted in
closed form, as the length of an interval, for all values of the others at once; if those are too many, one of them is fixed in turn, which
usually takes the group apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl
import numpy as np

from ...errors import LoweringError

_LARGEST = 1 << 22
"""Points of the other variables that are looked at in one go."""


@dataclass(frozen=True)
class _Linear:
    """An integer combination of variables and of floors, by name, and a constant."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    def at(self, values: dict[str, np.ndarray | int]) -> np.ndarray | int:
        """The value where all variables and floors have one."""
        result: np.ndarray | int = self.constant
        for name, factor in self.terms:
            result = result + factor * values[name]
        return result

    def fixed(self, name: str, value: int) -> _Linear:
        """The combination where a variable has a value."""
        factors = dict(self.terms)
        factor = factors.pop(name, 0)
        return _Linear(tuple(factors.items()), self.constant + factor * value)


@dataclass(frozen=True)
class _Floor:
    """``name = floor(numerator / denominator)``."""

    name: str
    numerator: _Linear
    denominator: int


@dataclass(frozen=True)
class _Constraint:
    """``linear >= 0``, or ``= 0``."""

    linear: _Linear
    is_equality: bool


@dataclass(frozen=True)
class _System:
    """Points of a box under constraints; floors are defined before they are used."""

    box: tuple[tuple[str, int, int], ...]
    constraints: tuple[_Constraint, ...]
    floors: tuple[_Floor, ...]

    def variables_of(self, linear: _Linear) -> frozenset[str]:
        """The box's variables that a combination depends on, through floors too."""
        floors = {floor.name: floor for floor in self.floors}
        found: set[str] = set()
        for name, _ in linear.terms:
            found |= self.variables_of(floors[name].numerator) if name in floors else {name}
        return frozenset(found)

    def groups(self) -> Iterable[_System]:
        """The parts that no constraint links."""
        groups = [{name} for name, _, _ in self.box]
        for constraint in self.constraints:
            linked = self.variables_of(constraint.linear)
            touched = [group for group in groups if group & linked]
            if len(touched) > 1:
                groups = [group for group in groups if not group & linked] + [set().union(*touched)]
        for group in groups:
            box = tuple(entry for entry in self.box if entry[0] in group)
            constraints = tuple(c for c in self.constraints if self.variables_of(c.linear) & group)
            floors = tuple(floor for floor in self.floors if self.variables_of(floor.numerator) & group)
            yield _System(box, constraints, floors)

    def fixed(self, name: str, value: int) -> _System:
        """The points where a variable has a value."""
        box = tuple(entry for entry in self.box if entry[0] != name)
        constraints = tuple(_Constraint(c.linear.fixed(name, value), c.is_equality) for c in self.constraints)
        floors = tuple(_Floor(f.name, f.numerator.fixed(name, value), f.denominator) for f in self.floors)
        return _System(box, constraints, floors)

    def count(self) -> int:
        """The number of points."""
        loose = [c for c in self.constraints if not self.variables_of(c.linear)]
        if loose:
            floors: dict[str, np.ndarray | int] = {}
            for floor in self.floors:
                if not self.variables_of(floor.numerator):
                    floors[floor.name] = floor.numerator.at(floors) // floor.denominator
            if any(c.linear.at(floors) != 0 if c.is_equality else c.linear.at(floors) < 0 for c in loose):
                return 0
        return math.prod(group._count_linked() for group in self.groups())

    def _count_linked(self) -> int:
        """The number of points of variables that constraints link."""
        floored = frozenset().union(*(self.variables_of(floor.numerator) for floor in self.floors))
        free = [entry for entry in self.box if entry[0] not in floored]
        inner = max(free, key=lambda entry: entry[2] - entry[1], default=None)
        others = [entry for entry in self.box if entry != inner]
        if math.prod(last - first + 1 for _, first, last in others) <= _LARGEST:
            return self._count_inner(inner, others)
        degree = {name: sum(name in self.variables_of(c.linear) for c in self.constraints) for name, _, _ in others}
        name, first, last = min(others, key=lambda entry: (entry[2] - entry[1], -degree[entry[0]]))
        return sum(self.fixed(name, value).count() for value in range(first, last + 1))

    def _count_inner(self, inner: tuple[str, int, int] | None, others: list[tuple[str, int, int]]) -> int:
        """Sum the interval's length of one variable over all values of the others."""
        shape = (1,) * len(others)
        values: dict[str, np.ndarray | int] = {}
        for axis, (name, first, last) in enumerate(others):
            values[name] = np.arange(first, last + 1, dtype=np.int64).reshape((*shape[:axis], -1, *shape[axis + 1 :]))
        for floor in self.floors:
            values[floor.name] = floor.numerator.at(values) // floor.denominator
        name, first, last = inner or ("", 0, 0)
        low: np.ndarray | int = first
        high: np.ndarray | int = last
        holds: np.ndarray | bool = True
        for constraint in self.constraints:
            factor = dict(constraint.linear.terms).get(name, 0)
            rest = constraint.linear.fixed(name, 0).at(values)
            if factor == 0:
                holds = holds & (rest == 0 if constraint.is_equality else rest >= 0)
                continue
            if factor > 0 or constraint.is_equality:
                low = np.maximum(low, -(rest // factor) if factor > 0 else -((-rest) // -factor))
            if factor < 0 or constraint.is_equality:
                high = np.minimum(high, rest // -factor if factor < 0 else (-rest) // factor)
        counts = np.where(holds, np.maximum(np.asarray(high) - np.asarray(low) + 1, 0), 0)
        full = np.broadcast_to(counts, tuple(b - a + 1 for _, a, b in others))
        return int(full.sum(dtype=np.int64))


def count_points(points: isl.Set | isl.BasicSet) -> int:
    """The number of integer points of a bounded set without parameters; :class:`~feinsum_fuse.errors.LoweringError` for any other."""
    if isinstance(points, isl.BasicSet):
        points = isl.Set.from_basic_set(points)
    if points.dim(isl.dim_type.param) and points.involves_dims(isl.dim_type.param, 0, points.dim(isl.dim_type.param)):
        raise LoweringError(f"cannot count the points of {points}: it has parameters", hint="Fix all sizes.")
    if not points.is_bounded():
        raise LoweringError(f"cannot count the points of {points}: it is not bounded")
    return sum(_system(part).count() for part in points.make_disjoint().compute_divs().get_basic_sets() if not part.is_empty())


def _system(part: isl.BasicSet) -> _System:
    """The constraints of a basic set as plain integers."""
    whole = isl.Set.from_basic_set(part)
    names = [f"v{k}" for k in range(part.dim(isl.dim_type.set))]
    box = tuple((name, _integer(whole.dim_min_val(k)), _integer(whole.dim_max_val(k))) for k, name in enumerate(names))
    divs = [f"d{k}" for k in range(part.dim(isl.dim_type.div))]
    constraints = []
    for c in part.get_constraints():
        terms = [(name, _integer(c.get_coefficient_val(isl.dim_type.set, k))) for k, name in enumerate(names)]
        terms += [(name, _integer(c.get_coefficient_val(isl.dim_type.div, k))) for k, name in enumerate(divs)]
        linear = _Linear(tuple((name, factor) for name, factor in terms if factor), _integer(c.get_constant_val()))
        constraints.append(_Constraint(linear, c.is_equality()))
    space = part.get_local_space()
    floors = tuple(_floor(space.get_div(k), name, names, divs) for k, name in enumerate(divs))
    return _System(box, tuple(constraints), floors)


def _floor(aff: isl.Aff, name: str, names: list[str], divs: list[str]) -> _Floor:
    denominator = _integer(aff.get_denominator_val())
    scaled = aff.scale_val(aff.get_denominator_val())
    terms = [(n, _integer(scaled.get_coefficient_val(isl.dim_type.in_, k))) for k, n in enumerate(names)]
    terms += [(n, _integer(scaled.get_coefficient_val(isl.dim_type.div, k))) for k, n in enumerate(divs)]
    return _Floor(name, _Linear(tuple(t for t in terms if t[1]), _integer(scaled.get_constant_val())), denominator)


def _integer(value: isl.Val) -> int:
    assert value.is_int(), value
    return int(value.to_python())
