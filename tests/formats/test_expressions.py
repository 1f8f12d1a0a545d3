"""Expressions in files are evaluated without Python's evaluator, and within bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import feinsum_fuse as ff
from feinsum_fuse.formats.language.expressions import evaluate, names_in, nearest


@dataclass(frozen=True)
class Calls:
    name: str
    n_calls: float
    throughput: float

    def secret(self) -> None:
        """A method, which expressions may not reach."""


ACTIONS = [Calls("read", 8, 2), Calls("write", 9, 3)]
NAMES: dict[str, object] = {"actions": ACTIONS, "width": 16, "table": {"a": 1}, "flag": True, "text": "ab"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("width * 2 + 1", 33), ("2**10", 1024), ("7 // 2 - -1", 4), ("7 % 4 / 2", 1.5), ("1 << 4 | 3", 19), ("width >> 2 & 7 ^ 1", 5),
        ("max(a.n_calls / a.throughput for a in actions)", 4), ("sum(a.n_calls / a.throughput for a in actions)", 7),
        ("sum(a.n_calls for a in actions if a.name == 'read')", 8), ("[x * y for x in [1, 2] for y in range(2)]", [0, 1, 0, 2]),
        ("sum(i * v for i, v in enumerate([5, 6]))", 6), ("width if flag else 0", 16), ("not flag or width", 16), ("flag and 0", 0),
        ("1 < width <= 16 != 3", True), ("3 in [1, 3] and 2 not in (1,)", True), ("None is None", True),
        ("table['a'] + actions[0].n_calls", 9),
        ("ceil(log2(1000)) + sqrt(16) + prod([2, 3])", 20), ("pi", math.pi), ("min(inf, 3)", 3), ("round(2.567, 1)", 2.6),
        ("int('12')", 12),
        ("len(text) + abs(-2)", 4), ("list(map(abs, [-1, 2]))", [1, 2]), ("pow(2, 3)", 8), ("bool(0)", False), ("tuple([1])", (1,)),
        ("factorial(5)", 120), ("str(3)", "3"), ("float('1e3')", 1000.0), ("text[1]", "b"), ("[]", []), ("sum([])", 0),
    ],
)  # fmt: skip
def test_values(text: str, value: object) -> None:
    assert evaluate(text, NAMES) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("widht", "The name 'widht' is not known.\n  Did you mean width?"), ("actions[0].secret", "There is no attribute"),
        ("actions[0].n_call", "has no attribute 'n_call'.\n  Did you mean n_calls?"), ("actions[0].__class__", "There is no attribute"),
        ("text.upper()", "There is no attribute"), ("lambda: 1", "Lambda is not allowed"), ("f'{width}'", "JoinedStr is not allowed"),
        ("{1: 2}", "Dict is not allowed"), ("max(*[1, 2])", "Starred"), ("1j", "not allowed"), ("(-8)**0.5", "complex"),
        ("width()", "not a function"),
        ("1 / 0", "division by zero"), ("actions[9]", "out of range"), ("table['b']", "'b'"), ("actions['a']", "not a whole number"),
        ("width[0]", "has no elements"), ("1 @ 2", "MatMult is not allowed"), ("text * 3", "cannot be repeated"), ("2**10**4", "too large"),
        ("1 << 9999", "too large"), ("range(10**6)", "more than 20000"), ("x = 3", "Cannot read"), ("", "Cannot read"),
        ("[x for x in 3]", "iterated"),
        ("[a for a, b in [1]]", "loop variable"), ("exp(10**6)", "range"), ("max([])", "empty"), ("sorted([1, 'a'])", "not supported"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ff.SpecError) as caught:
        evaluate(text, NAMES)
    assert message in str(caught.value)


def _sum_of(parts: tuple[str, str, str]) -> str:
    return f"({''.join(parts)})"


@given(st.recursive(st.integers(-99, 99).map(str), lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(_sum_of)))
def test_arithmetic_is_pythons(text: str) -> None:
    assert evaluate(text, {}) == int(ff_reference(text))


def ff_reference(text: str) -> int:
    """The value by a second route: a stack machine over the parenthesised text."""
    stack: list[list[int | str]] = [[]]
    position = 0
    while position < len(text):
        character = text[position]
        if character == "(":
            stack.append([])
            position += 1
        elif character == ")":
            left, sign, right = stack.pop()
            stack[-1].append({"+": int(left) + int(right), "-": int(left) - int(right), "*": int(left) * int(right)}[str(sign)])
            position += 1
        elif character in "+-*" and len(stack[-1]) == 1:
            stack[-1].append(character)
            position += 1
        else:
            end = position + 1
            while end < len(text) and text[end].isdigit():
                end += 1
            stack[-1].append(int(text[position:end]))
            position = end
    return int(stack[0][0])


def test_names() -> None:
    assert names_in("max(a.n / width for a in actions) + width") == ("max", "width", "actions")


def test_nearest() -> None:
    assert nearest("rank_szes", ["rank_sizes", "renames"]) == "Did you mean rank_sizes?"
    assert nearest("zzz", ["a", "b"]) == "Known: a, b."
    assert nearest("zzz", []) == ""
