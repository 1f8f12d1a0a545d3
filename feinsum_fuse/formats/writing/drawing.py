"""Pictures of LoopTrees, cascades and architectures as SVG, laid out here: no other program is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import dataclass, field

from ... import presentation
from ..arch import Arch, ArchNode, Array, Fork, Hierarchical, Leaf, Memory
from ..arch import Toll as TollUnit
from ..mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from ..spec import Spec
from ..workload import Workload
from .amounts import prefixed
from .layout import layered, leading_back
from .svg import (
    LINE_HEIGHT,
    PADDING,
    box,
    cylinder,
    document,
    ellipse,
    hexagon,
    legend,
    legend_width,
    line,
    right_arrow,
    route,
    text,
    text_width,
)
from .text_tables import einsum_text

LOOP_COLOUR = "#FCC2FC"
STORAGE_COLOUR = "#D7FCD7"
TOLL_COLOUR = "#FFCC99"
COMPUTE_COLOUR = "#E0EEFF"
SPLIT_COLOUR = "#FFFFE0"
REMARK_COLOUR = "#FFFFFF"
TENSOR_COLOURS = ("#FFB3BA", "#BAE1FF", "#FFDFBA", "#E2C6FF", "#FFFFBA", "#C6E2E9", "#F1C0E8", "#D0F4DE", "#FFCFD2", "#CFBAF0")
GAP = 22
ROW = 2 * LINE_HEIGHT
BOX = 0.8 * ROW
"""How high a node of a cascade is."""
STEP = ROW + 2 * GAP
"""From one layer of a cascade to the next."""
TITLE = 2 * LINE_HEIGHT
INPUT_COLOUR = "#FFDFBA"
OUTPUT_COLOUR = "#BAE1FF"


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
        drawn += [box(left + width / 2, y + 2, width, LINE_HEIGHT, colour), text(left + width / 2, y + 2, tensor)]
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


def _picture(tree: _Tree, title: str, key: Sequence[tuple[str, str]]) -> str:
    """The tree under its title, with what the colours mean."""
    width, height = max(tree.width, legend_width(key), text_width(title)) + 2 * GAP, TITLE + tree.height + GAP
    shapes = [text(width / 2, TITLE / 2, title), *_draw_tree(tree, width / 2, TITLE, {}), *legend(GAP, height, key)]
    return document(width, height + ROW, shapes, title)


@presentation.svg.register
def mapping_svg(mapping: Mapping, workload: Workload | None = None) -> str:
    """The LoopTree: loops as boxes, storage as cylinders, computes as ellipses, splits as hexagons, tolls as arrows.

    With a workload the loops say how often they run.
    """
    tiles = {einsum.name: dict(einsum.bounds) for einsum in workload.einsums} if workload else {}
    tree = _tree(mapping.nodes, tiles)
    key = (("loop", LOOP_COLOUR), ("tile in a memory", STORAGE_COLOUR), ("toll", TOLL_COLOUR), ("computation", COMPUTE_COLOUR))
    return _picture(tree, mapping.title or "LoopTree", key)


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
            fallback = "loop" if node.spatial else "compute"
            kind = "storage" if isinstance(node, Memory) else "toll" if isinstance(node, TollUnit) else fallback
            tree.shapes.append(_Shape(kind, _component_label(node)))
        return tree

    key = (("memory", STORAGE_COLOUR), ("toll", TOLL_COLOUR), ("fanout", LOOP_COLOUR), ("compute", COMPUTE_COLOUR))
    return _picture(walk(arch.nodes), "Architecture", key)


def _component_label(node: Leaf) -> str:
    """Its name, fanouts, size, and how much each action does a second; rates without end are left out."""
    parts = [f"x{f.fanout} {f.name}" for f in node.spatial]
    if isinstance(node, Memory) and node.size < math.inf:
        parts.append(prefixed(node.size, "bit", binary=True))
    for action in node.actions:
        rate = action.throughput * action.throughput_scale * node.throughput_scale * node.n_parallel_instances
        if 0 < rate < math.inf:
            bits = action.bits_per_action or (node.bits_per_action if isinstance(node, Memory | TollUnit) else None) or 1
            unit = "bit/s" if isinstance(node, Memory | TollUnit) else "/s"
            parts.append(f"{action.name} {prefixed(rate * bits, unit)}")
    return f"{node.name}: {', '.join(parts)}" if parts else node.name


@presentation.svg.register
def workload_svg(workload: Workload) -> str:
    """The cascade's data flow: Einsums as boxes with their index notation, tensors as ovals with their shapes.

    Edges pass beside what lies between their ends. A tensor that an Einsum reads and writes has a dashed edge back.
    """
    items = [*(("tensor", name) for name in workload.tensors), *(("einsum", e.name) for e in workload.einsums)]
    number = {item: place for place, item in enumerate(items)}
    labels = {("tensor", t): f"{t} {' x '.join(map(str, workload.shape(t).values()))}" for t in workload.tensors}
    labels |= {("einsum", e.name): f"{e.name}: {einsum_text(e)}" for e in workload.einsums}
    edges, back = _flow(workload, number)
    widths = {item: text_width(label) + 3 * PADDING for item, label in labels.items()}
    found = layered([widths[item] for item in items], edges, GAP)

    def at(place: tuple[float, float]) -> tuple[float, float]:
        return place[0] + GAP, TITLE + ROW / 2 + place[1] * STEP

    shapes: list[str] = []
    for item, place in number.items():
        x, y = at(found.nodes[place])
        draw, fill = (ellipse, _tensor_colour(workload, item[1])) if item[0] == "tensor" else (box, COMPUTE_COLOUR)
        shapes += [draw(x, y, widths[item], BOX, fill), text(x, y, labels[item])]
    lines = [_edge([at(found.nodes[start]), *map(at, passed), at(found.nodes[end])]) for (start, end), passed in found.routes.items()]
    lines += [_edge([at(found.nodes[end]), at(found.nodes[start])], dashed=True) for start, end in back]
    height = TITLE + found.layers * STEP
    colours = (("input", INPUT_COLOUR), ("intermediate", STORAGE_COLOUR), ("output", OUTPUT_COLOUR), ("Einsum", COMPUTE_COLOUR))
    key = legend(GAP, height, colours)
    title = f"Cascade of {len(workload.einsums)} Einsums"
    width = max(found.width, 460.0) + 2 * GAP
    return document(width, height + ROW, [text(width / 2, TITLE / 2, title), *lines, *shapes, *key], title)


def _flow(workload: Workload, number: Table[tuple[str, str], int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(Edges from tensors to the Einsums that read them and on to what these write, edges that lead back to an Einsum from its results)."""
    edges: list[tuple[int, int]] = []
    for einsum in workload.einsums:
        here = number["einsum", einsum.name]
        for access in einsum.tensor_accesses:
            tensor = number["tensor", access.name]
            edges.append((here, tensor) if access.output else (tensor, here))
    edges = list(dict.fromkeys(edges))
    back = leading_back([number["einsum", einsum.name] for einsum in workload.einsums], edges)
    return [edge for edge in edges if edge not in back], [edge for edge in edges if edge in back]


def _edge(places: Sequence[tuple[float, float]], *, dashed: bool = False) -> str:
    """From the lower side of the first place to the upper side of the last; straight down where it passes a layer."""
    (x, y), *between, (last, end) = places
    points = [(x, y + BOX / 2)]
    for bend, height in between:
        points += [(bend, height - BOX / 2), (bend, height + BOX / 2)]
    return route([*points, (last, end - BOX / 2)], dashed=dashed)


def _tensor_colour(workload: Workload, tensor: str) -> str:
    if not workload.producers(tensor):
        return INPUT_COLOUR
    return STORAGE_COLOUR if workload.consumers(tensor) else OUTPUT_COLOUR


@presentation.svg.register
def spec_svg(spec: Spec) -> str:
    """The mapping with the workload's tensors in it, or the cascade where there is no mapping."""
    return workload_svg(spec.workload) if spec.mapping is None else mapping_svg(spec.mapping, spec.workload)
