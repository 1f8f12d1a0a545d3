"""What nobody should give to anything: values of wrong kinds, empty, huge, half; and values in which one part has been exchanged."""

from __future__ import annotations

import dataclasses
import math
import random
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from feinsum_fuse.schedule.step import Step


class Text(str):
    """A text of another class."""


class Number(int):
    """A number of another class."""


def _circle() -> list[object]:
    made: list[object] = []
    made.append(made)
    return made


def _deep(levels: int = 2000) -> list[object]:
    made: list[object] = []
    for _ in range(levels):
        made = [made]
    return made


NUMBERS: tuple[object, ...] = (0, -1, 1, 2, 3, 7, 2**31, 2**63, 2**70, 10**400, True, 0.5, -0.0, 1e308, math.inf, -math.inf, math.nan, 1j)
TEXTS: tuple[object, ...] = (
    *("", " ", "x", "m", "A", "All", "global", "m + k", "A[m]", "Z[m] = A[m]", "Z[m, n] = A[m, k] * B[k, n", "mk,kn->mn", "ij->i", "..."),
    *("float32", "float128", "complex64", "object", "int8", "datetime64[s]", "null", "\x00", "a\x00b", "\ud800", "\x1b[31m", "\u202e"),
    *(
        "{{ 1/0 }}",
        "{% for i in range(3) %}",
        "!!python/x",
        "&a [*a]",
        "- - -",
        ": :",
        "x" * 100_000,
        "(" * 3000,
        "9" * 5000,
        "/",
        "/dev/null",
    ),
    *("sqlite://", "nonsense://x", "postgresql://127.0.0.1:1/x", "/proc/self/mem", "/dev/null/x", ".", "..", "~", "é😀", "%s%n{0}"),
)
OTHERS: tuple[object, ...] = (
    *(None, ..., NotImplemented, b"", b"bytes", bytearray(b"x"), Path(), Path("/dev/null/x"), object(), object, int, len, print, random),
    *(
        [],
        (),
        {},
        set(),
        frozenset(),
        [None],
        [[]],
        {"": ""},
        {None: None},
        {"m": -1},
        {1: 2},
        {"A": object()},
        range(3),
        range(0),
        slice(3),
    ),
    *(iter([]), (x for x in ()), lambda: None, ValueError("no"), KeyboardInterrupt(), threading.Lock(), memoryview(b"abc")),
    *(Text("A"), Number(3), _circle(), _deep()),
    *(np.float32(1), np.int8(-1), np.bool_(True), np.array([]), np.zeros((0, 3)), np.zeros((2, 2)), np.array(["a"]), np.array([None])),
    *(
        np.zeros(3, "datetime64[s]"),
        np.zeros(2, [("a", "f4")]),
        np.broadcast_to(np.float32(1), (2**20, 2**20)),
        np.ma.masked_array([1.0], [1]),
    ),
    *(np.dtype("f4"), np.nan, np.str_("A"), np.array(3.0), np.zeros((1,) * 32)),
)
HOSTILE: tuple[object, ...] = (*NUMBERS, *TEXTS, *OTHERS)
FRAGMENTS = (
    "",
    " ",
    "[",
    "]",
    "(",
    ")",
    "*",
    ",",
    "=",
    "->",
    "0",
    "-1",
    "m",
    "A",
    "\x00",
    "\ud800",
    "\n",
    "9" * 30,
    "'",
    "{",
    "}",
    "{{",
    "<",
    "!",
    ":",
    "é",
    "..",
)


def hostile(choose: random.Random) -> object:
    """One of them; numbers and texts, which come further, more often than their share."""
    return choose.choice(choose.choice((NUMBERS, TEXTS, OTHERS)))


def spoilt(value: object, choose: random.Random) -> object:
    """The value with one part of it, or all of it, exchanged: what is given is left as it is."""
    if isinstance(value, str) and value and choose.random() < 0.8:
        at = choose.randrange(len(value) + 1)
        return value[:at] + choose.choice(FRAGMENTS) + value[at + choose.choice((0, 0, 1, 3)) :]
    if isinstance(value, Mapping) and value and type(value) is dict and choose.random() < 0.8:
        key = choose.choice(list(value))
        return {
            hostile_key(choose, k) if k == key and choose.random() < 0.3 else k: spoilt(v, choose) if k == key else v
            for k, v in value.items()
        }
    if isinstance(value, list | tuple) and value and type(value) in (list, tuple) and choose.random() < 0.8:
        at = choose.randrange(len(value))
        parts = [spoilt(part, choose) if k == at else part for k, part in enumerate(value)]
        change = choose.random()
        parts = parts[:at] if change < 0.1 else [*parts, parts[at]] if change < 0.2 else parts
        return type(value)(parts)
    if isinstance(value, np.ndarray) and value.dtype != object and choose.random() < 0.8:
        ways = (
            lambda: value[..., None],
            lambda: value.astype("f8"),
            lambda: value.astype(object),
            lambda: value[:0],
            lambda: value[::-1],
            lambda: np.asfortranarray(value),
            lambda: value.astype(">f4"),
            lambda: value.tolist(),
            lambda: np.full_like(value, np.nan if value.dtype.kind in "fc" else 99),
            lambda: np.asarray(value, "i4"),
        )
        return choose.choice(ways)() if value.ndim else hostile(choose)
    if isinstance(value, Step):
        name = choose.choice([field.name for field in dataclasses.fields(value)])
        return dataclasses.replace(value, **{name: spoilt(getattr(value, name), choose)})
    if isinstance(value, bool | int) and choose.random() < 0.5:
        return choose.choice((value + 1, value - 1, -value, value * 1000, float(value), str(value)))
    return hostile(choose)


def hostile_key(choose: random.Random, key: object) -> object:
    """Another key, one that can be one."""
    made = choose.choice((None, "", 0, -1, "\x00", "é", (1, 2), f"{key}x", b"x", 2**70))
    return key if dataclasses.is_dataclass(made) else made
