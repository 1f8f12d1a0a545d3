"""Under which conditions an iteration of a loop runs, by what is known where the loop stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p
from loopy.isl_helpers import convexify
from pymbolic.typing import Expression


@dataclass(frozen=True)
class Bounds:
    """The iterations that are to run, and what holds for all of them; ``expression`` writes a condition on loops in C."""

    domain: isl.Set
    implemented: isl.Set
    expression: Callable[[Expression], Expression]

    def at(self, values: Mapping[str, int]) -> tuple[Expression, ...] | None:
        """The conditions that are left with these loops at these iterations; ``None`` if they cannot hold."""
        domain, implemented = (_fixed(part, values) for part in (self.domain, self.implemented))
        if domain.is_disjoint(implemented):
            return None
        # A gist would be another one wherever something else is known; what is left as it is has one name.
        domain, implemented = isl.align_two(convexify(domain), implemented)
        left = (c for c in domain.get_constraints() if not implemented.is_subset(isl.BasicSet.universe(domain.space).add_constraint(c)))
        return tuple(self.expression(_condition(constraint)) for constraint in left)


def _condition(constraint: isl.Constraint) -> p.Comparison:
    """A constraint with its loops in one order, whatever that of the set, so that equal conditions are equal."""
    factors = {name: int(value.to_python()) for name, value in constraint.get_coefficients_by_name().items() if name != 1}
    terms = tuple(p.Product((factors[name], p.Variable(name))) for name in sorted(factors, reverse=True))
    constant = int(constraint.get_constant_val().to_python())
    return p.Comparison(p.Sum((*terms, constant)), "==" if constraint.is_equality() else ">=", 0)


def _fixed(points: isl.Set, values: Mapping[str, int]) -> isl.Set:
    """The points with some coordinates at these values, without those coordinates."""
    for name, (kind, position) in points.get_var_dict().items():
        if name in values:
            points = points.fix_val(kind, position, values[name])
    for name in values:
        place = points.get_var_dict().get(name)
        if place is not None:
            points = points.project_out(*place, 1)
    return points
