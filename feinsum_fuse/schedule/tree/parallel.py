"""What a device's parallel axes ask of every statement, and where groups and work-items must wait for one another.

OpenCL runs every statement on every work-item of every group. A statement outside a bound loop therefore gets a loop of one iteration on
that axis (only the first work-item runs it), and a nest that moves a local tile is spread over the work-items, neighbours in global memory
first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from ...cascades.names import Identifiers
from ...formats.affine import Affine
from ...formats.opencl import FANOUT_KINDS, MEMORIES, AddressSpace, FanoutKind, Level, level_of
from ..refusals import CrossKernelStorageError, HostLoopError
from ..statement import Statement
from .nest import For, Nest, NestItem, fused_chain, statements, substituted, walk


def axes_of(nest: Nest, level: Level) -> dict[FanoutKind, int]:
    """Device axis -> the largest number of iterations bound to it, for ``group`` or ``local``; OpenCL wants axes without gaps."""
    sizes: dict[FanoutKind, int] = {}
    for loop in nest.all_loops:
        if level_of(loop.binding) == level:
            sizes[loop.binding] = max(sizes.get(loop.binding, 1), prod(one.extent or 1 for one in fused_chain(loop)))
    kinds = [kind for kind in FANOUT_KINDS if level_of(kind) == level]
    last = max(map(kinds.index, sizes), default=-1)
    return {kind: sizes.get(kind, 1) for kind in kinds[: last + 1]}


def distributed(nest: Nest) -> Nest:
    """The nest with every statement under a loop for each device axis that the kernel uses; work-items are those of each device kernel."""
    groups, items = axes_of(nest, "group"), axes_of(nest, "local")
    if not groups and not items:
        return nest
    body: tuple[NestItem, ...] = ()
    for start, end in pairwise((0, *(kernel_starts(nest) if items else ()), len(nest.body))):
        part = nest.body[start:end]
        own = axes_of(nest.replace(body=part), "local")
        axes = {**groups, **{axis: own.get(axis, 1) for axis in items}}
        body += tuple(new for node in part for new in _spread(nest, node, axes))
    taken = {*nest.loops, *(loop.fused for loop in nest.loops.values()), *nest.tiles, *nest.sources}
    fresh, seen = Identifiers(taken), set[str]()
    return nest.replace(body=tuple(_apart(node, fresh, seen) for node in body))


def _spread(nest: Nest, node: NestItem, axes: dict[FanoutKind, int]) -> Iterator[NestItem]:
    """The node with the axes that are missing on the way to each of its statements."""
    if isinstance(node, For) and node.binding in axes:
        rest = {axis: size for axis, size in axes.items() if axis != node.binding}
        *outer, innermost = fused_chain(node)
        spread = dataclasses.replace(innermost, body=tuple(new for n in innermost.body for new in _spread(nest, n, rest)))
        for loop in reversed(outer):
            spread = dataclasses.replace(loop, body=(spread,))
        yield spread
        return
    used = {n.binding for n in walk((node,)) if isinstance(n, For)}
    missing = {axis: size for axis, size in axes.items() if axis not in used}
    if isinstance(node, For) and len(missing) < len(axes):
        yield dataclasses.replace(node, body=tuple(new for n in node.body for new in _spread(nest, n, axes)))
    elif isinstance(node, For) and _is_mover(nest, node):
        yield _cooperative(nest, node, missing)
    elif isinstance(node, For) and any(isinstance(n, For) and _is_mover(nest, n) for n in walk(node.body)):
        yield dataclasses.replace(node, body=tuple(new for n in node.body for new in _spread(nest, n, axes)))
    else:
        yield _wrapped(nest, node, missing)


def _apart(node: NestItem, fresh: Identifiers, seen: set[str]) -> NestItem:
    """The node with a name of its own for each copy of a loop over work-items, because copies may have different limits."""
    if not isinstance(node, For):
        return node
    if node.is_over_items:
        if node.name in seen:
            name = fresh(node.name)
            fused = fresh(node.fused) if node.fused else ""
            (node,) = substituted((dataclasses.replace(node, name=name, fused=fused),), {node.name: Affine.variable(name)})
            assert isinstance(node, For)
        seen.add(node.name)
    return dataclasses.replace(node, body=tuple(_apart(inner, fresh, seen) for inner in node.body))


def _wrapped(nest: Nest, node: NestItem, axes: dict[FanoutKind, int]) -> NestItem:
    for axis in axes:
        node = For(_axis_name(nest, axis, node), 1, (node,), binding=axis)
    return node


def _is_mover(nest: Nest, node: For) -> bool:
    """Whether a nest does nothing but move, set or combine local or global tiles; iterations for different elements are independent."""
    return all(
        s.role in {"fetch", "init", "reload", "drain", "combine"}
        and all(MEMORIES[nest.tiles[p.source].memory].is_shared_by_items for p in (s.target, *s.operands) if p.source in nest.tiles)
        for _, s in statements((node,))
    ) and not any(isinstance(n, For) and n.refs for n in walk((node,)))


def _cooperative(nest: Nest, node: For, axes: dict[FanoutKind, int]) -> NestItem:
    """The moving nest with its loops, those along rows of arrays and the innermost first, cut by the group's sizes and bound to its
    work-items. Where a loop is shorter than an axis, work-items along it go through several iterations of the next one at once. Lanes stay
    inside all of them.

    Before, with 32 work-items along the first axis and 4 along the second: ``for m in [0, 64): for k in [0, 16): tile[m, k] = A[m, k]``.
    After: ``for m in [0, 2): for m' [local.1]: for m'' in [0, 8), k in [0, 4) [local.0, fused]: vector: tile[...] = A[...]``.
    """
    local = [axis for axis, size in axes.items() if level_of(axis) == "local" and size > 1]
    chain = [n for n in walk((_by_vectors(nest, node),)) if isinstance(n, For)]
    lane = chain.pop() if chain[-1].binding == "vector" and node.loops[-1].binding != "vector" else None
    leaf = chain[-1].body if lane is None else (lane,)
    limits = [limit for loop in chain for limit in loop.limits]
    written = {name for _, s in statements(leaf) for name in s.target.loops}
    rows, inwards = _rows(nest, leaf), list(reversed(chain))
    ordered = sorted(inwards, key=lambda loop: (loop.binding != "vector", loop.name not in rows))
    parts = _parts([(n.name, n.extent) for n in ordered if n.extent and n.extent > 1 and n.name in written], {k: axes[k] for k in local})
    outer: list[For] = []
    values: dict[str, Affine] = {}
    for loop in chain:
        own = [part for part in parts if part.loop == loop.name]
        taken = prod(part.size for part in own)
        count = None if loop.extent is None else -(-loop.extent // taken)
        if own:
            values[loop.name] = Affine.of({**({loop.name: taken} if count != 1 else {}), **{part.name: part.step for part in own}})
            limits += [Affine((), loop.extent - 1) - Affine.variable(loop.name)] if loop.extent is not None and loop.extent % taken else []
            loop = For(loop.name, count, ())
        outer += [dataclasses.replace(loop, limits=())] if not own or count != 1 else []
    items = [item for axis in reversed(local) for item in _fused([part for part in parts if part.axis == axis])]
    cut = {limit.substituted(values) for limit in limits}
    body: tuple[NestItem, ...] = substituted(leaf, values)
    for loop in reversed([*outer, *items]):
        mine = {limit for limit in cut if loop.name in limit.variables}
        cut -= mine
        body = (dataclasses.replace(loop, body=body, limits=tuple(sorted(mine))),)
    used = {part.axis for part in parts}
    rest = {axis: size for axis, size in axes.items() if level_of(axis) == "group" or axis not in used}
    return _wrapped(nest, body[0], rest)


@dataclass(frozen=True)
class _Part:
    """A part of a moving nest's loop that is work-items along an axis: so many, each so many iterations from the next."""

    loop: str
    axis: FanoutKind
    size: int
    step: int

    @property
    def name(self) -> str:
        """The loop over these work-items."""
        return f"{self.loop}_{self.axis.replace('.', '')}"


def _parts(loops: Sequence[tuple[str, int]], axes: Mapping[FanoutKind, int]) -> list[_Part]:
    """Which parts of loops, by name and iterations, work-items take: an axis as many whole loops as fit, and what is left of the next."""
    found: list[_Part] = []
    left = dict(loops)
    for axis, size in axes.items():
        room, last = size, ""
        # A loop that an axis has cut goes on with the next one, unless there is another loop.
        names = sorted((name for name, count in left.items() if count > 1), key=lambda name: any(part.loop == name for part in found))
        for name in names:
            if room > 1 and last == "":
                step = prod(part.size for part in found if part.loop == name)
                count = min(room, left[name])
                found.append(_Part(name, axis, count, step))
                room, left[name] = room // count, -(-left[name] // count)
                last = name if left[name] > 1 else ""
    return found


def _fused(parts: Sequence[_Part]) -> Iterator[For]:
    """The loops of an axis, outermost first: the first part is work-items next to one another."""
    names = [part.name for part in reversed(parts)]
    for number, part in enumerate(reversed(parts)):
        yield For(part.name, part.size, (), binding=part.axis, fused="_".join(names[number:]) if number + 1 < len(parts) else "")


def _by_vectors(nest: Nest, node: For) -> For:
    """The nest that fetches rows of an array in the vectors that work-items compute with, if rows of both are made of whole ones.

    Before: ``for k in [0, 16): tile[m, k] = A[m, 16*i + k]``. After: ``for k in [0, 4): vector: tile[m, 4*k + l] = A[m, 16*i + 4*k + l]``.
    """
    *_, statement = (s for _, s in statements((node,)))
    found = {loop.extent for loop in nest.all_loops if loop.binding == "vector"}
    lanes = found.pop() if len(found) == 1 else None
    if lanes is None or statement.role != "fetch" or any(loop.binding == "vector" for loop in node.loops):
        return node
    place, tile = statement.operands[0], nest.tiles[statement.target.source]
    index, row = statement.target.indices[tile.axes[-1]], tile.shape[tile.axes[-1]]
    loop = next((n for n in node.loops if index == Affine.variable(n.name) and n.extent == row and not n.limits), None)
    steps = _steps(nest, place.source)
    if loop is None or steps is None or steps[-1] != 1 or place.indices[-1].coefficients.get(loop.name) != 1:
        return node
    rest = place.indices[-1] - Affine.variable(loop.name)
    multiples = (row, row + tile.padding, *steps[:-1], rest.constant, *(factor for _, factor in rest.terms))
    is_elsewhere = any(loop.name in other.variables for other in place.indices[:-1])
    if any(n % lanes for n in multiples) or is_elsewhere or nest.dtype_of(place.source) != tile.dtype or statement.guards:
        return node
    inner = For(f"{loop.name}_lane", lanes, (), binding="vector")
    value = {loop.name: Affine.of({loop.name: lanes, inner.name: 1})}

    def cut(inside: For) -> For:
        body = tuple(cut(n) if isinstance(n, For) else inner.around((n.substituted(value),)) for n in inside.body)
        return dataclasses.replace(inside, body=body, extent=row // lanes if inside.name == loop.name else inside.extent)

    return cut(node)


def _steps(nest: Nest, name: str) -> tuple[int, ...] | None:
    """Elements from one index of an array to the next along each axis, where they are known and have addresses."""
    source = nest.sources.get(name)
    if source is None or (source.is_rule and not source.is_direct):
        return None
    shape = source.shape[1:]
    if source.steps is not None or source.consecutive_axis != -1 or not all(isinstance(n, int) for n in shape):
        return source.steps
    return tuple(prod(n or 1 for n in shape[axis:]) for axis in range(len(source.shape)))


def _rows(nest: Nest, leaf: tuple[NestItem, ...]) -> frozenset[str]:
    """The loops along the rows of an array in global memory that is copied from or to: neighbouring work-items take neighbours there."""
    places = [p for s in leaf if isinstance(s, Statement) and s.role in {"fetch", "drain"} for p in (s.target, *s.operands)]
    outside = [
        place.indices[along]
        for place in places
        if not _is_of_one_group(nest, place.source) and place.indices and (along := _consecutive_axis(nest, place.source)) is not None
    ]
    return frozenset(name for index in outside for name, factor in index.terms if factor == 1)


def _consecutive_axis(nest: Nest, source: str) -> int | None:
    """The axis along which neighbours lie next to one another, counted from the last."""
    return nest.sources[source].consecutive_axis if source in nest.sources else -1


def _axis_name(nest: Nest, axis: str, node: NestItem) -> str:
    leaf = next(s for _, s in statements((node,)))
    return nest.fresh(f"{axis.replace('.', '')}_{leaf.role}_{leaf.target.source}_{id_of(leaf)}")


def id_of(statement: Statement) -> str:
    """A short text that tells statements of one role and target apart."""
    return f"{statement.einsum}".replace(".", "_")


def exchanged(nest: Nest, before: Sequence[NestItem], after: Sequence[NestItem]) -> set[str]:
    """Arrays and tiles that one part writes and the other part touches, or the other way round."""
    reads, writes = _touched(before)
    later_reads, later_writes = _touched(after)
    return (writes & (later_reads | later_writes)) | (reads & later_writes)


def _touched(body: Sequence[NestItem]) -> tuple[set[str], set[str]]:
    reads: set[str] = set()
    writes: set[str] = set()
    for _, s in statements(tuple(body)):
        writes.add(s.target.source)
        reads |= {p.source for p in s.operands} | ({s.target.source} if s.reduce else set())
    return reads, writes


def memory_of(nest: Nest, source: str) -> AddressSpace:
    """Where an array or tile lives; arrays of the kernel are global."""
    return nest.tiles[source].memory if source in nest.tiles else "global"


def _is_of_one_group(nest: Nest, source: str) -> bool:
    return MEMORIES[memory_of(nest, source)].is_hidden_from("group.0")


def kernel_starts(nest: Nest) -> tuple[int, ...]:
    """Before which of the root's nodes a new kernel starts: groups have finished whatever writes the global data that is read next.

    A kernel ends as soon as it may, so that a tile fetched in front of its use is fetched in the kernel that uses it.
    """
    starts: list[int] = []
    for position, node in enumerate(nest.body):
        before = [
            k
            for k, other in enumerate(nest.body[:position])
            if (_is_grouped(node) or _is_grouped(other)) and not all(_is_of_one_group(nest, s) for s in exchanged(nest, (other,), (node,)))
        ]
        if before and not any(before[-1] < start for start in starts):
            starts.append(before[-1] + 1)
    return tuple(sorted(starts))


def _is_grouped(node: NestItem) -> bool:
    return any(isinstance(n, For) and n.is_over_groups and n.extent != 1 for n in walk((node,)))


def check_kernels(nest: Nest) -> None:
    """Refuse what would need groups to wait for one another inside a kernel, or tiles to survive from one kernel to the next."""
    if not axes_of(nest, "group"):
        return
    starts = kernel_starts(nest)
    for position, node in enumerate(nest.body):
        first = max((start for start in starts if start <= position), default=0)
        # What stands outside the loops over groups runs in the first group alone.
        apart = [other for k, other in enumerate(nest.body[:position]) if k < first or _is_grouped(node) or _is_grouped(other)]
        for source in sorted(exchanged(nest, apart, (node,))):
            if _is_of_one_group(nest, source):
                raise CrossKernelStorageError(
                    f"{source} in {memory_of(nest, source)} memory would have to survive from one kernel to the next",
                    hint="Where groups are bound the root's branches are kernels of their own; place the tensor in the outermost memory.",
                )
    _check_below(nest, nest.body, top=True)


def _check_below(nest: Nest, body: tuple[NestItem, ...], *, top: bool) -> None:
    for position, node in enumerate(body):
        grouped = any(isinstance(n, For) and n.is_over_groups for n in walk((node,)))
        if not isinstance(node, For) or not grouped:
            continue
        if not top:
            others = exchanged(nest, (*body[:position], *body[position + 1 :]), (node,))
            if others:
                raise HostLoopError(
                    f"groups would have to wait for one another to exchange {', '.join(sorted(others))} under a loop in time",
                    hint="Move the loop below the loop that is bound to groups.",
                )
        if not node.is_over_groups:
            _check_below(nest, node.body, top=False)
