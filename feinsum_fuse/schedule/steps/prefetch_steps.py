"""Asking memory for what is read later, and keeping caches from what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...number_types import BFLOAT16, memory_type
from ..kernel.operations import C_TYPES, STREAMED_BYTES
from ..refusals import TileShapeError, VectorAccessError
from ..statement import AskedAhead, Statement
from ..step import EinsumName, Step, TensorName
from ..target import ANY_DEVICE
from ..tree.nest import For, Nest, NestItem, rebuilt
from .vector_steps import consecutive_axis, lane_axis


@dataclass(frozen=True)
class Prefetch(Step):
    """Ask for a tensor's lines ahead of what an Einsum reads of it, vectors or numbers for all lanes (Halide and TVM: prefetch).

    Before: ``acc[0] += vload16(&W[i]) * vload16(&x[i])``. After, with a ``distance`` of 8192 bytes:
    ``prefetch(&W[i] + 8192 bytes); acc[0] += vload16(&W[i]) * vload16(&x[i])``, once for each ``line`` of so many bytes. Where a number
    is read for all lanes its row is asked for before the loop that reads the row in order, or, if it has many lines, by the iterations of
    that loop; what no loop reads so is not asked for.
    Invariant: the same values; what is asked for may lie behind the array's end, where nothing is read and nothing happens.

    What follows one another in memory the hardware fetches ahead on its own, up to the end of a page: a stream that takes less time for a
    page than memory for an answer waits at each. A distance of pages reaches beyond.
    """

    einsum: EinsumName
    tensor: TensorName
    distance: int
    line: int = ANY_DEVICE.line_bytes

    def apply(self, nest: Nest) -> Nest:
        if self.distance < 1 or self.line < 1:
            raise TileShapeError(f"{self}: {min(self.distance, self.line)} bytes are no distance", hint="Give a page or two of bytes.")

        def asking(statement: Statement, lane: For) -> Statement:
            read = {place.source for place in statement.operands if self._is_asked_for(nest, place.source, lane.name, statement)}
            if not read or statement.role not in {"update", "map"}:
                return statement
            ahead = {**statement.ahead, **dict.fromkeys(sorted(read), AskedAhead(self.distance, self.line))}
            return statement.changed(ahead=type(statement.ahead)(ahead))

        changed = _with_lanes(nest, self.einsum, asking)
        if changed is None:
            raise VectorAccessError(
                f"{self}: Einsum {self.einsum} reads of {self.tensor} neither vectors that lie together nor numbers for all lanes",
                hint="Vectorize a loop along its last axis, or one that moves nothing in it, first; or leave the step out.",
            )
        return changed

    def _is_asked_for(self, nest: Nest, source: str, lane: str, statement: Statement) -> bool:
        """Whether the lanes are neighbours in an array of the tensor, or read the same elements of it."""
        array = nest.sources.get(source)
        if array is None or array.tensor != self.tensor or (array.is_rule and not array.is_direct):
            return False
        places = [place for place in statement.operands if place.source == source]
        moved = [place for place in places if any(lane in index.variables for index in place.indices)]
        return all(lane_axis(place, lane) is not None and lane_axis(place, lane) == consecutive_axis(nest, place) for place in moved)


@dataclass(frozen=True)
class StreamStores(Step):
    """Write a tensor to memory past the caches (non-temporal stores; Intel's Optimization Manual and AMD's: streaming stores).

    Before: ``vstore16(x, 0, &Z[i])``. After, at places that are multiples of ``multiple`` bytes: the same vector in pieces of 16 bytes
    that leave no copy in a cache, of which a core makes whole lines; elsewhere, and where only a part of a vector is stored, as before.
    Invariant: the same values; whoever waits for the kernel sees them. Nothing in the kernel reads the tensor.

    A line that is written through caches is fetched first, and drives out another one. One of which only a part is written past them
    costs several times as much as either.
    """

    einsum: EinsumName
    tensor: TensorName
    multiple: int = ANY_DEVICE.line_bytes

    def apply(self, nest: Nest) -> Nest:
        if self.multiple < STREAMED_BYTES or self.multiple & (self.multiple - 1):
            raise TileShapeError(f"{self}: {self.multiple} bytes: no power of two from {STREAMED_BYTES} on", hint="Give those of a line.")
        arrays = {name for name, source in nest.sources.items() if source.tensor == self.tensor}
        if any(place.source in arrays for _, statement in nest.points for place in statement.operands):
            raise VectorAccessError(f"{self}: {self.tensor} is read by the same kernels", hint="Leave the step out.")

        def streaming(statement: Statement, lane: For) -> Statement:
            return statement.changed(streamed=self.multiple) if self._streams(nest, statement, lane) else statement

        changed = _with_lanes(nest, self.einsum, streaming)
        if changed is None:
            raise VectorAccessError(
                f"{self}: Einsum {self.einsum} writes no whole vectors of {self.tensor} that lie together",
                hint="Vectorize a loop along its last axis first; or leave the step out.",
            )
        return changed

    def _streams(self, nest: Nest, statement: Statement, lane: For) -> bool:
        """Whether a statement writes vectors of the tensor that have pieces, to a place that it does not add to."""
        place = statement.target
        array = nest.sources.get(place.source)
        if array is None or array.tensor != self.tensor or array.is_rule or statement.reduce is not None:
            return False
        dtype = nest.dtype_of(place.source)
        is_together = lane_axis(place, lane.name) is not None and lane_axis(place, lane.name) == consecutive_axis(nest, place)
        return is_together and _has_pieces(dtype, lane.extent or 1)


def _has_pieces(dtype: str, lanes: int) -> bool:
    """Whether vectors of a NumPy type have pieces of several elements that go past the caches."""
    size = memory_type(dtype).itemsize
    return dtype in C_TYPES and dtype != BFLOAT16 and size < STREAMED_BYTES <= size * lanes


def _with_lanes(nest: Nest, einsum: str, change: Callable[[Statement, For], Statement]) -> Nest | None:
    """The nest with an Einsum's statements on vectors changed, each given with the loop of its lanes; ``None`` if they stay as they are."""
    found: list[Statement] = []

    def with_statement(node: NestItem) -> tuple[NestItem, ...]:
        statement = node.body[0] if isinstance(node, For) and node.binding == "vector" and len(node.body) == 1 else None
        if not isinstance(node, For) or not isinstance(statement, Statement) or statement.einsum != einsum:
            return (node,)
        if (changed := change(statement, node)) is statement:
            return (node,)
        found.append(changed)
        return (node.changed(body=(changed,)),)

    body = rebuilt(nest.body, with_statement)
    return nest.replace(body=body) if found else None
