"""What compilers keep in registers of what statements of one iteration share: parts of values, and tiles that none elsewhere reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from loopy.symbolic import SubstitutionMapper
from pymbolic.mapper.substitutor import make_subst_func
from pymbolic.primitives import Variable

from ....formats.language.reductions import REDUCTIONS
from ....formats.workload import operand_name
from ....schedule.statement import Place
from ....schedule.tree.nest import Nest
from ..basic_blocks import BasicBlock, CodeLine
from ..held_values import is_conditional, vectors_at
from ..value_operations import ADDITION, alike, by_loops, computed_parts
from .scalar_vectors import ScalarVectors

SharedParts = frozenset[object]
"""Expressions of a statement's operands."""


def operations_by_line(scalars: ScalarVectors, lines: Sequence[CodeLine]) -> dict[int, Counter[tuple[str, frozenset[str]]]]:
    """Statement of straight code (by its line's identity) -> its operations with the loops that move them, the function of its reduction
    among them; what statements before it have computed takes none.
    """
    before, written = values_before(scalars.nest, lines), frozenset(line.statement.target.source for line in lines)
    result = {}
    for line in lines:
        moving = moved_by(line, written)
        counted, own, fused, _ = scalars.operations(line, before.get(id(line), frozenset()))
        found = by_loops(counted, fused, moving)
        cost = None if line.statement.reduce is None else REDUCTIONS[line.statement.reduce].cost
        if cost is not None:
            # The largest so far is one instruction of vectors, on the ports of additions: none asks any more whether it is a number.
            found[ADDITION if line.is_vector else cost, moving(own) | line.around] += 1
        result[id(line)] = found
    return result


def moved_by(line: CodeLine, written: Collection[str]) -> Callable[[frozenset[str]], frozenset[str]]:
    """Variables of a statement's value -> the loops that move them: all of an array that is ``written`` meanwhile, wherever it is."""
    named = {operand_name(k): place for k, place in enumerate(line.statement.operands)}
    moved = {name: line.around if place.source in written else place.loops for name, place in named.items()}
    return lambda names: frozenset[str]().union(*(moved.get(name, (name,)) for name in names))


def values_before(nest: Nest, lines: Sequence[CodeLine]) -> Mapping[int, SharedParts]:
    """Statement of straight code (by its line's identity) -> the parts of its value that statements before it have computed of the same
    vectors, none of which was written since.
    """
    found: dict[int, SharedParts] = {}
    for number, line in enumerate(lines):
        written: set[str] = set()
        parts: SharedParts = frozenset()
        for other in reversed(lines[:number]):
            written.add(_array(nest, other.statement.target.source))
            if is_conditional(other) or _shape(other) != _shape(line):
                continue
            names = _names_in(nest, other, line, written)
            if names:
                parts |= _renamed(other.statement.value, alike(other.statement.operands), names)
        if parts:
            found[id(line)] = parts
    return found


def _shape(line: CodeLine) -> tuple[object, ...]:
    """Two statements compute as often, on vectors as long, if these are equal."""
    return (*(loop.extent for loop in line.unrolled), line.width, line.copies)


def _names_in(nest: Nest, line: CodeLine, other: CodeLine, written: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Operands of a statement that another one reads, too, with their names in both; none of arrays that are ``written``."""
    there: dict[object, str] = {}
    for k, place in enumerate(other.statement.operands):
        there.setdefault(_vectors(other, place), operand_name(k))
    names = []
    for k, place in enumerate(line.statement.operands):
        name = there.get(_vectors(line, place))
        if name is not None and _array(nest, place.source) not in written:
            names.append((operand_name(k), name))
    return tuple(names)


def _vectors(line: CodeLine, place: Place) -> tuple[object, ...]:
    """The same vectors in both statements: ``A[k, m]*A[k, n]`` reads two, also where both loops have one length."""
    alone = [other.indices for other in line.statement.operands if vectors_at(line, other) == vectors_at(line, place)]
    return (*vectors_at(line, place), list(dict.fromkeys(alone)).index(place.indices))


def _array(nest: Nest, source: str) -> str:
    """One name for all ways to reach a tensor."""
    return source if source in nest.tiles else nest.sources[source].tensor


@lru_cache(1024)
def _renamed(value: object, same: tuple[tuple[str, str], ...], names: tuple[tuple[str, str], ...]) -> SharedParts:
    """The parts of a value that are made of operands with other names, in these names."""
    known = dict(names)
    mapper = SubstitutionMapper(make_subst_func({name: Variable(other) for name, other in names}))
    return frozenset(mapper(part) for part, variables in computed_parts(value, same) if variables <= known.keys())


def unread_tiles(nest: Nest, found: Iterable[BasicBlock]) -> frozenset[str]:
    """Tiles that are in registers although they have a place in memory: in each of the blocks of a nest an iteration reads only what it has
    just written there, so that compilers drop the stores.
    """
    kept, left = set(nest.tiles), set[str]()
    for block in found:
        fresh: dict[str, tuple[object, ...]] = {}
        for line in block.lines:
            for place in line.reads:
                if place.source in kept and fresh.get(place.source) != vectors_at(line, place):
                    kept.discard(place.source)
            source = line.statement.target.source
            if source not in kept:
                continue
            if source in fresh or is_conditional(line) or line.statement.reduce is not None:
                kept.discard(source)
            fresh[source] = vectors_at(line, line.statement.target)
            left.add(source)
    return frozenset(kept & left)
