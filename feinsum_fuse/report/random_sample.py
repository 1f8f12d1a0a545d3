"""Random legal mappings of a workload for the architecture that a user has, of whatever kind it is."""

from __future__ import annotations

import warnings
from random import Random

from constantdict import constantdict

from ..errors import LoweringError, MappingError, ModelError, ScheduleError
from ..lowering.binding import Bindings
from ..lowering.lowering import lower
from ..lowering.random_mappings import Target, random_mappings
from ..lowering.shared_loops import shareable
from ..model.predict import predict
from ..schedule.target import DeviceLimits
from ..spec.arch import Compute as ComputeUnit
from ..spec.arch import Leaf, Memory
from ..spec.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from ..spec.spec import Spec

ATTEMPTS = 20
"""Draws for each mapping that is wanted, before the workload is said to have no more of them."""

Tiles = dict[tuple[str, str], int]
"""(Einsum, rank variable) -> the tile that the loops above leave."""


def random_sample(spec: Spec, count: int, seed: int, limits: DeviceLimits) -> tuple[Spec, ...]:
    """``count`` different Specs whose mappings can be lowered, fewer if no more are found; one seed gives the same ones everywhere.

    An architecture with groups, lanes, local and private memory, as ``calibrate`` writes it, has the families of
    :func:`~feinsum_fuse.lowering.random_mappings.random_mappings`. On any other, loops, tiles, storage and shared loops are drawn at
    random, and what cannot be lowered or modelled is drawn again. Raises :class:`~feinsum_fuse.errors.LoweringError` for a Spec without
    an architecture.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the given mapping did not warn of concerns trees that nobody keeps
        try:
            Target.of(spec)
        except LoweringError:
            return _random_nests(spec, count, seed, limits)
        return random_mappings(spec, count, seed, limits)


def _random_nests(spec: Spec, count: int, seed: int, limits: DeviceLimits) -> tuple[Spec, ...]:
    random = Random(seed)
    found: dict[str, Spec] = {}
    for _ in range(ATTEMPTS * count):
        if len(found) == count:
            break
        tree = _Tree(spec, random)
        try:
            drawn = spec.replace(mapping=tree.mapping())
            if str(drawn.mapping) not in found:
                lower(drawn, limits)
                predict(drawn)
                found[str(drawn.mapping)] = drawn
        except (LoweringError, ScheduleError, MappingError, ModelError):
            continue
    return tuple(found.values())


class _Tree:
    """One tree in the making: a loop that all Einsums share or none, and a nest for each."""

    def __init__(self, spec: Spec, random: Random) -> None:
        if spec.arch is None:
            raise LoweringError("random mappings need an architecture", hint="`feinsum-fuse calibrate` writes one.")
        self.workload = spec.workload
        self.random = random
        unit = next((leaf for leaf in spec.arch.components if isinstance(leaf, ComputeUnit)), None)
        if unit is None:
            raise LoweringError("random mappings need a Compute in the architecture")
        self.unit = unit.name
        bindings = Bindings(spec)
        way = spec.arch.path(unit.name)
        memories = [leaf for leaf in way if isinstance(leaf, Memory) and bindings.memory(leaf.name) != "cache"]
        if not memories:
            raise LoweringError("random mappings need a Memory in the architecture")
        self.outer = memories[0].name
        self.way = tuple(leaf for leaf in way if leaf.spatial or leaf in memories)
        self.tiles: Tiles = {(e.name, v): size for e in self.workload.einsums for v, size in e.bounds.items()}

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def mapping(self) -> Mapping:
        """The whole tree."""
        names = tuple(einsum.name for einsum in self.workload.einsums)
        inner = [leaf.name for leaf in self.way if isinstance(leaf, Memory) and leaf.name != self.outer]
        fused = len(names) > 1 and self.chance(0.5)
        loops = self._shared(names) if fused else []
        kept = tuple(t for t in self.workload.intermediates if inner and self.chance(0.7)) if fused else ()
        outside = tuple(t for t in self.workload.tensors if t not in kept)
        branches = [tuple(self._nest(name)) for name in names]
        held = [Storage((tensor,), self.random.choice(inner)) for tensor in kept]
        below: tuple[Node, ...] = branches[0] if len(names) == 1 else (Sequential(tuple(Nested(nodes) for nodes in branches)),)
        return Mapping((Storage(outside, self.outer), *loops, *held, *below))

    def _shared(self, names: tuple[str, ...]) -> list[Node]:
        """A loop over a variable that all Einsums share."""
        candidates = [v for v in shareable(self.workload, names) if min(self.tiles[item] for item in v.items()) > 1]
        if not candidates:
            return []
        variables = self.random.choice(candidates)
        tile = self._tile(min(self.tiles[item] for item in variables.items()))
        self.tiles.update(dict.fromkeys(variables.items(), tile))
        one = len(set(variables.values())) == 1
        return [Temporal(next(iter(variables.values())) if one else constantdict(variables), tile)]

    def _nest(self, name: str) -> list[Node]:
        """The nodes of one Einsum: down the hierarchy, loops and storage at random, then all loops that are left."""
        nodes: list[Node] = []
        tensors = list(self.workload.einsum(name).tensors)
        for leaf in self.way:
            nodes += self._fanouts(name, leaf)
            if isinstance(leaf, Memory) and leaf.name != self.outer and self.chance(0.5):
                nodes += [Storage((tensor,), leaf.name) for tensor in self.random.sample(tensors, self.random.randint(1, len(tensors)))]
            for variable in self._left(name):
                if self.chance(0.3):
                    nodes.append(self._loop(name, variable, self._tile(self.tiles[name, variable])))
        left = self._left(name)
        nodes += [self._loop(name, variable, 1) for variable in self.random.sample(left, len(left))]
        return [*nodes, Compute(name, self.unit)]

    def _left(self, name: str) -> list[str]:
        return [v for v in self.workload.einsum(name).bounds if self.tiles[name, v] > 1]

    def _fanouts(self, name: str, leaf: Leaf) -> list[Node]:
        nodes: list[Node] = []
        for fanout in leaf.spatial:
            left = self._left(name)
            if left and self.chance(0.6):
                variable = self.random.choice(left)
                least = -(-self.tiles[name, variable] // fanout.fanout)
                tile = self.random.choice([least, self.random.randint(least, self.tiles[name, variable])])
                self.tiles[name, variable] = tile
                nodes.append(Spatial(variable, tile, name=fanout.name, component=leaf.name))
        return nodes

    def _loop(self, name: str, variable: str, tile: int) -> Node:
        self.tiles[name, variable] = tile
        return Temporal(variable, tile)

    def _tile(self, current: int) -> int:
        """A tile below this one: mostly a divisor."""
        if self.chance(0.2):
            return self.random.randint(1, current - 1)
        return self.random.choice([n for n in range(1, current) if current % n == 0])
