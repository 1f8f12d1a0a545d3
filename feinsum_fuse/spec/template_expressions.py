"""Expressions in templates: Jinja's syntax tree, evaluated here with every operation counted."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from jinja2 import nodes

from ..errors import SpecError
from .expressions import checked, modulo, nearest, power
from .limits import MAX_TEXT, shown, weight
from .template_functions import (
    COMPARISONS,
    FILTERS,
    METHODS,
    TESTS,
    Undefined,
    formatted,
    member,
    repeat,
    text_of,
    undefined,
)

MAX_STEPS = 100_000
MAX_ALLOCATED = 8_000_000
MAX_CALLS = 40


@dataclass
class Budget:
    """What the rendering of one user's call may still cost, over all its files."""

    steps: int = MAX_STEPS
    characters: int = MAX_ALLOCATED

    def step(self) -> None:
        """Count one operation."""
        self.spend(1)

    def spend(self, steps: int) -> None:
        """Count several operations."""
        self.steps -= steps
        if self.steps < 0:
            raise SpecError(f"The template takes more than {MAX_STEPS} steps.")

    def allocate(self, value: object) -> object:
        """Count the text or elements that an operation produced."""
        size = len(value) if isinstance(value, str | list | tuple | dict) else 1
        self.characters -= size
        if size > MAX_TEXT or self.characters < 0:
            raise SpecError(f"The template produces more than {MAX_TEXT} characters.")
        return value


class Scope:
    """Variables of one block, over those of the blocks around it."""

    def __init__(self, variables: dict[str, object], parent: Scope | None = None) -> None:
        self.variables = variables
        self.parent = parent

    def lookup(self, name: str) -> object:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return Undefined(name)

    def names(self) -> dict[str, object]:
        """All variables that are visible, inner ones over outer ones."""
        return {**(self.parent.names() if self.parent else {}), **self.variables}


@dataclass(frozen=True)
class Helper:
    """A function that templates may call; ``scoped`` ones receive the visible variables first."""

    call: Callable[..., object]
    scoped: bool = False


@dataclass(frozen=True)
class Macro:
    """A macro and the variables around its definition."""

    node: nodes.Macro
    scope: Scope


_UNARY: dict[type[nodes.Expr], Callable[..., object]] = {nodes.Not: operator.not_, nodes.Neg: operator.neg, nodes.Pos: operator.pos}
_BINARY: dict[type[nodes.Expr], Callable[..., object]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: repeat,
    nodes.Div: operator.truediv,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: lambda left, right: (
        formatted(left, *(right if isinstance(right, tuple) else (right,))) if isinstance(left, str) else modulo(left, right)
    ),
    nodes.Pow: power,
}


class ExpressionEvaluator:
    """Evaluates expressions against scopes; what renders statements says how a macro's body becomes text."""

    def __init__(self, helpers: Mapping[str, Helper], budget: Budget) -> None:
        self.helpers = dict(helpers)
        self.budget = budget
        self.calls = 0
        self.line = 1

    def captured(self, statements: Iterable[nodes.Node], scope: Scope) -> str:
        """The text that statements render to."""
        raise SpecError("Macros are not available here.")

    def charge(self, value: object) -> object:
        """Count what it takes to walk over a value."""
        self.budget.spend(weight(value) // 8)
        return value

    def iterable(self, value: object) -> list[object]:
        """The elements of what a loop runs over."""
        if isinstance(value, str | list | tuple | Mapping):
            self.charge(value)
            return list(value)
        if isinstance(value, Undefined):
            raise undefined(value.name)
        raise SpecError(f"A template cannot loop over {shown(value)}.")

    def bound(self, target: nodes.Node, value: object) -> dict[str, object]:
        """Names -> values for a target, which may be a tuple of names."""
        if isinstance(target, nodes.Name):
            return {target.name: value}
        if isinstance(target, nodes.Tuple):
            parts = self.iterable(value)
            if len(parts) != len(target.items):
                raise SpecError(f"{len(target.items)} names are set from {len(parts)} values.")
            return {name: v for item, part in zip(target.items, parts, strict=True) for name, v in self.bound(item, part).items()}
        raise SpecError("Templates can only set names.")

    def truth(self, node: nodes.Node, scope: Scope) -> bool:
        """Whether an expression holds."""
        value = self.value(node, scope)
        if isinstance(value, Undefined):
            raise undefined(value.name)
        return bool(value)

    def value(self, node: nodes.Node, scope: Scope) -> object:
        """The value of an expression; an undefined name is a value until something uses it."""
        self.budget.step()
        operands = _BINARY.get(type(node))  # type: ignore[arg-type]
        if operands is not None and isinstance(node, nodes.BinExpr):
            return self.budget.allocate(checked(operands(self._defined(node.left, scope), self._defined(node.right, scope))))
        if isinstance(node, nodes.UnaryExpr):
            return _UNARY[type(node)](self.truth(node.node, scope) if isinstance(node, nodes.Not) else self._defined(node.node, scope))
        method = _EXPRESSIONS.get(type(node))
        if method is None:
            raise SpecError(f"The template expression {type(node).__name__.lower()!r} is not available.")
        return method(self, node, scope)

    def _defined(self, node: nodes.Node, scope: Scope) -> object:
        value = self.value(node, scope)
        if isinstance(value, Undefined):
            raise undefined(value.name)
        return value

    def _name(self, node: nodes.Name, scope: Scope) -> object:
        found = scope.lookup(node.name)
        if isinstance(found, Undefined) and node.name in self.helpers:
            return self.helpers[node.name]
        return found

    def _constant(self, node: nodes.Const, scope: Scope) -> object:
        return checked(node.value)

    def _sequence(self, node: nodes.List | nodes.Tuple, scope: Scope) -> object:
        values = [self._defined(item, scope) for item in node.items]
        return self.charge(values if isinstance(node, nodes.List) else tuple(values))

    def _dictionary(self, node: nodes.Dict, scope: Scope) -> object:
        return self.charge({text_of(self._defined(pair.key, scope)): self._defined(pair.value, scope) for pair in node.items})

    def _conditional(self, node: nodes.CondExpr, scope: Scope) -> object:
        if self.truth(node.test, scope):
            return self.value(node.expr1, scope)
        return self.value(node.expr2, scope) if node.expr2 is not None else ""

    def _concatenation(self, node: nodes.Concat, scope: Scope) -> object:
        parts = [text_of(self._defined(part, scope)) for part in node.nodes]
        if sum(map(len, parts)) > MAX_TEXT:
            raise SpecError(f"The template produces more than {MAX_TEXT} characters.")
        return self.budget.allocate("".join(parts))

    def _comparison(self, node: nodes.Compare, scope: Scope) -> object:
        left = self.charge(self._defined(node.expr, scope))
        for operand in node.ops:
            right = self.charge(self._defined(operand.expr, scope))
            if not COMPARISONS[operand.op](left, right):
                return False
            left = right
        return True

    def _boolean(self, node: nodes.And | nodes.Or, scope: Scope) -> object:
        left = self._defined(node.left, scope)
        return self._defined(node.right, scope) if bool(left) is isinstance(node, nodes.And) else left

    def _arguments(self, node: nodes.Call | nodes.Filter | nodes.Test, scope: Scope) -> tuple[list[object], dict[str, object]]:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise SpecError("Starred arguments are not available in templates.")
        positional = [self.charge(self.value(argument, scope)) for argument in node.args]
        return positional, {str(pair.key): self.charge(self.value(pair.value, scope)) for pair in node.kwargs}

    def _filter(self, node: nodes.Filter, scope: Scope) -> object:
        return self.filtered(node, self.value(node.node, scope) if node.node is not None else "", scope)

    def filtered(self, node: nodes.Filter, value: object, scope: Scope) -> object:
        """A value after a filter."""
        if node.name not in FILTERS:
            raise SpecError(f"The template filter {node.name!r} is not available.", hint=nearest(node.name, FILTERS))
        if isinstance(value, Undefined) and node.name not in ("default", "d"):
            raise undefined(value.name)
        positional, named = self._arguments(node, scope)
        return self.budget.allocate(self.charge(FILTERS[node.name](self.charge(value), *positional, **named)))

    def _test(self, node: nodes.Test, scope: Scope) -> object:
        if node.name not in TESTS:
            raise SpecError(f"The template test {node.name!r} is not available.", hint=nearest(node.name, TESTS))
        positional, named = self._arguments(node, scope)
        return bool(TESTS[node.name](self.charge(self.value(node.node, scope)), *positional, **named))

    def _call(self, node: nodes.Call, scope: Scope) -> object:
        if isinstance(node.node, nodes.Getattr):
            owner = self._defined(node.node.node, scope)
            method = METHODS.get((type(owner), node.node.attr))
            if method is not None:
                positional, named = self._arguments(node, scope)
                return self.budget.allocate(self.charge(method(self.charge(owner), *positional, **named)))
        function = self._defined(node.node, scope)
        positional, named = self._arguments(node, scope)
        if isinstance(function, Macro):
            return self._call_macro(function, positional, named)
        if not isinstance(function, Helper):
            raise SpecError("Only macros, helpers and methods of text, lists and mappings can be called in a template.")
        if function.scoped:
            positional.insert(0, scope.names())
        self.line = node.lineno
        return self.budget.allocate(function.call(*positional, **named))

    def _call_macro(self, macro: Macro, positional: list[object], named: dict[str, object]) -> str:
        names = [argument.name for argument in macro.node.args]
        if len(positional) > len(names) or not set(named) <= set(names):
            raise SpecError(f"The macro {macro.node.name!r} takes {', '.join(names) or 'no arguments'}.")
        values = {**dict(zip(names, positional, strict=False)), **named}
        local = Scope(values, macro.scope)
        for name, default in zip(names[len(names) - len(macro.node.defaults) :], macro.node.defaults, strict=True):
            if name not in values:
                values[name] = self.value(default, local)
        for name in names:
            values.setdefault(name, Undefined(name))
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise SpecError(f"Macros call each other more than {MAX_CALLS} deep.")
        text = self.captured(macro.node.body, local)
        self.calls -= 1
        return text

    def _attribute(self, node: nodes.Getattr, scope: Scope) -> object:
        return member(self._defined(node.node, scope), node.attr)

    def _item(self, node: nodes.Getitem, scope: Scope) -> object:
        owner = self._defined(node.node, scope)
        if isinstance(node.arg, nodes.Slice):
            if not isinstance(owner, str | list | tuple):
                raise SpecError("Only text and lists can be sliced.")
            parts = [None if part is None else self._defined(part, scope) for part in (node.arg.start, node.arg.stop, node.arg.step)]
            start, stop, step = (part if isinstance(part, int) else None for part in parts)
            return self.budget.allocate(owner[start:stop:step])
        return member(owner, self._defined(node.arg, scope))


_EXPRESSIONS: dict[type[nodes.Node], Callable[..., object]] = {
    nodes.Name: ExpressionEvaluator._name,
    nodes.Const: ExpressionEvaluator._constant,
    nodes.TemplateData: lambda self, node, scope: node.data,
    nodes.List: ExpressionEvaluator._sequence,
    nodes.Tuple: ExpressionEvaluator._sequence,
    nodes.Dict: ExpressionEvaluator._dictionary,
    nodes.CondExpr: ExpressionEvaluator._conditional,
    nodes.Concat: ExpressionEvaluator._concatenation,
    nodes.Compare: ExpressionEvaluator._comparison,
    nodes.And: ExpressionEvaluator._boolean,
    nodes.Or: ExpressionEvaluator._boolean,
    nodes.Filter: ExpressionEvaluator._filter,
    nodes.Test: ExpressionEvaluator._test,
    nodes.Call: ExpressionEvaluator._call,
    nodes.Getattr: ExpressionEvaluator._attribute,
    nodes.Getitem: ExpressionEvaluator._item,
}
