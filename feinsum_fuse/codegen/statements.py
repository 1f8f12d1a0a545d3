"""Statements of OpenCL C as values, which loopy puts together as it does those of cgen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Literal

import islpy as isl
import pymbolic.primitives as p
from cgen import Generable
from constantdict import constantdict
from loopy.isl_helpers import convexify
from pymbolic.typing import Expression

from .arithmetic import shifted
from .statement_expressions import is_whole_number, written

WIDTH = 140
"""Longer lines of arguments are broken."""
VariableMemory = Literal["global", "local", "private"]


def commented(text: str) -> str:
    """A comment of one line, whatever is called in it: no name ends the line, or goes on to the next one."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return f"// {line}." if line.endswith(("\\", "??/")) else f"// {line}"


class CStatement(Generable):
    """One statement; ``generate`` gives its lines."""


@dataclass(frozen=True)
class Comment(CStatement):
    """``// text``."""

    text: str

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        yield commented(self.text)


@dataclass(frozen=True)
class Foreign(CStatement):
    """A statement of loopy's that is not looked into, such as a caller's own C."""

    of: Generable

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        yield from self.of.generate()


@dataclass(frozen=True)
class Declaration(CStatement):
    """``type name[size] = value;``, where ``size`` and ``value`` may be missing; with a value it is a constant."""

    type: str
    name: str
    size: Expression | None = None
    value: Expression | None = None
    memory: VariableMemory = "private"
    alignment: int = 0
    """Bytes of a multiple of which it begins; 0: of its type's."""

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        space = "" if self.memory == "private" else f"__{self.memory} "
        size = "" if self.size is None else f"[{written(self.size)}]"
        value = "" if self.value is None else f" = {written(self.value)}"
        aligned = f" __attribute__((aligned({self.alignment})))" if self.alignment else ""
        yield f"{space}{self.type}{' const' if value else ''} {self.name}{size}{aligned}{value};"


@dataclass(frozen=True)
class Assignment(CStatement):
    """``target operator value;``, the operator such as ``=`` or ``+=``."""

    target: Expression
    value: Expression
    operator: str = "="

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        yield f"{written(self.target)} {self.operator} {written(self.value)};"


@dataclass(frozen=True)
class ExpressionStatement(CStatement):
    """``value;``: a call, for what it does."""

    value: Expression

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        yield f"{written(self.value)};"


@dataclass(frozen=True)
class Barrier(CStatement):
    """Work-items wait for one another, and see what each has written into these memories."""

    memories: tuple[str, ...]

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        yield f"barrier({' | '.join(f'CLK_{memory.upper()}_MEM_FENCE' for memory in self.memories)});"


@dataclass(frozen=True)
class Loop(CStatement):
    """``for (type name = first; name <= last; ++name) body``, with a remark above it.

    It is written with ``<`` and the iteration after the last, unless ``up_to_last`` asks for ``<=`` where ``last`` is no number.
    A loop that is to be ``unrolled`` has numbers for first and last; ``bounds`` says which of its iterations run, if not all do.
    """

    type: str
    name: str
    first: Expression
    last: Expression
    body: tuple[CStatement, ...]
    remark: str = ""
    unrolled: bool = False
    bounds: Iterations | None = None
    up_to_last: bool = False

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        if self.remark:
            yield commented(self.remark)
        inclusive = self.up_to_last and not is_whole_number(self.last)
        end = f"<= {written(self.last)}" if inclusive else f"< {written(shifted(self.last, 1))}"
        yield f"for ({self.type} {self.name} = {written(self.first)}; {self.name} {end}; ++{self.name})"
        yield from _inner(self.body)


@dataclass(frozen=True)
class Conditional(CStatement):
    """``if (condition) body else otherwise``."""

    condition: Expression
    body: tuple[CStatement, ...]
    otherwise: tuple[CStatement, ...] = ()

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        yield f"if ({written(self.condition)})"
        # An else belongs to the nearest if, also to one in a loop without braces.
        is_open = _ends_in_branch(self.body) if self.otherwise else any(isinstance(s, Conditional) and s.otherwise for s in self.body)
        yield from _inner(self.body, braced=is_open)
        if len(self.otherwise) == 1 and isinstance(self.otherwise[0], Conditional):
            first, *rest = self.otherwise[0].generate()
            yield f"else {first}"
            yield from rest
        elif self.otherwise:
            yield "else"
            yield from _inner(self.otherwise)


class Compound(CStatement):
    """Statements one after another, as loopy collects them."""

    def __init__(self, contents: Sequence[Generable] | Generable = ()) -> None:
        parts = (contents,) if isinstance(contents, Generable) else contents
        self.contents = [statement for part in parts for statement in flat(part)]

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        yield from _inner(self.contents, braced=True)


class Scope(Compound):
    """A block with declarations of its own."""


def flat(part: Generable) -> tuple[CStatement, ...]:
    """The statements that something is made of."""
    if isinstance(part, Compound) and not isinstance(part, Scope):
        return tuple(part.contents)
    return (part if isinstance(part, CStatement) else Foreign(part),)


def _inner(body: Sequence[CStatement], *, braced: bool = False) -> Iterator[str]:
    # A remark is no statement: the next one behind it would be the body.
    is_block = braced or len(body) != 1 or isinstance(body[0], Comment)
    yield from ["{"] if is_block else []
    for statement in body:
        for line in statement.generate():
            yield f"  {line}"
    yield from ["}"] if is_block else []


def _ends_in_branch(body: Sequence[CStatement]) -> bool:
    return any(isinstance(s, Conditional) or (isinstance(s, Loop) and _ends_in_branch(s.body)) for s in body)


@dataclass(frozen=True)
class Variable:
    """What is known of an array or a number: its type in C, the kind of its NumPy type, its memory."""

    type: str
    kind: str
    memory: VariableMemory


@dataclass(frozen=True)
class Parameter:
    """An argument of a kernel: an array in global memory, or a number."""

    name: str
    type: str
    is_array: bool
    is_written: bool
    is_exchanged: bool = False
    """Whether work-items of a group read there what others have written."""

    @property
    def text(self) -> str:
        """The declaration.

        What is exchanged is not ``restrict``: to a compiler that says that no other work-item writes there, so that it may read before a
        barrier what it is to read after it (seen on a GPU).
        """
        constant = "" if self.is_written else " const"
        restrict = "" if self.is_exchanged else "__restrict__ "
        return f"__global {self.type}{constant} *{restrict}{self.name}" if self.is_array else f"{self.type}{constant} {self.name}"


@dataclass(frozen=True)
class Head(CStatement):
    """The declaration of a function; ``group`` is the number of work-items of a group along three axes, if that is known, and ``groups`` is
    how many of these there are along each axis that has a known number."""

    name: str
    arguments: tuple[Parameter, ...]
    group: tuple[int, ...] | None = None
    groups: tuple[int | None, ...] = (None, None, None)
    is_kernel: bool = True

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        group = "" if self.group is None else f"__attribute__ ((reqd_work_group_size({', '.join(map(repr, self.group))}))) "
        start = f"__kernel void {group}{self.name}(" if self.is_kernel else f"static void {self.name}("
        arguments = [argument.text for argument in self.arguments]
        line = f"{start}{', '.join(arguments)})"
        end = ";" if with_semicolon else ""
        if len(line) <= WIDTH:
            yield f"{line}{end}"
            return
        yield start
        for position, text in enumerate(arguments):
            yield f"    {text}{',' if position < len(arguments) - 1 else f'){end}'}"


@dataclass(frozen=True)
class Kernel(CStatement):
    """A function: its head, its body and what is known of the variables; ``remarks`` stand above it."""

    head: Head
    body: tuple[CStatement, ...]
    variables: constantdict[str, Variable] = field(default_factory=constantdict)
    remarks: tuple[str, ...] = ()

    @property
    def fdecl(self) -> Head:
        """The head, by the name that loopy knows."""
        return self.head

    def with_body(self, body: Sequence[CStatement]) -> Kernel:
        """The kernel with another body."""
        return replace(self, body=tuple(body))

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        for remark in self.remarks:
            yield commented(remark)
        yield from self.head.generate(with_semicolon=False)
        yield "{"
        declared = next((i for i, s in enumerate(self.body) if not isinstance(s, Declaration)), len(self.body))
        for position, statement in enumerate(self.body):
            if position == declared > 0:
                yield ""
            for line in statement.generate():
                yield f"  {line}"
        yield "}"


def expressions(statement: CStatement) -> tuple[Expression, ...]:
    """The expressions of a statement itself, without those of the statements in it."""
    match statement:
        case Declaration(value=value):
            return (value,) if value is not None else ()
        case Assignment(target, value):
            return target, value
        case ExpressionStatement(value):
            return (value,)
        case Loop(first=first, last=last):
            return first, last
        case Conditional(condition):
            return (condition,)
    return ()


def bodies(statement: CStatement) -> tuple[tuple[CStatement, ...], ...]:
    """The blocks in a statement."""
    match statement:
        case Loop(body=body):
            return (body,)
        case Conditional(_, body, otherwise):
            return body, otherwise
        case Scope(contents=contents):
            return (tuple(contents),)
    return ()


def with_bodies(statement: CStatement, change: Callable[[tuple[CStatement, ...]], Sequence[CStatement]]) -> CStatement:
    """The statement with the blocks in it changed."""
    match statement:
        case Loop(body=body):
            return replace(statement, body=tuple(change(body)))
        case Conditional(condition, body, otherwise):
            return Conditional(condition, tuple(change(body)), tuple(change(otherwise)))
        case Scope(contents=contents):
            return Scope(change(tuple(contents)))
    return statement


def changed(statement: CStatement, change: Callable[[Expression], Expression]) -> CStatement:
    """The statement with its expressions changed, and those of the statements in it; itself where all of them stay."""
    match statement:
        case Declaration(value=value):
            new = change(value) if value is not None else None
            return statement if new is value else replace(statement, value=new)
        case Assignment(target, value, operator):
            place, new = change(target), change(value)
            return statement if place is target and new is value else Assignment(place, new, operator)
        case ExpressionStatement(value):
            new = change(value)
            return statement if new is value else ExpressionStatement(new)
        case Loop(first=first, last=last, body=body):
            start, end, inner = change(first), change(last), _each_changed(body, change)
            return statement if start is first and end is last and inner is body else replace(statement, first=start, last=end, body=inner)
        case Conditional(condition, body, otherwise):
            test, then, other = change(condition), _each_changed(body, change), _each_changed(otherwise, change)
            return statement if test is condition and then is body and other is otherwise else Conditional(test, then, other)
        case Scope(contents=contents):
            return Scope([changed(s, change) for s in contents])
    return statement


def _each_changed(body: tuple[CStatement, ...], change: Callable[[Expression], Expression]) -> tuple[CStatement, ...]:
    """The statements of a block with their expressions changed; the block itself where all of them stay."""
    new = tuple(changed(s, change) for s in body)
    return body if all(map(is_, new, body)) else new


def all_statements(body: Sequence[CStatement]) -> Iterator[CStatement]:
    """All statements, outer before inner."""
    for statement in body:
        yield statement
        for block in bodies(statement):
            yield from all_statements(block)


def renamed(statement: CStatement, names: Mapping[str, str]) -> CStatement:
    """The statement with its loops, and those in it, called otherwise; a loop of one iteration is the declaration of its name."""
    if isinstance(statement, Loop | Declaration):
        statement = replace(statement, name=names.get(statement.name, statement.name))
    return with_bodies(statement, lambda body: tuple(renamed(s, names) for s in body))


def calls(value: Expression) -> Iterator[str]:
    """The functions that an expression calls directly."""
    if isinstance(value, p.Call) and isinstance(value.function, p.Variable):
        yield value.function.name


@dataclass(frozen=True)
class Iterations:
    """The iterations that are to run, and what holds for all of them; ``expression`` writes a condition on loops in C."""

    domain: isl.Set
    implemented: isl.Set
    expression: Callable[[Expression], Expression]

    def at(self, values: Mapping[str, int]) -> tuple[Expression, ...] | None:
        """The conditions that are left with these loops at these iterations; ``None`` if they cannot hold."""
        domain, implemented = (_fixed(part, values) for part in (self.domain, self.implemented))
        if domain.is_disjoint(implemented):
            return None
        # A gist would be another one wherever something else is known; what is left as it is has one name.
        domain, implemented = isl.align_two(convexify(domain), implemented)
        left = (c for c in domain.get_constraints() if not implemented.is_subset(isl.BasicSet.universe(domain.space).add_constraint(c)))
        return tuple(self.expression(_condition(constraint)) for constraint in left)


def _condition(constraint: isl.Constraint) -> p.Comparison:
    """A constraint with its loops in one order, whatever that of the set, so that equal conditions are equal."""
    factors = {name: int(value.to_python()) for name, value in constraint.get_coefficients_by_name().items() if name != 1}
    terms = tuple(p.Product((factors[name], p.Variable(name))) for name in sorted(factors, reverse=True))
    constant = int(constraint.get_constant_val().to_python())
    return p.Comparison(p.Sum((*terms, constant)), "==" if constraint.is_equality() else ">=", 0)


def _fixed(points: isl.Set, values: Mapping[str, int]) -> isl.Set:
    """The points with some coordinates at these values, without those coordinates."""
    known = points.get_var_dict()
    places = [(*known[name], value) for name, value in values.items() if name in known]
    for kind, position, value in places:
        points = points.fix_val(kind, position, value)
    # From the last one on: those before it keep their places.
    for kind, position, _ in sorted(places, key=lambda place: place[1], reverse=True):
        points = points.project_out(kind, position, 1)
    return points
