"""How far each rank variable of an Einsum runs: by arithmetic where constraints form a box, by ISL otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import islpy as isl

from ...errors import SpecError
from ..affine import Affine
from .caps import isl_time, shortened

MAX_OPERATIONS = 100_000
MAX_CONSTRAINT = 1_000
MAX_ALTERNATIVES = 6
_BOX = re.compile(r"\s*(-?\d+)\s*(<=?)\s*([A-Za-z_]\w*)\s*(<=?)\s*(-?\d+)\s*")
_TOKENS = re.compile(r"\s*(?:[A-Za-z_]\w*|\d+|<=|>=|!=|==|[-+*/%<>=(),:\[\]])")
_WORDS = frozenset(("and", "or", "not", "exists", "mod", "floor", "floord", "ceil", "ceild", "min", "max", "true", "false", "implies"))


@dataclass(frozen=True)
class IndexRange:
    """``low <= index < high``; either end may be open."""

    index: Affine
    low: int | None
    high: int | None

    def __str__(self) -> str:
        left = "" if self.low is None else f"{self.low} <= "
        right = "" if self.high is None else f" < {self.high}"
        return f"{left}{self.index}{right}"


def parse_constraint(text: str) -> IndexRange | None:
    """The constraint, if it bounds one rank variable by two numbers."""
    match = _BOX.fullmatch(text)
    if match is None or len(match[1]) > 18 or len(match[5]) > 18:
        return None
    low, high = int(match[1]) + (match[2] == "<"), int(match[5]) + (match[4] == "<=")
    return IndexRange(Affine.variable(match[3]), low, high)


def check_constraint(text: str, variables: Iterable[str]) -> None:
    """:class:`SpecError` unless the text is an ISL constraint over these rank variables that ISL can decide in bounded time."""
    box = parse_constraint(text)
    if box is not None and set(box.index.variables) <= set(variables):
        return
    _check_words(text, variables)
    with isl_time():
        iteration_space(variables, (), (text,))


def _check_words(text: str, variables: Iterable[str]) -> None:
    shown = shortened(text)
    if len(text) > MAX_CONSTRAINT:
        raise SpecError(f"The constraint {shown!r} has more than {MAX_CONSTRAINT} characters.")
    position, depth = 0, 0
    words: list[str] = []
    while match := _TOKENS.match(text, position):
        token = match.group().strip()
        position = match.end()
        depth += (token in "([") - (token in ")]")
        if not 0 <= depth <= 20:
            raise SpecError(f"The parentheses in the constraint {shown!r} do not match or are too deep.")
        if token[0].isdigit() and len(token) > 15:
            raise SpecError(f"A number in the constraint {shown!r} is too large.")
        words.append(token)
    if text[position:].strip() or depth:
        raise SpecError(f"The constraint {shown!r} cannot be read.", hint="Write for example 0 <= m < 32.")
    quantified = {word for index, word in enumerate(words) if "exists" in words[:index]}
    for word in words:
        if word[0].isalpha() and word not in _WORDS and word not in variables and word not in quantified:
            raise SpecError(f"The constraint {shown!r} names {word!r}, which is no rank variable here.")
    if sum(word in ("or", "not", "!=", "implies", "min", "max", "%", "mod", "exists", "/") for word in words) > MAX_ALTERNATIVES:
        raise SpecError(f"The constraint {shown!r} has more than {MAX_ALTERNATIVES} alternatives.")


def _box(variables: Iterable[str], ranges: Iterable[IndexRange]) -> dict[str, tuple[int, int]] | None:
    """Least and largest value of each variable, if every range bounds a single bare variable."""
    box: dict[str, tuple[int | None, int | None]] = dict.fromkeys(variables, (None, None))
    for bound in ranges:
        name = bound.index.bare
        if name is None or name not in box:
            return None
        low, high = box[name]
        box[name] = (
            bound.low if low is None else low if bound.low is None else max(low, bound.low),
            bound.high if high is None else high if bound.high is None else min(high, bound.high),
        )
    result: dict[str, tuple[int, int]] = {}
    for name, (low, high) in box.items():
        if low is None or high is None:
            raise unbounded(name)
        result[name] = (low, high - 1)
    return result


def unbounded(variable: str) -> SpecError:
    """The error for a rank variable that nothing bounds."""
    return SpecError(
        f"The rank variable {variable} is not bounded.",
        hint=f"Give the size of a rank that {variable} indexes, or a constraint such as 0 <= {variable} < 32 in iteration_space_shape.",
    )


def iteration_space(variables: Iterable[str], ranges: Iterable[IndexRange], constraints: Iterable[str]) -> isl.Set:
    """The points of an Einsum as an ISL set over its rank variables, in their order; :class:`SpecError` if ISL cannot read it in bounds."""
    names, constraints = list(variables), list(constraints)
    context = isl.Context()
    context.set_max_operations(MAX_OPERATIONS)
    parts = [f"({text})" for text in constraints] + [str(bound) for bound in ranges]
    text = f"{{ [{', '.join(names)}] : {' and '.join(parts) or 'true'} }}"
    try:
        return isl.Set.read_from_str(context, text).coalesce()
    except isl.Error:
        shown = " and ".join(constraints)
        hint = "Write for example 0 <= m < 32."
        raise SpecError(f"ISL cannot read {shortened(shown)!r}, or takes too long over it.", hint=hint) from None


def extents(variables: Iterable[str], ranges: Iterable[IndexRange], constraints: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Least and largest value of each rank variable over all points that satisfy the ranges and ISL constraints.

    Raises :class:`SpecError` if a variable is unbounded, if no point is left, or if ISL needs more than :data:`MAX_OPERATIONS` operations.
    """
    names = list(variables)
    boxes = [parse_constraint(text) for text in constraints]
    found = _box(names, [*ranges, *(bound for bound in boxes if bound)]) if all(boxes) else None
    if found is None:
        with isl_time():
            found = _extents_by_isl(names, list(ranges), list(constraints))
    for name, (low, high) in found.items():
        if high < low:
            raise SpecError(f"No value of the rank variable {name} satisfies all constraints.")
    return found


def _extents_by_isl(names: list[str], ranges: list[IndexRange], constraints: list[str]) -> dict[str, tuple[int, int]]:
    for text in constraints:
        _check_words(text, names)
    if sum(len(re.findall(r"\bor\b|\bnot\b|!=|\bmod\b|%|\bexists\b|/", text)) for text in constraints) > 2 * MAX_ALTERNATIVES:
        raise SpecError(f"The constraints have more than {2 * MAX_ALTERNATIVES} alternatives together.")
    space = iteration_space(names, ranges, constraints)
    result: dict[str, tuple[int, int]] = {}
    try:
        if space.is_empty():
            raise SpecError("No point satisfies all constraints.")
        for position, name in enumerate(names):
            one = space.project_out(isl.dim_type.set, position + 1, len(names) - position - 1).project_out(isl.dim_type.set, 0, position)
            if not one.is_bounded():
                raise unbounded(name)
            result[name] = (int(one.dim_min_val(0).to_python()), int(one.dim_max_val(0).to_python()))
    except isl.Error:
        raise SpecError("The constraints take ISL too long.", hint="Simplify iteration_space_shape.") from None
    return result


def rank_ranges(projections: Iterable[Mapping[str, Affine]], sizes: Mapping[str, int]) -> list[IndexRange]:
    """``0 <= index < size`` for every index into a rank whose size is known; each once."""
    found = {IndexRange(index, 0, sizes[rank]): None for projection in projections for rank, index in projection.items() if rank in sizes}
    return list(found)
