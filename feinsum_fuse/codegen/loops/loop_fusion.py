"""Which loops become one: those of which one goes over what the one right before it has just written.

The rule is of no language: code generation asks it for statements of C (:mod:`.fused_loops`), the kernel model for those of a nest.

Einsums that hand on values within a group have loops of their own, so that what the first one writes is read again in another pass::

    for (p) N[p] = exp(S[p] - X);  for (p) L += N[p];   ->   for (p) { N[p] = exp(S[p] - X); L += N[p]; }

What an iteration of the second loop reads is then in a register, and vectors are added up while the next ones are computed. Where the
second loop takes several vectors or rows in an iteration, so does the first one then: it is unrolled as often, and its loop over rows as a
whole.

Invariant: each place is written and read by the same statements in the same order. Of an array that one loop writes and the other one
touches, no iteration touches what another iteration does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf
from typing import Generic, NamedTuple, TypeVar

MOST_STATEMENTS = 8
"""Statements of such a loop: those of more keep so much in registers that one loop would drive out what the other one keeps there."""


class LoopPlace(NamedTuple):
    """What a loop touches of an array in each iteration: ``lanes`` elements from ``first`` on, ``step`` further each time."""

    rest: frozenset[tuple[Hashable, int]]
    """What else the index is made of."""
    step: int
    first: int
    lanes: int
    is_written: bool


LoopPlaces = dict[str, list[LoopPlace]]
"""Array -> what is touched of it."""
S = TypeVar("S")


@dataclass(frozen=True)
class LoopHead(Generic[S]):
    """A loop that may become one with others: it begins at 0."""

    name: str
    count: int | None
    """Iterations; ``None`` where they are no number."""
    bound: Hashable
    """What decides on them: alike for loops with as many."""
    body: tuple[S, ...]
    kind: str = ""
    """What its variable is: those of another kind have loops of their own."""


class LoopFusion(ABC, Generic[S]):
    """The rule, for statements of one language."""

    @abstractmethod
    def head(self, statement: S) -> LoopHead[S] | None:
        """What of a statement is looked at; ``None`` unless it is a loop that may become one with others."""

    @abstractmethod
    def is_loop(self, statement: S) -> bool:
        """Whether it is a loop at all."""

    @abstractmethod
    def fused_inside(self, statement: S) -> S:
        """The statement with :meth:`fused` blocks in it."""

    @abstractmethod
    def places(self, body: Sequence[S], name: str) -> LoopPlaces | None:
        """What an iteration of a loop touches, with loops inside; ``None`` where that is not known."""

    @abstractmethod
    def loops(self, body: Sequence[S]) -> int:
        """How many loops there are."""

    @abstractmethod
    def size(self, body: Sequence[S]) -> int:
        """How many statements there are, those in others among them."""

    @abstractmethod
    def calls(self, body: Sequence[S]) -> bool:
        """Whether functions of single elements are called."""

    @abstractmethod
    def in_rows(self, row: LoopHead[S], inner: S) -> S:
        """``for (row) for (inner) body`` as ``for (inner)`` over the bodies of all rows, one after another."""

    @abstractmethod
    def in_iterations(self, loop: LoopHead[S], name: str, several: int) -> tuple[S, ...]:
        """The body for ``several`` iterations that follow one another, in an iteration of a loop of another name."""

    @abstractmethod
    def both(self, one: S, other: S, body: Sequence[S], count: int | None) -> S:
        """The other loop with this body and so many iterations (``None``: its own), in place of both."""

    def may_hand_on(self, one: S, other: S) -> bool:
        """Whether a loop may read what one before it writes, by what is known of both without much ado."""
        return True

    def fused(self, body: Sequence[S]) -> tuple[S, ...]:
        """Statements in which loops go over what they hand on together."""
        result: list[S] = []
        for statement in body:
            statement = self.fused_inside(statement)
            found = self._joined(result, statement) if self.is_loop(statement) else None
            if found is None:
                result.append(statement)
            else:
                result = found
        return tuple(result)

    def _joined(self, before: Sequence[S], loop: S) -> list[S] | None:
        """Statements and a loop after them, which is one with the last of their loops that it can be one with; what stands between both and
        needs neither comes before.
        """
        for position in range(len(before) - 1, -1, -1):
            one, between = before[position], before[position + 1 :]
            if not self.is_loop(one) or not self.may_hand_on(one, loop):
                continue
            if (both := self._as_one(one, loop) or self._as_rows(one, loop)) is not None:
                return [*before[:position], *between, both] if not between or self._are_apart(between, one) else None
        return None

    def _are_apart(self, statements: Sequence[S], loop: S) -> bool:
        """Whether no statement touches what a loop writes, nor the other way round."""
        head = self.head(loop)
        if head is None:
            return False
        first, second = self.places(statements, head.name), self.places(head.body, head.name)
        if first is None or second is None:
            return False
        return not any(place.is_written for array in first.keys() & second.keys() for place in (*first[array], *second[array]))

    def _as_rows(self, one: S, other: S) -> S | None:
        """Two loops over rows as one where loops in both become one then; else ``None``."""
        row, next_row = self.head(one), self.head(other)
        if row is None or next_row is None or (row.kind, row.bound) != (next_row.kind, next_row.bound):
            return None
        first = self.in_iterations(row, next_row.name, 1)
        written, read = self.places(first, next_row.name), self.places(next_row.body, next_row.name)
        if written is None or read is None or not stay_apart(written, read, inf if row.count is None else row.count):
            return None
        every = (*first, *next_row.body)
        body = self.fused(every)
        return self.both(one, other, body, None) if self.loops(body) < self.loops(every) else None

    def _as_one(self, one: S, other: S) -> S | None:
        """Both loops as one; ``None`` where that would change what they do, or the second one reads nothing that the first one writes."""
        flat = self._over_rows(one)
        before, after = self.head(flat) if flat is not None else None, self.head(other)
        if flat is None or before is None or before.count is None or after is None or after.count is None or self.loops(after.body):
            return None
        if before.kind != after.kind:
            return None
        count = min(before.count, after.count)
        first, second = self._in_iterations(before, after.name, count), self._in_iterations(after, after.name, count)
        every = (*first, *second)
        if not first or not second or self.size(every) > MOST_STATEMENTS:
            return None
        written, read = self.places(first, after.name), self.places(second, after.name)
        if written is None or read is None or not stay_apart(written, read, count) or (flat is not one and not is_map(written, count)):
            return None
        if self.calls(first) and is_map(written, count) and not is_map(read, count):
            return None  # compilers make calls on vectors of them while the loop may run in any order
        handed = any(a.is_written and not b.is_written for array in written for a, b in product(written[array], read.get(array, ())))
        return self.both(flat, other, every, count) if handed else None

    def _over_rows(self, loop: S) -> S | None:
        """A loop over few rows, each with a loop over its columns, as one over columns; any other as it is, ``None`` if it has loops in
        it."""
        row = self.head(loop)
        if row is None or not self.loops(row.body):
            return loop
        (inner, *others) = row.body
        columns = self.head(inner)
        if others or columns is None or row.count is None or row.count > MOST_STATEMENTS or self.loops(columns.body):
            return None
        return self.in_rows(row, inner)

    def _in_iterations(self, loop: LoopHead[S], name: str, count: int) -> tuple[S, ...]:
        """What so many iterations of a loop do, each several of its own, by the name of another loop; nothing if they do not come out
        even."""
        assert loop.count is not None
        several, rest = divmod(loop.count, count)
        return () if rest or several > MOST_STATEMENTS else self.in_iterations(loop, name, several)


def stay_apart(first: LoopPlaces, second: LoopPlaces, count: float) -> bool:
    """Whether iterations of two loops that touch an element which one of them writes are the same iteration."""
    pairs = (pair for array in first for pair in product(first[array], second.get(array, ())))
    return not any((a.is_written or b.is_written) and _meet(a, b, count) for a, b in pairs)


def is_map(places: LoopPlaces, count: float) -> bool:
    """Whether a loop may run in any order: it reads nothing that it writes, and writes no element twice."""
    for found in places.values():
        if any(place.is_written for place in found):
            if not all(place.is_written and not _meet(place, place, count) for place in found):
                return False
            if any(_meet(a, b, count) or _overlap(a, b) for a, b in combinations(found, 2)):
                return False
    return True


def _meet(a: LoopPlace, b: LoopPlace, count: float) -> bool:
    """Whether one of two places is in some iteration where the other one is in another iteration, as far as one can tell."""
    if a.step != b.step or a.rest != b.rest or a.step == 0:
        return True
    # Elements overlap so many iterations apart where -a.lanes < a.first - b.first + later * step < b.lanes.
    step, between = abs(a.step), a.first - b.first
    earliest = max((-a.lanes - between) // step + 1, 1 - count)
    latest = min(-((between - b.lanes) // step) - 1, count - 1)
    return earliest <= latest and (earliest, latest) != (0, 0)


def _overlap(a: LoopPlace, b: LoopPlace) -> bool:
    """Whether one of two places has elements of the other one in the same iteration."""
    return a.rest != b.rest or -a.lanes < a.first - b.first < b.lanes
