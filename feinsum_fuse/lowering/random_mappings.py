"""Random mappings of a workload for a device, from families that performance engineers use: a sample to judge a model by.

Every decision of the default mapping is left as it is or drawn anew: fusion, lanes, rows of a group, register tile, copied operands, cuts
of the reduction, orders of loops, accumulation in registers or in memory. One seed gives the same mappings everywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import TypeVar

import numpy as np
from constantdict import constantdict

from ..cascade.cascade import Cascade, Einsum
from ..cascade.reading import cascade as cascade_of
from ..errors import LoweringError, MappingError, ScheduleError
from ..schedule.target import DeviceLimits
from ..spec.arch import Compute as ComputeUnit
from ..spec.arch import Memory
from ..spec.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from ..spec.opencl import MemoryKind
from ..spec.spec import Spec
from .default_mapping import BUDGET, GROUP_POINTS, GROUPS, LEAST_ROWS, VECTOR_BYTES, VECTORIZED, items_of, on_items
from .lane_choice import is_contiguous, lanes_of
from .lowering import lower
from .segments import Rows, Segment, segments

T = TypeVar("T")

NEAR, FAR = 0.2, 0.8
"""The chance that one decision is drawn anew: most mappings stay near the default one, each fourth does not."""
ATTEMPTS = 20
"""Draws for each mapping that is wanted, before the workload is said to have no more of them."""
MOST_INSTANCES = 64
"""Statements of a register tile: beyond, its loops are not unrolled."""


@dataclass(frozen=True)
class Target:
    """The components of an architecture that mappings name, found by what the ``opencl`` key binds them to."""

    outer: str
    local: str
    private: str
    unit: str
    group: tuple[str, str, int]
    """Component, dimension and size of the fanout that is bound to groups."""
    lane: tuple[str, str, int]
    """The fanout that is bound to lanes of vectors, or to work-items if none is."""
    on_items: bool

    @classmethod
    def of(cls, spec: Spec) -> Target:
        """The components of a spec for a device; raises :class:`LoweringError` where one is missing."""
        if spec.arch is None or spec.opencl is None:
            raise LoweringError("random mappings need an architecture with an opencl key", hint="`feinsum-fuse calibrate` writes one.")
        memories = {kind: name for name, kind in reversed(spec.opencl.memories.items())}
        known = spec.opencl.fanouts
        found: dict[str, tuple[str, str, int]] = {}
        for leaf in spec.arch.components:
            for fanout in leaf.spatial:
                kind = known.get(f"{leaf.name}.{fanout.name}", known.get(leaf.name, "loop"))
                found.setdefault(kind, (leaf.name, fanout.name, fanout.fanout))
        units = [leaf.name for leaf in spec.arch.components if isinstance(leaf, ComputeUnit)]
        lane = "local.0" if on_items(spec.opencl) else "vector"
        private: MemoryKind = "distributed" if on_items(spec.opencl) else "private"
        needed: tuple[MemoryKind, ...] = ("global", "local", private)
        missing: list[str] = [kind for kind in needed if kind not in memories]
        missing += [kind for kind in ("group.0", lane) if kind not in found]
        if missing or not units:
            raise LoweringError(f"random mappings need a component that is bound to {', '.join(missing) or 'a compute unit'}")
        names = [leaf.name for leaf in spec.arch.components if isinstance(leaf, Memory)]
        outer = next(name for name in names if spec.opencl.memories.get(name) == "global")
        return cls(outer, memories["local"], memories[private], units[0], found["group.0"], found[lane], lane != "vector")


def random_mappings(spec: Spec, count: int, seed: int = 0, limits: DeviceLimits | None = None) -> tuple[Spec, ...]:
    """``count`` different Specs with mappings that can be lowered, fewer if the workload has no more within reach.

    ``spec``: workload, architecture and ``opencl`` key, as ``calibrate`` writes them; its mapping is not looked at. Raises
    :class:`LoweringError` for an architecture without groups, lanes, local or private memory.
    """
    target = Target.of(spec)
    cascade = cascade_of(spec)
    types: constantdict[str, str] = constantdict({name: tensor.dtype for name, tensor in cascade.tensors.items()})
    assert spec.opencl is not None
    spec = spec.replace(opencl=dataclasses.replace(spec.opencl, dtypes=types))
    random = Random(seed)
    found: dict[str, Spec] = {}
    for _ in range(ATTEMPTS * count):
        if len(found) == count:
            break
        change = FAR if len(found) % 4 == 3 else NEAR
        try:
            drawn = spec.replace(mapping=_Draw(cascade, spec, target, random, change).mapping())
            if str(drawn.mapping) not in found:
                lower(drawn, limits)
                found[str(drawn.mapping)] = drawn
        except (LoweringError, ScheduleError, MappingError):
            continue
    return tuple(found.values())


class _Draw:
    """One mapping in the making."""

    def __init__(self, cascade: Cascade, spec: Spec, target: Target, random: Random, change: float) -> None:
        self.cascade = cascade
        self.spec = spec
        self.target = target
        self.random = random
        self.change = change
        widest = self._widest()
        self.width = self.pick(widest, [w for w in (widest // 2, 1) if w >= 1])
        self.budget = self.pick(BUDGET, [BUDGET // 8, 0, 0])

    def pick(self, usual: T, others: Sequence[T]) -> T:
        """The usual choice, or one of all."""
        return self.random.choice([usual, *others]) if self.random.random() < self.change else usual

    def _widest(self) -> int:
        if self.target.on_items:
            return min(self.target.lane[2], items_of(self.cascade))
        types = {tensor.dtype for tensor in self.cascade.tensors.values()} | {e.accumulate for e in self.cascade.einsums}
        if len(types) != 1 or not types <= VECTORIZED:
            return 1
        return min(self.target.lane[2], VECTOR_BYTES // np.dtype(types.pop()).itemsize)

    def mapping(self) -> Mapping:
        """The tree."""
        parts = list(segments(self.cascade, self.spec.workload, self.budget, LEAST_ROWS))
        fused = {t for part in parts if part.main for t in part.kept}
        outside = tuple(t for t in self.cascade.tensors if t not in fused)
        branches = [_Branch(self, part).nodes() for part in parts]
        storage = Storage(outside, self.target.outer)
        if len(branches) == 1:
            return Mapping((storage, *branches[0]))
        return Mapping((storage, Sequential(tuple(Nested(tuple(nodes)) for nodes in branches))))


class _Branch:
    """One segment on its way to nodes."""

    def __init__(self, draw: _Draw, segment: Segment) -> None:
        self.draw = draw
        self.segment = segment
        choices = [rows for rows in segment.rows if rows not in segment.batches]
        self.rows: Rows = draw.pick(choices[0], choices[1:]) if choices else {}
        self.tile = self._tile() if self.rows else 1
        self.lanes = self._lanes()

    def _tile(self) -> int:
        segment = self.segment
        extent = segment.extent(self.rows)
        wanted = max(64, GROUP_POINTS * extent // max(1, segment.points()))
        wanted = min(wanted, max(LEAST_ROWS, extent * min(prod(map(segment.extent, segment.batches)), GROUPS) // GROUPS))
        if held := segment.row_bytes(self.rows):
            wanted = min(wanted, max(LEAST_ROWS, BUDGET // held))
        usual = min(extent, 1 << (wanted.bit_length() - 1))
        return self.draw.pick(usual, [max(1, min(extent, int(usual * factor))) for factor in (0.125, 0.25, 0.5, 2, 4)])

    def _lanes(self) -> dict[str, str | None]:
        usual = lanes_of(self.segment, self.rows, self.tile, self.draw.width).chosen
        if self.draw.random.random() >= self.draw.change:
            return usual
        if self.rows and self.draw.random.random() < 0.3:
            return {**self.rows}
        return {e.name: self.draw.random.choice([usual[e.name], None, *e.output_variables]) for e in self.segment.einsums}

    def nodes(self) -> list[Node]:
        """Loops over other shared variables, over groups of rows, and what each Einsum does with its rows."""
        target, segment = self.draw.target, self.segment
        tiles = {e.name: {v: n for v, n in e.sizes.items() if isinstance(n, int)} for e in segment.einsums}
        nodes: list[Node] = []
        if self.rows:
            for rows in segment.batches:
                nodes.append(Temporal(_name(rows), 1))
                _advance(tiles, rows, 1)
            nodes += self._groups()
            _advance(tiles, self.rows, self.tile)
        held = [Storage((t,), target.local) for t in segment.kept] if self.rows else []
        parts = [_Nest(self, einsum, tiles[einsum.name]).nodes() for einsum in segment.einsums]
        turned = dict.fromkeys(t for e in segment.einsums for t in self.turned(e) if self.rows)
        nodes += [*(Storage((t,), target.local) for t in turned), *held]
        if len(parts) == 1:
            return [*nodes, *parts[0]]
        return [*nodes, Sequential(tuple(Nested(tuple(part)) for part in parts))]

    def _groups(self) -> list[Node]:
        component, dimension, cores = self.draw.target.group
        extent = self.segment.extent(self.rows)
        if extent <= self.tile:
            return []
        waves: list[Node] = [Temporal(_name(self.rows), cores * self.tile)] if extent > cores * self.tile else []
        return [*waves, Spatial(_name(self.rows), self.tile, name=dimension, component=component)]

    def turned(self, einsum: Einsum) -> list[str]:
        """Inputs that are copied for each tile of rows, because their rows are lanes and do not lie next to one another."""
        row = self.rows.get(einsum.name)
        lane = self.lanes[einsum.name]
        if row is None or lane != row:
            return []
        inputs = set(self.segment.cascade.tensors) - {e.output.tensor for e in self.segment.einsums}
        return [a.tensor for a in einsum.operands if a.tensor in inputs and lane in a.variables and not is_contiguous(a, lane)]


def _name(rows: Rows) -> str | constantdict[str, str]:
    names = set(rows.values())
    return names.pop() if len(names) == 1 else constantdict(rows)


def _advance(tiles: dict[str, dict[str, int]], rows: Rows, tile: int) -> None:
    for einsum, variable in rows.items():
        tiles[einsum][variable] = min(tile, tiles[einsum][variable])


class _Nest:
    """The loops of one Einsum below the shared ones."""

    def __init__(self, branch: _Branch, einsum: Einsum, tiles: dict[str, int]) -> None:
        self.branch = branch
        self.draw = branch.draw
        self.einsum = einsum
        self.tiles = tiles
        lane = branch.lanes[einsum.name]
        width = self.draw.width
        self.lane = lane if lane is not None and tiles[lane] >= width > 1 else None
        self.width = width if self.lane is not None else 1
        self.reductions = [v for v in einsum.variables if v not in einsum.output_variables]

    def nodes(self) -> list[Node]:
        """Outer loops, copies, cuts of the reduction, the register tile, the reductions, the tile's own loops, lanes."""
        pick = self.draw.pick
        second = self._second()
        along = self.lane if self.lane is not None else self._along(second)
        if not self.reductions or not self.einsum.has_injective_output:
            loops = [v for v in self.einsum.output_variables if v != self.lane]
            return [*self._down(self._shuffled(loops)), *self._down(self.reductions), *self._lanes()]
        loops = [v for v in self.einsum.output_variables if v not in {along, second}]
        across = pick(2, [1, 3, 4]) * self.width
        down = pick(4, [1, 2, 3, 6, 8])
        if across // self.width * down > MOST_INSTANCES:
            down = 1
        nodes = self._down(self._shuffled(loops))
        nodes += self._cuts(along, second, across)
        nodes += self._cut(second, down) if second else []
        nodes += self._cut(along, across) if along else []
        if self.draw.random.random() >= 0.25 * self.draw.change:
            nodes.append(Storage((self.einsum.output.tensor,), self.draw.target.private))
        nodes += self._down(self._shuffled(self.reductions))
        nodes += self._down([second] if second else [])
        return [*nodes, *self._lanes()]

    def _second(self) -> str | None:
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        reuse = {v: any(self.lane in a.variables and v not in a.variables for a in self.einsum.operands) for v in found}
        usual = max(found, key=lambda v: (reuse[v], self.tiles[v]), default=None)
        return self.draw.pick(usual, [*found])

    def _along(self, second: str | None) -> str | None:
        """The other side of a register tile of scalars."""
        found = [v for v in self.einsum.output_variables if v != second and self.tiles[v] > 1]
        return max(found, key=lambda v: self.tiles[v], default=None)

    def _cuts(self, along: str | None, second: str | None, across: int) -> list[Node]:
        """A cut of the longest reduction, and a copy of what is used again along the register tile's other variable."""
        longest = max(self.reductions, key=lambda v: self.tiles[v])
        block = self.draw.pick(256, [32, 64, 128, 512])
        packed = self._packed(second)
        cut = packed and self.tiles[longest] > block
        cut = self.draw.pick(cut, [not cut]) and self.tiles[longest] > block
        nodes = self._cut(longest, block) if cut else []
        if packed:
            nodes += self._cut(along, across) if along else []
            nodes += [Storage((tensor,), self.draw.target.local) for tensor in packed]
        return nodes

    def _packed(self, second: str | None) -> list[str]:
        """Operands whose vectors are used again along the register tile's other variable, and that the segment does not make."""
        if second is None or self.lane is None or self.tiles[second] < 8:
            return []
        written = {e.output.tensor for e in self.branch.segment.einsums}
        shape = self.branch.segment.cascade.fixed_shape
        fit = [a for a in self.einsum.operands if self.lane in a.variables and second not in a.variables and a.tensor not in written]
        usual = [a.tensor for a in fit if not is_contiguous(a, self.lane) or shape(a.tensor)[-1] > 8 * self.width]
        usual = usual if self.tiles[second] >= 32 else []
        chosen = self.draw.pick(usual, [[], [a.tensor for a in fit]])
        twice = sum(a.tensor in chosen for a in self.einsum.operands) > len(chosen)
        return [] if twice or set(chosen) & set(self.branch.turned(self.einsum)) else list(dict.fromkeys(chosen))

    def _shuffled(self, variables: list[str]) -> list[str]:
        return self.draw.pick(variables, [self.draw.random.sample(variables, len(variables))])

    def _lanes(self) -> list[Node]:
        component, dimension, _ = self.draw.target.lane
        nodes: list[Node] = []
        if self.lane is not None:
            nodes = [*self._cut(self.lane, self.width), Spatial(self.lane, 1, name=dimension, component=component)]
        rest = [v for v in self.einsum.output_variables if v != self.lane]
        return [*self._down(rest), *nodes, Compute(self.einsum.name, self.draw.target.unit)]

    def _cut(self, variable: str, tile: int) -> list[Node]:
        """A loop over tiles, if there is more than one."""
        if self.tiles[variable] <= tile:
            return []
        self.tiles[variable] = tile
        return [Temporal(variable, tile)]

    def _down(self, variables: list[str]) -> list[Node]:
        """Loops over single values."""
        return [node for v in variables for node in self._cut(v, 1)]
