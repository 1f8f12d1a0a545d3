"""What memories hold in the course of a mapping: tiles that come and go as its loops run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..formats.arch import Memory
from ..formats.mapping import Placed, Position, Spatial, Temporal
from ..formats.spec import Spec
from .accelforge.einsum_model import Reserved
from .accelforge.estimate import alive, estimate
from .prediction import Prediction

MOST_STEPS = 36
"""Steps that are told of one mapping, unless it has more Einsums: a picture of more cannot be read."""
MOST_ITERATIONS = 3
"""Iterations of one loop that are told; the others are like them."""


@dataclass(frozen=True)
class LiveTile:
    """A tile in a memory. Equal ones of two steps are one tile, which stays."""

    space: str
    """Einsums that share a tensor's home share its space there; else each has its own."""
    tensor: str
    bits: float
    renewed: tuple[tuple[Position, int], ...]
    """(loop, iteration) that it was made for: another iteration has another tile."""


@dataclass(frozen=True)
class CourseStep:
    """One run of what is below the loops that are told."""

    einsum: str
    iterations: tuple[tuple[str, int, int], ...]
    """(rank variable, iteration from 0, iterations in all) of these loops, outermost first."""
    seconds: float
    """How long it takes, as predicted: all of the Einsum's steps take alike."""
    tiles: tuple[LiveTile, ...]

    @property
    def name(self) -> str:
        """The Einsum, and which iteration of which loop: ``E m=0,2 n=1`` where two loops cut m."""
        numbers: dict[str, list[str]] = {}
        for variable, number, _ in self.iterations:
            numbers.setdefault(variable, []).append(str(number))
        return " ".join([self.einsum, *(f"{variable}={','.join(found)}" for variable, found in numbers.items())])


@dataclass(frozen=True)
class MemoryCourse:
    """What one memory holds in the first iterations of the loops that make its tiles."""

    memory: str
    size: float
    """Bits."""
    steps: tuple[CourseStep, ...]
    loops: tuple[tuple[str, int, int], ...]
    """(rank variable, iterations told, iterations in all) of each of these loops."""

    @property
    def left_out(self) -> str:
        """Which iterations are not told; empty if all are."""
        return ", ".join(dict.fromkeys(f"{told} of {count:,} of {variable}" for variable, told, count in self.loops if told < count))


@dataclass
class _Loop:
    """A loop that makes tiles."""

    position: Position
    variable: str
    count: int
    told: int = 1


@dataclass
class _Walk:
    """The mapping's Einsums with the loops above each that make tiles, and what is alive while each runs."""

    paths: list[list[_Loop]]
    names: list[str]
    seconds: list[float]
    living: list[dict[str, Reserved]]
    steps: list[CourseStep] = field(default_factory=list)

    def unroll(self) -> None:
        """Tell of more iterations, those of outer loops first, as long as no Einsum has more than its share of the steps."""
        loops = {loop.position: loop for path in self.paths for loop in path}
        for told in range(2, MOST_ITERATIONS + 1):
            for loop in sorted(loops.values(), key=lambda loop: len(loop.position)):
                before, loop.told = loop.told, max(loop.told, min(told, loop.count))
                if any(math.prod(loop.told for loop in path) > MOST_STEPS // len(self.paths) for path in self.paths if loop in path):
                    loop.told = before

    def run(self, numbers: Sequence[int], depth: int, at: Mapping[Position, int]) -> None:
        """The Einsums of these numbers below their first ``depth`` loops."""
        for loop, group in self._groups(numbers, depth):
            if loop is None:
                self.steps.append(self._step(group[0], at))
                continue
            for iteration in range(loop.told):
                self.run(group, depth + 1, {**at, loop.position: iteration})

    def _groups(self, numbers: Sequence[int], depth: int) -> Iterator[tuple[_Loop | None, list[int]]]:
        """Neighbours that share the next loop; those that have none left one by one."""
        group: list[int] = []
        last: _Loop | None = None
        for number in numbers:
            here = self.paths[number][depth] if depth < len(self.paths[number]) else None
            if group and (here is None or here is not last):
                yield last, group
                group = []
            group, last = [*group, number], here
        if group:
            yield last, group

    def _step(self, number: int, at: Mapping[Position, int]) -> CourseStep:
        tiles = tuple(
            LiveTile(space, item.tensor, float(item.bits), tuple((p, at[p]) for p in item.renewed_by if p in at))
            for space, item in self.living[number].items()
        )
        path = self.paths[number]
        iterations = tuple((loop.variable, at[loop.position], loop.count) for loop in path)
        return CourseStep(self.names[number], iterations, self.seconds[number] / math.prod(loop.count for loop in path), tiles)


def memory_courses(spec: Spec, prediction: Prediction) -> tuple[MemoryCourse, ...]:
    """What each memory of finite size holds, from the first step on; of memories that hold nothing, nothing is said.

    A tile lives as the model's peak has it (:func:`~feinsum_fuse.model.accelforge.estimate.peaks`): the sizes of a step add up to what is
    alive while its Einsum runs. ``spec`` is as the model saw it (:func:`~feinsum_fuse.model.hardware.placement.place_caches`), and
    ``prediction`` is of it. Raises :class:`~feinsum_fuse.errors.ModelError` where the mapping cannot be modelled.
    """
    found = estimate(spec)
    assert spec.mapping is not None and spec.arch is not None
    moments, latency, names = alive(found.branches), prediction.einsum_latency, list(found.einsums)
    courses: list[MemoryCourse] = []
    for leaf in spec.arch.components:
        if not isinstance(leaf, Memory) or not 0 < leaf.size < math.inf:
            continue
        living = [{space: item for (memory, space), item in moment.items() if memory == leaf.name and item.bits > 0} for moment in moments]
        makers = {position for moment in living for item in moment.values() for position in item.renewed_by}
        known: dict[Position, _Loop] = {}
        paths = [_loops(spec, path, makers, known) for path in spec.mapping.paths()]
        if any(living):
            walk = _Walk(paths, names, [latency.get(name, 0.0) for name in names], living)
            walk.unroll()
            walk.run(range(len(paths)), 0, {})
            loops = tuple((loop.variable, loop.told, loop.count) for loop in known.values())
            courses.append(MemoryCourse(leaf.name, leaf.size, tuple(walk.steps), loops))
    return tuple(courses)


def _loops(spec: Spec, path: Sequence[Placed], makers: set[Position], known: dict[Position, _Loop]) -> list[_Loop]:
    """The temporal loops on a path that make tiles and run more than once; Einsums that share a loop share its record."""
    name = getattr(path[-1].node, "einsum", "")
    tiles = dict(spec.workload.einsum(name).bounds)
    found: list[_Loop] = []
    for placed in path:
        if not isinstance(placed.node, Temporal):
            continue
        variable = placed.node.variable(name) or ""
        count = -(-tiles[variable] // placed.node.tile_shape)
        tiles[variable] = min(tiles[variable], placed.node.tile_shape)
        if isinstance(placed.node, Spatial) or placed.position not in makers or (count < 2 and placed.position not in known):
            continue
        loop = known.setdefault(placed.position, _Loop(placed.position, variable, count))
        loop.count = max(loop.count, count)
        found.append(loop)
    return found
