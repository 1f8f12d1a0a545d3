"""The loops over work-items around and below the place of a tile.

Their iterations happen at the same time, so their place among the loops around them means nothing. A local tile is one per work-group:
where its place lies below a loop over work-items, that loop is run inside instead. A private tile is one per work-item, and such loops may
not lie below its place; of a distributed one each work-item holds its own part, and what moves the tile runs under copies of those loops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from constantdict import constantdict

from ...formats.affine import Affine
from ...formats.opencl import MEMORIES
from ..statement import Statement
from ..step import Step
from .loops import chain_of, guarded, replace_chain
from .nest import For, Nest, NestItem, rebuilt, statements, substituted


def shared_scope(nest: Nest, einsum: str, depth: int, step: Step) -> tuple[Nest, int]:
    """The nest in which no loop over work-items stands among the first ``depth`` loops around an Einsum, and how many of them are left.

    Before: ``for i [local.0]: for k: S(i, k)``, depth 2. After: ``for k: for i [local.0]: S(i, k)``, depth 1. Limits of k over i become
    limits of what is inside both.
    """
    while True:
        chain = chain_of(nest, einsum, step)[:depth]
        over_items = [loop.is_over_items for loop in chain]
        if True not in over_items:
            return nest, depth
        last = max(position for position, found in enumerate(over_items) if found)
        if last == depth - 1:
            depth -= 1
            parts = tuple(_around(chain[last], part) for part in _parts(chain[last].body))
            if len(parts) > 1:
                nest = nest.replace(body=replace_chain(nest.body, chain[: last + 1], parts))
            continue
        path = [loop.name for loop in chain[last + 1 :]]
        nest = nest.replace(body=replace_chain(nest.body, chain[: last + 1], _inside(chain[last], chain[last].body, path)))


def _parts(body: tuple[NestItem, ...]) -> list[list[NestItem]]:
    """The nodes in runs that work for the same Einsums: what moves a tile may have to stand between two of them."""
    parts: list[list[NestItem]] = []
    before: set[str] = set()
    for node in body:
        einsums = {s.einsum for _, s in statements((node,))}
        if einsums != before:
            parts.append([])
        parts[-1].append(node)
        before = einsums
    return parts


def _inside(loop: For, body: tuple[NestItem, ...], path: Sequence[str]) -> tuple[NestItem, ...]:
    """The body, run by each work-item, with the loop over work-items inside the loops of the path."""
    result: list[NestItem] = []
    waiting: list[NestItem] = []
    for node in body:
        if path and isinstance(node, For) and node.name == path[0]:
            result += [_around(loop, waiting)] if waiting else []
            waiting = []
            mixed = tuple(limit for limit in node.limits if loop.name in limit.variables)
            inner = _inside(loop, guarded(node.body, mixed), path[1:])
            result.append(node.changed(limits=tuple(x for x in node.limits if x not in mixed), body=inner))
        else:
            waiting.append(node)
    return (*result, _around(loop, waiting)) if waiting else tuple(result)


def _around(loop: For, body: Sequence[NestItem]) -> For:
    computed = {s.einsum for _, s in statements(tuple(body)) if s.role in {"update", "map"}}
    return loop.changed(body=tuple(body), refs=tuple(ref for ref in loop.refs if ref.einsum in computed))


def own_items(nest: Nest, memory: str, scope: Sequence[str], uses: Callable[[Statement], bool]) -> tuple[Nest, tuple[For, ...]]:
    """The loops over work-items below a scope and around the statements that use a distributed tile, outermost first; none for others.

    In the nest that is returned, those of one axis and length have one name, because an iteration of each runs on the same work-item.
    """
    if not MEMORIES[memory].is_distributed:
        return nest, ()
    found: dict[str, tuple[For, ...]] = {}
    names: dict[str, str] = {}
    for above, statement in nest.points:
        if not uses(statement) or tuple(loop.name for loop in above[: len(scope)]) != tuple(scope):
            continue
        over_items = [loop for loop in above[len(scope) :] if loop.is_over_items]
        for axis in dict.fromkeys(loop.binding for loop in over_items):
            loops = tuple(loop for loop in over_items if loop.binding == axis)
            first = found.setdefault(axis, loops)
            if [loop.extent for loop in loops] == [loop.extent for loop in first]:
                names |= {loop.name: other.name for loop, other in zip(loops, first, strict=True) if loop.name != other.name}
                names |= {loop.fused: other.fused for loop, other in zip(loops, first, strict=True) if loop.fused != other.fused}
    return _with_loops_called(nest, names) if names else nest, tuple(loop for loops in found.values() for loop in loops)


def _with_loops_called(nest: Nest, names: dict[str, str]) -> Nest:
    values = {old: Affine.variable(new) for old, new in names.items()}

    def change(node: NestItem) -> tuple[NestItem, ...]:
        if isinstance(node, For):
            return (node.changed(name=names.get(node.name, node.name), fused=names.get(node.fused, node.fused)),)
        return (node,)

    tiles = {n: dataclasses.replace(t, origin=tuple(o.substituted(values) for o in t.origin)) for n, t in nest.tiles.items()}
    return nest.replace(body=substituted(rebuilt(nest.body, change), values), tiles=constantdict(tiles))


def item_loops(chains: Sequence[tuple[For, ...]], scope: Sequence[str]) -> tuple[For, ...]:
    """Copies of the loops over work-items below a scope in these chains of loops, for what moves a tile: with those limits that all chains
    have and that hold for all that a work-item does.
    """
    found: dict[str, For] = {}
    for chain in chains:
        below = chain[len(scope) :]
        inner = {loop.name for loop in below if not loop.is_over_items}
        for loop in below:
            if loop.is_over_items:
                limits = tuple(limit for limit in loop.limits if not inner.intersection(limit.variables))
                kept = tuple(limit for limit in limits if loop.name not in found or limit in found[loop.name].limits)
                found[loop.name] = loop.changed(body=(), limits=kept, refs=())
    return tuple(found.values())


def items_first(above: tuple[For, ...], scope: Sequence[str], items: Sequence[For]) -> tuple[For, ...]:
    """The loops around a statement as if its loops over work-items were these, around what else stands below the scope."""
    if not items:
        return above
    below = [loop for loop in above[len(scope) :] if not loop.is_over_items]
    inner = {loop.name for loop in below}
    over_items = [loop for loop in above[len(scope) :] if loop.is_over_items]
    mixed = tuple(limit for loop in over_items for limit in loop.limits if inner.intersection(limit.variables))
    if mixed:
        below[-1] = below[-1].changed(limits=below[-1].limits + mixed)
    return (*above[: len(scope)], *items, *below)
