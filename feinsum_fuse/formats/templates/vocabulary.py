"""What templates may compute: operators, filters, tests and methods, with how large a result becomes, said before it is computed."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from jinja2 import Undefined

from ...errors import SpecError
from ..language.bounded_functions import modulo, multiply, power
from ..language.caps import MAX_BITS, MAX_TEXT, MAX_WEIGHT, shown

MAX_WIDTH = 1_000

ResultSize = Callable[..., int]
BinaryOperator = Callable[[object, object], object]


def known(value: object) -> object:
    """The value, unless it is undefined: printing an undefined value raises its error."""
    return str(value) if isinstance(value, Undefined) else value


def printed_size(value: object) -> int:
    """About how many characters data has in print, sharing counted as often as it prints; :class:`SpecError` beyond what is printed."""
    total, pending = 0, [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            total += len(current) + 2
        elif isinstance(current, int):
            if current.bit_length() > MAX_BITS:
                raise SpecError(f"A number has more than {MAX_BITS} bits.")
            total += 3 + current.bit_length() // 3
        elif isinstance(current, float | None):
            total += 8
        elif isinstance(current, list | tuple):
            total += 2 * len(current) + 2
            pending += current if total <= MAX_TEXT else ()
        elif isinstance(current, Mapping):
            total += 4 * len(current) + 2
            pending += [*current.keys(), *current.values()]
        else:
            known(current)
            raise SpecError("A function or macro cannot be printed; call it.")
        if total > MAX_TEXT:
            raise SpecError(f"A value has more than {MAX_TEXT} characters.")
    return total


def text_of(value: object) -> str:
    """What data prints as."""
    if isinstance(value, str):
        return value
    printed_size(value)
    return str(value)


def _repeated(left: object, right: object) -> object:
    for some, times in ((left, right), (right, left)):
        if isinstance(some, str | list | tuple):
            if not isinstance(times, int) or len(some) * max(times, 0) > MAX_WEIGHT:
                raise SpecError("The repetition is too long.")
            return some * times
    return multiply(left, right)


def _check_widths(pattern: object, *values: object, **named: object) -> int:
    if re.search(r"%(\([^)]*\))?[^a-zA-Z%]*(\d{3,}|\*)", text_of(pattern)):
        raise SpecError("The width in a format must be less than 100.")
    return len(text_of(pattern)) + text_of(pattern).count("%") * (100 + printed_size([values, named]))


def _remainder(left: object, right: object) -> object:
    if not isinstance(left, str):
        return modulo(left, right)
    bounded(_check_widths(left, *(right if isinstance(right, tuple) else (right,))))
    return left % right


def bounded(size: int) -> None:
    """Raise :class:`SpecError` for a size that no template may produce."""
    if size > MAX_TEXT:
        raise SpecError(f"The template produces more than {MAX_TEXT} characters.")


OPERATORS: dict[str, BinaryOperator] = {
    "+": operator.add,
    "-": operator.sub,
    "*": _repeated,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": _remainder,
    "**": power,
}


def number(value: object) -> int | float:
    """The value, if it is a number."""
    if isinstance(value, int | float):
        return value
    raise SpecError(f"{shown(value)} is not a number.")


def _width(value: object) -> int:
    if isinstance(value, int) and abs(value) <= MAX_WIDTH:
        return abs(value)
    raise SpecError(f"{shown(value)} is no width between 0 and {MAX_WIDTH}.")


def _same_size(value: object, *rest: object, **named: object) -> int:
    return printed_size(value)


def _joined_size(values: object, between: object = "", attribute: object = None) -> int:
    count = len(values) if isinstance(values, str | list | tuple | Mapping) else 0
    return printed_size(values) + count * len(text_of(between))


def _replaced_size(text: object, old: object, new: object, count: object = None) -> int:
    whole = text_of(text)
    return len(whole) + whole.count(text_of(old)) * len(text_of(new))


def _indented_size(text: object, width: object = 4, first: object = False, blank: object = False) -> int:
    margin = len(width) if isinstance(width, str) else _width(width)
    return len(text_of(text)) + (text_of(text).count("\n") + 1) * margin


def _row_size(values: object, count: object, fill_with: object = None) -> int:
    return printed_size(values) + _width(count) * (2 + printed_size(fill_with))


def _round_size(value: object, precision: object = 0, method: object = "common") -> int:
    if _width(precision) > 20:
        raise SpecError("round takes at most 20 digits.")
    return printed_size(number(value))


def _sum_size(values: object, attribute: object = None, start: object = 0) -> int:
    return printed_size(number(start)) + printed_size(values)  # a number to begin with keeps lists from being added up


def _unique_size(values: object, case_sensitive: object = False, attribute: object = None) -> int:
    if isinstance(values, str | list | tuple | Mapping) and len(values) > 1_000:
        raise SpecError("unique takes at most 1000 values.")
    return printed_size(values)


def _centred_size(text: object, width: object = 80) -> int:
    return len(text_of(text)) + _width(width)


_SAME_SIZE = """
    abs capitalize count d default dictsort first float int items last length list lower map max min reject rejectattr reverse select
    selectattr sort string title tojson trim upper wordcount
"""
FILTERS: dict[str, ResultSize] = {
    **dict.fromkeys(_SAME_SIZE.split(), _same_size),
    "batch": _row_size,
    "center": _centred_size,
    "format": _check_widths,
    "indent": _indented_size,
    "join": _joined_size,
    "replace": _replaced_size,
    "round": _round_size,
    "slice": _row_size,
    "sum": _sum_size,
    "unique": _unique_size,
}
"""Filter -> how large its result can become, given what the filter is given. All but these are refused."""

NUMBER_TESTS = frozenset(("divisibleby", "even", "odd"))  # they take remainders, and the remainder of a text is a format
_TESTS = """
    == != < <= > >= eq equalto ne lt lessthan le gt greaterthan ge in boolean defined undefined float integer iterable mapping none
    number sequence string true false lower upper
"""
TESTS = NUMBER_TESTS | frozenset(_TESTS.split())
LOOP_DATA = frozenset(("index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth", "depth0"))


def _join_method(between: str, values: object) -> str:
    bounded(_joined_size(values, between))
    return between.join(values)  # type: ignore[arg-type]


def _replace_method(text: str, old: str, new: str, count: int = -1) -> str:
    bounded(_replaced_size(text, old, new))
    return text.replace(old, new, count)


_TEXT_METHODS = "capitalize count endswith find isalpha isdigit lower lstrip rstrip split splitlines startswith strip title upper"
METHODS: dict[tuple[type, str], Callable[..., object]] = {
    **{(str, name): getattr(str, name) for name in _TEXT_METHODS.split()},
    (str, "join"): _join_method,
    (str, "replace"): _replace_method,
    (dict, "items"): lambda value: [tuple(pair) for pair in value.items()],
    (dict, "keys"): list,
    (dict, "values"): lambda value: list(value.values()),
    (dict, "get"): dict.get,
    (list, "append"): list.append,
    (list, "index"): list.index,
    (list, "count"): list.count,
    (tuple, "index"): tuple.index,
    (tuple, "count"): tuple.count,
}
