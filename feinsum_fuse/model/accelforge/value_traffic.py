"""Traffic of one tensor between the levels of its chain of holders (AccelForge's ``_symbolic.py``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...errors import ModelError
from ...formats.arch import Toll
from ...formats.relevance import Relevance, relevance
from ...formats.workload import TensorAccess
from ..quantity import ONE, Number, Ratio, product, value
from .einsum_nest import Computation, EinsumNest, Holder, NestLoop, NestNode, view
from .tile import Tiling, shapes_below, values


@dataclass(frozen=True)
class ValueTraffic:
    """Values read from and written to one holder, in the whole run of the Einsum and per instance of the memory.

    The totals multiply by every loop above; those per unit leave out the spatial loops above the memory, which run side by side.
    """

    reads: Number = 0
    writes: Number = 0
    reads_per_unit: Number = 0
    writes_per_unit: Number = 0

    def __add__(self, other: ValueTraffic) -> ValueTraffic:
        return ValueTraffic(
            self.reads + other.reads,
            self.writes + other.writes,
            self.reads_per_unit + other.reads_per_unit,
            self.writes_per_unit + other.writes_per_unit,
        )


@dataclass(frozen=True)
class Request:
    """What one arrival at a level asks of the level above, in values.

    ``down`` is fetched, ``up`` written back. ``first`` is the part of ``down`` that nobody needs: an output's values that no partial sum
    has reached yet.
    """

    down: Ratio = (0, 1)
    up: Ratio = (0, 1)
    first: Ratio = (0, 1)


@dataclass(frozen=True)
class Above:
    """Products of the trips of the loops above a node."""

    every: Ratio
    """All loops."""
    temporal: Ratio
    """Temporal loops: what one instance sees."""
    fresh: Ratio
    """Loops whose iterations touch new values or other instances: fully relevant temporal ones and all spatial ones."""
    fresh_temporal: Ratio


@dataclass(frozen=True)
class TensorNest:
    """One tensor's view of a nest, with the trips that it pays."""

    nest: EinsumNest
    access: TensorAccess
    tiles: Tiling
    nodes: tuple[NestNode, ...]
    kinds: Mapping[str, Relevance]
    """Rank variable -> its relevance to the tensor."""

    @classmethod
    def of(cls, nest: EinsumNest, tensor: str, tiles: Tiling) -> TensorNest:
        """The view of this tensor."""
        access = nest.access(tensor)
        return cls(nest, access, tiles, view(nest, tensor), {v: relevance(access, v) for v in nest.einsum.bounds})

    @property
    def written(self) -> bool:
        """Whether partial sums travel: the tensor is an output, and not of a copy."""
        return self.access.output and not self.nest.einsum.is_copy_operation

    def kind(self, loop: NestLoop) -> Relevance:
        """The relevance of a loop to the tensor."""
        return self.kinds[loop.variable]

    def trips(self, loop: NestLoop) -> Ratio:
        """The trips of a loop that the tensor pays (section 5.3)."""
        return self.tiles.trips_for(loop, self.kind(loop))

    def loops_above(self, place: int) -> tuple[NestLoop, ...]:
        """The loops above the node at ``place`` of the view, outermost first."""
        return tuple(node for node in self.nodes[:place] if isinstance(node, NestLoop))

    def tile(self, place: int) -> Number:
        """Values of the tile at the node at ``place`` (section 5.2)."""
        return values(self.access, shapes_below(self.access, self.loops_above(place), self.tiles))

    def above(self, place: int) -> Above:
        """Products over the loops above the node at ``place``."""
        loops = self.loops_above(place)
        temporal = [loop for loop in loops if loop.fanout is None]
        spatial = [loop for loop in loops if loop.fanout is not None]
        fresh = self._trips(loop for loop in temporal if self.kind(loop) is Relevance.FULL)
        return Above(self._trips(loops), self._trips(temporal), product([fresh, self._trips(spatial)]), fresh)

    def _trips(self, loops: Iterable[NestLoop]) -> Ratio:
        return product(self.trips(loop) for loop in loops)

    def lifted(self, request: Request, between: Iterable[NestLoop]) -> Request:
        """A request as it arrives at the level above, through the loops between.

        A spatial loop that is irrelevant and may reuse the tensor is served by one multicast, or reduced in space on the way up: it does
        not multiply. First fetches multiply only by loops that bring new values.
        """
        every, fresh = ONE, ONE
        for loop in between:
            kind = self.kind(loop)
            if loop.fanout is not None and kind is Relevance.NONE and self.access.name in loop.may_reuse:
                continue
            every = product([every, self.trips(loop)])
            if loop.fanout is not None or kind is Relevance.FULL:
                fresh = product([fresh, self.trips(loop)])
        return Request(product([request.down, every]), product([request.up, every]), product([request.first, fresh]))


def skips_first(component: object) -> bool:
    """Whether the first fetch of partial sums is skipped at a component; a toll passes on what its child skips."""
    return getattr(component, "skip_initial_output_write", True) is not False


def traffic(tensor: TensorNest) -> dict[Holder, ValueTraffic]:
    """Traffic of every holder of a tensor.

    Walks the chain from the Compute (one value per operation) outwards. With ``N`` the child's requests: a memory reads ``N`` less the
    skipped first fetches, and what it drains to its parent if the tensor is an output; it writes its own fills, less the skipped ones, and
    what the child writes back. A backing memory neither fills nor drains. A toll forwards and holds nothing.
    """
    result: dict[Holder, ValueTraffic] = {}
    request = Request()
    lower = len(tensor.nodes)
    for place in range(len(tensor.nodes) - 1, -1, -1):
        node = tensor.nodes[place]
        if isinstance(node, Computation):
            request, lower = _operation(tensor, node), place
        elif isinstance(node, Holder):
            below = tensor.lifted(request, (loop for loop in tensor.nodes[place:lower] if isinstance(loop, NestLoop)))
            result[node], request = _at(tensor, node, place, below)
            lower = place
    return result


def _operation(tensor: TensorNest, point: Computation) -> Request:
    """What one operation asks: it reads each operand, and reads, unless it is the first, and writes its output."""
    if tensor.nest.einsum.is_copy_operation:
        return Request()
    if not tensor.written:
        return Request(down=ONE)
    return Request(ONE, ONE, ONE if skips_first(point.component) else (0, 1))


def _at(tensor: TensorNest, holder: Holder, place: int, below: Request) -> tuple[ValueTraffic, Request]:
    """Traffic at one holder, given what arrives from below, and what it asks of its parent."""
    above = tensor.above(place)
    if isinstance(holder.component, Toll):
        return _through(tensor, holder, holder.component, above, below), below
    skip = skips_first(holder.component)
    served = _served(above, below if skip else replace(below, first=(0, 1)))
    request = _asked(tensor, holder, place, skip)
    fill = _served(above, request)
    own = ValueTraffic(fill.writes, fill.reads, fill.writes_per_unit, fill.reads_per_unit)
    return served + own, request


def _asked(tensor: TensorNest, holder: Holder, place: int, skip: bool) -> Request:
    """What one arrival at a memory asks of its parent: its tile down, and of an output its tile up; nothing where the tensor lives.

    A copy (section 5.7) flows one way, from the source's memory down the chain or up it.
    """
    tile: Ratio = (tensor.tile(place), 1)
    if tensor.nest.einsum.is_copy_operation:
        above = [node for node in tensor.nodes[:place] if isinstance(node, Holder)]
        if any(node.backing for node in above):
            return Request(down=tile)
        return Request(up=tile) if above else Request()
    if holder.backing:
        return Request()
    if not tensor.written:
        return Request(down=tile)
    return Request(tile, tile, tile if skip else (0, 1))


def _served(above: Above, request: Request) -> ValueTraffic:
    """What serving a request costs the level that it arrives at."""
    return ValueTraffic(
        reads=value(above.every, request.down) - value(above.fresh, request.first),
        writes=value(above.every, request.up),
        reads_per_unit=value(above.temporal, request.down) - value(above.fresh_temporal, request.first),
        writes_per_unit=value(above.temporal, request.up),
    )


def _through(tensor: TensorNest, holder: Holder, toll: Toll, above: Above, below: Request) -> ValueTraffic:
    """A toll's reads: what passes down unless it charges only ``up``, and what passes up to a parent unless it charges only ``down``."""
    direction = toll.direction.get(tensor.access.name)
    if direction not in ("up", "down", "up_and_down"):
        raise ModelError(f"Toll {toll.name} has no direction for tensor {tensor.access.name}.", hint="Use up, down or up_and_down.")
    down = _served(above, replace(below, up=(0, 1)))
    up = _served(above, Request(down=below.up))
    result = ValueTraffic()
    if direction != "up":
        result = result + ValueTraffic(reads=down.reads, reads_per_unit=down.reads_per_unit)
    if direction != "down" and not holder.backing:
        result = result + ValueTraffic(reads=up.reads, reads_per_unit=up.reads_per_unit)
    return result
