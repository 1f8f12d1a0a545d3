"""Finding and rewriting loops of a nest."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache

from ...formats.affine import Affine
from ...formats.opencl import MEMORIES
from ..refusals import NestOrderError, UnknownEinsumError, UnknownLoopError
from ..sameness import Same
from ..statement import Statement
from ..step import Step
from .nest import For, LoopRef, Nest, NestItem, PlacedStatement, rebuilt, unless_same

FULLY_UNROLLED = 64
"""A nest that moves a private tile of up to this many elements or vectors is unrolled: an array that a loop indexes is not in registers."""


def find(nest: Nest, ref: LoopRef, step: Step) -> For:
    """The loop that is this part of a rank variable; :class:`UnknownLoopError` if there is none."""
    if (found := _with_ref(nest.body, ref)) is not None:
        return found
    names = [str(r) for loop in nest.all_loops for r in loop.refs]
    close = get_close_matches(str(ref), names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"The loops are {', '.join(names)}."
    raise UnknownLoopError(f"{step}: there is no loop {ref}", hint=hint)


def _with_ref(body: tuple[NestItem, ...], ref: LoopRef) -> For | None:
    for node in body:
        if isinstance(node, For):
            if ref in node.refs:
                return node
            if (found := _with_ref(node.body, ref)) is not None:
                return found
    return None


def enclosing(nest: Nest, loop: For) -> tuple[For, ...]:
    """The loops from the root down to this one."""
    return _enclosing(nest.body, loop)


def _enclosing(body: tuple[NestItem, ...], loop: For) -> tuple[For, ...]:
    for node in body:
        if node is loop:
            return (loop,)
        if isinstance(node, For) and (inner := _enclosing(node.body, loop)):
            return (node, *inner)
    return ()


def check_alone(nest: Nest, loop: For, step: Step) -> None:
    """Raise :class:`NestOrderError` if a loop runs as one with the loop around it or inside it."""
    around = enclosing(nest, loop)[:-1]
    if loop.fused or (around and around[-1].fused and len(around[-1].body) == 1):
        raise NestOrderError(f"{step}: {loop.refs[0]} is fused with another loop", hint="Fuse loops once they are cut and ordered.")


def replace_loop(body: tuple[NestItem, ...], name: str, new: tuple[NestItem, ...]) -> tuple[NestItem, ...]:
    """The tree with the loop of this name replaced."""
    result: list[NestItem] = []
    for node in body:
        if not isinstance(node, For):
            result.append(node)
        elif node.name == name:
            result += new
        elif inner := replace_loop(node.body, name, new):
            result.append(with_body(node, inner))
    return unless_same(body, result)


def replace_chain(body: tuple[NestItem, ...], chain: Sequence[For], new: tuple[NestItem, ...]) -> tuple[NestItem, ...]:
    """The tree with the last of these loops, each inside the one before, replaced; other loops of its name stay."""
    first, *rest = chain
    replacement = new if not rest else (with_body(first, replace_chain(first.body, rest, new)),)
    return tuple(other for node in body for other in (replacement if node is first else (node,)))


def with_loops(body: tuple[NestItem, ...], names: Container[str], change: Callable[[For], For]) -> tuple[NestItem, ...]:
    """The tree with each loop of these names replaced by what ``change`` makes of it."""
    result: list[NestItem] = []
    for node in body:
        if isinstance(node, For):
            node = with_body(node, with_loops(node.body, names, change))
            node = change(node) if node.name in names else node
        result.append(node)
    return unless_same(body, result)


def replace_statement(body: tuple[NestItem, ...], old: Statement, new: Statement) -> tuple[NestItem, ...]:
    """The tree with a statement replaced."""
    return rebuilt(body, lambda node: (new,) if node is old else (node,))


def guarded(body: tuple[NestItem, ...], limits: tuple[Affine, ...]) -> tuple[NestItem, ...]:
    """The body, which runs only where these limits are >= 0."""
    if not limits:
        return body
    return tuple(
        n.changed(limits=n.limits + limits) if isinstance(n, For) else n.changed(guards=n.guards + limits) for n in body
    )


def chain_of(nest: Nest, einsum: str, step: Step) -> tuple[For, ...]:
    """The loops around the statement that computes an Einsum, outermost first."""
    found = _computation(nest, einsum)
    if found is not None:
        return found[0]
    known = dict.fromkeys(s.einsum for _, s in nest.points)
    raise UnknownEinsumError(f"{step}: there is no Einsum {einsum!r}", hint=f"The Einsums are {', '.join(known)}.")


def computing(nest: Nest, einsum: str) -> Statement:
    """The statement that computes an Einsum that is known to exist."""
    found = _computation(nest, einsum)
    assert found is not None
    return found[1]


def _computation(nest: Nest, einsum: str) -> PlacedStatement | None:
    """The first statement that computes an Einsum, with the loops around it: a step asks for the same one of each loop that it looks at."""
    known = nest.computations
    if einsum not in known:
        known[einsum] = _computing(nest.body, einsum)
    return known[einsum]


def _computing(body: tuple[NestItem, ...], einsum: str) -> PlacedStatement | None:
    """The same in a part of a tree: what stands elsewhere is not looked at."""
    for node in body:
        if not isinstance(node, For):
            if node.einsum == einsum and node.role in {"update", "map"}:
                return (), node
        elif einsum in node.computing and (found := _computing(node.body, einsum)) is not None:
            return (node, *found[0]), found[1]
    return None


def interval(index: Affine, loops: Sequence[For], limits: int = 2) -> tuple[int | None, int | None]:
    """Bounds of an expression over these loops, from their extents and up to so many of their limits; ``None`` means unknown.

    A limit is >= 0, so that adding a multiple of it bounds the expression from above, and subtracting one from below; the multiples
    that cancel a term are tried.
    """
    if not index.terms:
        return index.constant, index.constant
    if not limits or all(loop.limiting.isdisjoint(index.variables) for loop in loops if loop.limits):  # as of most indices
        return _box(index.coefficients, index.constant, {loop.name: loop.extent for loop in loops})
    known = tuple(dict.fromkeys([limit for loop in loops for limit in loop.limits]))
    return _limited(index, tuple([(loop.name, loop.extent) for loop in loops]), known, limits)


@lru_cache(4096)
def _limited(
    index: Affine, extents: tuple[tuple[str, int | None], ...], known: tuple[Affine, ...], limits: int
) -> tuple[int | None, int | None]:
    """The same where loops have limits: what fetches, sets and stores a tile asks for the same bounds, and so do other mappings."""
    return _interval(index.coefficients, index.constant, dict(extents), [(limit, limit.coefficients) for limit in known], limits)


_Extents = Mapping[str, int | None]


def _interval(
    terms: Mapping[str, int], constant: int, extents: _Extents, known: Sequence[tuple[Affine, Mapping[str, int]]], limits: int
) -> tuple[int | None, int | None]:
    """The same of an expression by its terms: most candidates of a search ask for thousands of sums that nobody keeps."""
    low, high = _box(terms, constant, extents)
    for limit, coefficients in known:
        for name, factor in terms.items():
            own = coefficients.get(name, 0)
            if not own or not factor or factor % own:
                continue
            times = factor // own
            rest = dict(terms)
            for other, moved in limit.terms:
                if left := rest.get(other, 0) - times * moved:
                    rest[other] = left
                else:
                    rest.pop(other, None)
            # What is left after cancelling: an upper bound if the limit was added, a lower one if it was subtracted.
            moved_by = constant - times * limit.constant
            least, most = _interval(rest, moved_by, extents, known, limits - 1) if limits > 1 else _box(rest, moved_by, extents)
            if times < 0 and most is not None:
                high = most if high is None else min(high, most)
            elif times > 0 and least is not None:
                low = least if low is None else max(low, least)
    return low, high


def _box(terms: Mapping[str, int], constant: int, extents: _Extents) -> tuple[int | None, int | None]:
    """Bounds by the loops' extents alone; a symbolic loop starts at 0, and where it ends is not known."""
    low: int | None = constant
    high: int | None = constant
    for name, factor in terms.items():
        extent = extents.get(name)
        if extent is None:
            low, high = (None if factor < 0 else low), (None if factor > 0 else high)
            continue
        reach = factor * (extent - 1)
        low = None if low is None else low + min(0, reach)
        high = None if high is None else high + max(0, reach)
    return low, high


def is_reduction(nest: Nest, loop: For, einsum: str) -> bool:
    """Whether this loop runs over a rank variable that the Einsum's output is not indexed by."""
    statement = computing(nest, einsum)
    if statement.reduce is None or loop.name not in statement.iterated or loop.name in statement.target.loops:
        return False
    tile = nest.tiles.get(statement.target.source)
    return tile is None or not any(loop.name in first.variables for first in tile.origin)


def output_indices(nest: Nest, statement: Statement) -> tuple[Affine, ...]:
    """The tensor element that a statement writes, also where it writes into a tile."""
    tile = nest.tiles.get(statement.target.source)
    if tile is None:
        return statement.target.indices
    return tile.element(statement.target.indices)


def inside(node: NestItem, einsums: Sequence[str]) -> bool:
    """Whether a statement that computes one of these Einsums stands in this subtree."""
    return not node.computing.isdisjoint(einsums)


def with_body(loop: For, body: tuple[NestItem, ...]) -> For:
    """The loop around another body; the loop itself around its own."""
    return loop if body is loop.body else loop.around(body)


def adds_lanes(nest: Nest, above: Sequence[For], statement: Statement) -> bool:
    """Whether a statement adds to partial results of which each lane has one."""
    tile = nest.tiles.get(statement.target.source)
    is_private = tile is not None and tile.lanes == 1 and MEMORIES[tile.memory].is_register
    return is_private and bool(above) and above[-1].binding == "vector" and statement.role == "update"


def moves_private(nest: Nest, loop: For) -> bool:
    """Whether a loop of our own moves or sets a private tile of few elements or vectors, or is one over the lanes of a larger one: the text
    has its iterations one behind another.
    """
    if loop.refs or len(loop.inner_points) != 1:
        return False
    ((_, statement),) = loop.inner_points
    if statement.role in {"update", "map"}:
        return False
    held = (nest.tiles.get(source) for source in statement.sources)
    private = [tile for tile in held if tile is not None and MEMORIES[tile.memory].is_register]
    if all(tile.elements // tile.lanes <= FULLY_UNROLLED for tile in private):
        return bool(private)
    # What lanes add up is held as numbers, of which those of a vector are set and combined at once.
    added = _added_lanes(Same(nest))
    is_lanes = loop.body == (statement,) and all(added.get(tile.name) == loop.extent for tile in private)
    return is_lanes or all(tile.elements // max(tile.lanes, added.get(tile.name, 1)) <= FULLY_UNROLLED for tile in private)


@lru_cache(4)
def _added_lanes(nest: Same[Nest]) -> Mapping[str, int]:
    """Private tile of partial results -> the lanes that each result has one of."""
    return {s.target.source: above[-1].extent or 1 for above, s in nest.value.points if adds_lanes(nest.value, above, s)}
