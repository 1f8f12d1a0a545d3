"""The loops of an Einsum's instruction: over the elements of its output, and over the points that reach an element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...formats.affine import Affine
from ..terms import Einsum, Size

_IS_INAME = "="
"""Marks inames in affine expressions while rank variables, whose names may be the same, are being replaced by them."""


@dataclass
class Nest:
    """Loops and conditions over inames."""

    outer: dict[str, Size] = field(default_factory=dict)
    """Iname -> extent, one per axis of the output."""
    inner: dict[str, Size] = field(default_factory=dict)
    """Iname -> extent of the reduction's loops."""
    values: dict[str, Affine] = field(default_factory=dict)
    """Rank variable -> its value over inames."""
    conditions: list[Affine] = field(default_factory=list)
    """Expressions over inames that must be >= 0."""
    bounds: list[tuple[Affine, Size]] = field(default_factory=list)
    """Expressions over inames that must be below a size."""
    tags: dict[str, str] = field(default_factory=dict)
    """Iname -> rank variable."""

    def at(self, index: Affine) -> Affine:
        """An expression over rank variables, rewritten over inames."""
        return _substituted(index, self.values)


def nest_of(einsum: Einsum, shape: tuple[Size, ...], inames: Mapping[str, str], fresh: Callable[[str], str]) -> Nest:
    """The loops that compute an output of this shape; ``inames``: rank variable -> iname, ``fresh`` makes others.

    An axis that a variable indexes, alone or shifted by a constant, is run over by that variable's iname; other axes get inames of their
    own, and the points that reach an element are those that solve the equations between them.
    """
    nest = Nest()
    equations: list[Affine] = []
    shifted: list[str] = []
    for axis, (index, size) in enumerate(zip(einsum.output.indices, shape, strict=True)):
        variable = index.variables[0] if [factor for _, factor in index.terms] == [1] else None
        if variable is not None and variable not in nest.values:
            iname = inames[variable]
            nest.tags[iname] = variable
            nest.values[variable] = Affine(((_IS_INAME + iname, 1),), -index.constant)
            if einsum.sizes[variable] != size or index.constant:
                shifted.append(variable)
        else:
            iname = fresh(f"o{axis}_{einsum.name}")
            equations.append(Affine.of({**index.coefficients, _IS_INAME + iname: -1}, index.constant))
        nest.outer[iname] = size
    equations = [_substituted(equation, nest.values) for equation in equations]
    for variable in einsum.variables:
        if variable not in nest.values and _solve(variable, equations, nest.values):
            shifted.append(variable)
    for variable in einsum.variables:
        if variable not in nest.values:
            nest.tags[inames[variable]] = variable
            nest.values[variable] = Affine.variable(_IS_INAME + inames[variable])
            nest.inner[inames[variable]] = einsum.sizes[variable]
    nest.values = {variable: _unmarked(_substituted(value, nest.values)) for variable, value in nest.values.items()}
    for variable in shifted:
        nest.conditions.append(nest.values[variable])
        nest.bounds.append((nest.values[variable], einsum.sizes[variable]))
    for equation in equations:
        closed = _unmarked(_substituted(equation, {v: _marked(value) for v, value in nest.values.items()}))
        nest.conditions += [closed, _scaled(closed, -1)]
    nest.conditions += [nest.at(guard) for guard in einsum.guards]
    return nest


def _solve(variable: str, equations: list[Affine], values: dict[str, Affine]) -> bool:
    """Find an equation that determines the variable with a coefficient of 1 or -1, take it out, and put its solution everywhere."""
    for position, equation in enumerate(equations):
        factor = equation.coefficients.get(variable, 0)
        if abs(factor) == 1:
            del equations[position]
            solution = _scaled(Affine.of({v: c for v, c in equation.terms if v != variable}, equation.constant), -factor)
            equations[:] = [_substituted(other, {variable: solution}) for other in equations]
            for known, value in values.items():
                values[known] = _substituted(value, {variable: solution})
            values[variable] = solution
            return True
    return False


def _substituted(index: Affine, values: Mapping[str, Affine]) -> Affine:
    result: dict[str, int] = {}
    constant = index.constant
    for name, factor in index.terms:
        value = values.get(name) or Affine.variable(name)
        constant += factor * value.constant
        for other, other_factor in value.terms:
            result[other] = result.get(other, 0) + factor * other_factor
    return Affine.of(result, constant)


def _scaled(index: Affine, factor: int) -> Affine:
    return Affine.of({name: factor * old for name, old in index.terms}, factor * index.constant)


def _unmarked(index: Affine) -> Affine:
    return index.renamed({name: name.removeprefix(_IS_INAME) for name in index.variables})


def _marked(index: Affine) -> Affine:
    return index.renamed({name: _IS_INAME + name for name in index.variables})
