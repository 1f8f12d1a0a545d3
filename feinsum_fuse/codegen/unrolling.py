"""Loops that are written out: the tree is copied for each iteration.

loopy generates the code of such a loop anew for each iteration, which takes nearly all of its time. Here it sees an ordinary loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from .arithmetic import both
from .expressions import Substitution
from .statements import Branch, Loop, Statement, bodies, changed, with_bodies


def unrolled(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements with every loop that is to be unrolled written out, each iteration under its conditions."""
    return tuple(_unrolled(body, {}))


def _unrolled(body: Sequence[Statement], values: Mapping[str, int]) -> Iterator[Statement]:
    for statement in body:
        if isinstance(statement, Loop) and statement.unrolled:
            yield from _iterations(statement, values)
            continue
        # A statement's own expressions are changed once, whatever the depth of the loops around it.
        bare = with_bodies(statement, lambda _: ())
        blocks = iter([tuple(_unrolled(part, values)) for part in bodies(statement)])
        yield with_bodies(changed(bare, Substitution(dict(values))) if values else bare, partial(_next, blocks))


def _next(blocks: Iterator[tuple[Statement, ...]], _: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return next(blocks)


def _iterations(loop: Loop, values: Mapping[str, int]) -> Iterator[Statement]:
    assert isinstance(loop.first, int) and isinstance(loop.last, int)
    for value in range(loop.first, loop.last + 1):
        here = {**values, loop.name: value}
        conditions = loop.bounds.at(here) if loop.bounds else ()
        if conditions is None:
            continue
        copy = tuple(_unrolled(loop.body, here))
        if conditions:
            yield Branch(both(conditions), copy)
        else:
            yield from copy
