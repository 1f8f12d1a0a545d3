"""Expressions of OpenCL C as values: read from the text that loopy writes, and written back without needless brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass


class UnreadableError(ValueError):
    """Text that is not in the part of C that is read here; it stays as it is."""


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    text: str


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function or macro of arguments."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """``array[index]``."""

    array: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Member:
    """``of.name``."""

    of: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Cast:
    """``(type) of``."""

    type: str
    of: Expression


@dataclass(frozen=True, slots=True)
class Unary:
    """``-of``, ``!of``, ``~of``, ``&of``, ``*of``."""

    operator: str
    of: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """``left operator right``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Choice:
    """``condition ? then : otherwise``."""

    condition: Expression
    then: Expression
    otherwise: Expression


Expression = Name | Number | Call | Element | Member | Cast | Unary | Binary | Choice

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)[a-zA-Z]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><<=|>>=|&&|\|\||[<>=!+\-*/%&|^]=|<<|>>|[-+*/%<>=!?:()\[\],.~&|^;]))"
)
_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_LEVEL = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs}
_SCALAR = re.compile(r"(?:u?(?:char|short|int|long)|float|double|half|bool)(?:2|3|4|8|16)?")
_UNARY = frozenset("-!~&*")
_TIGHTEST = len(_LEVELS)


class Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise UnreadableError(f"{text[position:]!r} is not read as C")
            self.tokens.append(found[0].strip())
            position = found.end()
        self.position = 0

    @property
    def next(self) -> str:
        """The token that comes next; empty at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        """Move past one token, which must be the one wanted if one is."""
        token = self.next
        if not token or (wanted and token != wanted):
            raise UnreadableError(f"{wanted or 'more'} is missing after {' '.join(self.tokens[: self.position])!r}")
        self.position += 1
        return token

    def expression(self) -> Expression:
        """A whole expression, without assignments and commas."""
        condition = self._binary(0)
        if self.next != "?":
            return condition
        self.take()
        then = self.expression()
        self.take(":")
        return Choice(condition, then, self.expression())

    def _binary(self, level: int) -> Expression:
        if level == _TIGHTEST:
            return self._unary()
        left = self._binary(level + 1)
        while self.next in _LEVELS[level]:
            left = Binary(self.take(), left, self._binary(level + 1))
        return left

    def _unary(self) -> Expression:
        if self.next == "+":
            self.take()
            return self._unary()
        if self.next in _UNARY:
            return Unary(self.take(), self._unary())
        if self.next == "(" and _SCALAR.fullmatch("".join(self.tokens[self.position + 1 : self.position + 2])):
            self.take()
            scalar = self.take()
            self.take(")")
            return Cast(scalar, self._unary())
        return self._postfix()

    def _postfix(self) -> Expression:
        if self.next == "(":
            self.take()
            result = self.expression()
            self.take(")")
        else:
            token = self.take()
            if token[0].isdigit() or (token[0] == "." and len(token) > 1):
                result = Number(token)
            elif token[0].isalpha() or token[0] == "_":
                result = Call(token, tuple(self._arguments())) if self.next == "(" else Name(token)
            else:
                raise UnreadableError(f"{token!r} does not begin an expression")
        while self.next in {"[", "."}:
            if self.take() == "[":
                result = Element(result, self.expression())
                self.take("]")
            else:
                result = Member(result, self.take())
        return result

    def _arguments(self) -> Iterator[Expression]:
        self.take("(")
        while self.next != ")":
            yield self.expression()
            if self.next != ")":
                self.take(",")
        self.take(")")


def parsed(text: str) -> Expression:
    """The expression that a text is; :class:`UnreadableError` if it is none."""
    reader = Reader(text)
    result = reader.expression()
    if reader.next:
        raise UnreadableError(f"{reader.next!r} follows a whole expression")
    return result


def written(value: Expression) -> str:
    """The text of an expression; reading it gives the same expression."""
    match value:
        case Name(text) | Number(text):
            return text
        case Call(function, arguments):
            return f"{function}({', '.join(_bare(argument) for argument in arguments)})"
        case Element(array, index):
            return f"{_tight(array)}[{_bare(index)}]"
        case Member(of, name):
            return f"{_tight(of)}.{name}"
        case Cast(scalar, of):
            return f"({scalar}) {_of_unary(of)}"
        case Unary(operator, of):
            return f"{operator}{_of_unary(of)}"
        case Choice(condition, then, otherwise):
            return f"({_bare(condition)} ? {_bare(then)} : {_bare(otherwise)})"
    assert isinstance(value, Binary)
    level = _LEVEL[value.operator]
    left, right = written(value.left), written(value.right)
    if isinstance(value.left, Binary) and (_LEVEL[value.left.operator] < level or _mixes(value.operator, value.left)):
        left = f"({left})"
    if isinstance(value.right, Binary) and (_LEVEL[value.right.operator] <= level or _mixes(value.operator, value.right)):
        right = f"({right})"
    return f"{left} {value.operator} {right}"


def _mixes(operator: str, inner: Binary) -> bool:
    """Whether compilers ask for brackets although C needs none."""
    return inner.operator != operator and (operator in {"|", "^", "&", "<<", ">>"} or (operator, inner.operator) == ("||", "&&"))


def _bare(value: Expression) -> str:
    return written(value)


def _tight(value: Expression) -> str:
    return f"({written(value)})" if isinstance(value, Binary | Unary | Cast) else written(value)


def _of_unary(value: Expression) -> str:
    bracketed = isinstance(value, Binary) or (isinstance(value, Unary) and value.operator == "-")
    return f"({written(value)})" if bracketed else written(value)


def children(value: Expression) -> tuple[Expression, ...]:
    """The expressions that an expression is made of."""
    match value:
        case Call(_, arguments):
            return arguments
        case Element(array, index):
            return array, index
        case Member(of, _) | Cast(_, of) | Unary(_, of):
            return (of,)
        case Binary(_, left, right):
            return left, right
        case Choice(condition, then, otherwise):
            return condition, then, otherwise
    return ()


def mapped(value: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with what it is made of changed."""
    match value:
        case Call(function, arguments):
            return Call(function, tuple(map(change, arguments)))
        case Element(array, index):
            return Element(change(array), change(index))
        case Member(of, name):
            return Member(change(of), name)
        case Cast(scalar, of):
            return Cast(scalar, change(of))
        case Unary(operator, of):
            return Unary(operator, change(of))
        case Binary(operator, left, right):
            return Binary(operator, change(left), change(right))
        case Choice(condition, then, otherwise):
            return Choice(change(condition), change(then), change(otherwise))
    return value


def within(value: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of, outer before inner."""
    yield value
    for child in children(value):
        yield from within(child)


def replaced(value: Expression, names: dict[Expression, Expression]) -> Expression:
    """The expression with parts of it exchanged, outer before inner."""
    if value in names:
        return names[value]
    return mapped(value, lambda child: replaced(child, names))


def operations(value: Expression) -> int:
    """How many operators an expression has."""
    return sum(isinstance(part, Binary | Unary | Choice) for part in within(value))
