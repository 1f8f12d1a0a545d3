"""The loops of one Einsum below those that it shares: copies, register tile, reductions and lanes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import TYPE_CHECKING

from ..cascades.terms import Access, Einsum
from ..formats.mapping import Compute, Node, Spatial, Storage, Temporal
from .choices import Choice
from .components import Axis
from .lanes import is_contiguous

if TYPE_CHECKING:
    from .branches import Branch

MOST_INSTANCES = 64
"""Statements of a register tile: beyond, its loops are not unrolled."""
FAR_VECTORS = 8
"""Rows of more vectors lie on different pages sooner than a tile of them is read."""
REUSE = 4
"""A copy pays if what is copied is used by this many register tiles."""
NEAR_BYTES = 16 << 10
"""Bytes of a copied tile: half of the smallest first-level cache that processors with vectors have."""
BLOCKS = (32, 64, 128, 256, 512)
MOST_PERMUTED = 4
"""Of more loops than these only rotations are tried."""


class Nest:
    """The loops of one Einsum below the shared ones."""

    def __init__(self, branch: Branch, einsum: Einsum) -> None:
        self.branch = branch
        self.choose = branch.chooser.choose
        self.components = branch.plan.components
        self.einsum = einsum
        self.tiles = dict(branch.tiles[einsum.name])
        lane = branch.lanes[einsum.name]
        width = branch.plan.width
        self.lane = lane if lane is not None and self.tiles[lane] >= width > 1 else None
        self.width = width if self.lane is not None else 1
        self.accumulators = branch.plan.target.vector_registers // 2  # the others hold operands
        self.reductions = [v for v in einsum.variables if v not in einsum.output_variables]

    def nodes(self) -> list[Node]:
        """Outer loops, copies, cuts of the reduction, the register tile, the reductions, the tile's own loops, lanes."""
        outputs = self.einsum.output_variables
        if not self.reductions or not self.einsum.has_injective_output:
            last = self._reused() if self.lane is not None else None
            loops = [*(v for v in outputs if v not in {self.lane, last}), *(v for v in outputs if v == last)]
            nodes = [*self._down(self._order(loops)), *self._spread()]
            return [*nodes, *self._down(self._reduced()), *self._lanes()]
        second = self._second()
        along = self.lane if self.lane is not None else self._along(second)
        across, down = self._register_tile(along, second)
        nodes = self._down(self._order([v for v in outputs if v not in {along, second}]))
        copied = self._copied(second)
        nodes += self._block(bool(copied))
        if copied:
            nodes += self._cut(along, across)
            nodes += [Storage((tensor,), self.components.tiles or self.components.outer) for tensor in copied]
        nodes += self._spread()
        nodes += self._cut(second, down)
        nodes += self._cut(along, across)
        nodes += self._accumulator()
        nodes += self._down(self._reduced())
        nodes += self._down([second] if second else [])
        return [*nodes, *self._lanes()]

    def _second(self) -> str | None:
        """The other variable of the register tile."""
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        best = self._reused() if self.lane is not None else None
        return self.choose(Choice.of("second", self.einsum.name, best, [*found, None]))

    def _reused(self) -> str | None:
        """The variable in whose iterations a vector is used again, the longest first."""
        found = [v for v in self.einsum.output_variables if v != self.lane and self.tiles[v] > 1]
        reuse = {v: any(self.lane in a.variables and v not in a.variables for a in self.einsum.operands) for v in found}
        return max(found, key=lambda v: (reuse[v], self.tiles[v]), default=None)

    def _along(self, second: str | None) -> str | None:
        """The other side of a register tile of scalars."""
        if second is None:
            return None
        found = [v for v in self.einsum.output_variables if v != second and self.tiles[v] > 1]
        return self.choose(Choice.of("along", self.einsum.name, None, found))

    def _register_tile(self, along: str | None, second: str | None) -> tuple[int, int]:
        """How far the register tile goes along the lanes and along the other variable."""
        vectors = down = 1
        if along is not None:
            usual = 2 if self.tiles[along] > self.width else 1
            fitting = [n for n in (1, 2, 3, 4) if (n - 1) * self.width < self.tiles[along]]
            vectors = self.choose(Choice.of("vectors", self.einsum.name, usual, fitting))
        if second is not None:
            fitting = [n for n in (1, 2, 3, 4, 6, 8) if n * vectors <= MOST_INSTANCES and n <= self.tiles[second]]
            down = self.choose(Choice.of("down", self.einsum.name, max(1, self.accumulators // vectors), fitting))
        return vectors * self.width, down

    def _order(self, loops: list[str]) -> list[str]:
        return list(self._permuted("order", loops))

    def _reduced(self) -> list[str]:
        return list(self._permuted("reductions", self.reductions))

    def _permuted(self, kind: str, loops: Sequence[str]) -> Sequence[str]:
        """The loops that have more than one iteration in some order."""
        long = tuple(v for v in loops if self.tiles[v] > 1)
        if len(long) < 2:
            return long
        rotations = [long[k:] + long[:k] for k in range(1, len(long))]
        return self.choose(Choice.of(kind, self.einsum.name, long, list(permutations(long)) if len(long) <= MOST_PERMUTED else rotations))

    def _copied(self, second: str | None) -> Sequence[str]:
        """Operands of which a tile is copied to local memory, if there is one."""
        written = self.branch.segment.written
        tensors = [a.tensor for a in self.einsum.operands]
        fitting = [t for t in dict.fromkeys(tensors) if t not in written | set(self.branch.turned(self.einsum)) and tensors.count(t) == 1]
        if self.components.tiles is None or not self.branch.plan.groups:
            return ()
        sets = [chosen for count in range(len(fitting) + 1) for chosen in combinations(fitting, count)]
        return self.choose(Choice.of("copied", self.einsum.name, self._packed(second), sets))

    def _packed(self, second: str | None) -> tuple[str, ...]:
        """Operands whose vectors are used again along the register tile's other variable, and lie far apart or not in lanes' order."""
        if second is None or self.lane is None or self.tiles[second] < REUSE * self.accumulators:
            return ()
        written = self.branch.segment.written
        found = [a.tensor for a in self.einsum.operands if second not in a.variables and a.tensor not in written and self._is_far(a)]
        twice = sum(a.tensor in found for a in self.einsum.operands) > len(found)
        return () if twice or set(found) & set(self.branch.turned(self.einsum)) else tuple(found)

    def _is_far(self, access: Access) -> bool:
        """Whether an operand has lanes that are no neighbours, or vectors with long rows between them."""
        if self.lane is None or self.lane not in access.variables:
            return False
        row = self.branch.segment.cascade.fixed_shape(access.tensor)[-1]
        return not is_contiguous(access, self.lane) or row > FAR_VECTORS * self.width

    def _block(self, copies: bool) -> list[Node]:
        """The longest reduction cut, by default so that a copied tile stays in the nearest cache."""
        longest = max(self.reductions, key=lambda v: self.tiles[v])
        rest = 1
        for v in self.reductions:
            rest *= self.tiles[v] if v != longest else 1
        near = NEAR_BYTES // (2 * self.branch.plan.target.vector_bytes)
        usual = max(1, near // rest) if copies and self.tiles[longest] * rest > 2 * near else None
        block = self.choose(Choice.of("block", self.einsum.name, usual, [None, *(n for n in BLOCKS if n < self.tiles[longest])]))
        return self._cut(longest, block) if block is not None else []

    def _accumulator(self) -> list[Node]:
        """Where sums are held."""
        known = [name for name in (self.components.registers, self.components.tiles) if name is not None]
        if not known:
            return []
        memory = self.choose(Choice.of("accumulator", self.einsum.name, known[0], [*known[1:], None]))
        return [Storage((self.einsum.output.tensor,), memory)] if memory is not None else []

    def _spread(self) -> list[Node]:
        """Loops over the fanouts that are neither groups nor lanes; by default none."""
        nodes: list[Node] = []
        for axis in self.components.others:
            options = [(v, -(-n // axis.size)) for v, n in self.tiles.items() if n > 1 and v != self.lane]
            chosen = self.choose(Choice.of("spread", f"{self.einsum.name} over {axis.component}.{axis.name}", None, options))
            if chosen is not None:
                variable, tile = chosen
                self.tiles[variable] = tile
                nodes.append(Spatial(variable, tile, name=axis.name, component=axis.component))
        return nodes

    def _lanes(self) -> list[Node]:
        """What is left of the loops, the lanes, and the operation."""
        nodes = self._down([v for v in self.einsum.output_variables if v != self.lane])
        axis: Axis | None = self.components.lane
        if self.lane is not None and axis is not None:
            nodes += self._cut(self.lane, self.width)
            nodes.append(Spatial(self.lane, 1, name=axis.name, component=axis.component))
        return [*nodes, Compute(self.einsum.name, self.components.unit)]

    def _cut(self, variable: str | None, tile: int) -> list[Node]:
        """A loop over tiles, if there is more than one."""
        if variable is None or self.tiles[variable] <= tile:
            return []
        self.tiles[variable] = tile
        return [Temporal(variable, tile)]

    def _down(self, variables: Sequence[str]) -> list[Node]:
        """Loops over single values."""
        return [node for v in variables for node in self._cut(v, 1)]
