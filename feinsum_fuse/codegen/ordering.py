"""The order of statements that may stand in any order: those of a register tile that is written out.

Compilers keep the order of multiply-adds that they are given, more or less, and hold in registers what is read again later. So statements
that share an operand stand together, and few operands are waited for at a time: in a tile of 6 rows and 2 vectors the 2 vectors, with one
element of the rows after the other, and not one vector and the elements of 6 rows, which would drive sums out of the registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pymbolic.primitives as p
from pymbolic.typing import Expression

from .expressions import is_whole_number, variables, within
from .statements import Assignment, CStatement


def few_at_once(run: Sequence[CStatement], operands: Callable[[Expression], frozenset[Expression]]) -> list[CStatement]:
    """The statements, in an order in which few operands are in registers at a time; as they are if one may need another's result.

    ``operands`` are the loads that an expression needs. Next comes a statement that needs the fewest loads; of several, one whose operands
    the fewest others wait for; then the first.
    """
    statements = [s for s in run if isinstance(s, Assignment)]
    if len(statements) < len(run) or not _independent(statements):
        return list(run)
    needs = [operands(s.value) for s in statements]
    waiting = Counter(operand for need in needs for operand in need)
    if max(waiting.values(), default=0) < 2:
        return list(run)
    loaded: set[Expression] = set()
    left, found = list(range(len(statements))), list[CStatement]()
    while left:
        first = min(left, key=lambda i: (len(needs[i] - loaded), sum(waiting[operand] for operand in needs[i] & loaded), i))
        left.remove(first)
        found.append(statements[first])
        loaded |= needs[first]
        waiting.subtract(needs[first])
    return found


def _independent(statements: Sequence[Assignment]) -> bool:
    """Whether each writes a variable, or an element with a number for index, that no other reads or writes."""
    targets = {s.target for s in statements}
    if len(targets) < len(statements) or not all(_is_one(target) for target in targets):
        return False
    arrays = frozenset[str]().union(*(variables(target) for target in targets))
    return all(
        part == s.target
        for s in statements
        for part in within(s.value)
        if isinstance(part, p.Subscript) and variables(part.aggregate) & arrays
    ) and not any(variables(s.value) & {t.name for t in targets if isinstance(t, p.Variable)} - variables(s.target) for s in statements)


def _is_one(target: Expression) -> bool:
    return isinstance(target, p.Variable) or (isinstance(target, p.Subscript) and is_whole_number(target.index))
