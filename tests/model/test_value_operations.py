"""What the operations of a value are, and which of them are one."""

from __future__ import annotations

import pytest
from pymbolic import parse

from feinsum_fuse.model.kernel.value_operations import ADDITION, SIMPLE, by_loops, counted_operations


@pytest.mark.parametrize(
    ("text", "multiplications", "additions"),
    [
        ("a * b + c", 1, 0),
        ("c + a * b", 1, 0),
        ("a * b + c * d", 2, 0),
        ("a * b - c * d", 2, 0),
        ("a * b * c - d * e * c", 4, 0),
        ("c + a * b + d", 1, 1),
        ("c - a", 0, 1),
        ("(a + b) * (a * b + c)", 2, 1),
        ("exp(a * b) * (a * b + c)", 2, 1),
    ],
)
def test_a_product_and_its_addition_are_one_operation(text: str, multiplications: int, additions: int) -> None:
    """As both runtimes' compilers make them of ``F*S*I - G*T*I`` on a Xeon: two products and two multiply-adds with the sum's own."""
    counted, _, fused, _ = counted_operations(parse(text), (), frozenset())
    found = by_loops(counted, fused, lambda names: frozenset("i") if names else names)
    kinds = {what: sum(count for (other, _), count in found.items() if other == what) for what in (SIMPLE, ADDITION)}
    assert kinds == {SIMPLE: multiplications, ADDITION: additions}


def test_what_a_loop_does_not_move_is_added_by_itself() -> None:
    """``a`` and ``b`` stay where they are while ``c`` moves: their product is there before the loop."""
    counted, _, fused, _ = counted_operations(parse("c - a * b"), (), frozenset())
    found = by_loops(counted, fused, lambda names: names & {"c"})
    assert found == {(SIMPLE, frozenset()): 1, (ADDITION, frozenset("c")): 1}


def test_products_of_complex_numbers_are_added_by_themselves() -> None:
    counted, _, fused, _ = counted_operations(parse("a * b + c"), (), frozenset(), frozenset("ab"))
    assert not fused and sum(count for (what, _), count in counted if what == ADDITION) == 1
