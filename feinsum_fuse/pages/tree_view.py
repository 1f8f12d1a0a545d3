"""A LoopTree with what the model says of each node: how often it runs, the tile that it holds, and the bytes that it moves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..formats.mapping import Compute, Nested, Node, Sequential, Spatial, Storage, Temporal, TextBox, Toll
from ..formats.spec import Spec
from ..formats.writing.amounts import amount
from ..formats.writing.drawing import einsums_below, iterations
from ..formats.writing.text_tables import SEQUENTIAL_TEXTS, node_text
from ..model.accelforge.einsum_nest import KeptByHardware
from ..model.prediction import Prediction
from ..report.bytes_moved import Move, bytes_moved

LoopKey = tuple[str, str, int]
"""(Einsum, rank variable, tile): what a loop of the mapping and a loop of the kernel have in common."""


@dataclass(frozen=True)
class TreeNode:
    """A node as it is shown."""

    kind: str
    """``loop``, ``spatial``, ``storage``, ``toll``, ``compute``, ``split`` or ``remark``."""
    text: str
    figures: tuple[tuple[str, str], ...] = ()
    """(what, how much), as they are printed below the text."""
    details: tuple[str, ...] = ()
    """What is said besides where the pointer rests on the node."""
    loops: frozenset[LoopKey] = frozenset()
    """Of a loop, what it is for each Einsum below it."""
    by_hardware: bool = False
    """Whether no mapping says so: a cache or the compiler keeps it."""


@dataclass(frozen=True)
class TreeColumn:
    """Nodes one inside the other, then branches side by side."""

    nodes: tuple[TreeNode, ...]
    branches: tuple[TreeColumn, ...] = ()


@dataclass
class _Builder:
    """What is known of all nodes. Without a prediction there are trip counts alone."""

    spec: Spec
    prediction: Prediction | None
    moved: Mapping[Move, float] = field(default_factory=dict)

    def column(self, nodes: Sequence[Node], tiles: Mapping[str, Mapping[str, int]], runs: float) -> TreeColumn:
        """The nodes with tiles as large as what is above leaves them; ``runs``: how often they run."""
        below = einsums_below(nodes)
        current = {einsum: dict(sizes) for einsum, sizes in tiles.items() if einsum in below}
        shown: list[TreeNode] = []
        branches: list[TreeColumn] = []
        flat = [inner for node in nodes for inner in (node.nodes if isinstance(node, Nested) else (node,))]
        if any(isinstance(node, Nested) for node in flat):
            return self.column(flat, tiles, runs)
        for node in _together(flat):
            if isinstance(node, Sequential):
                shown.append(TreeNode("split", node.text or SEQUENTIAL_TEXTS[type(node).__name__]))
                branches += [self.column([child], current, runs) for child in node.nodes]
            elif isinstance(node, Temporal):
                loop, trips = self._loop(node, current, runs)
                shown.append(loop)
                runs *= trips or math.nan
            else:
                shown.append(self._leaf(node, current, runs))
        return TreeColumn(tuple(shown), tuple(branches))

    def _loop(self, node: Temporal, current: dict[str, dict[str, int]], runs: float) -> tuple[TreeNode, int | None]:
        pairs = ((einsum, node.variable(einsum)) for einsum in current)
        keys = frozenset((einsum, variable, node.tile_shape) for einsum, variable in pairs if variable in current[einsum])
        trips = iterations(node, current)
        kind = "spatial" if isinstance(node, Spatial) else "loop"
        figures = [("instances" if kind == "spatial" else "trips", f"{trips:,}")] if trips else []
        details = [f"{_count(runs * trips)} iterations in all"] if trips and math.isfinite(runs) else []
        return TreeNode(kind, node_text(node), tuple(figures), tuple(details), keys), trips

    def _leaf(self, node: Node, current: Mapping[str, Mapping[str, int]], runs: float) -> TreeNode:
        if isinstance(node, Storage | Toll):
            return self._holder(node, current)
        if isinstance(node, Compute):
            points = self.prediction.computes[node.einsum] if self.prediction else math.nan
            figures = [("points", _count(points))] if math.isfinite(points) else []
            seconds = self.prediction.component_latency[node.einsum, node.component] if self.prediction else 0.0
            figures += [("busy", amount(seconds, "s"))] if seconds else []
            return TreeNode("compute", node_text(node), tuple(figures))
        assert isinstance(node, TextBox)
        return TreeNode("remark", node_text(node))

    def _holder(self, node: Storage | Toll, einsums: Mapping[str, object]) -> TreeNode:
        """Tiles and traffic of its tensors, those of all Einsums below it together; in detail for each tensor."""
        held = {tensor: max((self._held(einsum, node.component, tensor) for einsum in einsums), default=0.0) for tensor in node.tensors}
        figures, details = [], []
        if any(held.values()):
            figures.append(("holds", amount(sum(held.values()) / 8, "B")))
        for action in ("read", "write"):
            each = {t: sum(self.moved.get((e, node.component, t, action), 0.0) for e in einsums) for t in node.tensors}
            if any(each.values()):
                figures.append((f"{action}s", amount(sum(each.values()), "B")))
            details += [f"{tensor}: {action}s {amount(count, 'B')}" for tensor, count in each.items() if count]
        details += [f"{tensor}: tile of {amount(bits / 8, 'B')}" for tensor, bits in held.items() if bits]
        kind = "storage" if isinstance(node, Storage) else "toll"
        return TreeNode(kind, node_text(node), tuple(figures), tuple(sorted(details)), by_hardware=isinstance(node, KeptByHardware))

    def _held(self, einsum: str, component: str, tensor: str) -> float:
        return 0.0 if self.prediction is None else self.prediction.occupancy.entries.get((einsum, component, tensor), 0.0)


def _together(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with what hardware keeps in one memory at one place as one node."""
    found: list[Node] = []
    for node in nodes:
        last = found[-1] if found else None
        if isinstance(node, KeptByHardware) and isinstance(last, KeptByHardware) and node.component == last.component:
            found[-1] = replace(last, tensors=(*last.tensors, *node.tensors))
        else:
            found.append(node)
    return found


def annotated(spec: Spec, prediction: Prediction | None) -> TreeColumn:
    """The LoopTree of a Spec. ``prediction`` is of this very Spec, as the model sees it; without one, trip counts stand alone."""
    assert spec.mapping is not None
    tiles = {einsum.name: dict(einsum.bounds) for einsum in spec.workload.einsums}
    moved = bytes_moved(spec, prediction) if prediction is not None else {}
    return _Builder(spec, prediction, moved).column(spec.mapping.nodes, tiles, 1.0)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e15 else f"{value:.4g}"
