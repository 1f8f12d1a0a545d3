"""OpenCL C as a person would write it: the same statements, with what is repeated computed once.

loopy substitutes every index into every statement. These rewritings of a kernel's text name what they repeat; they change no value, and
none depends on what an Einsum computes. A kernel with C in it that loopy does not write by itself is left as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..schedule.kernel.intrinsics import LANES, Intrinsic, anywhere, definition, parts
from .c_expression import (
    Binary,
    Call,
    Choice,
    Element,
    Expression,
    Member,
    Name,
    UnreadableError,
    children,
    mapped,
    parsed,
    replaced,
    within,
    written,
)
from .c_integer import Linear, Range, Scope, linear
from .c_simplification import shortened
from .c_statement import Assignment, Branch, Declaration, Kernel, Loop, Statement, all_statements, changed, expressions, read, text_of
from .index_names import with_names

Group = tuple[tuple[str, int], ...]
"""(device axis such as ``gid(0)``, factor), sorted: where a group's part of a rank variable starts."""

_LOAD = re.compile(r"vload(?:upto)?_(?:global|local)_(\w+)")
_WORK_GROUP = re.compile(r"reqd_work_group_size\((\d+), (\d+), (\d+)\)")
_WHOLE = re.compile(r"u?(?:int|long|short|char)")


def legible(text: str, names: Mapping[str, str], starts: Mapping[Group, str]) -> str:
    """One kernel's text, rewritten.

    ``names``: loops that may share a name with loops of other nests. ``starts``: a name for each sum of group numbers that is one.
    """
    if names:
        text = re.sub(rf"\b(?:{'|'.join(map(re.escape, names))})\b", lambda found: names[found[0]], text)
    try:
        kernel = read(text)
    except UnreadableError:
        return text
    scope = Scope(_known(kernel))
    kernel = _with_starts(kernel.replace(shortened(kernel.body, scope)), starts)
    taken = {part.text for s in all_statements(kernel.body) for e in expressions(s) for part in within(e) if isinstance(part, Name)}
    taken |= {s.name for s in all_statements(kernel.body) if isinstance(s, Declaration | Loop)} | set(re.findall(r"\w+", kernel.head))
    taken |= {word for argument in kernel.arguments for word in re.findall(r"\w+", argument)}
    kernel = kernel.replace(tuple(_loaded(kernel.body, kernel.types, taken)))
    constants = frozenset(name for _, name in kernel.scalars)
    return text_of(kernel.replace(with_names(kernel.body, constants, taken)))


def needed(head: str, intrinsics: Sequence[Intrinsic], kernels: Sequence[str]) -> str:
    """What stands before the kernels, without functions that they do not use, and with those that their counts have become."""
    used = set(re.findall(r"\w+", "\n".join(kernels)))
    for function in intrinsics:
        name, quirks = function.name, function.quirks
        whole = name.replace("upto_", "_", 1)
        if whole != name and whole in used and definition(whole, quirks) not in head:
            head = head.rstrip() + f"\n{definition(whole, quirks)}\n"
        if name not in used:
            head = head.replace(definition(name, quirks), "")
    for element, lanes, quirks in {(*parts(function.name)[1:], function.quirks) for function in intrinsics}:
        while lanes >= LANES[0]:
            text = anywhere(element, lanes, quirks)
            if text in head and not re.search(rf"\b[gs]et_{element}{lanes}\b", head.replace(text, "")):
                head = head.replace(text, "")
            lanes //= 2
    for axis in ("lid", "gid"):
        if axis not in used:
            head = re.sub(rf"(?m)^#define {axis}\(N\).*\n", "", head)
    return re.sub(r"\n{3,}", "\n\n", head).strip() + "\n\n" if head.strip() else ""


def _known(kernel: Kernel) -> dict[str, Range]:
    """The ranges of the device's axes, and the arguments that are whole numbers."""
    sizes = _WORK_GROUP.search(kernel.head)
    known: dict[str, Range] = {f"gid({axis})": (0, None) for axis in range(3)}
    known |= {f"lid({axis})": (0, int(sizes[axis + 1]) - 1 if sizes else None) for axis in range(3)}
    return known | {name: (None, None) for kind, name in kernel.scalars if _WHOLE.fullmatch(kind)}


def _with_starts(kernel: Kernel, starts: Mapping[Group, str]) -> Kernel:
    """Where a group's part of a rank variable starts, computed once."""
    words = {part.text for s in all_statements(kernel.body) for e in expressions(s) for part in within(e) if isinstance(part, Name)}
    terms = {name: {parsed(axis): factor for axis, factor in reversed(group)} for group, name in starts.items() if name not in words}
    counts: Counter[str] = Counter()
    for statement in kernel.body:
        changed(statement, lambda value: _started(value, terms, counts))
    terms = {name: group for name, group in terms.items() if counts[name] > 1}
    if not terms:
        return kernel
    declared = [Declaration("int const", name, "", Linear(group).expression) for name, group in terms.items()]
    return kernel.replace((*declared, *(changed(s, lambda value: _started(value, terms, counts)) for s in kernel.body)))


def _started(value: Expression, starts: Mapping[str, Mapping[Expression, int]], counts: Counter[str]) -> Expression:
    """An expression with the names of starts for sums that contain them."""
    if not isinstance(value, Binary) or value.operator not in {"+", "-"} or any(isinstance(part, Element) for part in within(value)):
        return mapped(value, lambda child: _started(child, starts, counts))
    total = linear(value, Scope())
    for name, group in starts.items():
        if all(total.terms.get(axis) == factor for axis, factor in group.items()):
            counts[name] += 1
            first = next(iter(group))
            rest = {term: factor for term, factor in total.terms.items() if term == first or term not in group}
            total = Linear({Name(name) if t == first else t: 1 if t == first else n for t, n in rest.items()}, total.constant)
    return Linear({_started(term, starts, counts): factor for term, factor in total.terms.items()}, total.constant).expression


def _loaded(body: Sequence[Statement], types: Mapping[str, str], taken: set[str]) -> Iterator[Statement]:
    """The statements with the operands that several of them read loaded once."""
    run: list[Statement] = []
    for statement in body:
        if _is_private(statement, types) and (run or isinstance(statement, Assignment)):
            run.append(statement)
            continue
        yield from _run(run, types, taken)
        run = []
        yield _inside(statement, types, taken)
    yield from _run(run, types, taken)


def _inside(statement: Statement, types: Mapping[str, str], taken: set[str]) -> Statement:
    if isinstance(statement, Loop):
        return replace(statement, body=tuple(_loaded(statement.body, types, set(taken))))
    if isinstance(statement, Branch):
        then, other = (tuple(_loaded(part, types, set(taken))) for part in (statement.body, statement.otherwise))
        return Branch(statement.condition, then, other)
    return statement


def _is_private(statement: Statement, types: Mapping[str, str]) -> bool:
    """Whether a statement only changes private variables, which no load reads."""
    match statement:
        case Assignment(target, _, _):
            return _array(target) not in types
        case Branch(_, body, otherwise):
            return all(_is_private(inner, types) for inner in (*body, *otherwise))
    return False


def _run(run: Sequence[Statement], types: Mapping[str, str], taken: set[str]) -> Iterator[Statement]:
    """Statements that write nothing that their loads read; those behind conditions use what others have loaded."""
    assigned = [s for s in all_statements(run) if isinstance(s, Assignment)]
    written_to = {_array(s.target) for s in assigned}
    values = {id(s): list(dict.fromkeys(_operands(s.value, types))) for s in run if isinstance(s, Assignment)}
    # What stands behind a condition may not be there, and a load that only shares its operand with that is as fast where it is.
    counts = Counter(text for s in run if isinstance(s, Assignment) and not _has_choice(s.value) for text in values[id(s)])
    names: dict[Expression, Expression] = {}
    for operand, count in counts.items():
        if count > 1 and not written_to & {part.text for part in within(operand) if isinstance(part, Name)}:
            element = operand.arguments[0] if isinstance(operand, Call) else operand
            source = _array(element)
            number = 0
            while f"{source}_{number}" in taken:
                number += 1
            names[operand] = Name(f"{source}_{number}")
            taken.add(f"{source}_{number}")
            vector = _LOAD.fullmatch(operand.function) if isinstance(operand, Call) else None
            yield Declaration(f"{vector[1] if vector else types[source]} const", f"{source}_{number}", "", operand)
    for statement in run:
        yield _inside(changed(statement, lambda value: replaced(value, names)) if names else statement, types, taken)


def _operands(value: Expression, types: Mapping[str, str]) -> Iterator[Expression]:
    """The vector loads, and the elements of arrays that are not private, which an expression reads."""
    is_load = isinstance(value, Call) and _LOAD.fullmatch(value.function) is not None and isinstance(value.arguments[0], Element)
    if is_load or (isinstance(value, Element) and _array(value) in types):
        yield value
    else:
        for child in children(value):
            yield from _operands(child, types)


def _array(target: Expression) -> str:
    """The variable of which something is a part."""
    while isinstance(target, Element | Member):
        target = target.array if isinstance(target, Element) else target.of
    return written(target)


def _has_choice(value: Expression) -> bool:
    return any(isinstance(part, Choice) for part in within(value))
