"""One segment of a cascade on its way to nodes: the loops that its Einsums share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from constantdict import constantdict

from ..cascades.terms import Einsum
from ..formats.mapping import Nested, Node, Sequential, Spatial, Storage, Temporal
from ..schedule.target import Target
from .choices import Choice, Chooser
from .components import Components
from .lanes import is_contiguous, lanes_of
from .nests import Nest
from .segments import Rows, Segment

LEAST_TILE = 16
"""Rows of a group at least, for the loops inside it."""
COMMON_TILE = 64
GROUPS = 16
"""So many groups are enough for the cores to share the work evenly."""
GROUP_POINTS = 1 << 16
"""Below this many points a group does not pay for its start."""
FACTORS = (0.125, 0.25, 0.5, 2, 4)
"""Other tiles of rows, as parts of the usual one."""


@dataclass(frozen=True)
class Plan:
    """What is decided for the whole cascade."""

    components: Components
    target: Target
    width: int
    budget: int
    groups: bool


class Branch:
    """The loops that a segment's Einsums share, and below them a nest for each."""

    def __init__(self, plan: Plan, segment: Segment, chooser: Chooser) -> None:
        self.plan = plan
        self.segment = segment
        self.chooser = chooser
        self.name = "+".join(segment.names)
        self.rows = self._rows()
        self.tile = chooser.choose(self._tile()) if self.rows else 1
        self.tiles = {e.name: {v: n for v, n in e.sizes.items() if isinstance(n, int)} for e in segment.einsums}
        if self.rows:
            for batch in segment.batches:
                self._advance(batch, 1)
        self.loops = self._loops()
        self.lanes = self._lanes()

    def nodes(self) -> list[Node]:
        """Loops over other shared variables, over groups of rows, and what each Einsum does with its rows."""
        scratch = self.plan.components.tiles
        nodes = list(self.loops)
        parts = [Nest(self, einsum).nodes() for einsum in self.segment.einsums]
        if self.rows and scratch:
            turned = dict.fromkeys(t for e in self.segment.einsums for t in self.turned(e))
            nodes += [Storage((t,), scratch) for t in (*turned, *self.segment.kept)]
        if len(parts) == 1:
            return [*nodes, *parts[0]]
        return [*nodes, Sequential(tuple(Nested(tuple(part)) for part in parts))]

    def turned(self, einsum: Einsum) -> list[str]:
        """Inputs that are copied for each tile of rows, because their rows are lanes and do not lie next to one another."""
        row = self.rows.get(einsum.name)
        lane = self.lanes[einsum.name]
        if row is None or lane != row:
            return []
        read = [a for a in einsum.operands if a.tensor not in self.segment.written]
        return [a.tensor for a in read if lane in a.variables and not is_contiguous(a, lane)]

    def _rows(self) -> Rows:
        found = self.segment.rows
        if not found or not self.plan.groups:
            return {}
        return self.chooser.choose(Choice.of("rows", self.name, found[0], found[1:]))

    def _tile(self) -> Choice[int]:
        """Rows of a group: enough work, enough groups, and no more than fits; a power of two."""
        extent = self.segment.extent(self.rows)
        wanted = max(COMMON_TILE, GROUP_POINTS * extent // max(1, self.segment.points))
        problems = prod(map(self.segment.extent, self.segment.batches))
        wanted = min(wanted, max(LEAST_TILE, extent * min(problems, GROUPS) // GROUPS))
        held = self.segment.row_bytes(self.rows)
        if held:
            wanted = min(wanted, max(LEAST_TILE, self.plan.budget // held))
        usual = min(extent, 1 << (wanted.bit_length() - 1))
        return Choice.of("tile", self.name, usual, [max(1, min(extent, int(usual * factor))) for factor in FACTORS])

    def _loops(self) -> list[Node]:
        """The shared loops."""
        if not self.rows:
            return []
        nodes: list[Node] = [Temporal(_variables(batch), 1) for batch in self.segment.batches]
        extent = self.segment.extent(self.rows)
        if extent <= self.tile:
            return nodes
        self._advance(self.rows, self.tile)
        rows, group = _variables(self.rows), self.plan.components.group
        if group is None:
            return [*nodes, Temporal(rows, self.tile)]
        if extent > group.size * self.tile:
            nodes.append(Temporal(rows, group.size * self.tile))
        return [*nodes, Spatial(rows, self.tile, name=group.name, component=group.component)]

    def _advance(self, rows: Rows, tile: int) -> None:
        for einsum, variable in rows.items():
            self.tiles[einsum][variable] = tile

    def _lanes(self) -> dict[str, str | None]:
        """Einsum -> the rank variable of its lanes."""
        best: dict[str, str | None] = lanes_of(self.segment, self.rows, self.tile, self.plan.width).chosen
        if self.plan.width == 1:
            return best
        along: Sequence[dict[str, str | None]] = [{**self.rows}] if self.rows and self.tile >= self.plan.width else []
        best = self.chooser.choose(Choice.of("layout", self.name, best, along))
        result: dict[str, str | None] = {}
        for einsum in self.segment.einsums:
            long = [v for v in einsum.output_variables if self.tiles[einsum.name][v] >= self.plan.width]
            result[einsum.name] = self.chooser.choose(Choice.of("lane", einsum.name, best[einsum.name], [*long, None]))
        return result


def _variables(rows: Rows) -> str | constantdict[str, str]:
    names = set(rows.values())
    return names.pop() if len(names) == 1 else constantdict(rows)
