"""A mapping for any cascade, from its indexing, sizes and element types alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from constantdict import constantdict

from ..cascade.cascade import Cascade, Einsum
from ..cascade.reading import cascade as cascade_of
from ..errors import LoweringError, MappingError, ScheduleError
from ..schedule.target import DeviceLimits
from ..spec.arch import Action, Arch, Container, Fanout, Memory
from ..spec.arch import Compute as ComputeUnit
from ..spec.building import spec as spec_of
from ..spec.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from ..spec.opencl import OpenCL
from ..spec.spec import Spec
from .lane_choice import is_contiguous, lanes_of
from .lowering import lower
from .segments import Rows, Segment, segments

OUTER, TILES, REGISTERS, UNIT = "MainMemory", "Scratchpad", "Register", "MAC"
CORES = 2
"""How many groups stand side by side in the tree; the loop above them becomes more groups, so that any number of cores has work."""
VECTOR_BYTES = 32
VECTORIZED = frozenset({"float32", "float64", "int32", "int64", "uint32"})
WIDEST = 16
"""Elements of OpenCL's longest vectors."""
ITEMS = 64
"""Work-items of a group at most, where lanes are work-items: two or more that run in step fill any device, and neighbours are coalesced."""
SHORT_ROW = 8
"""Work-items along shorter rows would be too few; they go along the longest axis instead."""
ACCUMULATORS = 8
"""Vectors of a register tile: half of the 16 registers that most processors have."""
BUDGET = 512 << 10
"""Bytes of tiles in a group, which should stay in the cache that belongs to a core."""
LEAST_ROWS = 16
REDUCTION_TILE = 256
GROUPS = 16
"""So many are enough for the cores to share the work evenly."""
GROUP_POINTS = 1 << 16
"""Below this many points a group does not pay for its start."""


def default_mapping(cascade: Cascade, limits: DeviceLimits | None = None, opencl: OpenCL | None = None) -> Mapping:
    """A legal mapping with groups, register tile and lanes for the workload ``cascade.workload``, on the architecture of
    :func:`default_spec`.

    Einsums that are chained and share independent rows are fused over tiles of them, as long as what they exchange fits a core's cache.
    Lanes are as many as suit vectors; work-items, if ``opencl`` binds a fanout to ``local.0`` and none to ``vector``. Raises
    :class:`LoweringError` for a cascade that nothing can run, and :class:`~feinsum_fuse.errors.CascadeError` for symbolic sizes.
    """
    mapping = default_spec(cascade, limits, opencl).mapping
    assert mapping is not None
    return mapping


def default_spec(cascade: Cascade, limits: DeviceLimits | None = None, opencl: OpenCL | None = None) -> Spec:
    """The cascade with its default mapping, and the architecture and bindings that the mapping is for.

    Of ``opencl`` only what lanes are is looked at. The architecture's energies and rates are 1: ``ff.calibrate`` measures those of a
    device. Raises as :func:`default_mapping`.
    """
    types: constantdict[str, str] = constantdict({name: tensor.dtype for name, tensor in cascade.tensors.items()})
    sums: constantdict[str, str] = constantdict({e.output.tensor: e.accumulate for e in cascade.einsums})
    bindings, widest = (_BINDINGS, WIDEST) if not on_items(opencl) else (_ITEM_BINDINGS, ITEMS)
    bare = spec_of(cascade, _architecture(widest), None, dataclasses.replace(bindings, dtypes=types, accumulate=sums))
    reasons: list[str] = []
    for plan in _plans(cascade_of(bare), bare, limits or DeviceLimits()):
        try:
            found = bare.replace(mapping=plan.mapping())
            lower(found, limits)
        except (LoweringError, ScheduleError, MappingError) as error:
            reasons.append(error.message)
            continue
        return found
    raise LoweringError(f"no default mapping can be lowered: {'; '.join(dict.fromkeys(reasons))}")


def on_items(opencl: OpenCL | None) -> bool:
    """Whether a device's lanes are work-items."""
    kinds = set(opencl.fanouts.values()) if opencl is not None else set()
    return "local.0" in kinds and "vector" not in kinds


def _memory(name: str) -> Memory:
    return Memory(name=name, actions=(Action("read", energy=1.0, throughput=1.0), Action("write", energy=1.0, throughput=1.0)))


def _architecture(lanes: int) -> Arch:
    return Arch(
        (
            _memory(OUTER),
            Container(name="Core", spatial=(Fanout("core", CORES),)),
            _memory(TILES),
            _memory(REGISTERS),
            Container(name="Lane", spatial=(Fanout("lane", lanes),)),
            ComputeUnit(name=UNIT, actions=(Action("compute", energy=1.0, throughput=1.0),)),
        )
    )


_BINDINGS = OpenCL(
    memories=constantdict({OUTER: "global", TILES: "local", REGISTERS: "private"}),
    fanouts=constantdict({"Core": "group.0", "Lane": "vector"}),
)
_ITEM_BINDINGS = OpenCL(
    memories=constantdict({OUTER: "global", TILES: "local", REGISTERS: "distributed"}),
    fanouts=constantdict({"Core": "group.0", "Lane": "local.0"}),
)


def _plans(cascade: Cascade, spec: Spec, limits: DeviceLimits) -> Iterator[_Plan]:
    """Plans to be tried, the fastest first, the plainest last."""
    budget = min(BUDGET, limits.local_bytes * 3 // 4)
    width = items_of(cascade) if on_items(spec.opencl) else _width(cascade)
    for lanes in dict.fromkeys((width, 1)):
        for share in (budget, budget // 4, 0):
            yield _Plan(cascade, spec, share, lanes)
    yield _Plan(cascade, spec, 0, 1, groups=False)


def items_of(cascade: Cascade) -> int:
    """Work-items of a group: a power of two, so that rows of every output have enough elements for them."""
    lengths = [_longest_row(einsum) for einsum in cascade.einsums if einsum.output_variables]
    return min(ITEMS, 1 << (min(lengths, default=1).bit_length() - 1))


def _longest_row(einsum: Einsum) -> int:
    """The iterations along the output's rows, or along its longest axis if its rows are short."""
    sizes = {v: n for v in einsum.output_variables if isinstance(n := einsum.sizes[v], int)}
    row = max((sizes.get(v, 1) for v in einsum.output.indices[-1].variables), default=1)
    return row if row >= SHORT_ROW else max(sizes.values(), default=1)


def _width(cascade: Cascade) -> int:
    """Lanes of a vector; 1 where elements of several types meet, or of a type that has no vectors."""
    types = {tensor.dtype for tensor in cascade.tensors.values()} | {e.accumulate for e in cascade.einsums}
    if len(types) != 1 or not types <= VECTORIZED:
        return 1
    width = VECTOR_BYTES // np.dtype(types.pop()).itemsize
    longest = max((n for e in cascade.einsums for v in e.output_variables if isinstance(n := e.sizes[v], int)), default=1)
    while width > longest:
        width //= 2
    return width


@dataclass(frozen=True)
class _Plan:
    """One way to map a cascade: how many bytes of intermediates a group may hold, how many lanes, groups or not."""

    cascade: Cascade
    spec: Spec
    budget: int
    width: int
    groups: bool = True

    def mapping(self) -> Mapping:
        """The tree."""
        parts = list(segments(self.cascade, self.spec.workload, self.budget, LEAST_ROWS))
        fused = {t for part in parts for t in part.kept} if self.groups else set()
        outside = tuple(t for t in self.cascade.tensors if t not in fused)
        branches = [_Branch(self, part).nodes() for part in parts]
        storage = Storage(outside, OUTER)
        if len(branches) == 1:
            return Mapping((storage, *branches[0]))
        return Mapping((storage, Sequential(tuple(Nested(tuple(nodes)) for nodes in branches))))


class _Branch:
    """One segment on its way to nodes."""

    def __init__(self, plan: _Plan, segment: Segment) -> None:
        self.plan = plan
        self.segment = segment
        self.rows: Rows = segment.main or {} if plan.groups else {}
        self.tile = self._tile() if self.rows else 1
        self.lanes = lanes_of(segment, self.rows, self.tile, plan.width).chosen

    def _tile(self) -> int:
        """Rows of a group: enough work, enough groups, and no more than fits; a power of two."""
        extent = self.segment.extent(self.rows)
        wanted = max(64, GROUP_POINTS * extent // max(1, self.segment.points()))
        problems = prod(map(self.segment.extent, self.segment.batches))
        wanted = min(wanted, max(LEAST_ROWS, extent * min(problems, GROUPS) // GROUPS))
        held = self.segment.row_bytes(self.rows)
        if held:
            wanted = min(wanted, max(LEAST_ROWS, self.plan.budget // held))
        return min(extent, 1 << (wanted.bit_length() - 1))

    def nodes(self) -> list[Node]:
        """Loops over other shared variables, over groups of rows, and what each Einsum does with its rows."""
        nodes, tiles = self._shared()
        held = [Storage((t,), TILES) for t in self.segment.kept] if self.rows else []
        parts = [_Nest(self, einsum, tiles[einsum.name]).nodes() for einsum in self.segment.einsums]
        turned = dict.fromkeys(t for e in self.segment.einsums for t in self.turned(e) if self.rows)
        nodes += [Storage((t,), TILES) for t in turned]
        nodes += held
        if len(parts) == 1:
            return [*nodes, *parts[0]]
        return [*nodes, Sequential(tuple(Nested(tuple(part)) for part in parts))]

    def turned(self, einsum: Einsum) -> list[str]:
        """Inputs that are copied for each tile of rows, because their rows are lanes and do not lie next to one another."""
        row = self.rows.get(einsum.name)
        lane = self.lanes[einsum.name]
        if row is None or lane != row:
            return []
        inputs = set(self.segment.cascade.tensors) - {e.output.tensor for e in self.segment.einsums}
        return [a.tensor for a in einsum.operands if a.tensor in inputs and lane in a.variables and not is_contiguous(a, lane)]

    def _shared(self) -> tuple[list[Node], dict[str, dict[str, int]]]:
        tiles = {e.name: {v: n for v, n in e.sizes.items() if isinstance(n, int)} for e in self.segment.einsums}
        if not self.rows:
            return [], tiles
        nodes: list[Node] = []
        for rows in self.segment.batches:
            nodes.append(Temporal(_name(rows), 1))
            for einsum, variable in rows.items():
                tiles[einsum][variable] = 1
        extent = self.segment.extent(self.rows)
        if extent > self.tile:
            if extent > CORES * self.tile:
                nodes.append(Temporal(_name(self.rows), CORES * self.tile))
            nodes.append(Spatial(_name(self.rows), self.tile, name="core", component="Core"))
            for einsum, variable in self.rows.items():
                tiles[einsum][variable] = self.tile
        return nodes, tiles


def _name(rows: Rows) -> str | constantdict[str, str]:
    names = set(rows.values())
    return names.pop() if len(names) == 1 else constantdict(rows)


class _Nest:
    """The loops of one Einsum below the shared ones."""

    def __init__(self, branch: _Branch, einsum: Einsum, tiles: dict[str, int]) -> None:
        self.branch = branch
        self.einsum = einsum
        self.tiles = tiles
        self.width = branch.plan.width
        lane = branch.lanes[einsum.name]
        self.lane = lane if lane is not None and tiles[lane] >= self.width > 1 else None
        self.reductions = [v for v in einsum.variables if v not in einsum.output_variables]

    def nodes(self) -> list[Node]:
        """Outer loops, tile of registers, reductions, the tile's own loops, lanes."""
        second = self._second()
        loops = [v for v in self.einsum.output_variables if v not in {self.lane, second}]
        if self.lane is None or not self.reductions or not self.einsum.has_injective_output:
            return [*self._down(loops), *self._down([second] if second else []), *self._plain()]
        vectors = 2 if self.tiles[self.lane] > self.width else 1
        nodes = self._down(loops)
        packed = self._packed(second)
        if packed and self.branch.plan.groups:
            nodes += self._blocks()
            nodes += self._cut(self.lane, vectors * self.width)
            nodes += [Storage((tensor,), TILES) for tensor in packed]
        nodes += self._cut(second, ACCUMULATORS // vectors) if second else []
        nodes += self._cut(self.lane, vectors * self.width)
        nodes.append(Storage((self.einsum.output.tensor,), REGISTERS))
        nodes += self._down(self.reductions)
        nodes += self._down([second] if second else [])
        return [*nodes, *self._lanes(), Compute(self.einsum.name, UNIT)]

    def _plain(self) -> list[Node]:
        nodes: list[Node] = []
        if self.lane is None and self.reductions and self.einsum.has_injective_output:
            nodes.append(Storage((self.einsum.output.tensor,), REGISTERS))
        nodes += self._down(self.reductions)
        return [*nodes, *self._lanes(), Compute(self.einsum.name, UNIT)]

    def _lanes(self) -> list[Node]:
        if self.lane is None:
            return []
        return [*self._cut(self.lane, self.width), Spatial(self.lane, 1, name="lane", component="Lane")]

    def _second(self) -> str | None:
        """The other variable of the register tile: one in whose iterations a vector is used again, the longest first."""
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        if self.lane is None:
            return None
        reuse = {v: any(self.lane in a.variables and v not in a.variables for a in self.einsum.operands) for v in found}
        return max(found, key=lambda v: (reuse[v], self.tiles[v]), default=None)

    def _packed(self, second: str | None) -> list[str]:
        """Operands whose vectors are used again along the register tile's other variable, and lie far apart or not in lanes' order."""
        if second is None or self.lane is None or self.tiles[second] < 4 * ACCUMULATORS:
            return []
        found = []
        written = {e.output.tensor for e in self.branch.segment.einsums}
        for access in self.einsum.operands:
            if self.lane not in access.variables or second in access.variables or access.tensor in written:
                continue
            row = self.branch.segment.cascade.fixed_shape(access.tensor)[-1]
            if not is_contiguous(access, self.lane) or row > 8 * self.width:
                found.append(access.tensor)
        if sum(a.tensor in found for a in self.einsum.operands) > len(found) or set(found) & set(self.branch.turned(self.einsum)):
            return []
        return found

    def _blocks(self) -> list[Node]:
        """The longest reduction cut, so that a packed tile stays in the nearest cache."""
        longest = max(self.reductions, key=lambda v: self.tiles[v])
        rest = 1
        for v in self.reductions:
            rest *= self.tiles[v] if v != longest else 1
        return self._cut(longest, max(1, REDUCTION_TILE // rest)) if self.tiles[longest] * rest > 2 * REDUCTION_TILE else []

    def _cut(self, variable: str, tile: int) -> list[Node]:
        """A loop over tiles, if there is more than one."""
        if self.tiles[variable] <= tile:
            return []
        self.tiles[variable] = tile
        return [Temporal(variable, tile)]

    def _down(self, variables: list[str]) -> list[Node]:
        """Loops over single values."""
        nodes: list[Node] = []
        for variable in variables:
            nodes += self._cut(variable, 1)
        return nodes
