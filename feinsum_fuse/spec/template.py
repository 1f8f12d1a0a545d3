"""Templates: Jinja's language, parsed by Jinja and evaluated here, so that every operation is counted and every output has a place.

Jinja's own sandbox stops class walks but bounds neither time nor memory; walking its syntax tree with a budget bounds both.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser

from ..errors import Location, SpecError
from .expressions import bounded_range, checked, modulo, nearest, power
from .source import Segment, Source
from .template_functions import (
    COMPARISONS,
    FILTERS,
    MAX_TEXT,
    METHODS,
    TESTS,
    Namespace,
    Undefined,
    formatted,
    member,
    repeat,
    text_of,
    weighed,
)

MAX_STEPS = 100_000
MAX_ALLOCATED = 16_000_000
MAX_CALLS = 40


class _Assert(Extension):
    """``{% assert condition, "message" %}``."""

    tags = {"assert"}  # noqa: RUF012 -- Jinja's own interface

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        condition = parser.parse_expression()
        message: nodes.Expr = nodes.Const(f"Assertion failed on line {line}.", lineno=line)
        if parser.stream.skip_if("comma"):
            message = parser.parse_expression()
        call = nodes.Call(nodes.Name("assert", "load", lineno=line), [condition, message], [], None, None, lineno=line)
        return nodes.ExprStmt(call, lineno=line)


_ENVIRONMENT = Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols", _Assert], cache_size=0, autoescape=False)


@dataclass
class Budget:
    """What the rendering of one user's call may still cost, over all its files."""

    steps: int = MAX_STEPS
    characters: int = MAX_ALLOCATED

    def step(self) -> None:
        """Count one operation."""
        self.steps -= 1
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


class RenderedText(str):
    """Text that another file was rendered to, with its places."""

    source: Source


@dataclass(frozen=True)
class Helper:
    """A function that templates may call; ``scoped`` ones receive the visible variables first."""

    call: Callable[..., object]
    scoped: bool = False


@dataclass(frozen=True)
class _Macro:
    node: nodes.Macro
    scope: Scope


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


@dataclass
class _Output:
    """Pieces of text, with the place of each."""

    pieces: list[str] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, file: str, line: int, column: int, verbatim: bool) -> None:
        if isinstance(text, RenderedText):
            self.segments += [Segment(s.start + self.length, s.file, s.line, s.column, s.verbatim) for s in text.source.segments]
        else:
            self.segments.append(Segment(self.length, file, line, column, verbatim))
        self.pieces.append(text)
        self.length += len(text)
        if self.length > MAX_TEXT:
            raise SpecError(f"The rendered text has more than {MAX_TEXT} characters.")


def _data_offsets(text: str) -> list[int]:
    """The offset of each piece of plain text that Jinja's lexer finds, in order."""
    offsets, cursor = [], 0
    for _, kind, value in _ENVIRONMENT.lex(text):
        found = cursor
        while not text.startswith(value, found) and text[found : found + 1].isspace():
            found += 1
        if kind == "data" and value:
            offsets.append(found)
        cursor = found + len(value)
    return offsets


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


class Renderer:
    """Renders one file; the budget is shared by all files of a load."""

    def __init__(self, file: str, text: str, helpers: Mapping[str, Helper], budget: Budget) -> None:
        self.file = file
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.helpers = dict(helpers)
        self.budget = budget
        self.calls = 0
        self.line = 1
        self.places: dict[int, tuple[int, int]] = {}

    def render(self, variables: Mapping[str, object]) -> Source:
        """The text with every tag and expression replaced, and where each piece came from."""
        if not any(mark in self.text for mark in ("{{", "{%", "{#")):
            return Source(self.file, self.text, (Segment(0, self.file, 1, 1, True),))
        output = _Output()
        try:
            tree = _ENVIRONMENT.parse(self.text)
            self._place(tree)
            self.body(tree.body, Scope(dict(variables)), output)
        except TemplateSyntaxError as error:
            raise SpecError(f"The template cannot be read: {error.message}", location=self._location(error.lineno)) from None
        except SpecError as error:
            raise SpecError(error.message, location=error.location or self._location(self.line, error.message), hint=error.hint) from None
        except (_Break, _Continue, RecursionError, MemoryError, TemplateError):
            raise SpecError("The template is nested too deeply.", location=self._location(self.line)) from None
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise SpecError(f"The template cannot be evaluated: {error}.", location=self._location(self.line)) from None
        return Source(self.file, "".join(output.pieces), tuple(output.segments))

    def _place(self, tree: nodes.Template) -> None:
        line_starts = [0]
        for index, character in enumerate(self.text):
            if character == "\n":
                line_starts.append(index + 1)
        line = 0
        for node, offset in zip(tree.find_all(nodes.TemplateData), _data_offsets(self.text), strict=False):
            while line + 1 < len(line_starts) and line_starts[line + 1] <= offset:
                line += 1
            self.places[id(node)] = (line + 1, offset - line_starts[line] + 1)
        self.tree = tree

    def _location(self, line: int, message: str = "") -> Location:
        text = [*self.text.split("\n"), ""][min(line, self.text.count("\n") + 1) - 1]
        quoted = message.split("'")
        at = text.find(quoted[1]) if len(quoted) > 2 else -1
        if at < 0:
            at = max(0, min((p for p in (text.find("{{"), text.find("{%")) if p >= 0), default=0))
        return Location(self.file, line, at + 1)

    def body(self, statements: Iterable[nodes.Node], scope: Scope, output: _Output) -> None:
        """Render statements in order."""
        for statement in statements:
            self.budget.step()
            self.line = statement.lineno
            method = _STATEMENTS.get(type(statement))
            if method is None:
                raise SpecError(f"The template statement {type(statement).__name__.lower()!r} is not available.")
            method(self, statement, scope, output)

    def _output(self, node: nodes.Output, scope: Scope, output: _Output) -> None:
        end = (node.lineno, 1)
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                line, column = self.places.get(id(part), (part.lineno, 1))
                output.add(part.data, self.file, line, column, True)
                tail = part.data.rpartition("\n")[2]
                end = (line + part.data.count("\n"), len(tail) + (column if tail == part.data else 1))
                continue
            self.line = part.lineno
            text = text_of(self.value(part, scope))
            self.budget.allocate(text)
            column = end[1] if end[0] == part.lineno else 1
            output.add(text, self.file, part.lineno, column, False)

    def _for(self, node: nodes.For, scope: Scope, output: _Output) -> None:
        if node.recursive:
            raise SpecError("Recursive loops are not available in templates.")
        values = self._iterable(self.value(node.iter, scope))
        if node.test is not None:
            values = [v for v in values if self.value(node.test, Scope(self._bound(node.target, v), scope))]
        for index, value in enumerate(values):
            loop = {
                "index": index + 1, "index0": index, "first": index == 0, "last": index + 1 == len(values), "length": len(values),
                "revindex": len(values) - index, "revindex0": len(values) - index - 1,
                "previtem": values[index - 1] if index else Undefined("loop.previtem"),
                "nextitem": values[index + 1] if index + 1 < len(values) else Undefined("loop.nextitem"),
            }  # fmt: skip
            self.budget.step()
            try:
                self.body(node.body, Scope({**self._bound(node.target, value), "loop": loop}, scope), output)
            except _Break:
                break
            except _Continue:
                continue
        if not values:
            self.body(node.else_, scope, output)

    def _iterable(self, value: object) -> list[object]:
        if isinstance(value, str | list | tuple | Mapping):
            return list(value)
        if isinstance(value, Undefined):
            raise SpecError(f"The template variable {value.name!r} is not defined.", hint=self._hint(value.name))
        raise SpecError(f"A template cannot loop over {text_of(value)!r}.")

    def _bound(self, target: nodes.Node, value: object) -> dict[str, object]:
        if isinstance(target, nodes.Name):
            return {target.name: value}
        if isinstance(target, nodes.Tuple):
            parts = self._iterable(value)
            if len(parts) != len(target.items):
                raise SpecError(f"{len(target.items)} names are set from {len(parts)} values.")
            return {name: v for item, part in zip(target.items, parts, strict=True) for name, v in self._bound(item, part).items()}
        raise SpecError("Templates can only set names.")

    def _if(self, node: nodes.If, scope: Scope, output: _Output) -> None:
        for branch in (node, *node.elif_):
            if self.truth(branch.test, scope):
                self.body(branch.body, scope, output)
                return
        self.body(node.else_, scope, output)

    def _assign(self, node: nodes.Assign, scope: Scope, output: _Output) -> None:
        value = self.value(node.node, scope)
        if isinstance(node.target, nodes.NSRef):
            space = scope.lookup(node.target.name)
            if not isinstance(space, Namespace):
                raise SpecError(f"{node.target.name!r} is not a namespace.")
            space.attributes[node.target.attr] = value
        else:
            scope.variables.update(self._bound(node.target, value))

    def _captured(self, statements: Iterable[nodes.Node], scope: Scope) -> str:
        inner = _Output()
        self.body(statements, scope, inner)
        text = "".join(inner.pieces)
        self.budget.allocate(text)
        return text

    def _assign_block(self, node: nodes.AssignBlock, scope: Scope, output: _Output) -> None:
        text: object = self._captured(node.body, Scope({}, scope))
        if node.filter is not None:
            text = self._filtered(node.filter, text, scope)
        scope.variables.update(self._bound(node.target, text))

    def _filter_block(self, node: nodes.FilterBlock, scope: Scope, output: _Output) -> None:
        text = text_of(self._filtered(node.filter, self._captured(node.body, Scope({}, scope)), scope))
        output.add(text, self.file, node.lineno, 1, False)

    def _macro(self, node: nodes.Macro, scope: Scope, output: _Output) -> None:
        scope.variables[node.name] = _Macro(node, scope)

    def _with(self, node: nodes.With, scope: Scope, output: _Output) -> None:
        names: dict[str, object] = {}
        for target, value in zip(node.targets, node.values, strict=True):
            names |= self._bound(target, self.value(value, scope))
        self.body(node.body, Scope(names, scope), output)

    def _expression(self, node: nodes.ExprStmt, scope: Scope, output: _Output) -> None:
        self.value(node.node, scope)

    def _include(self, node: nodes.Include, scope: Scope, output: _Output) -> None:
        text = self.helpers["include_text"].call(scope.names(), self.value(node.template, scope))
        output.add(text_of(text), self.file, node.lineno, 1, False)

    def _nested(self, node: nodes.Block | nodes.Scope, scope: Scope, output: _Output) -> None:
        self.body(node.body, Scope({}, scope), output)

    def _break(self, node: nodes.Node, scope: Scope, output: _Output) -> None:
        raise _Break

    def _continue(self, node: nodes.Node, scope: Scope, output: _Output) -> None:
        raise _Continue

    def truth(self, node: nodes.Node, scope: Scope) -> bool:
        """Whether an expression holds."""
        value = self.value(node, scope)
        if isinstance(value, Undefined):
            raise SpecError(f"The template variable {value.name!r} is not defined.", hint=self._hint(value.name))
        return bool(value)

    def _hint(self, name: str) -> str:
        return f"Give it a value, or write {name} | default(...)."

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
            raise SpecError(f"The template variable {value.name!r} is not defined.", hint=self._hint(value.name))
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
        return weighed(values if isinstance(node, nodes.List) else tuple(values))

    def _dictionary(self, node: nodes.Dict, scope: Scope) -> object:
        return weighed({text_of(self._defined(pair.key, scope)): self._defined(pair.value, scope) for pair in node.items})

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
        left = weighed(self._defined(node.expr, scope))
        for operand in node.ops:
            right = weighed(self._defined(operand.expr, scope))
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
        positional = [weighed(self.value(argument, scope)) for argument in node.args]
        return positional, {str(pair.key): weighed(self.value(pair.value, scope)) for pair in node.kwargs}

    def _filter(self, node: nodes.Filter, scope: Scope) -> object:
        return self._filtered(node, self.value(node.node, scope) if node.node is not None else "", scope)

    def _filtered(self, node: nodes.Filter, value: object, scope: Scope) -> object:
        if node.name not in FILTERS:
            raise SpecError(f"The template filter {node.name!r} is not available.", hint=nearest(node.name, FILTERS))
        if isinstance(value, Undefined) and node.name not in ("default", "d"):
            raise SpecError(f"The template variable {value.name!r} is not defined.", hint=self._hint(value.name))
        positional, named = self._arguments(node, scope)
        return self.budget.allocate(weighed(FILTERS[node.name](weighed(value), *positional, **named)))

    def _test(self, node: nodes.Test, scope: Scope) -> object:
        if node.name not in TESTS:
            raise SpecError(f"The template test {node.name!r} is not available.", hint=nearest(node.name, TESTS))
        positional, named = self._arguments(node, scope)
        return bool(TESTS[node.name](weighed(self.value(node.node, scope)), *positional, **named))

    def _call(self, node: nodes.Call, scope: Scope) -> object:
        if isinstance(node.node, nodes.Getattr):
            owner = self._defined(node.node.node, scope)
            method = METHODS.get((type(owner), node.node.attr))
            if method is not None:
                positional, named = self._arguments(node, scope)
                return self.budget.allocate(weighed(method(weighed(owner), *positional, **named)))
        function = self._defined(node.node, scope)
        positional, named = self._arguments(node, scope)
        if isinstance(function, _Macro):
            return self._call_macro(function, positional, named)
        if not isinstance(function, Helper):
            raise SpecError("Only macros, helpers and methods of text, lists and mappings can be called in a template.")
        if function.scoped:
            positional.insert(0, scope.names())
        self.line = node.lineno
        return self.budget.allocate(function.call(*positional, **named))

    def _call_macro(self, macro: _Macro, positional: list[object], named: dict[str, object]) -> str:
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
        text = self._captured(macro.node.body, local)
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


_STATEMENTS: dict[type[nodes.Node], Callable[..., None]] = {
    nodes.Output: Renderer._output,
    nodes.For: Renderer._for,
    nodes.If: Renderer._if,
    nodes.Assign: Renderer._assign,
    nodes.AssignBlock: Renderer._assign_block,
    nodes.FilterBlock: Renderer._filter_block,
    nodes.Macro: Renderer._macro,
    nodes.With: Renderer._with,
    nodes.ExprStmt: Renderer._expression,
    nodes.Include: Renderer._include,
    nodes.Block: Renderer._nested,
    nodes.Scope: Renderer._nested,
    nodes.Break: Renderer._break,
    nodes.Continue: Renderer._continue,
}
_EXPRESSIONS: dict[type[nodes.Node], Callable[..., object]] = {
    nodes.Name: Renderer._name,
    nodes.Const: Renderer._constant,
    nodes.TemplateData: lambda self, node, scope: node.data,
    nodes.List: Renderer._sequence,
    nodes.Tuple: Renderer._sequence,
    nodes.Dict: Renderer._dictionary,
    nodes.CondExpr: Renderer._conditional,
    nodes.Concat: Renderer._concatenation,
    nodes.Compare: Renderer._comparison,
    nodes.And: Renderer._boolean,
    nodes.Or: Renderer._boolean,
    nodes.Filter: Renderer._filter,
    nodes.Test: Renderer._test,
    nodes.Call: Renderer._call,
    nodes.Getattr: Renderer._attribute,
    nodes.Getitem: Renderer._item,
}


def _assertion(condition: object, message: object) -> str:
    if isinstance(condition, Undefined) or not condition:
        raise SpecError(text_of(message))
    return ""


BASE_HELPERS: dict[str, Helper] = {
    "range": Helper(bounded_range),
    "dict": Helper(lambda **pairs: dict(pairs)),
    "namespace": Helper(lambda **pairs: Namespace(**pairs)),
    "assert": Helper(_assertion),
}


def visible_data(names: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The variables that an included file inherits: data only, no names with a leading underscore."""
    for name, value in names.items():
        if not name.startswith("_") and isinstance(value, str | int | float | list | tuple | dict | None):
            yield name, value
