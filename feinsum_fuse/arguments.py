"""What public functions take, checked where it comes in: one error of ours that names the argument, before anything is done with it."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .errors import Error
from .number_types import BFLOAT16, type_of

P = ParamSpec("P")
R = TypeVar("R")


MOST_SECONDS = 1e9
"""What the operating system waits for at the most, and nobody else."""


@dataclass(frozen=True)
class Kind:
    """A kind of argument: what a message calls it, and whether a value is one."""

    text: str
    holds: Callable[[object], bool]

    def __or__(self, other: Kind) -> Kind:
        return Kind(f"{self.text} or {other.text}", lambda value: self.holds(value) or other.holds(value))


def instance(text: str, *classes: type) -> Kind:
    """Values of these classes."""
    return Kind(text, lambda value: isinstance(value, classes))


def mapping(text: str, keys: Kind, values: Kind) -> Kind:
    """Mappings whose keys and values are of these kinds."""

    def holds(value: object) -> bool:
        return isinstance(value, Mapping) and all(keys.holds(k) and values.holds(v) for k, v in value.items())

    return Kind(text, holds)


def collection(text: str, parts: Kind) -> Kind:
    """Lists, tuples and the like of one kind of thing; a text is none."""

    def holds(value: object) -> bool:
        return isinstance(value, Collection) and not isinstance(value, str | bytes) and all(map(parts.holds, value))

    return Kind(text, holds)


def _is_path(value: object) -> bool:
    """Whether the operating system can have a file of this name."""
    if not isinstance(value, str | os.PathLike):
        return False
    try:
        return b"\0" not in os.fsencode(value)
    except (UnicodeEncodeError, TypeError):
        return False


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(0 < value < MOST_SECONDS)


NOTHING = Kind("None", lambda value: value is None)
ANYTHING = Kind("anything", lambda value: True)
TEXT = instance("a text", str)
COUNT = Kind("a whole number", lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool))
AT_LEAST_ONE = Kind("a whole number from 1 on", lambda value: COUNT.holds(value) and bool(value >= 1))  # type: ignore[operator]
SEEDS = Kind("a whole number from 0 on", lambda value: COUNT.holds(value) and bool(value >= 0))  # type: ignore[operator]
FLAG = Kind("a truth value", lambda value: isinstance(value, bool))
SECONDS = Kind("a number of seconds above 0", _is_seconds)
NUMBER = Kind("a number", lambda value: isinstance(value, int | float | np.number) and not isinstance(value, bool))
PATH = Kind("a path without NUL or halves of characters", _is_path)
PLOT_AXES = Kind("axes of matplotlib's", lambda value: callable(getattr(value, "set_xlabel", None)))
HOOK = Kind("something to be called", callable) | NOTHING


def iterable(value: object, what: str, error: type[Error]) -> Iterable[Any]:
    """The value, which must be something to go through."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes) or (isinstance(value, np.ndarray) and not value.ndim):
        raise error(f"{what} is to be a list or the like, not {described(value)}")
    return value


def array_of(value: object, what: str, error: type[Error]) -> np.ndarray:
    """What NumPy makes of a value; ``error`` where it makes nothing, or where some elements are masked, which nothing here knows of."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, OverflowError, MemoryError, RecursionError) as reason:
        raise error(f"{what} is no array: {reason}") from reason
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise error(f"{what} has masked elements", hint="Say what they are: array.filled(0).")
    return found


def element_type(value: object, error: type[Error]) -> np.dtype:
    """The element type that a value names, as NumPy reads it."""
    try:
        return type_of(value)
    except (TypeError, ValueError, SyntaxError, RecursionError, MemoryError) as reason:
        hint = "Such as float32, complex64 or int8, by NumPy's names."
        hint = "Install ml_dtypes, as pip install 'feinsum_fuse[bfloat16]' does." if isinstance(value, str) and value == BFLOAT16 else hint
        raise error(f"{described(value)} is no element type", hint=hint) from reason


def described(value: object) -> str:
    """A value in a message: its type, and itself where that is short."""
    if value is None or isinstance(value, bool | int | float | str):
        return f"{str(value)!r:.60}" if isinstance(value, str) else f"{value!r:.60}" if not _is_long(value) else "a number of many digits"
    return f"a value of type {type(value).__name__}"


def _is_long(value: object) -> bool:
    """Whether Python refuses to write the number out."""
    return isinstance(value, int) and value.bit_length() > 4096


def expect(value: object, kind: Kind, name: str, error: type[Error]) -> None:
    """Raise ``error`` if a value is not of its kind."""
    if not kind.holds(value):
        raise error(f"{name} is to be {kind.text}, not {described(value)}")


def checked(error: type[Error], **kinds: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose arguments are checked at each call; ``error`` is raised for one that is not of its kind.

    A collecting argument (``*files``) is checked part by part.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        several = {p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL}

        @functools.wraps(function)
        def call(*arguments: P.args, **keywords: P.kwargs) -> R:
            try:
                bound = signature.bind(*arguments, **keywords).arguments
            except TypeError:
                bound = {}  # the call below raises one that names the function
            for name, value in bound.items():
                if name in kinds:
                    for part in value if name in several else (value,):
                        expect(part, kinds[name], f"{function.__name__}: {name}", error)
            return function(*arguments, **keywords)

        return call

    return decorate
