"""Functions and operators of users' expressions, each of which bounds its result before computing it."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable

from ...errors import SpecError
from .caps import MAX_BITS

MAX_LENGTH = 20_000
"""Elements of a list or characters of a text."""


def checked(value: object) -> object:
    """The value, if it is small enough to be kept; :class:`SpecError` if it is too large or complex."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > MAX_BITS:
        raise SpecError(f"The number has more than {MAX_BITS} bits.")
    if isinstance(value, complex):
        raise SpecError("The result is a complex number.")
    if isinstance(value, str | list | tuple) and len(value) > MAX_LENGTH:
        raise SpecError(f"The result has more than {MAX_LENGTH} elements.")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def power(base: object, exponent: object) -> object:
    """``base ** exponent``, refused before it is computed if the result would be too large."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and base.bit_length() * exponent > MAX_BITS:
        raise SpecError(f"The power is too large: more than {MAX_BITS} bits.")
    if not _is_number(base) or not _is_number(exponent):
        raise SpecError("Only numbers have powers.")
    return checked(operator.pow(base, exponent))


def multiply(left: object, right: object) -> object:
    """``left * right``; lists are repeated up to :data:`MAX_LENGTH` elements, and text is not."""
    if isinstance(left, str) or isinstance(right, str):
        raise SpecError("Text cannot be repeated.")
    for items, times in ((left, right), (right, left)):
        if isinstance(items, list | tuple):
            if not isinstance(times, int) or len(items) * times > MAX_LENGTH:
                raise SpecError(f"A list is repeated a whole number of times, to at most {MAX_LENGTH} elements.")
            return items * times
    return checked(operator.mul(left, right))


def shift_left(left: object, right: object) -> object:
    """``left << right``, refused before it is computed if the result would be too large."""
    if not isinstance(left, int) or not isinstance(right, int) or right > MAX_BITS:
        raise SpecError("The shift is too large.")
    return checked(left << right)


def modulo(left: object, right: object) -> object:
    """``left % right`` on numbers; text formatting is refused."""
    if isinstance(left, str):
        raise SpecError("Text formatting with % is not available.")
    return checked(operator.mod(left, right))


def _sum(values: Iterable[object], start: object = 0) -> object:
    total = start
    for value in values:
        total = checked(operator.add(total, value))
    return total


def _product(values: Iterable[object], start: object = 1) -> object:
    total = start
    for value in values:
        total = multiply(total, value)
    return total


def _bounded(function: Callable[..., int]) -> Callable[..., object]:
    def call(*arguments: int) -> object:
        if any(abs(argument) > 1_000 for argument in arguments):
            raise SpecError("The arguments of factorial, comb and perm must be at most 1000.")
        return checked(function(*arguments))

    return call


def bounded_range(*arguments: int) -> list[int]:
    """``range`` as a list of at most :data:`MAX_LENGTH` numbers."""
    numbers = range(*arguments)
    if len(numbers) > MAX_LENGTH:
        raise SpecError(f"The range has more than {MAX_LENGTH} elements.")
    return list(numbers)


def _integer(value: object = 0) -> object:
    if not isinstance(value, int | float | str):
        raise SpecError("int takes a number or text.")
    return checked(int(value))


def _text(value: object = "") -> str:
    if not isinstance(value, str | int | float):
        raise SpecError("str takes a number or text.")
    return str(value)


def _round(value: float, digits: int | None = None) -> object:
    """``round``; the power of ten that so many digits stand for is computed, so their number is bounded."""
    if isinstance(digits, int) and abs(digits) > MAX_BITS:
        raise SpecError(f"round takes at most {MAX_BITS} digits.")
    return checked(round(value, digits))


def _map(function: Callable[[object], object], values: Iterable[object]) -> list[object]:
    result: list[object] = []
    size = 0
    for value in values:
        result.append(checked(function(value)))
        size += len(last) if isinstance(last := result[-1], str | list | tuple) else 1
        if size > MAX_LENGTH:
            raise SpecError(f"The result has more than {MAX_LENGTH} elements.")
    return result


_MATH_NAMES = """
    acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees dist erf erfc exp expm1 fabs floor fmod frexp fsum gamma gcd
    hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf radians remainder sin sinh sqrt tan tanh trunc
"""
BOUNDED_FUNCTIONS: dict[str, Callable[..., object]] = {
    **{name: getattr(math, name) for name in _MATH_NAMES.split()},
    "factorial": _bounded(math.factorial),
    "comb": _bounded(math.comb),
    "perm": _bounded(math.perm),
    "prod": _product,
    "pow": power,
    "sum": _sum,
    "range": bounded_range,
    "int": _integer,
    "str": _text,
    "map": _map,
    "round": _round,
    "enumerate": lambda values, start=0: list(enumerate(values, start)),
    "list": list,
    "tuple": tuple,
    **{name: getattr(builtins, name) for name in ("abs", "len", "min", "max", "float", "bool", "any", "all", "sorted")},
}
CONSTANTS: dict[str, object] = {"pi": math.pi, "e": math.e, "tau": math.tau, "inf": math.inf, "nan": math.nan}
