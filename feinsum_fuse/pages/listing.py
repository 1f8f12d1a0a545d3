"""OpenCL C line by line, with the loops of the LoopTree that its loops are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..cascades.reading.reader import cascade as cascade_of
from ..codegen.generation import executable
from ..errors import CascadeError, LoweringError, MappingError, ScheduleError
from ..formats.spec import Spec
from ..lowering.lowering import lower
from ..schedule.kernel.remarks import remark, step_of
from ..schedule.kernel.tagging import NormalFormTag
from ..schedule.target import Target
from ..schedule.tree.nest import For, Nest, walk
from .tree_view import LoopKey, TreeColumn, TreeNode


@dataclass(frozen=True)
class Line:
    """A line of the text, and what its loop is; nothing for a line that begins no loop."""

    text: str
    loops: frozenset[LoopKey] = frozenset()


@dataclass(frozen=True)
class Listing:
    """The text of a kernel, or why there is none."""

    lines: tuple[Line, ...] = ()
    note: str = ""


def listing(spec: Spec, target: Target) -> Listing:
    """The OpenCL C that a Spec's mapping becomes on a target."""
    try:
        cascade = cascade_of(spec)
        t_unit = lower(spec, target=target).apply(cascade.kernel(), target=target)
        source = executable(t_unit, target=target).source
    except (CascadeError, LoweringError, MappingError, ScheduleError) as error:
        return Listing(note=f"This mapping becomes no kernel: {error}")
    tags = list(t_unit.default_entrypoint.tags_of_type(NormalFormTag))
    loops = loops_of(tags[0].final) if tags else {}
    return Listing(tuple(Line(text, loops.get(_said(text), frozenset())) for text in source.splitlines()))


def loops_of(nest: Nest) -> dict[str, frozenset[LoopKey]]:
    """What the generated text says of a loop -> what the loop is in each of its Einsums."""
    found: dict[str, frozenset[LoopKey]] = {}
    for loop in walk(nest.body):
        if isinstance(loop, For) and loop.refs:
            said = remark(nest, loop)
            found[said] = found.get(said, frozenset()) | {(ref.einsum, ref.variable, step_of(loop)) for ref in loop.refs}
    return found


def _said(line: str) -> str:
    """What a comment says: of a loop below it, or after a colon of a device axis."""
    text = line.strip()
    if not text.startswith("// "):
        return ""
    axis, colon, rest = text.removeprefix("// ").partition(": ")
    return rest if colon and axis.startswith(("gid(", "lid(")) else text.removeprefix("// ")


@dataclass(frozen=True)
class Mark:
    """How a node or a line is named in the page, and what it is linked to."""

    anchor: str = ""
    loops: str = ""
    """Words, one for each loop: what shares a word is the same loop."""
    lines: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


class Marks:
    """The links between a tree and a text; ``key`` begins every name."""

    def __init__(self, key: str, tree: TreeColumn, shown: Listing) -> None:
        self.key = key
        self._lines = [line.loops for line in shown.lines]
        self._nodes: dict[int, str] = {}
        self._anchors: list[tuple[frozenset[LoopKey], str]] = []
        for node in _nodes(tree):
            if node.loops:
                anchor = f"{key}-loop-{len(self._anchors) + 1}"
                self._nodes[id(node)] = anchor
                self._anchors.append((node.loops, anchor))
        self._words = {loop: f"l{n}" for n, loop in enumerate(sorted({loop for loops, _ in self._anchors for loop in loops}))}

    def node(self, node: TreeNode) -> Mark:
        """A node of the tree."""
        lines = tuple(number for number, loops in enumerate(self._lines, 1) if loops & node.loops)
        return Mark(self._nodes.get(id(node), ""), self._said(node.loops), lines)

    def line(self, line: Line) -> Mark:
        """A line of the text."""
        return Mark("", self._said(line.loops), nodes=tuple(anchor for loops, anchor in self._anchors if loops & line.loops))

    def _said(self, loops: frozenset[LoopKey]) -> str:
        return " ".join(sorted(self._words[loop] for loop in loops if loop in self._words))


def _nodes(tree: TreeColumn) -> Iterator[TreeNode]:
    yield from tree.nodes
    for branch in tree.branches:
        yield from _nodes(branch)
