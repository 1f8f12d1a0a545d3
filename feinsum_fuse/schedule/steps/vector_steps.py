"""Lanes: the iterations of an innermost loop as the elements of a vector."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from constantdict import constantdict
from pymbolic import var
from pymbolic.primitives import Comparison, If

from ...formats.affine import Affine, read_affine
from ...formats.opencl import MEMORIES
from ...formats.workload import operand_name
from ...number_types import kind_of
from ..intrinsics.intrinsic import BYTE_TYPES, DOT_PRODUCT
from ..kernel.operations import LANES, SHORTEST_BLOCK, has_blocks, has_vectors
from ..refusals import BindingConflictError, NestOrderError, ReductionBindingError, VectorAccessError
from ..statement import Place, Statement
from ..step import Step
from ..tree.loops import check_alone, find, is_reduction, with_body, with_loops
from ..tree.nest import For, LoopRef, Nest, NestItem, Tile, statements, unless_same
from ..tree.parallel import axes_of


@dataclass(frozen=True)
class Vectorize(Step):
    """Make the iterations of innermost loops the lanes of vectors (Halide and TVM: vectorize), all loops of one schedule at once.

    Before: ``for l in [0, 8): acc[i, 8*j + l] += a[i] * B[k, 8*j + l]``. After: ``acc[i, j] += a[i] * vload8(&B[k, 8*j])``, ``acc`` an
    array of ``float8``. Private tiles whose every access has the lanes along one axis become arrays of vectors; others are stored with the
    lanes' axis last, and filled by vectors, or by blocks that are transposed; arrays of the kernel stay as they are. Where the
    length does not divide, or loops have fewer iterations than the shortest vectors that all of them fit, whole vectors are computed on
    owned tiles and what leaves them is cut. Invariant: lane ``l`` computes what iteration ``l`` did.
    """

    loops: tuple[LoopRef, ...]

    def apply(self, nest: Nest) -> Nest:
        loops = [find(nest, ref, self) for ref in self.loops]
        for ref, loop in zip(self.loops, loops, strict=True):
            self._check(nest, ref, loop)
        names = {loop.name for loop in loops}
        longest = max(loop.extent or 0 for loop in loops)
        lanes = min(length for length in LANES if length >= longest)
        nest = nest.replace(body=with_loops(nest.body, names, lambda loop: _on_lanes(loop, lanes)))
        has_items = bool(axes_of(nest, "local"))
        for tile in list(nest.tiles.values()):
            nest = _laid_out(nest, tile, names, lanes, has_items=has_items)
        return nest.replace(body=_copies_of_blocks(nest, nest.body))

    def _check(self, nest: Nest, ref: LoopRef, loop: For) -> None:
        if loop.binding != "loop":
            raise BindingConflictError(f"{self}: the loop is bound to {loop.binding} already")
        check_alone(nest, loop, self)
        if loop.extent is None or loop.extent > LANES[-1]:
            size = "an unknown number of" if loop.extent is None else loop.extent
            hint = f"Split it by {', '.join(map(str, LANES))}."
            raise VectorAccessError(f"{self}: {ref} has {size} iterations; OpenCL has no such vectors", hint=hint)
        most = _longest_vector(nest, loop)
        if loop.extent > most:
            hint = f"Split it by {', '.join(str(length) for length in LANES if length <= most)}."
            raise VectorAccessError(f"{self}: {ref} has {loop.extent} iterations; vectors have {most} complex numbers", hint=hint)
        if any(isinstance(node, For) for node in loop.body):
            raise NestOrderError(f"{self}: {ref} is not innermost", hint="Put the loop whose iterations become lanes last.")
        for r in loop.refs:
            if is_reduction(nest, loop, r.einsum):
                raise ReductionBindingError(f"{self}: {r} is a reduction loop", hint="Insert RFactor first.")


def _longest_vector(nest: Nest, loop: For) -> int:
    """Lanes of the longest vectors of all that a loop touches."""
    places = (place for _, s in statements((loop,)) for place in (s.target, *s.operands))
    return LANES[-1] // (2 if any(kind_of(nest.dtype_of(place.source)) == "c" for place in places) else 1)


def _on_lanes(loop: For, lanes: int) -> For:
    """The loop as so many lanes, of which those beyond its own iterations do not count."""
    assert loop.extent is not None
    limits = (Affine((), loop.extent - 1) - Affine.variable(loop.name),) if loop.extent < lanes else ()
    return loop.changed(extent=lanes, limits=(*loop.limits, *limits), binding="vector")


def accesses(nest: Nest, name: str) -> Iterator[tuple[tuple[For, ...], Statement, Place]]:
    """Every access to an array, with the loops around it."""
    for node in nest.body:
        if isinstance(node, For) and name not in node.touched:
            continue
        for above, statement in node.points if isinstance(node, For) else [((), node)]:
            if name in statement.sources:
                for place in (statement.target, *statement.operands):
                    if place.source == name:
                        yield above, statement, place


def lane_axis(place: Place, lane: str) -> int | None:
    """The axis along which the lanes lie next to one another; ``None`` if they do not, or along several."""
    axes = [axis for axis, index in enumerate(place.indices) if lane in index.variables]
    return axes[0] if len(axes) == 1 and place.indices[axes[0]].coefficients[lane] == 1 else None


def _laid_out(nest: Nest, tile: Tile, names: set[str], lanes: int, *, has_items: bool) -> Nest:
    """The nest with this tile stored so that lanes lie next to one another, as vectors if it is private and always used so; ``has_items``:
    whether loops run on work-items."""
    wanted: set[int | None] = set()
    aligned = True
    moved: list[tuple[tuple[For, ...], Place]] = []
    combined: list[tuple[Statement, Place]] = []
    for above, statement, place in accesses(nest, tile.name):
        lane = above[-1].name if above and above[-1].name in names else None
        if statement.role not in {"update", "map"}:
            aligned = aligned and _moves_vectors(place, above, lanes)
            moved.append((above, place))
            combined += [(statement, place)] if statement.role == "combine" else []
            continue
        if lane is None or not any(lane in index.variables for index in place.indices):
            aligned = False
            continue
        axis = lane_axis(place, lane)
        wanted.add(axis)
        aligned = aligned and axis is not None and is_multiple(place.indices[axis] - Affine.variable(lane), lanes)
    if not wanted:
        wanted = set(_combined_axes(nest, tile, names))
    if len(wanted) != 1 or None in wanted:
        return nest
    axis = next(a for a in wanted if a is not None)
    aligned = aligned and all(_lies_in_vectors(place.indices[axis], loops, lanes) for loops, place in moved)
    # The lanes of one vector that are added up are read one by one.
    aligned = aligned and not any(set(p.indices[axis].variables) - s.target.loops for s, p in combined)
    others = tuple(a for a in tile.axes if a != axis)
    if _holds_words(nest, tile, axis):
        return nest.replace(tiles=constantdict({**nest.tiles, tile.name: dataclasses.replace(tile, axes=(*others[:-1], axis, others[-1]))}))
    stored = dataclasses.replace(tile, axes=(*others, axis), padding=-tile.shape[axis] % lanes)
    if MEMORIES[tile.memory].is_register and aligned:
        stored = dataclasses.replace(stored, lanes=lanes, padding=0)
        nest = nest.replace(body=_movers_of_vectors(nest.body, stored, lanes))
    elif MEMORIES[tile.memory].is_shared_by_items and not has_items:
        nest = nest.replace(body=_movers_of_vectors(nest.body, stored, lanes, lambda s: _fetches_rows(nest, s, axis)))
        nest = nest.replace(tiles=constantdict({**nest.tiles, tile.name: stored}))
        nest = nest.replace(body=_movers_of_blocks(nest, nest.body, stored, lanes))
    elif MEMORIES[tile.memory].is_shared_by_items and _is_turned(nest, stored, lanes):
        stored = dataclasses.replace(stored, padding=stored.padding + lanes)
    return nest.replace(tiles=constantdict({**nest.tiles, tile.name: stored}))


def _is_turned(nest: Nest, tile: Tile, lanes: int) -> bool:
    """Whether what lies side by side in an array is fetched to rows of a tile that lie an even number of vectors apart.

    Work-items take neighbours in the array, and would write to few of local memory's banks, of which there is a power of two.
    """
    along = tile.axes[-1]
    fetches = [s for _, s, _ in accesses(nest, tile.name) if s.role == "fetch" and s.target.source == tile.name]
    if not fetches or (tile.shape[along] + tile.padding) % (2 * lanes):
        return False
    return all(
        (axis := consecutive_axis(nest, place := s.operands[0])) is not None
        and set(place.indices[axis].variables).isdisjoint(s.target.indices[along].variables)
        for s in fetches
    )


def _combined_axes(nest: Nest, tile: Tile, names: set[str]) -> Iterator[int]:
    """The axes of partial results along which those that are added to them have their lanes."""
    for _, statement, place in accesses(nest, tile.name):
        if statement.role != "combine" or place is not statement.target:
            continue
        (part,) = statement.operands
        for above, _, written in accesses(nest, part.source):
            axis = lane_axis(written, above[-1].name) if above and above[-1].name in names else None
            along = part.indices[axis].variables if axis is not None else ()
            yield from (k for k, index in enumerate(place.indices) if along and index.variables == along)


def _holds_words(nest: Nest, tile: Tile, axis: int) -> bool:
    """Whether the bytes along the last axis of a tile are what one instruction multiplies and adds up, in each of the lanes along ``axis``.

    Such words stay in one piece, one after another along the lanes.
    """
    last = tile.axes[-1]
    if MEMORIES[tile.memory].is_register or last == axis or tile.shape[last] != DOT_PRODUCT.deep:
        return False
    users = [s for _, s, _ in accesses(nest, tile.name) if s.reduce is not None]
    types = [tuple(nest.dtype_of(place.source) for place in (s.target, *s.operands)) for s in users]
    return bool(users) and all(s.reduce == "add" and t in DOT_PRODUCT.types for s, t in zip(users, types, strict=True))


def is_multiple(index: Affine, lanes: int) -> bool:
    """Whether an index is so many times a whole number in every iteration."""
    return index.constant % lanes == 0 and all(factor % lanes == 0 for _, factor in index.terms)


def _moves_vectors(place: Place, above: tuple[For, ...], lanes: int) -> bool:
    """Whether a moving statement touches the tile at whole vectors, once its own loops are cut into vectors."""
    own = {loop.name for loop in above if not loop.refs}
    return all(is_multiple(index - index.restricted(own), lanes) for index in place.indices if len(index.terms) > 1 or index.constant)


def _lies_in_vectors(index: Affine, above: tuple[For, ...], lanes: int) -> bool:
    """Whether the moving statement's own loops go along this axis in vectors: one element by element, the others by whole vectors."""
    own = index.restricted({loop.name for loop in above if not loop.refs})
    return [factor for _, factor in own.terms if factor % lanes] == [1]


def _fetches_rows(nest: Nest, statement: Statement, axis: int) -> bool:
    """Whether a statement copies elements that lie next to one another in an array to such in a tile, along this axis of the tile."""
    index = statement.target.indices[axis]
    if statement.role != "fetch" or len(index.variables) != 1 or index != Affine.variable(index.variables[0]):
        return False
    (source,) = statement.operands
    array, along = nest.sources.get(source.source), lane_axis(source, index.variables[0])
    return (
        array is not None
        and (array.is_direct or not array.is_rule)
        and array.dtype == nest.tiles[statement.target.source].dtype
        and has_vectors(array.dtype)
        and lane_axis(statement.target, index.variables[0]) == axis
        and along is not None
        and along - len(source.indices) == array.consecutive_axis
    )


def _fetched_columns(nest: Nest, chain: Sequence[For], statement: Statement, tile: Tile, lanes: int) -> tuple[For, For] | None:
    """The loops over the rows and over the columns of a matrix that a nest fetches into a tile, if rows lie in the array what columns are
    in the tile, and there are rows for blocks of so many; of fewer columns smaller blocks overlap. Where rows end before
    a vector does there are blocks of any size from 2 by 2 on, which set the rest of it, too.
    """
    is_cut = tile.padding > 0 or any(loop.limits for loop in chain)
    long = {loop.name: loop for loop in chain if (loop.extent or 0) >= (2 if is_cut else lanes)}
    wide = {loop.name: loop for loop in chain if (loop.extent or 0) >= (2 if is_cut else SHORTEST_BLOCK)}
    rows = [name for name in statement.target.indices[tile.axes[-1]].variables if name in long]
    array = nest.sources.get(statement.operands[0].source)
    if len(rows) != 1 or array is None or array.consecutive_axis is None:
        return None
    columns = [name for name in statement.operands[0].indices[array.consecutive_axis].variables if name in wide]
    if len(columns) != 1 or statement.guards or _begins_late(chain, rows[0], columns[0]):
        return None
    return (long[rows[0]], wide[columns[0]]) if is_transposed(nest, statement, rows[0], columns[0]) else None


def _begins_late(chain: Sequence[For], *names: str) -> bool:
    """Whether loops leave out their first iterations, as those do over a window that begins before the array: a block has its first row."""
    return any(limit.coefficients.get(name, 0) > 0 for loop in chain for limit in loop.limits for name in names)


def is_transposed(nest: Nest, statement: Statement, row: str, column: str) -> bool:
    """Whether a statement copies elements that lie next to one another along the loop ``column`` in an array to such that do so along the
    loop ``row``.
    """
    (source,), target = statement.operands, statement.target
    dtype = nest.dtype_of(source.source)
    tile = nest.tiles.get(target.source)
    if row == column or not _has_addresses(nest, source.source) or (tile is not None and tile.lanes > 1):
        return False  # elements of an array of vectors have no addresses
    if dtype != nest.dtype_of(target.source) or not has_blocks(dtype):
        return False
    for name in (row, column):
        steps = [index.coefficients[name] for place in (target, source) for index in place.indices if name in index.variables]
        if len(steps) != 2 or min(steps) < 1:
            return False
    return lane_axis(target, row) == consecutive_axis(nest, target) and lane_axis(source, column) == consecutive_axis(nest, source)


def _has_addresses(nest: Nest, source: str) -> bool:
    """Whether elements lie in memory: those of arrays, and of tiles outside registers."""
    tile = nest.tiles.get(source)
    if tile is not None:
        return not MEMORIES[tile.memory].is_register
    array = nest.sources[source]
    return array.is_direct or not array.is_rule


def consecutive_axis(nest: Nest, place: Place) -> int | None:
    """The axis of a place along which elements lie next to one another in memory, if there is one."""
    if place.source in nest.tiles:
        return nest.tiles[place.source].axes[-1]
    axis = nest.sources[place.source].consecutive_axis
    return None if axis is None else axis + len(place.indices)


def _copies_of_blocks(nest: Nest, body: tuple[NestItem, ...]) -> tuple[NestItem, ...]:
    """The tree with every copy whose lanes lie apart in what is read moving blocks, if the loop around is as short.

    So do copies whose lanes lie apart in what is written, if the loop around makes words of four bytes.
    """
    result: list[NestItem] = []
    for node in body:
        lane = node.body[0] if isinstance(node, For) and len(node.body) == 1 else None
        if isinstance(node, For) and isinstance(lane, For) and (_is_block(nest, node, lane) or _makes_words(nest, node, lane)):
            result.append(node.changed(binding="vector"))
        elif isinstance(node, For):
            result.append(with_body(node, _copies_of_blocks(nest, node.body)))
        else:
            result.append(node)
    return unless_same(body, result)


def _is_block(nest: Nest, columns: For, rows: For) -> bool:
    """Whether lanes copy a column each time of no more of them than there are lanes; of bytes of as many."""
    statement = _copying(columns, rows)
    if statement is None or columns.extent is None or rows.extent is None or _begins_late((columns, rows), columns.name, rows.name):
        return False
    is_short = SHORTEST_BLOCK <= columns.extent < rows.extent and nest.dtype_of(statement.target.source) not in BYTE_TYPES
    return (is_short or columns.extent == rows.extent) and is_transposed(nest, statement, rows.name, columns.name)


def _makes_words(nest: Nest, byte: For, columns: For) -> bool:
    """Whether lanes copy a row of bytes each time, and the loop around goes over the four bytes of words, which are written together."""
    statement = _copying(byte, columns)
    if statement is None or byte.extent != DOT_PRODUCT.deep or nest.dtype_of(statement.target.source) not in BYTE_TYPES:
        return False
    return not _begins_late((byte, columns), byte.name, columns.name) and is_transposed(nest, statement, byte.name, columns.name)


def _copying(outer: For, lane: For) -> Statement | None:
    """The statement of two loops, the inner one over lanes, if it only copies."""
    statement = lane.body[0]
    if (outer.binding, lane.binding) != ("loop", "vector") or not isinstance(statement, Statement):
        return None
    is_copy = statement.role == "map" and statement.reduce is None and _is_operand(statement, {*outer.limits, *lane.limits})
    return statement if is_copy and len(statement.operands) == 1 else None


def _is_operand(statement: Statement, limits: Collection[Affine]) -> bool:
    """Whether a statement's value is its operand, at all points that are within the limits."""
    value = statement.value
    if isinstance(value, If) and isinstance(value.condition, Comparison) and value.condition.operator == ">=":
        inside = read_affine(value.condition.left - value.condition.right)
        value = value.then if inside is not None and inside.substituted(statement.values) in limits else value
    return bool(value == var(operand_name(0)))


def _movers_of_blocks(nest: Nest, body: tuple[NestItem, ...], tile: Tile, lanes: int) -> tuple[NestItem, ...]:
    """The tree with every nest that fetches the columns of a matrix into this tile's rows moving square blocks."""
    result: list[NestItem] = []
    for node in body:
        if isinstance(node, For) and tile.name not in node.touched:
            result.append(node)
            continue
        chain, statement = _moving(node)
        fetches = statement is not None and statement.role == "fetch" and statement.target.source == tile.name
        found = _fetched_columns(nest, chain, statement, tile, lanes) if fetches and statement is not None else None
        if found is not None and statement is not None:
            result.append(_by_blocks(chain, statement, *found, lanes))
        elif isinstance(node, For):
            result.append(with_body(node, _movers_of_blocks(nest, node.body, tile, lanes)))
        else:
            result.append(node)
    return unless_same(body, result)


def _by_blocks(chain: Sequence[For], statement: Statement, rows: For, columns: For, lanes: int) -> NestItem:
    """A fetching nest with the loops over rows and columns innermost, cut into blocks."""
    parts = [_in_vectors(loop, lanes) for loop in (columns, rows)]
    body: tuple[NestItem, ...] = (statement.substituted({n: v for part in parts for n, v in part.values.items()}),)
    for part in reversed(parts):
        body = (part.lane.around(body),)
    for part in reversed(parts):
        body = (part.vectors.around(body),)
    for node in reversed(chain):
        if node not in (rows, columns):
            body = (node.around(body),)
    return body[0]


def _movers_of_vectors(
    body: tuple[NestItem, ...], tile: Tile, lanes: int, suits: Callable[[Statement], bool] = lambda _: True
) -> tuple[NestItem, ...]:
    """The tree with every nest that moves this tile, and that suits, moving whole vectors."""
    result: list[NestItem] = []
    for node in body:
        if isinstance(node, For) and tile.name not in node.touched:
            result.append(node)
            continue
        chain, statement = _moving(node)
        if statement is not None and tile.name in statement.sources and suits(statement):
            result.append(_by_vectors(chain, statement, tile, lanes))
        elif isinstance(node, For):
            result.append(with_body(node, _movers_of_vectors(node.body, tile, lanes, suits)))
        else:
            result.append(node)
    return unless_same(body, result)


def _moving(node: NestItem) -> tuple[list[For], Statement | None]:
    """The loops and the statement of a nest that only moves or sets a tile; no statement if it does more."""
    chain: list[For] = []
    while isinstance(node, For) and not node.refs and node.binding == "loop" and len(node.body) == 1:
        chain.append(node)
        node = node.body[0]
    return (chain, node) if chain and isinstance(node, Statement) and node.role not in {"update", "map"} else ([], None)


def _by_vectors(chain: list[For], statement: Statement, tile: Tile, lanes: int) -> NestItem:
    """A moving nest with the loop over the lanes' axis innermost, cut into vectors."""
    place = next(p for p in (statement.target, *statement.operands) if p.source == tile.name)
    index = place.indices[tile.axes[-1]]
    loop = min((node for node in chain if node.name in index.variables), key=lambda node: abs(index.coefficients[node.name]))
    part = _in_vectors(loop, lanes)
    vector = part.lane.around((statement.substituted(part.values),))
    body: tuple[NestItem, ...] = (part.vectors.around((vector,)),)
    for node in reversed(chain):
        if node is not loop:
            body = (node.around(body),)
    return body[0]


@dataclass(frozen=True)
class _InVectors:
    """A loop cut into vectors: the loop over these, the one over their lanes, and what the first loop's variable is then."""

    vectors: For
    lane: For
    values: dict[str, Affine]


def _in_vectors(loop: For, lanes: int) -> _InVectors:
    lane = f"{loop.name}_lane"
    value = Affine.of({loop.name: lanes, lane: 1})
    extent = loop.extent or 0
    limits = tuple(limit.substituted({loop.name: value}) for limit in loop.limits)
    if extent % lanes:
        limits += (Affine((), extent - 1) - value,)
    # A vector is moved if any of its lanes is: the limit at the lane that favours it most.
    outer = tuple(limit.substituted({lane: Affine((), lanes - 1 if limit.coefficients.get(lane, 0) > 0 else 0)}) for limit in limits)
    return _InVectors(For(loop.name, -(-extent // lanes), (), outer), For(lane, lanes, (), limits, binding="vector"), {loop.name: value})
