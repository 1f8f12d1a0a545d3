"""Expressions in users' files: a Python-like arithmetic, evaluated by walking a whitelisted syntax tree with caps on every result.

Nothing here calls Python's own evaluator. What an expression can reach is what the caller names, ``BOUNDED_FUNCTIONS``, and the
public data attributes of objects that the caller passed in. Numbers in files are literals or such expressions.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce

from ...errors import Location, SpecError
from .bounded_functions import BOUNDED_FUNCTIONS, CONSTANTS, checked, modulo, multiply, power, shift_left
from .caps import shortened, shown, spend_steps, weight

MAX_EXPRESSION = 4_000
MAX_DEPTH = 60
MAX_STEPS = 100_000
_FAILED = "Cannot evaluate"


class UnknownNameError(SpecError):
    """An expression reads a name that nothing has."""

    def __init__(self, message: str, *, location: Location | None = None, hint: str = "", name: str = "") -> None:
        self.name = name
        super().__init__(message, location=location, hint=hint)


class UnknownFunctionError(UnknownNameError):
    """An expression calls a function that is not known."""


def nearest(name: str, valid: Iterable[str], cutoff: float = 0.6) -> str:
    """A hint that names the closest valid names, or lists them all if they are few and none is close."""
    known = sorted({str(v) for v in valid})
    close = difflib.get_close_matches(name, known, n=2, cutoff=cutoff) or [v for v in known if v.lower() == name.lower()]
    close.sort(key=lambda v: (-difflib.SequenceMatcher(None, v, name).ratio(), v))
    if close:
        return f"Did you mean {' or '.join(close)}?"
    if not known:
        return ""
    shown = ", ".join(known[:20])
    return f"Known: {shown}{', ...' if len(known) > 20 else ''}."


Operator = Callable[..., object]
_BINARY: dict[type[ast.operator], Operator] = {
    ast.Add: lambda left, right: checked(operator.add(left, right)),
    ast.Sub: lambda left, right: checked(operator.sub(left, right)),
    ast.Mult: multiply,
    ast.Div: lambda left, right: checked(operator.truediv(left, right)),
    ast.FloorDiv: lambda left, right: checked(operator.floordiv(left, right)),
    ast.Mod: modulo,
    ast.Pow: power,
    ast.LShift: shift_left,
    ast.RShift: lambda left, right: checked(operator.rshift(left, right)),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type[ast.unaryop], Operator] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Operator] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


@lru_cache(maxsize=2048)
def parse_expression(text: str) -> ast.expr:
    """The syntax tree of an expression; :class:`SpecError` if it is none, or is too long or too deep to be one in good faith."""
    if len(text) > MAX_EXPRESSION:
        raise SpecError(f"The expression has {len(text)} characters; at most {MAX_EXPRESSION} are read.")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = getattr(error, "msg", None) or "it is nested too deeply"
        end = "" if reason.endswith("?") else "."
        raise SpecError(f"Cannot read the expression {shortened(text)!r}: {reason}{end}") from None
    level = 0
    nodes: list[ast.AST] = [tree]
    while nodes:
        level += 1
        if level > MAX_DEPTH:
            raise SpecError(f"The expression {shortened(text)!r} is nested more than {MAX_DEPTH} deep.")
        nodes = [child for node in nodes for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr | ast.comprehension)]
    return tree


class NamedList(tuple[object, ...]):
    """Objects with names: an expression may ask for one by its name, ``actions['read']``, as well as by its position."""

    def named(self, name: str) -> object:
        """The object of this name; :class:`SpecError` if there is none."""
        for item in self:
            if getattr(item, "name", None) == name:
                return item
        raise SpecError(f"There is no {name!r} here.", hint=nearest(name, (str(getattr(item, "name", "")) for item in self)))


class Evaluator:
    """One evaluation: the names that are known and the steps that are left."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = names
        self.steps = MAX_STEPS

    def evaluate(self, node: ast.expr, local: Mapping[str, object]) -> object:
        """The value of a node; ``local`` holds the variables of enclosing comprehensions."""
        self._spend(1)
        method = _NODES.get(type(node))
        if method is None:
            raise SpecError(f"{type(node).__name__} is not allowed in an expression.")
        return method(self, node, local)

    def charge(self, value: object) -> object:
        """Count what it takes to walk over a value."""
        if not isinstance(value, int | float):
            self._spend(weight(value) // 4)
        return value

    def _spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise SpecError(f"The expression takes more than {MAX_STEPS} steps.")

    def _constant(self, node: ast.Constant, local: Mapping[str, object]) -> object:
        if not isinstance(node.value, int | float | str | bool | None):
            raise SpecError(f"{node.value!r} is not allowed in an expression.")
        return checked(node.value)

    def _name(self, node: ast.Name, local: Mapping[str, object]) -> object:
        for table in (local, self.names, CONSTANTS, BOUNDED_FUNCTIONS):
            if node.id in table:
                return table[node.id]
        known = [*local, *self.names, *CONSTANTS, *BOUNDED_FUNCTIONS]
        raise UnknownNameError(f"The name {node.id!r} is not known.", hint=nearest(node.id, known), name=node.id)

    def _binary(self, node: ast.BinOp, local: Mapping[str, object]) -> object:
        function = _BINARY.get(type(node.op))
        if function is None:
            raise SpecError(f"The operator {type(node.op).__name__} is not allowed in an expression.")
        return function(self.charge(self.evaluate(node.left, local)), self.charge(self.evaluate(node.right, local)))

    def _unary(self, node: ast.UnaryOp, local: Mapping[str, object]) -> object:
        return _UNARY[type(node.op)](self.evaluate(node.operand, local))

    def _boolean(self, node: ast.BoolOp, local: Mapping[str, object]) -> object:
        stop_at = isinstance(node.op, ast.Or)
        value: object = None
        for part in node.values:
            value = self.evaluate(part, local)
            if bool(value) is stop_at:
                return value
        return value

    def _comparison(self, node: ast.Compare, local: Mapping[str, object]) -> object:
        left = self.charge(self.evaluate(node.left, local))
        for relation, part in zip(node.ops, node.comparators, strict=True):
            right = self.charge(self.evaluate(part, local))
            if not _COMPARE[type(relation)](left, right):
                return False
            left = right
        return True

    def _conditional(self, node: ast.IfExp, local: Mapping[str, object]) -> object:
        return self.evaluate(node.body if self.evaluate(node.test, local) else node.orelse, local)

    def _call(self, node: ast.Call, local: Mapping[str, object]) -> object:
        try:
            function = self.evaluate(node.func, local)
        except UnknownNameError as error:
            slip = error.name.startswith("_") or difflib.get_close_matches(error.name, BOUNDED_FUNCTIONS, cutoff=0.7)
            kind = UnknownNameError if slip or not isinstance(node.func, ast.Name) else UnknownFunctionError
            raise kind(error.message, hint=error.hint, name=error.name) from None
        if not callable(function):
            raise SpecError(f"{shortened(ast.unparse(node.func))} is not a function.")
        if any(isinstance(argument, ast.Starred) for argument in node.args) or any(k.arg is None for k in node.keywords):
            raise SpecError("Starred arguments are not allowed in an expression.")
        positional = [self.charge(self.evaluate(argument, local)) for argument in node.args]
        result = checked(function(*positional, **{str(k.arg): self.evaluate(k.value, local) for k in node.keywords}))
        return self.charge(result)

    def _attribute(self, node: ast.Attribute, local: Mapping[str, object]) -> object:
        dotted = ast.unparse(node)
        if dotted in self.names:  # a tensor may have a dotted name, as those of an expanded softmax have (SM.max)
            return self.names[dotted]
        owner = self.evaluate(node.value, local)
        if node.attr.startswith("_") or type(owner).__module__ == "builtins" or callable(getattr(type(owner), node.attr, None)):
            raise SpecError(f"There is no attribute {node.attr!r} to read here.")
        try:
            value: object = getattr(owner, node.attr)
        except AttributeError:
            public = [name for name in dir(owner) if not name.startswith("_") and not callable(getattr(type(owner), name, None))]
            text = shortened(ast.unparse(node.value))
            raise SpecError(f"{text} has no attribute {node.attr!r}.", hint=nearest(node.attr, public)) from None
        return value

    def _subscript(self, node: ast.Subscript, local: Mapping[str, object]) -> object:
        owner = self.evaluate(node.value, local)
        if not isinstance(owner, Sequence | Mapping):
            raise SpecError(f"{shortened(ast.unparse(node.value))} has no elements.")
        position = self.evaluate(node.slice, local)
        if isinstance(owner, Mapping):
            return owner[position]
        if isinstance(owner, NamedList) and isinstance(position, str):
            return owner.named(position)
        if not isinstance(position, int):
            raise SpecError(f"The position {shown(position)} is not a whole number.")
        return owner[position]

    def _list(self, node: ast.List, local: Mapping[str, object]) -> object:
        return checked([self.evaluate(element, local) for element in node.elts])

    def _set(self, node: ast.Set, local: Mapping[str, object]) -> object:
        elements = [self.charge(self.evaluate(element, local)) for element in node.elts]
        if any(isinstance(element, bool | int | float | str) or element is None for element in elements):
            raise SpecError("Braces unite sets; numbers and texts are none.")
        return reduce(operator.or_, elements)

    def _tuple(self, node: ast.Tuple, local: Mapping[str, object]) -> object:
        return checked(tuple(self.evaluate(element, local) for element in node.elts))

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, local: Mapping[str, object]) -> object:
        return checked(list(self._generate(node.elt, node.generators, local)))

    def _generate(self, element: ast.expr, generators: list[ast.comprehension], local: Mapping[str, object]) -> Iterator[object]:
        if not generators:
            yield self.evaluate(element, local)
            return
        first = generators[0]
        values = self.evaluate(first.iter, local)
        if not isinstance(values, Iterable):
            raise SpecError(f"{shortened(ast.unparse(first.iter))} cannot be iterated over.")
        for value in values:
            inner = {**local, **_bound(first.target, value)}
            if all(self.evaluate(condition, inner) for condition in first.ifs):
                yield from self._generate(element, generators[1:], inner)


def _bound(target: ast.expr, value: object) -> dict[str, object]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple) and isinstance(value, Sequence) and len(target.elts) == len(value):
        return {name: part for element, item in zip(target.elts, value, strict=True) for name, part in _bound(element, item).items()}
    raise SpecError("A loop variable in an expression is a name, or a tuple of as many names as there are values.")


_NODES: dict[type[ast.expr], Callable[..., object]] = {
    ast.Constant: Evaluator._constant,
    ast.Name: Evaluator._name,
    ast.BinOp: Evaluator._binary,
    ast.UnaryOp: Evaluator._unary,
    ast.BoolOp: Evaluator._boolean,
    ast.Compare: Evaluator._comparison,
    ast.IfExp: Evaluator._conditional,
    ast.Call: Evaluator._call,
    ast.Attribute: Evaluator._attribute,
    ast.Subscript: Evaluator._subscript,
    ast.List: Evaluator._list,
    ast.Tuple: Evaluator._tuple,
    ast.Set: Evaluator._set,
    ast.ListComp: Evaluator._comprehension,
    ast.GeneratorExp: Evaluator._comprehension,
}


def evaluate(text: str, names: Mapping[str, object]) -> object:
    """The value of an expression in which ``names`` are known beside ``BOUNDED_FUNCTIONS`` and ``CONSTANTS``.

    Arithmetic, comparisons, conditionals, list and generator comprehensions, calls of known functions, indexing, and public data
    attributes of the objects in ``names`` (``sum(a.n_calls / a.throughput for a in actions)``). Raises :class:`SpecError` for anything
    else, for unknown names, and for results beyond the caps of this module.
    """
    evaluator = Evaluator(names)
    try:
        value = evaluator.evaluate(parse_expression(text), {})
        spend_steps(MAX_STEPS - evaluator.steps)
        return value
    except SpecError as error:
        inner = error.message.startswith((_FAILED, "Cannot read"))
        message = error.message if inner else f"{_FAILED} {shortened(text)!r}: {error.message}"
        if isinstance(error, UnknownNameError):
            raise type(error)(message, hint=error.hint, name=error.name) from None
        raise SpecError(message, hint=error.hint) from None
    except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise SpecError(f"{_FAILED} {shortened(text)!r}: {shortened(str(error))}.") from None


def names_in(text: str) -> tuple[str, ...]:
    """The names that an expression reads, in order of first appearance, without those of its own comprehensions."""
    tree = parse_expression(text)
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in own]
    return tuple(dict.fromkeys(node.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))))


_WORDS = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan, "true": True, "false": False}


def literal(text: str) -> int | float | bool | None:
    """The number or truth value that a text denotes by itself, if it does."""
    stripped = text.strip().lower()
    if stripped in _WORDS:
        return _WORDS[stripped]
    for kind in (int, float):
        try:
            return kind(stripped) if len(stripped) < 400 else None
        except ValueError:
            continue
    return None


def scalar(value: object, names: Mapping[str, object]) -> object:
    """The value itself, or what its text evaluates to."""
    if not isinstance(value, str):
        return value
    found = literal(value)
    return evaluate(value, names) if found is None else found


_FLOAT_BITS = 1023
"""Integers of so many bits become floating-point numbers; with one more they overflow."""
_WHOLE_BOUND = 2**62
"""What is smaller can be doubled in 64 bits."""


def number(value: object, names: Mapping[str, object], what: str) -> float:
    """A number; :class:`SpecError` if the value is none or not a number at all (nan)."""
    found = scalar(value, names)
    if isinstance(found, int) and found.bit_length() > _FLOAT_BITS:
        raise SpecError(f"{what} has {found.bit_length()} bits; a number that float64 can hold is expected.")
    if isinstance(found, bool) or not isinstance(found, int | float) or math.isnan(found):
        raise SpecError(f"{what} is {shown(found)}; a number is expected.")
    return found


def at_least(bound: float, *, finite: bool = False) -> Callable[[object, Mapping[str, object], str], float]:
    """A reader of numbers that are not less than ``bound``."""

    def read(value: object, names: Mapping[str, object], what: str) -> float:
        found = number(value, names, what)
        if found < bound or (finite and math.isinf(found)):
            raise SpecError(f"{what} is {found}; {'a finite number' if finite else 'a number'} of at least {bound:g} is expected.")
        return found

    return read


def whole(value: object, names: Mapping[str, object], what: str, *, least: int = 1) -> int:
    """A whole number of at least ``least``; floats without a fraction count (``1e3``)."""
    found = number(value, names, what)
    if math.isinf(found) or found != int(found) or found < least:
        raise SpecError(f"{what} is {shown(found)}; a whole number of at least {least} is expected.")
    if found >= _WHOLE_BOUND:
        raise SpecError(f"{what} is {shown(found)}; a whole number below 2**62 is expected.")
    return int(found)
