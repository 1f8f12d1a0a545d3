"""Variables that are one for chains of holders: those that index the same tensors, each a rank of its own.

What a chain costs and takes hangs on volumes and on how often holders are filled. Both contain such variables as the product of their
tiles alone: heads and their channels in a projection, or a batch and its tokens. So a chain is made with one variable in their place, whose
extent is their product. Whatever divides the product's tile divides tiles of the single variables in turn, prime by prime; the chain is
split so when it is written out. Fused loops, which other Einsums share, keep the single variables.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from constantdict import constantdict

from ..formats.arch import Network
from ..formats.workload import TensorAccess
from ..model.accelforge.einsum_terms import FULL, NONE, Integers, Terms


@dataclass(frozen=True)
class Merging:
    """Classes of variables, by number, each of which is one variable of a chain."""

    classes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, terms: Terms) -> Merging | None:
        """The variables that can be merged; ``None`` where there are none, or figures tell them apart: loops in space before networks."""
        accesses = Counter(access.name for access in terms.einsum.tensor_accesses)
        if terms.einsum.is_copy_operation or max(accesses.values()) > 1 or any(isinstance(leaf, Network) for leaf in terms.components):
            return None
        if any(dimension.fanout.loop_bounds for dimension in terms.dimensions):
            return None
        groups: dict[tuple[int, ...], list[int]] = {}
        for v in range(len(terms.variables)):
            kinds = tuple(terms.kinds[:, v].tolist())
            alone = all(kind == NONE or (kind == FULL and _alone(terms, t, v)) for t, kind in enumerate(kinds))
            groups.setdefault((*kinds, -1 if alone else v), []).append(v)
        classes = tuple(sorted(map(tuple, groups.values())))
        return cls(classes) if len(classes) < len(terms.variables) else None

    def tiles(self, tiles: Integers) -> Integers:
        """Tile vectors of single variables as those of merged ones."""
        return np.stack([tiles[:, own].prod(axis=1) for own in map(list, self.classes)], axis=1)

    def terms(self, terms: Terms) -> Terms:
        """The terms of the Einsum with merged variables; each is called as the first of its own."""
        names = [terms.variables[own[0]] for own in self.classes]
        bounds = {name: math.prod(int(terms.bounds[v]) for v in own) for name, own in zip(names, self.classes, strict=True)}
        rest = {v: bound for v, bound in terms.einsum.bounds.items() if bound == 1}
        dropped = {terms.variables[v] for own in self.classes for v in own[1:]}
        einsum = dataclasses.replace(terms.einsum, bounds=constantdict({**bounds, **rest}))
        accesses = tuple(_without(access, dropped) for access in terms.accesses)
        kinds = terms.kinds[:, [own[0] for own in self.classes]]
        return dataclasses.replace(terms, einsum=einsum, variables=tuple(names), accesses=accesses, kinds=kinds)

    def split(
        self, terms: Terms, start: Integers, places: Sequence[tuple[int, Sequence[Sequence[int]]]], factors: Integers, settled: int = -1
    ) -> tuple[list[list[tuple[int, ...]]], Integers]:
        """A chain of merged variables as one of single variables.

        ``start``: the tile vector of single variables above it; ``places``: the memory of each holder, by number, with the tile vectors
        that loops lead to there, one after the other; ``factors``: of loops in space, (dimensions, merged variables); ``settled``: the
        innermost memory above which they are behind ``start``, if there is one. Returns the same of single variables.
        """
        tiles = [int(tile) for tile in start]
        spread = np.ones((len(terms.dimensions), len(tiles)), dtype=np.int64)
        result: list[list[tuple[int, ...]]] = []
        level = settled + 1
        for memory, vectors in (*places, (len(terms.memories), [[1] * len(self.classes)])):
            dimensions = list(_between(terms, level, memory))
            # Loops in space stand right above the holder: what they will take is left until then.
            taken = factors[dimensions].prod(axis=0)
            self._cut(tiles, self._quotients(tiles, np.array(vectors[0]) * taken))
            for dimension in dimensions:
                before = list(tiles)
                self._cut(tiles, factors[dimension].tolist())
                spread[dimension] = [old // new for old, new in zip(before, tiles, strict=True)]
            found: list[tuple[int, ...]] = []
            for vector in vectors:
                self._cut(tiles, self._quotients(tiles, np.array(vector)))
                found.append(tuple(tiles))
            result.append(found)
            level = max(level, memory + 1)
        return result[:-1], spread

    def _quotients(self, tiles: Sequence[int], target: Integers) -> list[int]:
        """How many times the tiles of merged variables are those of a target."""
        return [math.prod(tiles[v] for v in own) // int(wanted) for own, wanted in zip(self.classes, target, strict=True)]

    def _cut(self, tiles: list[int], quotients: Sequence[int]) -> None:
        """Cut the tiles of single variables so many times, those of each class together, the last of them first."""
        for own, quotient in zip(self.classes, quotients, strict=True):
            left = quotient
            for v in reversed(own):
                # By primes: what of the quotient is left is cut from the variables before.
                shared = math.gcd(tiles[v], left)
                while shared > 1:
                    tiles[v] //= shared
                    left //= shared
                    shared = math.gcd(tiles[v], left)


def _alone(terms: Terms, tensor: int, v: int) -> bool:
    """Whether a variable indexes one rank of a tensor and has it for itself."""
    indices = [index for index in terms.accesses[tensor].projection.values() if terms.variables[v] in index.variables]
    return len(indices) == 1 and indices[0].bare is not None


def _without(access: TensorAccess, dropped: set[str]) -> TensorAccess:
    """An access without the ranks that some variables index."""
    kept = {rank: index for rank, index in access.projection.items() if index.bare not in dropped}
    return dataclasses.replace(access, projection=constantdict(kept))


def _between(terms: Terms, level: int, memory: int) -> Iterator[int]:
    """The dimensions of fanouts above the holders of a memory, or the compute unit, and not above those of memory ``level - 1``."""
    places = (-1, *terms.memories, len(terms.components))
    for number, dimension in enumerate(terms.dimensions):
        if places[level] < dimension.owner <= places[memory + 1]:
            yield number
