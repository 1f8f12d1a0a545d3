"""Templates: Jinja's language in Jinja's sandbox, with every operation counted and every output placed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from jinja2 import Template, nodes, pass_context
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context

from ...errors import Location, SpecError
from ..language.caps import MAX_TEXT, clipped, shown
from . import instrumentation as counted
from .instrumentation import Instrumentation, PlacedError
from .placed_text import PlacedPiece, PlacedText
from .sandbox import AbsentError, Helper, RenderingBudget, Sandbox, absent
from .vocabulary import text_of

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


_EXTENSIONS = ("jinja2.ext.do", "jinja2.ext.loopcontrols", _Assert)


class RenderedText(str):
    """Text that another file was rendered to, with its places."""

    source: PlacedText


@dataclass
class _Output:
    """Pieces of text, with the place of each."""

    pieces: list[str] = field(default_factory=list)
    segments: list[PlacedPiece] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, segments: tuple[PlacedPiece, ...]) -> None:
        """Append text whose segments count from its own beginning."""
        self.segments += [PlacedPiece(s.start + self.length, s.file, s.line, s.column, s.verbatim) for s in segments]
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


class Renderer:
    """Renders one file; the budget is shared by all files of a load."""

    def __init__(self, file: str, text: str, helpers: Mapping[str, Helper], budget: RenderingBudget) -> None:
        self.file = file
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.budget = budget
        self.sandbox = Sandbox(helpers, budget, _EXTENSIONS)
        counting: dict[str, Callable[..., object]] = {
            counted.STEPS: budget.spend,
            counted.ELEMENTS: self._elements,
            counted.DATA: budget.charge,
            counted.BUILT: budget.charge,
            counted.PART: self._part,
            counted.JOINED: self._joined,
            counted.VERBATIM: self._verbatim,
            counted.PRINTED: self._printed,
        }
        self.sandbox.filters |= {name: _with_context(function) for name, function in counting.items()}
        self.texts: list[tuple[str, int, int]] = []
        self.segments: tuple[PlacedPiece, ...] = ()

    def render(self, variables: Mapping[str, object]) -> PlacedText:
        """The text with every tag and expression replaced, and where each piece came from."""
        if not any(mark in self.text for mark in ("{{", "{%", "{#")):
            return PlacedText(self.file, self.text, (PlacedPiece(0, self.file, 1, 1, True),))
        _check_tags(self.file, self.text)
        template = self._compiled()
        output = _Output()
        try:
            for piece in template.root_render_func(template.new_context(dict(variables))):
                output.add(piece, self.segments)
        except SpecError as error:
            where = error.location or self._location(_line(template, error), error.message)
            raise SpecError(clipped(error.message), location=where, hint=clipped(error.hint)) from None
        except AbsentError as error:
            raise self._error(absent(str(error)), _line(template, error)) from None
        except (RecursionError, MemoryError) as error:
            raise self._error(SpecError("The template is nested too deeply."), _line(template, error)) from None
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            message = clipped(f"The template cannot be evaluated: {str(error).removesuffix('.')}.")
            raise SpecError(message, location=self._location(_line(template, error))) from None
        return PlacedText(self.file, "".join(output.pieces), tuple(output.segments))

    def _compiled(self) -> Template:
        """The template as Jinja compiles it, with the counting put in."""
        try:
            tree = self.sandbox.parse(self.text)
            transformer = Instrumentation(dict(self._places(tree)))
            transformer.visit(tree)
            self.texts = transformer.texts
            code = self.sandbox.compile(tree, filename="<template>")
            return Template.from_code(self.sandbox, code, self.sandbox.globals)
        except TemplateSyntaxError as error:
            message = clipped(f"The template cannot be read: {error.message}")
            raise SpecError(message, location=self._location(error.lineno)) from None
        except PlacedError as error:
            raise self._error(error, error.line) from None
        except (RecursionError, MemoryError):
            raise self._error(SpecError("The template is nested too deeply."), 1) from None
        except (SyntaxError, ValueError) as error:  # Python's: too many blocks or brackets in each other, or digits in a number
            message = f"The template cannot be read: {getattr(error, 'msg', error)}."
            raise SpecError(clipped(message), location=self._location(1)) from None

    def _error(self, error: SpecError, line: int) -> SpecError:
        where = self._location(line, error.message)
        return SpecError(clipped(error.message), location=where, hint=clipped(error.hint))

    def _places(self, tree: nodes.Template) -> Iterator[tuple[int, tuple[int, int]]]:
        """The identity of each piece of plain text, and the line and column where Jinja's lexer finds it."""
        starts = [0, *(index + 1 for index, character in enumerate(self.text) if character == "\n")]
        line = 0
        for node, offset in zip(tree.find_all(nodes.TemplateData), self._offsets(), strict=False):
            while line + 1 < len(starts) and starts[line + 1] <= offset:
                line += 1
            yield id(node), (line + 1, offset - starts[line] + 1)

    def _offsets(self) -> Iterator[int]:
        cursor = 0
        for _, kind, value in self.sandbox.lex(self.text):
            found = cursor
            while not self.text.startswith(value, found) and self.text[found : found + 1].isspace():
                found += 1
            if kind == "data" and value:
                yield found
            cursor = found + len(value)

    def _location(self, line: int, message: str = "") -> Location:
        text = [*self.text.split("\n"), ""][min(line, self.text.count("\n") + 1) - 1]
        quoted = message.split("'")
        at = text.find(quoted[1]) if len(quoted) > 2 else -1
        if at < 0:
            at = max(0, min((p for p in (text.find("{{"), text.find("{%")) if p >= 0), default=0))
        return Location(self.file, line, at + 1)

    def _verbatim(self, index: int) -> str:
        """A piece of plain text."""
        text, line, column = self.texts[index]
        self.budget.allocate(text)
        self.segments = (PlacedPiece(0, self.file, line, column, True),)
        return text

    def _printed(self, value: object, line: int, column: int) -> str:
        """What a value prints as; what is printed last is what the template puts out next."""
        text = text_of(value)
        self.budget.spend(1)
        self.budget.allocate(text)
        self.segments = value.source.segments if isinstance(value, RenderedText) else (PlacedPiece(0, self.file, line, column, False),)
        return text

    def _elements(self, values: object, steps: int) -> list[object]:
        """The elements of what a loop runs over; its condition takes ``steps`` for each."""
        self.budget.charge(values)
        if not isinstance(values, str | list | tuple | Mapping):
            raise SpecError(f"A template cannot loop over {shown(values)}.")
        self.budget.spend(steps * len(values))
        return list(values)

    def _joined(self, values: list[object]) -> str:
        """The texts of values, one behind the other."""
        self.budget.charge(values)
        return str(self.budget.allocate("".join(map(text_of, values))))

    def _part(self, values: object, start: object, stop: object, step: object) -> object:
        self.budget.charge(values)
        if not isinstance(values, str | list | tuple):
            raise SpecError("Only text and lists can be sliced.")
        first, last, stride = (part if isinstance(part, int) else None for part in (start, stop, step))
        return self.budget.allocate(values[first:last:stride])


def _with_context(function: Callable[..., object]) -> Callable[..., object]:
    """The function as a filter that needs the context, which is what keeps Jinja from calling it while it compiles."""

    @pass_context
    def call(context: Context, *args: object) -> object:
        return function(*args)

    return call


def _line(template: Template, error: BaseException) -> int:
    """The template's line in which an error rose."""
    line = 1
    trace: TracebackType | None = error.__traceback__
    names = template.root_render_func.__globals__
    while trace is not None:
        if trace.tb_frame.f_globals is names:
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line


def visible_data(names: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The variables that an included file inherits: data only, no names with a leading underscore."""
    for name, value in names.items():
        if not name.startswith("_") and isinstance(value, str | int | float | list | tuple | dict | None):
            yield name, value
