"""Functions with jumps, near which rounding decides what a right kernel computes: ``floor``, ``round``, comparisons of computed values.

A reference in float64 falls on one side of a jump, a right kernel in float32 perhaps on the other. Leaning references move every argument
of a jump up, or down, by the bound on its own error (:mod:`.tolerance`), and nothing else: what they give is as right as the reference.
Arguments without error, such as inputs and integers, are not moved.

The bound is relative to the largest magnitude of the argument. Where a cascade is evaluated in parts, all of them are evaluated once for
these magnitudes before any leans (:class:`JumpsInParts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pymbolic import primitives as p
from pymbolic.mapper import WalkMapper
from pymbolic.typing import Expression

from ...formats.language.functions import FUNCTIONS
from ..maps import primitive
from ..sequence import EinsumSequence
from .contraction import NumpyArray
from .map_values import COMPARISONS, Evaluation
from .reference import reference
from .tolerance import SAFETY, error_of_maps

_Error = Callable[[Expression], float]
LEAN_DIRECTIONS: tuple[Literal[1, -1], ...] = (1, -1)
"""To which reference lean: up, and down."""
_Argument = tuple[str, int]
"""An Einsum, and which of the arguments of jumps in its map."""
_EQUALITY = frozenset({"==", "!="})


def leanings(
    cascade: EinsumSequence, arrays: Mapping[str, ArrayLike], sizes: Mapping[str, int] | None = None, *, inexact: float = 0.0
) -> tuple[dict[str, NumpyArray], ...]:
    """The outputs with all jumps' arguments moved up, and with all moved down; none where no argument lies near a jump.

    ``inexact``: the relative error of floating-point inputs. An element that depends on several jumps, of which rounding
    crosses some and not others, need not be among them.
    """
    errors = error_of_maps(cascade, sizes, inexact)
    if not has_jumps(cascade, errors):
        return ()
    found = []
    for lean in map(Lean, LEAN_DIRECTIONS):
        found.append(reference(cascade, arrays, evaluations=[lean.evaluation(error, _magnitude) for error in errors]))
        if not lean.is_near:
            return ()
    return tuple(found)


@dataclass
class JumpsInParts:
    """The jumps of a cascade whose outputs are computed in parts: cascades of some of its Einsums, over some of their points."""

    errors: Mapping[str, _Error]
    """Einsum -> part of its map -> its relative error, in the whole cascade."""
    largest: dict[_Argument, float] = field(default_factory=dict)
    """The largest magnitude of an argument in all parts that were noted."""

    @classmethod
    def of(cls, cascade: EinsumSequence) -> JumpsInParts | None:
        """``None`` for a cascade without jumps. Every size must be a number."""
        errors = error_of_maps(cascade)
        return cls(_by_name(cascade, errors)) if has_jumps(cascade, errors) else None

    def of_inexact_inputs(self, cascade: EinsumSequence, inexact: float) -> JumpsInParts:
        """The same where floating-point inputs have this relative error."""
        return JumpsInParts(_by_name(cascade, error_of_maps(cascade, inexact=inexact)), self.largest)

    def noted(self, part: EinsumSequence, arrays: Mapping[str, ArrayLike]) -> dict[str, NumpyArray]:
        """The reference of a part, of which magnitudes are noted."""
        lean = Lean(1)

        def note(argument: _Argument, values: NumpyArray) -> float:
            self.largest[argument] = max(self.largest.get(argument, 0.0), _magnitude(values))
            return 0.0  # and nothing is moved

        return reference(part, arrays, evaluations=[lean.evaluation(self.errors[e.name], _Numbered(e.name, note)) for e in part.einsums])

    def leaning(self, part: EinsumSequence, arrays: Mapping[str, ArrayLike], lean: Lean) -> dict[str, NumpyArray]:
        """The reference of a part that leans to one side, once all parts are noted."""
        sizes = {e.name: _Numbered(e.name, lambda argument, values: self.largest.get(argument, 0.0)) for e in part.einsums}
        return reference(part, arrays, evaluations=[lean.evaluation(self.errors[name], size) for name, size in sizes.items()])


def _by_name(cascade: EinsumSequence, errors: Sequence[_Error]) -> dict[str, _Error]:
    return {einsum.name: error for einsum, error in zip(cascade.einsums, errors, strict=True)}


class _Numbered:
    """Numbers an Einsum's arguments in the order in which they are met: a part's map names other points by other expressions."""

    def __init__(self, einsum: str, size: Callable[[_Argument, NumpyArray], float]) -> None:
        self.einsum = einsum
        self.size = size
        self.numbers: dict[Expression, int] = {}

    def __call__(self, values: NumpyArray, expression: Expression) -> float:
        return self.size((self.einsum, self.numbers.setdefault(expression, len(self.numbers))), values)


def _magnitude(values: NumpyArray, _: Expression = None) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


@dataclass
class Lean:
    """A direction, and whether any argument was near enough to a jump for it to matter."""

    direction: Literal[1, -1]
    is_near: bool = False

    def evaluation(
        self, error: _Error, size: Callable[[NumpyArray, Expression], float]
    ) -> Callable[[Expression, Mapping[str, NumpyArray]], NumpyArray]:
        """What evaluates an Einsum's map; the relative errors of its parts are given, and what they are relative to."""
        return lambda expression, values: np.asarray(_Leaning(values, error, size, self)(expression))

    def choice(self, plain: NumpyArray, up: NumpyArray, down: NumpyArray) -> NumpyArray:
        """The values on the side that is leaned to."""
        same = (up == plain) & (down == plain) | (plain != plain)
        self.is_near = self.is_near or not bool(np.all(same))
        return up if self.direction > 0 else down


class _Leaning(Evaluation):
    def __init__(
        self, values: Mapping[str, NumpyArray], error: _Error, size: Callable[[NumpyArray, Expression], float], lean: Lean
    ) -> None:
        super().__init__(values)
        self.error = error
        self.size = size
        self.lean = lean

    def margin(self, expression: Expression, values: NumpyArray) -> float:
        """How far off the kernel's values of an expression may be."""
        error = self.error(expression) if values.dtype.kind in "fc" else 0.0
        return SAFETY * error * self.size(values, expression) if error else 0.0

    def map_call(self, expr: p.Call) -> Any:
        step = FUNCTIONS[expr.function.name].numpy
        if not _is_step(expr) or step is None:
            return super().map_call(expr)
        argument = np.asarray(self.rec(expr.parameters[0]))
        margin = self.margin(expr.parameters[0], argument)
        if not margin:
            return super().map_call(expr)
        return self.lean.choice(step(argument), step(argument + margin), step(argument - margin))

    def map_comparison(self, expr: p.Comparison) -> Any:
        left, right = np.asarray(self.rec(expr.left)), np.asarray(self.rec(expr.right))
        compare = COMPARISONS[expr.operator]
        margin = self.margin(expr.left, left) + self.margin(expr.right, right)
        # A value compared with itself asks whether it is a number.
        if not margin or expr.left == expr.right:
            return compare(left, right)
        if expr.operator in _EQUALITY:
            near = np.abs(left - right) <= margin
            return self.lean.choice(compare(left, right), compare(left, right) | near, compare(left, right) & ~near)
        return self.lean.choice(compare(left, right), compare(left + margin, right), compare(left - margin, right))


def _is_step(expression: Expression) -> bool:
    return isinstance(expression, p.Call) and FUNCTIONS[expression.function.name].amplification == 0


def has_jumps(cascade: EinsumSequence, errors: Sequence[Callable[[Expression], float]] | None = None) -> bool:
    """Whether a map has a jump whose argument is not exact; ``errors``: those of parts of the maps, one for each Einsum."""
    for einsum, error in zip(cascade.einsums, errors or error_of_maps(cascade), strict=True):
        found = _Jumps(error)
        found(primitive(einsum.map))
        if found.any:
            return True
    return False


class _Jumps(WalkMapper):  # type: ignore[misc]
    def __init__(self, error: Callable[[Expression], float]) -> None:
        self.error = error
        self.any = False

    def visit(self, expr: Expression) -> bool:
        """Look at one part, and go on into its own."""
        if isinstance(expr, p.Comparison):
            self.any = self.any or (expr.left != expr.right and self.error(expr.left) + self.error(expr.right) > 0)
        elif _is_step(expr):
            self.any = self.any or self.error(expr.parameters[0]) > 0
        return True
