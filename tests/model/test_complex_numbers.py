"""What products of complex numbers cost: two operations on vectors, the second one with an addition."""

from __future__ import annotations

import pytest
from pymbolic import parse

from feinsum_fuse.model.kernel.value_operations import ADDITION, SIMPLE, counted_operations


@pytest.mark.parametrize(("text", "multiplications"), [("a * b", 2), ("a * r", 1), ("a * b * a", 4), ("r * s * b", 2), ("a + b", 0)])
def test_operations_of_complex_numbers(text: str, multiplications: int) -> None:
    found, *_ = counted_operations(parse(text), (), frozenset(), frozenset("ab"))
    kinds = [what for (what, _), count in found for _ in range(count)]
    assert kinds.count(SIMPLE) == multiplications and kinds.count(ADDITION) == text.count("+")
