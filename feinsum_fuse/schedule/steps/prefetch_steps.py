"""Asking memory for what is read later."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

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
        found: list[Statement] = []

        def asking(node: NestItem) -> tuple[NestItem, ...]:
            statement = node.body[0] if isinstance(node, For) and node.binding == "vector" and len(node.body) == 1 else None
            if not isinstance(node, For) or not isinstance(statement, Statement) or statement.einsum != self.einsum:
                return (node,)
            read = {place.source for place in statement.operands if self._is_asked_for(nest, place.source, node.name, statement)}
            if not read or statement.role not in {"update", "map"}:
                return (node,)
            found.append(statement)
            ahead = {**statement.ahead, **dict.fromkeys(sorted(read), AskedAhead(self.distance, self.line))}
            return (node.changed(body=(dataclasses.replace(statement, ahead=type(statement.ahead)(ahead)),)),)

        body = rebuilt(nest.body, asking)
        if not found:
            raise VectorAccessError(
                f"{self}: Einsum {self.einsum} reads of {self.tensor} neither vectors that lie together nor numbers for all lanes",
                hint="Vectorize a loop along its last axis, or one that moves nothing in it, first; or leave the step out.",
            )
        return nest.replace(body=body)

    def _is_asked_for(self, nest: Nest, source: str, lane: str, statement: Statement) -> bool:
        """Whether the lanes are neighbours in an array of the tensor, or read the same elements of it."""
        array = nest.sources.get(source)
        if array is None or array.tensor != self.tensor or (array.is_rule and not array.is_direct):
            return False
        places = [place for place in statement.operands if place.source == source]
        moved = [place for place in places if any(lane in index.variables for index in place.indices)]
        return all(lane_axis(place, lane) is not None and lane_axis(place, lane) == consecutive_axis(nest, place) for place in moved)
