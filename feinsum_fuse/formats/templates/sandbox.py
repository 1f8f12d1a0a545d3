"""Jinja's sandbox for files that nobody vouches for: what templates may read and call, and what their operations may cost.

Jinja's own sandbox keeps templates from Python's objects but bounds neither time nor memory. Here attributes, calls, filters and tests
are lists of what is allowed; operators and the filters that can make much of little say how large a result becomes before computing it;
and everything is counted against one :class:`RenderingBudget`. :mod:`.instrumentation` puts the counting into loops and macros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from jinja2 import StrictUndefined, Undefined, UndefinedError, pass_context
from jinja2.ext import Extension
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS as JINJA_TESTS
from jinja2.utils import Namespace

from ...errors import SpecError
from ..language.bounded_functions import bounded_range, checked
from ..language.caps import MAX_TEXT, MAX_WEIGHT, shown
from ..language.expressions import nearest
from .vocabulary import (
    FILTERS,
    LOOP_DATA,
    METHODS,
    NUMBER_TESTS,
    OPERATORS,
    TESTS,
    ResultSize,
    bounded,
    known,
    number,
    printed_size,
    text_of,
)

MAX_STEPS = 100_000
MAX_ALLOCATED = 8_000_000
MAX_CALLS = 40
CHARACTERS_PER_STEP = 32
CHARACTERS_PER_ELEMENT = 16


@dataclass
class RenderingBudget:
    """What the rendering of one user's call may still cost, over all its files."""

    steps: int = MAX_STEPS
    characters: int = MAX_ALLOCATED

    def spend(self, steps: int) -> None:
        """Count steps; :class:`SpecError` if none are left."""
        self.steps -= steps
        if self.steps < 0:
            raise SpecError(f"The template takes more than {MAX_STEPS} steps.")

    def allocate(self, value: object) -> object:
        """Count the text or elements that an operation produced; :class:`SpecError` if it is too much."""
        size = len(value) if isinstance(value, str | list | tuple | dict) else 1
        self.characters -= size if isinstance(value, str) else CHARACTERS_PER_ELEMENT * size
        bounded(size if self.characters >= 0 else MAX_TEXT + 1)
        return value

    def charge(self, value: object) -> object:
        """Count what it takes to walk over data; :class:`SpecError` for anything else, and for more than is ever printed."""
        self.spend(1 + printed_size(value) // CHARACTERS_PER_STEP)
        return value


@dataclass(frozen=True)
class Helper:
    """A function that templates may call; ``scoped`` ones receive the visible variables first."""

    call: Callable[..., object]
    scoped: bool = False


@dataclass(frozen=True)
class _Method:
    """A method of text, a list, a mapping or a loop, with its owner."""

    owner: object
    call: Callable[..., object]


class AbsentError(UndefinedError):
    """A variable without a value was used; the message is its name."""


class Absent(StrictUndefined):
    """The value of a name that no template variable has; only ``is defined`` and ``default`` may touch it."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_name is None:
            return self._undefined_hint or "a value is not defined"
        raise AbsentError(str(self._undefined_name))


def absent(name: str) -> SpecError:
    """The error for a variable that nobody gave a value."""
    return SpecError(f"The template variable {name!r} is not defined.", hint=f"Give it a value, or write {name} | default(...).")


class Sandbox(ImmutableSandboxedEnvironment):
    """A Jinja environment whose templates read data, call what is listed here and the helpers, and pay for every operation.

    Constants are not evaluated when a template is compiled, since that would happen outside the budget.
    """

    intercepted_binops = frozenset(OPERATORS)
    intercepted_unops = frozenset(("+", "-"))

    def __init__(self, helpers: Mapping[str, Helper], budget: RenderingBudget, extensions: Sequence[str | type[Extension]] = ()) -> None:
        super().__init__(
            extensions=extensions,
            autoescape=False,
            cache_size=0,
            optimized=False,
            undefined=Absent,
            keep_trailing_newline=False,
        )
        self.budget = budget
        self.depth = 0
        self.globals = dict(helpers)
        self.filters = {name: self._filter(name, size) for name, size in FILTERS.items()}
        self.tests = {name: self._test(name) for name in TESTS}

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """The result of an operator, refused before it is computed where it would be large."""
        self.budget.spend(1)
        return self.budget.allocate(checked(OPERATORS[operator](known(left), known(right))))

    def call_unop(self, context: Context, operator: str, arg: object) -> object:
        """A number with a sign."""
        self.budget.spend(1)
        return super().call_unop(context, operator, number(known(arg)))

    def getattr(self, obj: object, attribute: str) -> object:
        """A method that may be called, an attribute of a namespace or a loop, or what a mapping has under this key."""
        self.budget.spend(1)
        for kind in (str, dict, list, tuple):
            if isinstance(obj, kind) and (kind, attribute) in METHODS:
                return _Method(obj, METHODS[kind, attribute])
        if isinstance(obj, LoopContext):
            if attribute in LOOP_DATA:
                return getattr(obj, attribute)
            if attribute == "cycle":
                return _Method(obj, LoopContext.cycle)
        return self.getitem(obj, attribute)

    def getitem(self, obj: object, argument: object) -> object:
        """An element of a list or text, what a mapping or namespace has under this key, or an undefined value."""
        self.budget.spend(1)
        known(obj)
        if isinstance(obj, Namespace):
            name = str(argument)
            found: object = Absent(name=name) if "__" in name else getattr(obj, name, Absent(name=name))
            return found
        if isinstance(obj, Mapping) and not isinstance(obj, Context):
            present = isinstance(argument, str | int | float) and argument in obj
            return obj[argument] if present else Absent(name=str(argument))
        if isinstance(obj, list | tuple | str) and isinstance(argument, int):
            return obj[argument] if -len(obj) <= argument < len(obj) else Absent(name=str(argument))
        raise SpecError(f"There is nothing called {argument!r} to read or to call here.")

    def call(self, context: Context, function: object, /, *args: object, **kwargs: object) -> object:
        """What a macro, a helper or a method returns; nothing else can be called."""
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        scope, args = (args[:1], args[1:]) if args and isinstance(args[0], Context) else ((), args)
        self.budget.spend(1)
        known(function)
        if isinstance(function, Macro):
            return self._call_macro(function, args, kwargs)
        if not isinstance(function, Helper | _Method):
            raise SpecError("Only macros, helpers and methods of text, lists and mappings can be called in a template.")
        for value in (*args, *kwargs.values()):
            self.budget.charge(value)
        if isinstance(function, Helper):
            return self.budget.allocate(function.call(*(scope if function.scoped else ()), *args, **kwargs))
        if not isinstance(function.owner, LoopContext):
            self.budget.charge(function.owner)
        return self.budget.allocate(function.call(function.owner, *args, **kwargs))

    def _call_macro(self, macro: Macro, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        self.depth += 1
        if self.depth > MAX_CALLS:
            raise SpecError(f"Macros call each other more than {MAX_CALLS} deep.")
        try:
            return self.budget.allocate(macro(*args, **kwargs))
        finally:
            self.depth -= 1

    def _filter(self, name: str, size: ResultSize) -> Callable[..., object]:
        """Jinja's filter, its operands and result counted, its result bounded before it is computed."""
        function: Callable[..., object] = JINJA_FILTERS[name]

        @pass_context
        def call(context: Context, value: object, *args: object, **kwargs: object) -> object:
            if name not in ("default", "d") or not isinstance(value, Undefined):
                for given in (value, *args, *kwargs.values()):
                    self.budget.charge(given)
                bounded(size(value, *args, **kwargs))
            if name == "map" and args and args[0] not in FILTERS:
                raise SpecError(f"The template filter {shown(args[0])} is not available.", hint=nearest(str(args[0]), FILTERS))
            result: object = context.call(function, value, *args, **kwargs)
            if isinstance(result, Iterator):
                result = list(islice(result, MAX_WEIGHT))
            elif isinstance(result, str):
                result = str(result)  # tojson marks its text as safe for HTML, and marked text escapes what is joined to it
            return result if isinstance(result, Undefined) else self.budget.charge(self.budget.allocate(result))

        return call

    def _test(self, name: str) -> Callable[..., object]:
        """Jinja's test, its operands counted."""
        test = cast(Callable[..., object], JINJA_TESTS[name])

        @pass_context
        def call(context: Context, value: object, *args: object) -> bool:
            self.budget.spend(1)
            if name not in ("defined", "undefined"):
                for given in (value, *args):
                    self.budget.charge(number(given) if name in NUMBER_TESTS else given)
            return bool(test(value, *args))

        return call


def _assertion(condition: object, message: object) -> str:
    if not condition:
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
