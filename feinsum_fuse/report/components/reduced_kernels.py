"""Kernels of one schedule from which one thing was taken away; they compute something else, in as many steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType

import numpy as np
from constantdict import constantdict
from pymbolic.primitives import Product, Sum, Variable

from ...formats.affine import Affine
from ...formats.language.reductions import ADD
from ...formats.opencl import FANOUT_KINDS, MEMORIES, level_of
from ...formats.workload import operand_name
from ...schedule.statement import Place, Statement
from ...schedule.tree.nest import For, Nest, NestItem, rebuilt
from ...schedule.tree.parallel import memory_of

IN_TIME = ("loop", "unroll")
OVER_GROUPS = tuple(kind for kind in FANOUT_KINDS if level_of(kind) == "group")
NEAR = 4
"""An array that is kept near takes at most this part of the nearest cache."""
TOGETHER: Mapping[str, str] = MappingProxyType(
    {
        "one cache alone": "far memory is all that lies beyond the nearest cache",
    }
)
"""What no variant takes away by itself, and why."""


def variants(nest: Nest, near_bytes: float) -> Iterator[tuple[str, Nest, Nest]]:
    """What was taken away, the nest without it as it runs, and as the model is asked; nothing of a nest that does not have it.

    ``near_bytes`` is the size of the nearest cache.
    """
    copied = copied_once(nest)
    for what, changed, asked in (
        ("far memory", near(nest, near_bytes / NEAR), None),
        ("arithmetic", without_arithmetic(nest, as_factor=True), without_arithmetic(nest)),
        ("repeated copies", copied, without_repeats(nest, copied)),
        ("other cores", on_one_core(nest), None),
        ("further iterations", once(nest), None),
    ):
        if changed.body != nest.body:
            yield what, changed, asked or changed


def near(nest: Nest, most_bytes: float) -> Nest:
    """Arrays in main memory are read and written in a part of ``most_bytes``, again and again: the same instructions, no lines from afar.

    Of each index the innermost loops that fit stay, so that a compiler still cannot take the access out of them. Groups read the same
    elements, and write those of their own: cores that write the same lines wait for one another.
    """

    def changed(body: tuple[NestItem, ...], above: tuple[For, ...]) -> tuple[NestItem, ...]:
        result: list[NestItem] = []
        for node in body:
            if isinstance(node, For):
                result.append(dataclasses.replace(node, body=changed(node.body, (*above, node))))
                continue
            read = tuple(_near(nest, place, above, most_bytes, {*IN_TIME, *OVER_GROUPS}) for place in node.operands)
            written = _near(nest, node.target, above, most_bytes, IN_TIME)
            result.append(dataclasses.replace(node, target=written, operands=read))
        return tuple(result)

    return nest.replace(body=changed(nest.body, ()))


def _near(nest: Nest, place: Place, above: tuple[For, ...], most_bytes: float, left_out: Collection[str]) -> Place:
    """An access without the outermost loops that its array does not fit the room with, of these bindings."""
    is_direct = place.source in nest.sources and nest.sources[place.source].is_direct
    if memory_of(nest, place.source) != "global" or (place.source not in nest.tiles and not is_direct):
        return place
    if any(factor < 0 for index in place.indices for _, factor in index.terms):
        return place
    kept = {loop.name for loop in above if loop.binding not in left_out}
    fixed = _span(place.indices, above, kept)
    for loop in reversed(above):
        tried = kept | {loop.name}
        if _span(place.indices, above, tried) // fixed * np.dtype(nest.dtype_of(place.source)).itemsize > most_bytes:
            break
        kept = tried
    indices = tuple(Affine(index.restricted(kept).terms, index.constant) for index in place.indices)
    whole = all(Affine(i.terms) == Affine(old.terms) for i, old in zip(indices, place.indices, strict=True))
    # A negative constant is made up for by the loops that are left out: the first element takes its place.
    return place if whole else Place(place.source, tuple(Affine(index.terms, max(0, index.constant)) for index in indices))


def _span(indices: Collection[Affine], above: tuple[For, ...], kept: Collection[str]) -> int:
    """Elements that these loops touch; a loop of symbolic length touches too many."""
    extents = {loop.name: loop.extent or 2**30 for loop in above}
    return prod(Affine(index.restricted(kept).terms).extent(extents) for index in indices)


def without_arithmetic(nest: Nest, *, as_factor: bool = False) -> Nest:
    """Every value that is loaded is added to a sum once, and nothing else is computed: all loads and stores stay.

    Sums are those of the Einsums, so that a compiler can leave nothing out. ``Z[i, j] += A[i] * B[j]`` in copies of ``i`` and ``j``, where
    registers hold ``A[i]`` and ``B[j]``, becomes ``Z[0, 0] += A[0] + B[0]``, ``Z[i, 0] += A[i]`` and ``Z[0, j] += B[j]``. As a
    factor, ``(A[0] + B[0]) * 1``, which is how it is to run, a sum is taken before it is added: its terms do not wait for one another.
    """

    def changed(node: NestItem, above: tuple[For, ...]) -> tuple[NestItem, ...]:
        if isinstance(node, For):
            inside = tuple(new for child in node.body for new in changed(child, (*above, node)))
            return (dataclasses.replace(node, body=inside),)
        return _added(nest, node, above, as_factor)

    return nest.replace(body=tuple(new for node in nest.body for new in changed(node, ())))


def _added(nest: Nest, statement: Statement, above: tuple[For, ...], as_factor: bool) -> tuple[Statement, ...]:
    """What is left of a statement: one that adds all operands up, and one for each operand in copies where it alone is loaded anew."""
    places = tuple(dict.fromkeys(statement.operands))
    kinds = {nest.dtype_of(place.source) for place in (*places, statement.target)}
    if statement.role not in {"update", "map"} or not places or len(kinds) > 1:
        return (statement,)
    if statement.reduce is None:
        return (_sum_of(statement, places),)
    copies = [loop.name for loop in above if loop.binding == "unroll"]
    held = {place: {name for name in copies if not any(name in index.variables for index in place.indices)} for place in places}
    every = [name for name in copies if any(name in some for some in held.values())]
    alone = [
        _sum_of(statement, (place,), first=[name for name in every if name in some], later=others)
        for place, some in held.items()
        if (others := [name for name in every if name not in some])
    ]
    of_fractions = all(np.dtype(kind).kind == "f" for kind in kinds)
    return (*alone, _sum_of(statement, places, first=every, as_factor=as_factor and of_fractions))


def _sum_of(
    statement: Statement, places: tuple[Place, ...], first: Sequence[str] = (), later: Sequence[str] = (), as_factor: bool = False
) -> Statement:
    """The statement with the sum of some places as its value, added up; while ``first`` are at 0 and one of ``later`` is not."""
    terms = [Variable(operand_name(k)) for k in range(len(places))]
    return dataclasses.replace(
        statement,
        value=terms[0] if len(terms) == 1 else Product((Sum(tuple(terms)), 1.0)) if as_factor else Sum(tuple(terms)),
        operands=places,
        values=constantdict(),
        reduce=None if statement.reduce is None else ADD.name,
        first=tuple(dict.fromkeys((*statement.first, *first))),
        later=statement.later or tuple(later),
    )


def copied_once(nest: Nest) -> Nest:
    """A tile that a group shares is filled by the first iteration alone of the loops in time around its copy."""

    def changed(body: tuple[NestItem, ...], above: tuple[str, ...]) -> tuple[NestItem, ...]:
        result: list[NestItem] = []
        for node in body:
            if isinstance(node, For):
                is_in_time = node.binding == "loop" and bool(node.refs)
                result.append(dataclasses.replace(node, body=changed(node.body, (*above, node.name) if is_in_time else above)))
            elif node.role == "fetch" and MEMORIES[nest.tiles[node.target.source].memory].is_shared_by_items and above:
                result.append(dataclasses.replace(node, first=tuple(dict.fromkeys((*node.first, *above)))))
            else:
                result.append(node)
        return tuple(result)

    return nest.replace(body=changed(nest.body, ()))


def without_repeats(nest: Nest, copied: Nest) -> Nest:
    """The nest without the copies that ``copied`` has once; the model counts what a condition leaves out."""
    old, new = [s for _, s in nest.points], [s for _, s in copied.points]
    gone = {id(a) for a, b in zip(old, new, strict=True) if a is not b and a != b}
    return nest.replace(body=rebuilt(nest.body, lambda node: () if id(node) in gone else (node,)))


def on_one_core(nest: Nest) -> Nest:
    """All groups run one after another, as one."""
    return _with_loops(nest, lambda loop: {"binding": "loop"} if loop.is_over_groups else {})


def once(nest: Nest) -> Nest:
    """Every group runs one iteration of each of its loops in time: what is left is starting kernels and groups."""
    return _with_loops(nest, lambda loop: {"extent": 1} if loop.binding in IN_TIME else {})


def _with_loops(nest: Nest, change: Callable[[For], Mapping[str, object]]) -> Nest:
    def changed(node: NestItem) -> tuple[NestItem, ...]:
        if isinstance(node, Statement):
            return (node,)
        fields = change(node)
        return (dataclasses.replace(node, **fields) if fields else node,)  # type: ignore[arg-type]

    return nest.replace(body=rebuilt(nest.body, changed))
