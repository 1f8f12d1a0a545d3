"""Pictures of LoopTrees, cascades and architectures as SVG, laid out here: no other program is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..arch import Arch, ArchNode, Array, Fork, Hierarchical, Memory
from ..arch import Toll as TollUnit
from ..mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from ..spec import Spec
from ..workload import Workload
from . import presentation
from .svg import LINE, PADDING, box, cylinder, document, ellipse, hexagon, line, right_arrow, text, text_width
from .text_tables import einsum_text

LOOP_COLOUR = "#FCC2FC"
STORAGE_COLOUR = "#D7FCD7"
TOLL_COLOUR = "#FFCC99"
COMPUTE_COLOUR = "#E0EEFF"
SPLIT_COLOUR = "#FFFFE0"
REMARK_COLOUR = "#FFFFFF"
TENSOR_COLOURS = ("#FFB3BA", "#BAE1FF", "#FFDFBA", "#E2C6FF", "#FFFFBA", "#C6E2E9", "#F1C0E8", "#D0F4DE", "#FFCFD2", "#CFBAF0")
GAP = 22
ROW = 2 * LINE


@dataclass
class _Shape:
    """A node to draw: its kind, its text, and the tensors that it shows as coloured cells."""

    kind: str
    label: str
    tensors: tuple[str, ...] = ()

    @property
    def width(self) -> float:
        cells = sum(text_width(t) + PADDING for t in self.tensors)
        extra = {"split": 2 * ROW, "compute": 3 * PADDING, "toll": ROW}.get(self.kind, 0)
        return max(text_width(self.label) + cells + 2 * PADDING + extra, 60)


@dataclass
class _Tree:
    """Shapes one below the other, then branches side by side."""

    shapes: list[_Shape]
    branches: list[_Tree] = field(default_factory=list)

    @property
    def width(self) -> float:
        beside = sum(branch.width for branch in self.branches) + GAP * max(0, len(self.branches) - 1)
        return max([shape.width for shape in self.shapes] + [beside])

    @property
    def height(self) -> float:
        below = max((branch.height for branch in self.branches), default=0.0)
        return len(self.shapes) * (ROW + GAP) + below


def iterations(loop: Temporal, current: dict[str, dict[str, int]]) -> int | None:
    """How often the loop runs, if all Einsums agree; the tiles of those below it shrink."""
    counts = set()
    for einsum, tiles in current.items():
        variable = loop.variable(einsum)
        if variable in tiles:
            counts.add(-(-tiles[variable] // loop.tile_shape))
            tiles[variable] = loop.tile_shape
    return counts.pop() if len(counts) == 1 else None


def _loop_label(loop: Temporal, current: dict[str, dict[str, int]]) -> str:
    names = loop.rank_variable if isinstance(loop.rank_variable, str) else ",".join(dict.fromkeys(loop.rank_variable.values()))
    count = iterations(loop, current)
    space = f"S-{loop.name or loop.component}-" if isinstance(loop, Spatial) else ""
    return f"{space}for {names}{f' in [0..{count})' if count else ''} shape={loop.tile_shape}"


def einsums_below(nodes: Sequence[Node]) -> set[str]:
    """The Einsums that are computed at or below some nodes."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, Compute):
            found.add(node.einsum)
        elif isinstance(node, Sequential | Nested):
            found |= einsums_below(node.nodes)
    return found


def _tree(nodes: Sequence[Node], tiles: dict[str, dict[str, int]]) -> _Tree:
    below = einsums_below(nodes)
    current = {einsum: dict(sizes) for einsum, sizes in tiles.items() if einsum in below}
    result = _Tree([])
    for node in nodes:
        if isinstance(node, Nested):
            inner = _tree(node.nodes, current)
            result.shapes += inner.shapes
            result.branches += inner.branches
        elif isinstance(node, Sequential):
            result.shapes.append(_Shape("split", node.text or type(node).__name__))
            result.branches += [_tree([child], current) for child in node.nodes]
        elif isinstance(node, Storage):
            result.shapes.append(_Shape("storage", node.text or f"{node.component} reuses", node.tensors))
        elif isinstance(node, Toll):
            result.shapes.append(_Shape("toll", node.text or f"{node.component} passes", node.tensors))
        elif isinstance(node, Temporal):
            label = _loop_label(node, current)
            result.shapes.append(_Shape("loop", node.text or label))
        elif isinstance(node, Compute):
            result.shapes.append(_Shape("compute", node.text or f"{node.component} computes {node.einsum}"))
        else:
            result.shapes.append(_Shape("remark", node.text or ""))
    return result


def _draw_shape(shape: _Shape, x: float, y: float, colours: dict[str, str]) -> list[str]:
    draw = {"storage": cylinder, "toll": right_arrow, "compute": ellipse, "split": hexagon}.get(shape.kind, box)
    fill = {
        "storage": STORAGE_COLOUR, "toll": TOLL_COLOUR, "compute": COMPUTE_COLOUR, "split": SPLIT_COLOUR, "loop": LOOP_COLOUR
    }.get(shape.kind, REMARK_COLOUR)  # fmt: skip
    drawn = [draw(x, y, shape.width, ROW if shape.kind != "loop" else ROW * 0.8, fill)]
    cells = [text_width(tensor) + PADDING * 0.7 for tensor in shape.tensors]
    start = x - (text_width(shape.label) + sum(cells) + PADDING * 0.5) / 2
    drawn.append(text(start + text_width(shape.label) / 2, y, shape.label))
    left = start + text_width(shape.label) + PADDING * 0.5
    for tensor, width in zip(shape.tensors, cells, strict=True):
        colour = colours.setdefault(tensor, TENSOR_COLOURS[len(colours) % len(TENSOR_COLOURS)])
        drawn += [box(left + width / 2, y + 2, width, LINE, colour), text(left + width / 2, y + 2, tensor)]
        left += width
    return drawn


def _draw_tree(tree: _Tree, x: float, y: float, colours: dict[str, str]) -> list[str]:
    lines: list[str] = []
    drawn: list[str] = []
    centre_above: float | None = None
    for shape in tree.shapes:
        if centre_above is not None:
            lines.append(line(x, centre_above, x, y + ROW / 2))
        drawn += _draw_shape(shape, x, y + ROW / 2, colours)
        centre_above = y + ROW / 2
        y += ROW + GAP
    left = x - (sum(branch.width for branch in tree.branches) + GAP * max(0, len(tree.branches) - 1)) / 2
    for branch in tree.branches:
        centre = left + branch.width / 2
        if centre_above is not None:
            lines.append(line(x, centre_above, centre, y + ROW / 2))
        drawn += _draw_tree(branch, centre, y, colours)
        left += branch.width + GAP
    return lines + drawn


def _picture(tree: _Tree, title: str) -> str:
    width, height = tree.width + 2 * GAP, tree.height + 2 * GAP
    return document(width, height, _draw_tree(tree, width / 2, GAP, {}), title)


@presentation.svg.register
def mapping_svg(mapping: Mapping, workload: Workload | None = None) -> str:
    """The LoopTree: loops as boxes, storage as cylinders, computes as ellipses, splits as hexagons, tolls as arrows.

    With a workload the loops say how often they run.
    """
    tiles = {einsum.name: dict(einsum.bounds) for einsum in workload.einsums} if workload else {}
    tree = _tree(mapping.nodes, tiles)
    if mapping.title:
        tree.shapes.insert(0, _Shape("remark", mapping.title))
    return _picture(tree, mapping.title or "LoopTree")


@presentation.svg.register
def arch_svg(arch: Arch) -> str:
    """The hierarchy from the outside in; forks and arrays branch off."""

    def walk(nodes: Sequence[ArchNode]) -> _Tree:
        tree = _Tree([])
        for index, node in enumerate(nodes):
            if isinstance(node, Hierarchical | Fork | Array) and index + 1 < len(nodes):
                tree.shapes.append(_Shape("split", type(node).__name__))
                tree.branches += [walk(node.nodes), walk(nodes[index + 1 :])]
                return tree
            if isinstance(node, Hierarchical | Fork | Array):
                inner = walk(node.nodes)
                tree.shapes += inner.shapes
                tree.branches += inner.branches
                return tree
            fanouts = ", ".join(f"{f.name} x{f.fanout}" for f in node.spatial)
            kind = "storage" if isinstance(node, Memory) else "toll" if isinstance(node, TollUnit) else "loop" if fanouts else "compute"
            tree.shapes.append(_Shape(kind, f"{node.name} {fanouts}".strip()))
        return tree

    return _picture(walk(arch.nodes), "Architecture")


def _layers(workload: Workload) -> list[list[tuple[str, str]]]:
    """Tensors and Einsums in layers, each below everything that it needs; (kind, name)."""
    level: dict[tuple[str, str], int] = {}
    for einsum in workload.einsums:
        own = {access.name for access in einsum.outputs}
        needed = [("tensor", access.name) for access in einsum.inputs if access.name not in own]
        depth = max((level.get(item, 0) for item in needed), default=0) + 1
        for item in needed:
            level.setdefault(item, depth - 1)
        level["einsum", einsum.name] = depth
        for access in einsum.outputs:
            level["tensor", access.name] = max(level.get(("tensor", access.name), 0), depth + 1)
    layers: list[list[tuple[str, str]]] = [[] for _ in range(max(level.values(), default=0) + 1)]
    for item, depth in level.items():
        layers[depth].append(item)
    return layers


@presentation.svg.register
def workload_svg(workload: Workload) -> str:
    """The cascade's data flow: Einsums as boxes with their index notation, tensors as ovals with their shapes."""
    layers = [layer for layer in _layers(workload) if layer]
    labels = {("tensor", t): f"{t} {' x '.join(map(str, workload.shape(t).values()))}" for t in workload.tensors}
    labels |= {("einsum", e.name): f"{e.name}: {einsum_text(e)}" for e in workload.einsums}
    widths = [sum(text_width(labels[item]) + 3 * PADDING + GAP for item in layer) for layer in layers]
    width = max(widths, default=100.0) + 2 * GAP
    places: dict[tuple[str, str], tuple[float, float]] = {}
    shapes: list[str] = []
    for depth, layer in enumerate(layers):
        left = (width - widths[depth]) / 2
        for item in layer:
            own = text_width(labels[item]) + 3 * PADDING
            x, y = left + (own + GAP) / 2, GAP + ROW / 2 + depth * (ROW + 2 * GAP)
            left += own + GAP
            places[item] = (x, y)
            draw, fill = (ellipse, STORAGE_COLOUR) if item[0] == "tensor" else (box, COMPUTE_COLOUR)
            shapes += [draw(x, y, own, ROW * 0.8, fill), text(x, y, labels[item])]
    edges: list[str] = []
    for einsum in workload.einsums:
        ex, ey = places["einsum", einsum.name]
        for access in einsum.tensor_accesses:
            tx, ty = places["tensor", access.name]
            start, end = ((ex, ey + ROW * 0.4), (tx, ty - ROW * 0.4)) if access.output else ((tx, ty + ROW * 0.4), (ex, ey - ROW * 0.4))
            edges.append(line(*start, *end, arrow=True))
    return document(width, len(layers) * (ROW + 2 * GAP) + GAP, [*edges, *shapes], "Cascade")


@presentation.svg.register
def spec_svg(spec: Spec) -> str:
    """The mapping with the workload's tensors in it, or the cascade where there is no mapping."""
    return workload_svg(spec.workload) if spec.mapping is None else mapping_svg(spec.mapping, spec.workload)
