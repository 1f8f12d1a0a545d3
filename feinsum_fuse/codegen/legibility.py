"""OpenCL C as a person would write it: the same statements, with what is repeated computed once.

loopy substitutes every index into every statement, and says nothing of its loops. The passes here change no value, and none depends on what
an Einsum computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pymbolic.primitives as p

from ..schedule.kernel.remarks import Description
from .arithmetic import Known, Linear, Range, function_of, is_axis
from .lines_asked_for import with_lines_once, with_rows_asked_for
from .loops.element_runs import in_vectors
from .loops.fused_loops import with_loops_fused
from .loops.whole_tiles import with_whole_tiles_apart
from .repeats import loop_names, with_loads, with_names, with_starts
from .simplification import joined, shortened, unrolled
from .statement_expressions import Substitution, VectorCall, array_of, variables, within
from .statements import Assignment, CStatement, Declaration, Foreign, Kernel, Loop, all_statements, bodies, changed, expressions, renamed


def legible(kernel: Kernel, description: Description) -> Kernel:
    """A kernel as a person would write it; one with statements that are not looked into is left as it is."""
    if any(isinstance(statement, Foreign) for statement in all_statements(kernel.body)):
        return kernel
    known = Known(dict(_ranges(kernel)), floats=frozenset(name for name, v in kernel.variables.items() if v.kind not in "iub"))
    body = unrolled(kernel.body)
    if names := _free(body, description.names):
        substitution = Substitution({old: p.Variable(new) for old, new in names.items()})
        body = tuple(renamed(changed(statement, substitution), names) for statement in body)
    private = frozenset(name for name, variable in kernel.variables.items() if variable.memory == "private")
    apart = joined(with_whole_tiles_apart(with_loops_fused(joined(shortened(body, known))), known, private))
    apart = in_vectors(with_lines_once(apart), kernel.variables)
    apart = with_rows_asked_for(apart, _names(apart, kernel))
    result = with_starts(apart, _starts(kernel, description))
    taken = _names(result, kernel)
    result = tuple(with_loads(result, kernel.variables, taken))
    constants = frozenset(argument.name for argument in kernel.head.arguments if not argument.is_array)
    finished = kernel.with_body(with_names(result, constants, taken))
    return replace(finished, remarks=tuple(_axes(finished, description)))


def _names(body: Sequence[CStatement], kernel: Kernel) -> set[str]:
    """All names that occur in the statements of a kernel, and its own."""
    used = {name for s in all_statements(body) for e in expressions(s) for name in variables(e)}
    return {*used, *loop_names(body), *kernel.variables, kernel.head.name}


def _free(body: Sequence[CStatement], wishes: Mapping[str, str]) -> dict[str, str]:
    """Loop -> its other name, for loops of which none stands in another that has the same one, and that no loop has which keeps its own."""
    taken: set[str] = set()
    kept = set(_doubled(body, wishes, ()))
    while not kept <= taken:
        taken |= kept
        kept = {name for name, wish in wishes.items() if wish in taken}
    return {name: wish for name, wish in wishes.items() if wish not in taken}


def _doubled(body: Sequence[CStatement], wishes: Mapping[str, str], above: tuple[str, ...]) -> Iterator[str]:
    """The names that loops and others around them want. What declares a loop's only iteration stands around all that follows it."""
    for statement in body:
        here = above
        if isinstance(statement, Loop) or (isinstance(statement, Declaration) and statement.name in wishes):
            wanted = wishes.get(statement.name, statement.name)
            if wanted in above:
                yield wanted
            here = (*above, wanted)
        above = here if isinstance(statement, Declaration) else above
        for block in bodies(statement):
            yield from _doubled(block, wishes, here)


def _ranges(kernel: Kernel) -> Iterator[tuple[p.ExpressionNode, Range]]:
    """The ranges of the device's axes, and the arguments that are whole numbers."""
    group = kernel.head.group
    for axis, count in enumerate(kernel.head.groups):
        yield p.Variable("gid")(axis), (0, None if count is None else count - 1)
        yield p.Variable("lid")(axis), (0, group[axis] - 1 if group else None)
    for argument in kernel.head.arguments:
        if not argument.is_array and kernel.variables[argument.name].kind == "i":
            yield p.Variable(argument.name), (None, None)


def _starts(kernel: Kernel, description: Description) -> dict[str, Linear]:
    """Name -> where a group's part of a rank variable starts, of those by which the kernel writes; a sum has one name."""
    written = _written(kernel)
    names = {start.group: start.name for start in reversed(description.starts) if written.intersection(start.writes)}
    return {
        name: Linear({p.Variable(kind)(axis): factor for (kind, axis), factor in reversed(group)})
        for group, name in reversed(names.items())
    }


def _written(kernel: Kernel) -> set[str]:
    """The arrays that a kernel writes."""
    targets = {array_of(s.target) for s in all_statements(kernel.body) if isinstance(s, Assignment)}
    parts = (part for s in all_statements(kernel.body) for e in expressions(s) for part in within(e))
    return targets | {array_of(part.parameters[0]) for part in parts if isinstance(part, VectorCall) and part.operation.changes_first}


def _axes(kernel: Kernel, description: Description) -> Iterator[str]:
    """A remark for each device axis that a kernel uses: the loops whose statements write what the kernel writes."""
    every = [part for s in all_statements(kernel.body) for e in expressions(s) for part in within(e)]
    used = {(function_of(part), part.parameters[0]) for part in every if is_axis(part)}
    written = _written(kernel)
    here = [axis for axis in description.axes if axis.axis in used and written.intersection(axis.writes)]
    named = {axis.axis for axis in here if not axis.moves}
    # What only moves tiles is said of an axis that has no loops of its own.
    here = [axis for axis in here if not axis.moves or axis.axis not in named]
    yield from dict.fromkeys(f"{axis.axis[0]}({axis.axis[1]}): {axis.remark}" for axis in here)
