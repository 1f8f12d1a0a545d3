"""The mapping: a LoopTree. Lists and dictionaries given to its nodes become tuples and constant dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from constantdict import constantdict

from .. import presentation

Position = tuple[int, ...]
"""Of a node in the tree: its number among the nodes of each level, from the root."""


@dataclass(frozen=True, kw_only=True)
class _Node:
    text: str | None = None
    """A label for pictures; it means nothing."""


@dataclass(frozen=True)
class Storage(_Node):
    """Tensors held in a memory from here down."""

    tensors: tuple[str, ...]
    component: str
    persistent: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", tuple(self.tensors))


@dataclass(frozen=True)
class Toll(_Node):
    """Tensors that pass through a toll component from here down."""

    tensors: tuple[str, ...]
    component: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", tuple(self.tensors))


@dataclass(frozen=True)
class Temporal(_Node):
    """A loop in time: the current tile of the rank variable is cut into tiles of ``tile_shape``.

    ``rank_variable`` is one name, or Einsum -> name for a loop shared by Einsums that call it differently.
    """

    rank_variable: str | constantdict[str, str]
    tile_shape: int
    initial_tile_shape: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rank_variable, str):
            object.__setattr__(self, "rank_variable", constantdict(self.rank_variable))

    def variable(self, einsum: str) -> str | None:
        """The rank variable that this loop cuts in this Einsum; ``None`` if a per-Einsum loop does not name it."""
        return self.rank_variable if isinstance(self.rank_variable, str) else self.rank_variable.get(einsum)


@dataclass(frozen=True)
class Spatial(Temporal):
    """A loop in space, over the fanout dimension ``name`` of ``component``."""

    name: str = ""
    component: str = ""


@dataclass(frozen=True)
class Compute(_Node):
    """Where an Einsum's points are computed."""

    einsum: str
    component: str


@dataclass(frozen=True)
class Sequential(_Node):
    """Branches one after another."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))


@dataclass(frozen=True)
class Pipeline(Sequential):
    """Modelled and run as :class:`Sequential`."""


@dataclass(frozen=True)
class Split(Sequential):
    """Modelled and run as :class:`Sequential`."""


@dataclass(frozen=True)
class Nested(_Node):
    """Nodes one inside the other."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))


@dataclass(frozen=True)
class TextBox(_Node):
    """A remark."""


Node = Storage | Toll | Temporal | Spatial | Compute | Sequential | Pipeline | Split | Nested | TextBox
PathNode = Storage | Toll | Temporal | Spatial | Compute


@dataclass(frozen=True)
class Placed:
    """A node on the path to a Compute, with its place in the tree: two paths share a node if the positions are equal."""

    position: Position
    node: PathNode


@dataclass(frozen=True)
class Mapping:
    """The root: its nodes are nested one inside the other; only the last may branch."""

    nodes: tuple[Node, ...]
    title: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))

    @property
    def computes(self) -> tuple[Compute, ...]:
        """All Compute nodes in order of execution."""
        return tuple(placed.node for path in self.paths() for placed in path[-1:] if isinstance(placed.node, Compute))

    def paths(self) -> tuple[tuple[Placed, ...], ...]:
        """Root-to-Compute paths in order of execution, the Compute last; branches and boxes are left out."""
        return self._paths

    @cached_property
    def _paths(self) -> tuple[tuple[Placed, ...], ...]:
        return tuple(_paths(self.nodes, (), ()))

    def __getstate__(self) -> dict[str, object]:
        # A search sends mappings to its processes; what is computed from one stays here.
        return {"nodes": self.nodes, "title": self.title}

    def path(self, einsum: str) -> tuple[Placed, ...]:
        """The path to the Compute of this Einsum; ``KeyError`` if there is none."""
        for path in self.paths():
            last = path[-1].node
            if isinstance(last, Compute) and last.einsum == einsum:
                return path
        raise KeyError(einsum)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return presentation.text(self)

    def _repr_svg_(self) -> str:
        return presentation.svg(self)


def _paths(nodes: tuple[Node, ...], at: Position, above: tuple[Placed, ...]) -> Iterator[tuple[Placed, ...]]:
    for index, node in enumerate(nodes):
        place = (*at, index)
        if isinstance(node, Sequential):
            for number, child in enumerate(node.nodes):
                yield from _paths((child,), (*place, number), above)
        elif isinstance(node, Nested):
            yield from _paths(node.nodes, place, above)
        elif not isinstance(node, TextBox):
            above = (*above, Placed(place, node))
            if isinstance(node, Compute):
                yield above
