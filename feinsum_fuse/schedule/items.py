"""Moving the loops over work-items inwards, past the place of a tile that the whole group shares.

A local tile is one per work-group. Where its place in the tree lies below a loop over work-items, that loop is run inside instead: its
iterations happen at the same time, so their place among the loops around them means nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .loops import chain_of, guarded, replace_chain
from .nest import For, Nest, Node, statements
from .step import Step


def shared_scope(nest: Nest, einsum: str, depth: int, step: Step) -> tuple[Nest, int]:
    """The nest in which no loop over work-items stands among the first ``depth`` loops around an Einsum, and how many of them are left.

    Before: ``for i [local.0]: for k: S(i, k)``, depth 2. After: ``for k: for i [local.0]: S(i, k)``, depth 1. Limits of k over i become
    limits of what is inside both.
    """
    while True:
        chain = chain_of(nest, einsum, step)[:depth]
        over_items = [loop.binding.startswith("local.") for loop in chain]
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


def _parts(body: tuple[Node, ...]) -> list[list[Node]]:
    """The nodes in runs that work for the same Einsums: what moves a tile may have to stand between two of them."""
    parts: list[list[Node]] = []
    before: set[str] = set()
    for node in body:
        einsums = {s.einsum for _, s in statements((node,))}
        if einsums != before:
            parts.append([])
        parts[-1].append(node)
        before = einsums
    return parts


def _inside(loop: For, body: tuple[Node, ...], path: Sequence[str]) -> tuple[Node, ...]:
    """The body, run by each work-item, with the loop over work-items inside the loops of the path."""
    result: list[Node] = []
    waiting: list[Node] = []
    for node in body:
        if path and isinstance(node, For) and node.name == path[0]:
            result += [_around(loop, waiting)] if waiting else []
            waiting = []
            mixed = tuple(limit for limit in node.limits if loop.name in limit.variables)
            inner = _inside(loop, guarded(node.body, mixed), path[1:])
            result.append(dataclasses.replace(node, limits=tuple(x for x in node.limits if x not in mixed), body=inner))
        else:
            waiting.append(node)
    return (*result, _around(loop, waiting)) if waiting else tuple(result)


def _around(loop: For, body: Sequence[Node]) -> For:
    computed = {s.einsum for _, s in statements(tuple(body)) if s.role in {"update", "map"}}
    return dataclasses.replace(loop, body=tuple(body), refs=tuple(ref for ref in loop.refs if ref.einsum in computed))
