"""Which components of an architecture play which part in a mapping, and the architecture that the default mapping is for."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from math import prod

import numpy as np
from constantdict import constantdict

from ..errors import LoweringError
from ..formats.arch import Action, Arch, Container, Fanout, Leaf, Memory
from ..formats.arch import Compute as ComputeUnit
from ..formats.opencl import GROUP_KINDS, MAIN_KINDS, MEMORIES, PRIVATE_KINDS, FanoutKind, OpenCL
from ..formats.spec import Spec
from ..lowering.binding import Bindings
from ..schedule.sameness import Same
from ..schedule.target import Target
from .fusing.segment import RowVariables, Segment

CORES = 2
"""Groups that stand side by side in the default architecture. Lowering makes more groups of the loop above, for any number of cores."""
ITEMS = 128
"""Work-items of a group at most, where lanes are work-items: several that run in step, since a unit has no more than so many groups
at once; neighbours are coalesced."""
MOST_GROUPS = 1 << 16
"""Groups that stand side by side there, where lanes are work-items: all that there are, since the device takes them as units fall idle."""
CALIBRATED = "multiply_adds_float32"
"""A variable of each architecture that was measured, and of no other."""


@dataclass(frozen=True)
class Axis:
    """A dimension of a fanout."""

    component: str
    name: str
    size: int


@dataclass(frozen=True)
class Components:
    """The parts that components of an architecture play, found by what the ``opencl`` key or its defaults bind them to."""

    outer: str
    """The outermost memory."""
    tiles: str | None
    """Local memory, which a group shares."""
    registers: str | None
    """Private memory; where lanes are work-items, memory that is distributed over them."""
    unit: str
    group: Axis | None
    """What is bound to groups."""
    lane: Axis | None
    """What is bound to lanes of vectors, or to work-items if nothing is."""
    on_items: bool
    """Whether lanes are work-items."""
    others: tuple[Axis, ...] = ()
    """The other fanouts, from the outermost."""
    rows: Axis | None = None
    """The one of them that is bound to the second axis of work-items."""

    @classmethod
    def of(cls, spec: Spec) -> Components:
        """Those on the way to the first Compute. Raises :class:`LoweringError` without an architecture, a memory or a Compute."""
        if spec.arch is None:
            raise LoweringError("random mappings need an architecture", hint="`feinsum-fuse calibrate` writes one.")
        unit = next((leaf.name for leaf in spec.arch.components if isinstance(leaf, ComputeUnit)), None)
        if unit is None:
            raise LoweringError("random mappings need a Compute in the architecture")
        bindings = Bindings(spec)
        items = on_items(spec.opencl)
        memories: dict[str, str] = {}
        axes: list[tuple[FanoutKind, Axis]] = []
        for leaf in spec.arch.path(unit):
            if isinstance(leaf, Memory):
                memories.setdefault(bindings.memory(leaf.name), leaf.name)
            axes += [(bindings.dimension(leaf.name, fanout.name), Axis(leaf.name, fanout.name, fanout.fanout)) for fanout in leaf.spatial]
        outer = next((name for kind, name in memories.items() if kind in MAIN_KINDS), None) or next(iter(memories.values()), None)
        if outer is None:
            raise LoweringError("random mappings need a Memory in the architecture")
        group = next((axis for kind, axis in axes if kind == "group.0"), None)
        lane = next((axis for kind, axis in axes if kind == ("local.0" if items else "vector")), None)
        others = tuple(axis for _, axis in axes if axis not in (group, lane))
        rows = next((axis for kind, axis in axes if kind == "local.1"), None)
        below = {kind: name for kind, name in memories.items() if name != outer}
        tiles = next((name for kind, name in below.items() if kind in GROUP_KINDS), None)
        registers = next((n for kind, n in below.items() if kind in PRIVATE_KINDS and MEMORIES[kind].is_distributed == items), None)
        return cls(outer, tiles, registers, unit, group, lane, items, others, rows)


@dataclass(frozen=True)
class Plan:
    """What is decided for the whole cascade."""

    components: Components
    target: Target
    width: int
    budget: int
    groups: bool
    sums: bool
    """Whether lanes may run along reductions."""
    orders: dict[Same[Segment], list[RowVariables]] = field(default_factory=dict, compare=False, repr=False)
    """Segment -> its rows, best first: kept, since no further decision changes them."""
    tiles: dict[tuple[Same[Segment], tuple[str, ...]], int] = field(default_factory=dict, compare=False, repr=False)
    """The same of usual tiles, for a segment and its rows."""

    @property
    def enough_groups(self) -> int:
        """Groups that are enough for all units."""
        return self.target.groups_of(self.width if self.components.on_items else 1)


def on_items(opencl: OpenCL | None) -> bool:
    """Whether a device's lanes are work-items."""
    kinds = set(opencl.fanouts.values()) if opencl is not None else set()
    return "local.0" in kinds and "vector" not in kinds


def fitted(target: Target, spec: Spec) -> Target:
    """The target with the vectors that ``ff.calibrate`` found best, and its other figures, if it wrote the Spec's architecture.

    It writes as many lanes as multiply most float32 numbers a second. In other architectures the fanout is no more than a bound.
    """
    if spec.arch is None or CALIBRATED not in spec.arch.variables:
        return target
    known, lane, caches = spec.arch.variables, Components.of(spec).lane, _own_caches(spec)
    if lane is None or on_items(spec.opencl):
        return target
    return dataclasses.replace(
        target,
        vector_bytes=lane.size * np.dtype("float32").itemsize,
        vector_registers=int(known.get("vector_registers", target.vector_registers)),
        line_bytes=int(known.get("line_bytes", target.line_bytes)),
        load_cost=target.load_cost if (load := load_cost(spec)) is None else load,
        far_line_cost=target.far_line_cost if (far := far_line_cost(spec)) is None else far,
        own_line_cost=target.own_line_cost if (own := own_line_cost(spec)) is None else own,
        own_line_loss=target.own_line_loss if (loss := own_line_loss(spec)) is None else loss,
        sums_at_once=target.sums_at_once if (sums := sums_at_once(spec)) is None else sums,
        nearest_cache_bytes=caches[-1] if caches else target.nearest_cache_bytes,
        core_cache_bytes=max(caches, default=target.core_cache_bytes),
    )


def _own_caches(spec: Spec) -> list[int]:
    """Bytes of the caches that a core has for itself, the nearest last."""
    return [int(cache.size) // 8 for cache in _cache_leaves(spec) if isinstance(cache.size, int | float)]


def _cache_leaves(spec: Spec) -> list[Memory]:
    """The caches below the groups, the nearest last."""
    return [leaf for leaf in _on_the_way(spec)[1] if isinstance(leaf, Memory) and Bindings(spec).memory(leaf.name) == "cache"]


def _on_the_way(spec: Spec) -> tuple[list[Leaf], list[Leaf]]:
    """What lies above the groups on the way to the first Compute, and from them on."""
    assert spec.arch is not None
    bindings, unit = Bindings(spec), next(leaf.name for leaf in spec.arch.components if isinstance(leaf, ComputeUnit))
    path = list(spec.arch.path(unit))
    groups = [n for n, leaf in enumerate(path) if any(bindings.dimension(leaf.name, f.name) == "group.0" for f in leaf.spatial)]
    first = groups[0] if groups else len(path)
    return path[:first], path[first:]


def far_line_cost(spec: Spec) -> float | None:
    """What a line from the nearest memory that all cores share takes longer than one from a core's own caches, in multiply-adds of vectors,
    by an architecture that was measured: each core has its part of the shared rate. Of that only what computing does not hide, where it was
    measured on the way from that memory through the core's caches.
    """
    assert spec.arch is not None
    above, below = _on_the_way(spec)
    far, near = [memory for memory in reversed(above) if isinstance(memory, Memory)], _cache_leaves(spec)
    if not far or (taken := _line_cost(spec, far[0])) is None:
        return None
    units = prod(fanout.fanout for leaf in below[:1] for fanout in leaf.spatial)
    shown = [loss for memory in (far[0], *near[:1]) if (loss := spec.arch.variables.get(f"overlap_loss_{memory.name}")) is not None]
    own = _line_cost(spec, near[0]) if near else None
    return max(0.0, units * taken - (own or 0.0)) * max(shown, default=1.0)


def own_line_cost(spec: Spec) -> float | None:
    """What a line from the largest cache of a core's own takes, in multiply-adds of vectors, by an architecture that was measured; ``None``
    where a core has but one."""
    near = _cache_leaves(spec)
    return _line_cost(spec, near[0]) if len(near) > 1 else None


def own_line_loss(spec: Spec) -> float | None:
    """The part of what such lines take that computing does not hide, by an architecture that was measured."""
    assert spec.arch is not None
    near = _cache_leaves(spec)
    return spec.arch.variables.get(f"overlap_loss_{near[0].name}") if len(near) > 1 else None


def _line_cost(spec: Spec, memory: Memory) -> float | None:
    """What a line of a memory takes at its whole rate, in multiply-adds of a core's vectors; ``None`` where that was not measured."""
    assert spec.arch is not None
    known, lane, rate = spec.arch.variables, Components.of(spec).lane, _read_rate(memory)
    if lane is None or rate is None or CALIBRATED not in known or "line_bytes" not in known:
        return None
    return known["line_bytes"] * 8 / rate * known[CALIBRATED] / lane.size


def _read_rate(memory: Memory) -> float | None:
    """Bits that are read a second."""
    rate = next((action.throughput for action in memory.actions if action.name == "read"), None)
    return rate if isinstance(rate, int | float) and rate > 0 else None


def sums_at_once(spec: Spec) -> float | None:
    """Multiply-adds of vectors that begin while one is done, by an architecture that was measured."""
    assert spec.arch is not None
    known, lane = spec.arch.variables, Components.of(spec).lane
    latency, rate = known.get("multiply_add_latency_seconds"), known.get(CALIBRATED)
    return max(1.0, latency * rate / lane.size) if latency and rate and lane is not None else None


def load_cost(spec: Spec) -> float | None:
    """What a load of a vector costs beside multiply-adds, by an architecture that was measured: half of the time of what a load and one of
    them take, the rest is waiting."""
    assert spec.arch is not None
    known, lane = spec.arch.variables, Components.of(spec).lane
    loads, rate = known.get("load_seconds"), known.get(CALIBRATED)
    return min(1.0, loads * rate / lane.size / 2) if loads and rate and lane is not None else None


def default_architecture(opencl: OpenCL | None, target: Target) -> tuple[Arch, OpenCL]:
    """Main memory, cores with a scratchpad, registers and lanes; and what they are on the device.

    Of ``opencl`` only what lanes are is looked at; where it does not say, the target decides. Energies and rates are 1: ``ff.calibrate``
    measures those of a device.
    """
    items = on_items(opencl) if opencl is not None and opencl.fanouts else target.lanes_are_items
    arch = Arch(
        (
            _memory("MainMemory"),
            Container(name="Core", spatial=(Fanout("core", MOST_GROUPS if items else CORES),)),
            _memory("Scratchpad"),
            _memory("Register"),
            *([Container(name="Row", spatial=(Fanout("row", rows_of_items(target)),))] if items else []),
            Container(name="Lane", spatial=(Fanout("lane", items_of(target) if items else target.widest_vector),)),
            ComputeUnit(name="MAC", actions=(Action("compute", energy=1.0, throughput=1.0),)),
        )
    )
    bindings = OpenCL(
        memories=constantdict({"MainMemory": "global", "Scratchpad": "local", "Register": "distributed" if items else "private"}),
        fanouts=constantdict({"Core": "group.0", "Row": "local.1", "Lane": "local.0"} if items else {"Core": "group.0", "Lane": "vector"}),
    )
    return arch, bindings


def items_of(target: Target) -> int:
    """Work-items of a group at most, where lanes are work-items."""
    return min(max(ITEMS, 2 * target.items_in_step), target.limits.max_work_group_size)


def rows_of_items(target: Target) -> int:
    """Work-items of a group at most along its second axis, each of which has those that run in step beside it."""
    return max(1, target.limits.max_work_group_size // target.items_in_step)


def _memory(name: str) -> Memory:
    return Memory(name=name, actions=(Action("read", energy=1.0, throughput=1.0), Action("write", energy=1.0, throughput=1.0)))
