"""Templates: Jinja's language, parsed by Jinja and evaluated here, so that every operation is counted and every output has a place.

Jinja's own sandbox stops class walks but bounds neither time nor memory; walking its syntax tree with a budget bounds both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser

from ..errors import Location, SpecError
from .expressions import bounded_range
from .limits import MAX_TEXT, clipped
from .source import Segment, Source
from .template_expressions import Budget, ExpressionEvaluator, Helper, Macro, Scope
from .template_functions import Namespace, Undefined, text_of

MAX_TAGS = 4_000
MAX_TAG_TEXT = 60_000


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


class RenderedText(str):
    """Text that another file was rendered to, with its places."""

    source: Source


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


def _check_tags(file: str, text: str) -> None:
    """Refuse more tags, or longer ones, than Jinja reads quickly."""
    count, length, end = 0, 0, 0
    while (start := text.find("{", end)) >= 0:
        end = start + 1
        if text[end : end + 1] in ("{", "%"):
            closing = text.find("}", end)
            end = len(text) if closing < 0 else closing
            count += 1
            length += end - start
    if count > MAX_TAGS or length > MAX_TAG_TEXT:
        message = f"The templates of the file have more than {MAX_TAGS} tags, or more than {MAX_TAG_TEXT} characters in tags."
        raise SpecError(message, location=Location(file))


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


class Renderer(ExpressionEvaluator):
    """Renders one file; the budget is shared by all files of a load."""

    def __init__(self, file: str, text: str, helpers: Mapping[str, Helper], budget: Budget) -> None:
        super().__init__(helpers, budget)
        self.file = file
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.places: dict[int, tuple[int, int]] = {}

    def render(self, variables: Mapping[str, object]) -> Source:
        """The text with every tag and expression replaced, and where each piece came from."""
        if not any(mark in self.text for mark in ("{{", "{%", "{#")):
            return Source(self.file, self.text, (Segment(0, self.file, 1, 1, True),))
        output = _Output()
        _check_tags(self.file, self.text)
        try:
            tree = _ENVIRONMENT.parse(self.text)
            self._place(tree)
            self.body(tree.body, Scope(dict(variables)), output)
        except TemplateSyntaxError as error:
            raise SpecError(clipped(f"The template cannot be read: {error.message}"), location=self._location(error.lineno)) from None
        except SpecError as error:
            where = error.location or self._location(self.line, error.message)
            raise SpecError(clipped(error.message), location=where, hint=clipped(error.hint)) from None
        except (_Break, _Continue, RecursionError, MemoryError, TemplateError):
            raise SpecError("The template is nested too deeply.", location=self._location(self.line)) from None
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise SpecError(clipped(f"The template cannot be evaluated: {error}."), location=self._location(self.line)) from None
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
        values = self.iterable(self.value(node.iter, scope))
        if node.test is not None:
            values = [v for v in values if self.value(node.test, Scope(self.bound(node.target, v), scope))]
        for index, value in enumerate(values):
            loop = {
                "index": index + 1, "index0": index, "first": index == 0, "last": index + 1 == len(values), "length": len(values),
                "revindex": len(values) - index, "revindex0": len(values) - index - 1,
                "previtem": values[index - 1] if index else Undefined("loop.previtem"),
                "nextitem": values[index + 1] if index + 1 < len(values) else Undefined("loop.nextitem"),
            }  # fmt: skip
            self.budget.step()
            try:
                self.body(node.body, Scope({**self.bound(node.target, value), "loop": loop}, scope), output)
            except _Break:
                break
            except _Continue:
                continue
        if not values:
            self.body(node.else_, scope, output)

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
            scope.variables.update(self.bound(node.target, value))

    def captured(self, statements: Iterable[nodes.Node], scope: Scope) -> str:
        """The text that statements render to."""
        inner = _Output()
        self.body(statements, scope, inner)
        text = "".join(inner.pieces)
        self.budget.allocate(text)
        return text

    def _assign_block(self, node: nodes.AssignBlock, scope: Scope, output: _Output) -> None:
        text: object = self.captured(node.body, Scope({}, scope))
        if node.filter is not None:
            text = self.filtered(node.filter, text, scope)
        scope.variables.update(self.bound(node.target, text))

    def _filter_block(self, node: nodes.FilterBlock, scope: Scope, output: _Output) -> None:
        text = text_of(self.filtered(node.filter, self.captured(node.body, Scope({}, scope)), scope))
        output.add(text, self.file, node.lineno, 1, False)

    def _macro(self, node: nodes.Macro, scope: Scope, output: _Output) -> None:
        scope.variables[node.name] = Macro(node, scope)

    def _with(self, node: nodes.With, scope: Scope, output: _Output) -> None:
        names: dict[str, object] = {}
        for target, value in zip(node.targets, node.values, strict=True):
            names |= self.bound(target, self.value(value, scope))
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


def _assertion(condition: object, message: object) -> str:
    if isinstance(condition, Undefined) or not condition:
        raise SpecError(text_of(message))
    return ""


def _no_environment(*arguments: object) -> str:
    raise SpecError("setenv is not available: a file changes nothing outside itself.", hint="Pass variables={...} instead.")


BASE_HELPERS: dict[str, Helper] = {
    "range": Helper(bounded_range),
    "dict": Helper(lambda **pairs: dict(pairs)),
    "namespace": Helper(lambda **pairs: Namespace(**pairs)),
    "assert": Helper(_assertion),
    "setenv": Helper(_no_environment),
}


def visible_data(names: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The variables that an included file inherits: data only, no names with a leading underscore."""
    for name, value in names.items():
        if not name.startswith("_") and isinstance(value, str | int | float | list | tuple | dict | None):
            yield name, value
