"""Numbers in files: literals, or expressions over the names that are visible where they stand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ...errors import SpecError
from .caps import shown
from .expressions import evaluate

_WORDS = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan, "true": True, "false": False}


def literal(text: str) -> int | float | bool | None:
    """The number or truth value that a text denotes by itself, if it does."""
    stripped = text.strip().lower()
    if stripped in _WORDS:
        return _WORDS[stripped]
    for kind in (int, float):
        try:
            return kind(stripped) if len(stripped) < 400 else None
        except ValueError:
            continue
    return None


def scalar(value: object, names: Mapping[str, object]) -> object:
    """The value itself, or what its text evaluates to."""
    if not isinstance(value, str):
        return value
    found = literal(value)
    return evaluate(value, names) if found is None else found


def number(value: object, names: Mapping[str, object], what: str) -> float:
    """A number; :class:`SpecError` if the value is none or not a number at all (nan)."""
    found = scalar(value, names)
    if isinstance(found, bool) or not isinstance(found, int | float) or math.isnan(found):
        raise SpecError(f"{what} is {shown(found)}; a number is expected.")
    return found


def at_least(bound: float, *, finite: bool = False) -> Callable[[object, Mapping[str, object], str], float]:
    """A reader of numbers that are not less than ``bound``."""

    def read(value: object, names: Mapping[str, object], what: str) -> float:
        found = number(value, names, what)
        if found < bound or (finite and math.isinf(found)):
            raise SpecError(f"{what} is {found}; {'a finite number' if finite else 'a number'} of at least {bound:g} is expected.")
        return found

    return read


def whole(value: object, names: Mapping[str, object], what: str, *, least: int = 1) -> int:
    """A whole number of at least ``least``; floats without a fraction count (``1e3``)."""
    found = number(value, names, what)
    if math.isinf(found) or found != int(found) or found < least or abs(found) >= 2**62:
        raise SpecError(f"{what} is {shown(found)}; a whole number of at least {least} is expected.")
    return int(found)
