"""Statements of OpenCL C as values: one kernel, read from the text that loopy writes, and written back as a person would."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .c_expression import Binary, Choice, Expression, Number, Reader, UnreadableError, parsed, written
from .c_integer import Scope, integer

WIDTH = 140
"""Longer lines of arguments are broken."""


@dataclass(frozen=True, slots=True)
class Remark:
    """``// text``."""

    text: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """``type name[sizes] = value;``, with ``sizes`` as they are written; without a value where that is ``None``."""

    type: str
    name: str
    sizes: str = ""
    value: Expression | None = None

    @property
    def is_constant(self) -> bool:
        """Whether this is a scalar that keeps its value."""
        return self.value is not None and not self.sizes and "const" in self.type.split()


@dataclass(frozen=True, slots=True)
class Assignment:
    """``target operator value;``, the operator such as ``=`` or ``+=``."""

    target: Expression
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Evaluation:
    """``value;``: a call, for what it does."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Barrier:
    """``barrier(fences);``."""

    fences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """``for (type name = first; name <= last; ++name) body``, with a remark above it."""

    type: str
    name: str
    first: Expression
    last: Expression
    body: tuple[Statement, ...]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """``if (condition) body else otherwise``."""

    condition: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


Statement = Remark | Declaration | Assignment | Evaluation | Barrier | Loop | Branch

_FOR = re.compile(r"for \((\w+) (\w+) = (.+?); \2 (<=?) (.+); \+\+\2\)")
_IF = re.compile(r"if \((.+)\)")
_BARRIER = re.compile(r"barrier\(([\w |]+)\)(?: /\*.*\*/)?;")
_DECLARED = re.compile(r"((?:__\w+ )?[A-Za-z_]\w*(?: const)?) (\w+)((?:\[[^\]]*\])*)(?: = (.+))?;")
_ARGUMENT = re.compile(r"((?:__\w+ )?\w+)(?: const)?( \*(?:__restrict__ )?| )(\w+)")
_OPERATORS = frozenset(("=", "+=", "-=", "*=", "/="))
_HEAD = re.compile(r"(.*\b\w+\()([^()]*)\)")


@dataclass(frozen=True)
class Kernel:
    """One kernel: the comments above it, its head up to its arguments, these, and its body."""

    above: str
    head: str
    arguments: tuple[str, ...]
    body: tuple[Statement, ...]
    below: str = ""

    @property
    def types(self) -> dict[str, str]:
        """The element types of the arrays in global and local memory."""
        found: dict[str, str] = {}
        for text in self.arguments:
            argument = _ARGUMENT.fullmatch(text)
            if argument and "*" in argument[2]:
                found[argument[3]] = argument[1].split()[-1]
        for statement in self.body:
            if isinstance(statement, Declaration) and statement.type.startswith("__local "):
                found[statement.name] = statement.type.split()[1]
        return found

    @property
    def scalars(self) -> Iterator[tuple[str, str]]:
        """Type and name of each argument that is a number."""
        for text in self.arguments:
            argument = _ARGUMENT.fullmatch(text)
            if argument and "*" not in argument[2]:
                yield argument[1], argument[3]

    def replace(self, body: tuple[Statement, ...]) -> Kernel:
        """The kernel with another body."""
        return replace(self, body=body)


def read(text: str) -> Kernel:
    """The kernel that a text is; :class:`UnreadableError` for C that loopy does not write."""
    above, opening, rest = text.partition("\n{\n")
    inside, closing, below = rest.rpartition("\n}\n")
    remarks, newline, head = re.sub(r"(?<=,)\n +", " ", re.sub(r"\(\n +", "(", above)).rpartition("\n")
    found = _HEAD.fullmatch(head)
    if not opening or not closing or below.strip() or found is None:
        raise UnreadableError("this is no kernel")
    body = _Lines([line.strip() for line in inside.splitlines() if line.strip()]).block("")
    return Kernel(remarks + newline, found[1], tuple(found[2].split(", ")), body, below)


class _Lines:
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.position = 0

    @property
    def next(self) -> str:
        return self.lines[self.position] if self.position < len(self.lines) else ""

    def take(self) -> str:
        self.position += 1
        return self.lines[self.position - 1]

    def block(self, end: str) -> tuple[Statement, ...]:
        body: list[Statement] = []
        while self.next and self.next != end:
            body.extend(self.statement())
        if self.next != end:
            raise UnreadableError("a block does not end")
        if end:
            self.take()
        return tuple(body)

    def statement(self) -> tuple[Statement, ...]:
        """One statement with the remarks before it; a block that stands alone is under a condition that always holds."""
        line = self.take() if self.next else ""
        if line.startswith("//"):
            first, *rest = self.statement() if _FOR.fullmatch(self.next) else (Remark(line[2:].strip()),)
            return (replace(first, remark=line[2:].strip()) if isinstance(first, Loop) else first, *rest)
        if line == "{":
            return (Branch(Number("1"), self.block("}")),)
        if found := _FOR.fullmatch(line):
            last = parsed(found[5])
            return (Loop(found[1], found[2], parsed(found[3]), last if found[4] == "<=" else shifted(last, -1), self.inner()),)
        if found := _IF.fullmatch(line):
            body = self.inner()
            if self.next == "else":
                self.take()
                return (Branch(parsed(found[1]), body, self.inner()),)
            if self.next.startswith("else "):
                raise UnreadableError("an else that stands before its statement")
            return (Branch(parsed(found[1]), body),)
        if found := _BARRIER.fullmatch(line):
            return (Barrier(tuple(found[1].split(" | "))),)
        if (found := _DECLARED.fullmatch(line)) and found[1] not in {"return", "else", "goto"}:
            return (Declaration(found[1], found[2], found[3], parsed(found[4]) if found[4] else None),)
        if line.endswith(";"):
            return (_simple(line[:-1]),)
        raise UnreadableError(f"{line!r} is not read as C")

    def inner(self) -> tuple[Statement, ...]:
        """What a loop or a condition stands before, with the remarks in front of it."""
        body: list[Statement] = []
        while all(isinstance(statement, Remark) for statement in body):
            if self.next == "{":
                self.take()
                return (*body, *self.block("}"))
            body.extend(self.statement())
        return tuple(body)


def _simple(text: str) -> Assignment | Evaluation:
    reader = Reader(text)
    target = reader.expression()
    if not reader.next:
        return Evaluation(target)
    operator = reader.take()
    value = reader.expression()
    if operator not in _OPERATORS or reader.next:
        raise UnreadableError(f"{text!r} is not read as C")
    return Assignment(target, operator, value)


def text_of(kernel: Kernel) -> str:
    """The kernel's text."""
    arguments = ", ".join(kernel.arguments)
    if len(kernel.head) + len(arguments) >= WIDTH:
        arguments = "\n    " + ",\n    ".join(kernel.arguments)
    declared = next((i for i, s in enumerate(kernel.body) if not isinstance(s, Declaration)), len(kernel.body))
    blank = [""] if 0 < declared < len(kernel.body) else []
    lines = [*_lines(kernel.body[:declared], "  "), *blank, *_lines(kernel.body[declared:], "  ")]
    return f"{kernel.above}{kernel.head}{arguments})\n{{\n" + "".join(f"{line}\n" for line in lines) + "}\n" + kernel.below


def _lines(body: Sequence[Statement], indent: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case Remark(text):
                yield f"{indent}// {text}"
            case Declaration(kind, name, sizes, value):
                yield f"{indent}{kind} {name}{sizes}" + (f" = {written(value)};" if value is not None else ";")
            case Assignment(target, operator, value):
                yield f"{indent}{written(target)} {operator} {written(value)};"
            case Evaluation(value):
                yield f"{indent}{written(value)};"
            case Barrier(fences):
                yield f"{indent}barrier({' | '.join(fences)});"
            case Loop(kind, name, first, last, inner, remark):
                yield from [f"{indent}// {remark}"] if remark else []
                # PoCL 3.0 makes worse loops of an end that is chosen if the comparison is not the one that loopy writes.
                end = f"< {written(shifted(last, 1))}" if isinstance(last, Number) else f"<= {written(last)}"
                yield f"{indent}for ({kind} {name} = {written(first)}; {name} {end}; ++{name})"
                yield from _inner(inner, indent)
            case Branch(condition, inner, otherwise):
                yield f"{indent}if ({written(condition)})"
                # An else belongs to the nearest if, also to one in a loop without braces.
                is_open = _ends_in_branch(inner) if otherwise else any(isinstance(s, Branch) and s.otherwise for s in inner)
                yield from _inner(inner, indent, braced=is_open)
                if otherwise:
                    yield f"{indent}else"
                    yield from _inner(otherwise, indent)


def _inner(body: Sequence[Statement], indent: str, *, braced: bool = False) -> Iterator[str]:
    if braced or len(body) > 1:
        yield f"{indent}{{"
        yield from _lines(body, indent + "  ")
        yield f"{indent}}}"
    else:
        yield from _lines(body, indent + "  ")


def _ends_in_branch(body: Sequence[Statement]) -> bool:
    return any(isinstance(s, Branch) or (isinstance(s, Loop) and _ends_in_branch(s.body)) for s in body)


def shifted(value: Expression, by: int) -> Expression:
    """A bound that is larger by a number."""
    if isinstance(value, Choice):
        return Choice(value.condition, shifted(value.then, by), shifted(value.otherwise, by))
    return integer(Binary("+" if by > 0 else "-", value, Number(str(abs(by)))), Scope())


def expressions(statement: Statement) -> tuple[Expression, ...]:
    """The expressions of a statement itself, without those of the statements in it."""
    match statement:
        case Declaration(_, _, _, value):
            return (value,) if value is not None else ()
        case Assignment(target, _, value):
            return target, value
        case Evaluation(value):
            return (value,)
        case Loop(_, _, first, last):
            return first, last
        case Branch(condition, _, _):
            return (condition,)
    return ()


def changed(statement: Statement, change: Callable[[Expression], Expression]) -> Statement:
    """The statement with its expressions changed, and those of the statements in it."""
    match statement:
        case Declaration(kind, name, sizes, value):
            return Declaration(kind, name, sizes, change(value) if value is not None else None)
        case Assignment(target, operator, value):
            return Assignment(change(target), operator, change(value))
        case Evaluation(value):
            return Evaluation(change(value))
        case Loop(_, _, first, last, body):
            inner = tuple(changed(s, change) for s in body)
            return replace(statement, first=change(first), last=change(last), body=inner)
        case Branch(condition, body, otherwise):
            then, other = (tuple(changed(s, change) for s in part) for part in (body, otherwise))
            return Branch(change(condition), then, other)
    return statement


def all_statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements, outer before inner."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from all_statements(statement.body)
        elif isinstance(statement, Branch):
            yield from all_statements(statement.body)
            yield from all_statements(statement.otherwise)
