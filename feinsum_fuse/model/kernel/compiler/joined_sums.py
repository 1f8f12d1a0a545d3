"""Sums of loops over scalars that a compiler adds up in vectors, in an order of its own: what it may depends on what it takes for exact."""

from __future__ import annotations

from dataclasses import replace

from loopy.symbolic import SubstitutionMapper, UncachedWalkMapper
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Call, Variable

from ....formats.language.functions import FUNCTIONS
from ....formats.language.reductions import ADD
from ....formats.workload import operand_name
from ..basic_blocks import CodeLine
from ..straight_code import Straight
from ..value_operations import is_call
from .group_indices import are_left_alone

LEAST_HALVED = 4
"""Lanes from which on a compiler that knows how long a sum is may take half of them, of which it is a whole number."""


def compiled(code: Straight) -> Straight:
    """The code with its sums in vectors, if the compiler makes them and they are faster."""
    lanes = _lanes(code)
    if lanes == 1:
        return code
    lengths = [lanes] if lanes < LEAST_HALVED or not code.sums.lengths else [lanes, lanes // 2]
    others = [replace(code, summed=length) for length in lengths]
    return min(code, *others, key=lambda one: one.seconds()) if others[0].is_worth_gathering else code


def _lanes(code: Straight) -> int:
    """Elements that are added up at a time; 1 where sums keep their order."""
    loop, machine = code.block.loop, code.machine
    if loop is None or len(loop.limits) > 1 or not machine.joins_sums or are_left_alone(machine, code.nest, code.block):
        return 1
    lines = code.block.lines
    if all(line.statement.reduce is None for line in lines):
        return 1
    longest = min(code.scalars.native(line) for line in code.block.lines)
    summed = code.block.trips * max(line.copies for line in lines)
    if not all(_is_joined(code, line, loop.name) for line in lines) or summed < longest * (1 if code.sums.lengths else 2):
        return 1
    if _turns_both_ways(code):
        return 1
    return min(longest, 1 << (int(max(1.0, code.block.trips)).bit_length() - 1))


def _is_joined(code: Straight, line: CodeLine, loop: str) -> bool:
    """Whether iterations of a statement may be those of a vector: it adds to one place, or fills one that its own iteration reads."""
    if line.lane is not None or line.statement.guards or line.guarded or loop in line.statement.target.loops:
        return False
    if line.statement.reduce not in (None, ADD.name):
        return False
    return code.machine.joins_calls or not any(is_call(name) for name, _ in code.operations_of(line))


def _turns_both_ways(code: Straight) -> bool:
    """Whether the loop takes sine and cosine of one argument, and the compiler one function for both, of which there is none on vectors."""
    if code.machine.joins_turns:
        return False
    turns = _Turns()
    for line in code.block.lines:
        if any(name in FUNCTIONS and FUNCTIONS[name].is_periodic for name, _ in code.operations_of(line)):
            places = {operand_name(k): Variable(f"{p.source}{p.indices}") for k, p in enumerate(line.statement.operands)}
            turns(SubstitutionMapper(make_subst_func(places))(line.statement.value))
    return len({arguments for _, arguments in turns.found}) < len(turns.found)


class _Turns(UncachedWalkMapper):  # type: ignore[misc]
    """Finds periodic functions with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, object]] = set()

    def map_call(self, expr: Call) -> None:
        name = expr.function.name if isinstance(expr.function, Variable) else str(expr.function)
        if name in FUNCTIONS and FUNCTIONS[name].is_periodic:
            self.found.add((name, expr.parameters))
        super().map_call(expr)
