"""Mappings that differ from one in a single thing: a tile, the order of two loops, or what an Einsum's lanes run along.

They are what an explanation tries. Whether they are legal is found out by lowering them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ..formats.mapping import Compute, Nested, Node, Sequential, Spatial, Temporal
from ..formats.spec import Spec
from ..model.kernel.machine import Machine

FACTORS = (0.25, 0.5, 2, 4)
"""By how much a tile is changed."""


def mapping_changes(spec: Spec, machine: Machine) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """(what is changed, the nodes of the tree then) for a Spec with a mapping."""
    assert spec.mapping is not None
    yield from _other_loops(spec.mapping.nodes)
    lanes = _Lanes.of(machine)
    if lanes is not None:
        extents = {variable: extent for einsum in spec.workload.einsums for variable, extent in einsum.bounds.items()}
        yield from lanes.changes(spec.mapping.nodes, extents)


def _name(loop: Temporal) -> str:
    names = (loop.rank_variable,) if isinstance(loop.rank_variable, str) else loop.rank_variable.values()
    return " and ".join(dict.fromkeys(names))


def _other_loops(nodes: tuple[Node, ...]) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """The tree with one tile of another size, or with two neighbouring loops in the other order."""
    for place, node in enumerate(nodes):
        before, after = nodes[:place], nodes[place + 1 :]
        if isinstance(node, Temporal):
            tiles = dict.fromkeys(round(node.tile_shape * factor) for factor in FACTORS) if node.tile_shape > 1 else {}
            for tile in tiles:
                text = f"{_name(node)} in tiles of {tile} instead of {node.tile_shape}"
                yield text, (*before, dataclasses.replace(node, tile_shape=tile), *after)
            if after and isinstance(other := after[0], Temporal):
                yield f"the loop over {_name(other)} outside that over {_name(node)}", (*before, other, node, *after[1:])
        if isinstance(node, Nested | Sequential):
            for what, below in _other_loops(node.nodes):
                yield what, (*before, dataclasses.replace(node, nodes=below), *after)


@dataclasses.dataclass(frozen=True)
class _Lanes:
    """The lanes of a processor's vectors."""

    component: str
    name: str
    widths: tuple[int, ...]
    """All lanes, and half of them."""

    @classmethod
    def of(cls, machine: Machine) -> _Lanes | None:
        """``None`` where work-items are the lanes."""
        for leaf in machine.arch.components:
            for fanout in leaf.spatial:
                if machine.lanes > 1 and "vector" in (machine.fanouts.get(leaf.name), machine.fanouts.get(f"{leaf.name}.{fanout.name}")):
                    return cls(leaf.name, fanout.name, tuple(dict.fromkeys((machine.lanes, max(2, machine.lanes // 2)))))
        return None

    def changes(self, nodes: tuple[Node, ...], tiles: Mapping[str, int]) -> Iterator[tuple[str, tuple[Node, ...]]]:
        """The tree with other lanes for one Einsum; ``tiles``: rank variable -> iterations that loops outside leave to these nodes."""
        inside = dict(tiles)
        for place, node in enumerate(nodes):
            if isinstance(node, Temporal) and isinstance(node.rank_variable, str):
                inside[node.rank_variable] = node.tile_shape
            if isinstance(node, Nested | Sequential):
                for what, below in self.changes(node.nodes, inside):
                    yield what, (*nodes[:place], dataclasses.replace(node, nodes=below), *nodes[place + 1 :])
        if nodes and isinstance(nodes[-1], Compute):
            yield from self._of_one_einsum(nodes, tiles, nodes[-1].einsum)

    def _of_one_einsum(self, nodes: tuple[Node, ...], tiles: Mapping[str, int], einsum: str) -> Iterator[tuple[str, tuple[Node, ...]]]:
        had = next((node for node in nodes if self._is_ours(node)), None)
        plain = tuple(
            Temporal(node.rank_variable, node.tile_shape) if isinstance(node, Spatial) and self._is_ours(node) else node for node in nodes
        )
        for place, node in enumerate(plain):
            if (
                not isinstance(node, Temporal)
                or isinstance(node, Spatial)
                or node.tile_shape != 1
                or not isinstance(node.rank_variable, str)
            ):
                continue
            cut = [one.tile_shape for one in plain[:place] if isinstance(one, Temporal) and one.rank_variable == node.rank_variable]
            outside = cut[-1] if cut else tiles.get(node.rank_variable, 0)
            for width in self.widths:
                if outside < 2 or (outside < width and width != self.widths[-1]):
                    continue
                loop = () if outside <= width else (dataclasses.replace(node, tile_shape=width),)
                lane = Spatial(node.rank_variable, 1, name=self.name, component=self.component)
                changed = (*plain[:place], *loop, *plain[place + 1 : -1], lane, plain[-1])
                if changed != nodes:
                    instead = (
                        f" instead of along {_name(had)}" if isinstance(had, Temporal) and had.rank_variable != node.rank_variable else ""
                    )
                    yield f"{min(width, outside)} lanes along {node.rank_variable} of {einsum}{instead}", changed

    def _is_ours(self, node: Node) -> bool:
        return isinstance(node, Spatial) and (node.component, node.name) == (self.component, self.name)
