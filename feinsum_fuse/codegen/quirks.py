"""What a device's compiler gets wrong, or makes slow: conditions on which work-items agree, and places in arrays.

In kernels with barriers PoCL 3.0 puts barriers of its own around and into innermost loops that all work-items run alike. Where such a loop
stands under a condition, in the text or because the compiler takes a condition that does not change out of it, the first work-item runs
what follows the loop twice, or finds the condition false. Loops under conditions that may differ from work-item to work-item are left
alone; so the condition is joined to one that is true of all of them, which costs nothing once the work-items are iterations of a loop: by
``&``, for ``&&`` would be a branch on what all agree on, followed by another.

A place in an array that is summed up in 32 bits is made one of 64 bits for each access. Where LLVM has taken such a sum apart before, it no
longer knows that none of its parts overflows, and counts in each row on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from ..schedule.target import Quirks
from .arithmetic import both, function_of
from .statement_expressions import Rewriter, within
from .statements import (
    Assignment,
    Barrier,
    Conditional,
    CStatement,
    Declaration,
    ExpressionStatement,
    Kernel,
    Loop,
    all_statements,
    bodies,
    changed,
    expressions,
    with_bodies,
)

AGREED = "agreed"
AGREED_DEFINITION = f"""
/* All work-items agree on the condition. PoCL 3.0 miscompiles loops under or around such conditions, unless it does not know. */
#define {AGREED}(condition) (((condition) != 0) & (get_local_id(0) < get_local_size(0)))
"""


def avoiding(kernel: Kernel, quirks: Quirks) -> Kernel:
    """The kernel without what a device gets wrong."""
    kernel = with_hidden_agreement(kernel) if quirks.agreed_conditions else kernel
    return with_long_places(kernel) if quirks.int_places else kernel


def with_long_places(kernel: Kernel) -> Kernel:
    """The kernel in which places in arrays that have a name are of as many bits as addresses: ``int const A_at`` -> ``long const A_at``.

    What is used for anything else besides stays as it is: functions of a ``long`` and an ``int`` are ambiguous.
    """
    everywhere, places = Counter[str](), Counter[str]()
    for expression in (e for statement in all_statements(kernel.body) for e in expressions(statement)):
        everywhere.update(_names(expression))
        subscripts = [part for part in within(expression) if isinstance(part, p.Subscript)]
        inner = {id(part) for outer in subscripts for part in within(outer.index)}
        places.update(name for outer in subscripts if id(outer) not in inner for name in _names(outer.index))
    long = {name for name, count in places.items() if count == everywhere[name]}
    return kernel.with_body(_with_long(kernel.body, long))


def _with_long(body: Sequence[CStatement], names: Container[str]) -> tuple[CStatement, ...]:
    return tuple(
        replace(s, type="long")
        if isinstance(s, Declaration) and s.type == "int" and s.value is not None and s.name in names
        else with_bodies(s, lambda inner: _with_long(inner, names))
        for s in body
    )


def _names(value: Expression) -> list[str]:
    """The variables of an expression, each as often as it occurs."""
    return [part.name for part in within(value) if isinstance(part, p.Variable)]


def with_hidden_agreement(kernel: Kernel) -> Kernel:
    """The kernel in which PoCL does not know of any condition that all work-items agree on it."""
    group = kernel.head.group
    waits = any(isinstance(statement, Barrier) for statement in all_statements(kernel.body))
    if not waits or (group is not None and prod(group) == 1):
        return kernel
    return kernel.with_body(_Agreement().block(kernel.body))


class _Agreement(Rewriter):
    """Marks the conditions that say nothing of work-items, nor name what does."""

    def __init__(self) -> None:
        super().__init__()
        self.varying: set[str] = set()

    def block(self, body: Sequence[CStatement]) -> tuple[CStatement, ...]:
        """The statements of a block, in their order, with their conditions marked."""
        return tuple(map(self.statement, body))

    def statement(self, statement: CStatement) -> CStatement:
        """A statement, with those in it."""
        if isinstance(statement, Declaration) and statement.value is not None and self._varies(statement.value):
            self.varying.add(statement.name)
        if isinstance(statement, Conditional):
            then, other = (self.block(part) for part in bodies(statement))
            return Conditional(self.agreed(self.rec(statement.condition)), then, other)
        if isinstance(statement, Loop):
            bare = changed(replace(statement, body=()), self)
            assert isinstance(bare, Loop)
            return replace(bare, body=self.block(statement.body))
        if isinstance(statement, Declaration | Assignment | ExpressionStatement):
            return changed(statement, self)
        return with_bodies(statement, self.block)

    def map_if(self, expr: p.If) -> Expression:
        return p.If(self.agreed(self.rec(expr.condition)), self.rec(expr.then), self.rec(expr.else_))

    def agreed(self, condition: Expression) -> Expression:
        """The condition with each part that says nothing of work-items, nor names what does, marked."""
        parts = condition.children if isinstance(condition, p.LogicalAnd) else (condition,)
        return both([part if self._varies(part) else p.Call(p.Variable(AGREED), (part,)) for part in parts])

    def _varies(self, value: Expression) -> bool:
        return any(
            function_of(part) in {"lid", "get_local_id"} or (isinstance(part, p.Variable) and part.name in self.varying)
            for part in within(value)
        )
