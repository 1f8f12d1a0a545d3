"""What sums up nothing and reads the sums of a product is computed behind each of its register tiles, where these still are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from constantdict import constantdict

from ...cascades.terms import Einsum
from ...formats.mapping import Node, Spatial, Storage, Temporal
from ...lowering.implied_steps import KERNEL_STATEMENTS
from ..branches import Branch
from ..fusing.following import followers, is_held
from ..lanes import is_contiguous

PART = 2
"""Register tiles and what follows them are written out as far as they are one part of so many of what a kernel may have."""


@dataclass(frozen=True)
class FollowedTile:
    """The register tile of a product, and the Einsums that follow each, with what they call the product's variables.

    ``for m in tiles of 12: Register holds T``, and below that ``T``, then ``Y[m,n] = max(T[m,n] + B[n], 0)``: without it all that a group
    adds up is written to memory near by and read from there again.
    """

    branch: Branch
    product: Einsum
    renamed: dict[str, dict[str, str]]
    """Einsum -> the product's rank variable -> the Einsum's."""
    held: tuple[str, ...]
    """What nobody else reads: the sums, and what the Einsums make of them on the way."""
    above: tuple[Node, ...]
    """The loops around the tile."""
    below: tuple[Node, ...]
    """The product's own below it."""

    @classmethod
    def of(cls, branch: Branch, product: Einsum, nodes: Sequence[Node]) -> FollowedTile | None:
        """That of a product with these nodes; ``None``: nothing follows it so."""
        register = branch.plan.components.registers
        place, renamed = _place(nodes, product, register), _with_lanes(branch, product)
        if place is None or not renamed or register is None:
            return None
        tiles = dict(branch.tiles[product.name])
        tiles.update({n.rank_variable: n.tile_shape for n in nodes[:place] if isinstance(n, Temporal) and isinstance(n.rank_variable, str)})
        statements = prod(tiles[v] for v in product.output_variables) // branch.plan.width * (1 + len(renamed))
        if PART * statements > KERNEL_STATEMENTS:
            return None
        behind = [einsum for einsum in branch.segment.einsums if einsum.name in renamed]
        held = [e.output.tensor for e in (product, *behind) if is_held(branch.segment, e, {product.name, *renamed})]
        return cls(branch, product, renamed, tuple(held), tuple(nodes[:place]), tuple(nodes[place + 1 :]))

    def loops(self) -> list[Node]:
        """Those around the tile for all of these Einsums, whose own iterations are those of a tile then, and what registers hold."""
        assert self.branch.plan.components.registers is not None
        found = list(map(self._shared, self.above))
        return [*found, Storage(self.held, self.branch.plan.components.registers)]

    def _shared(self, node: Node) -> Node:
        if not isinstance(node, Temporal) or not isinstance(node.rank_variable, str):
            return node
        names = {self.product.name: node.rank_variable}
        for name, renamed in self.renamed.items():
            names[name] = renamed[node.rank_variable]
            self.branch.tiles[name][names[name]] = node.tile_shape
        return node if len(set(names.values())) == 1 else replace(node, rank_variable=constantdict(names))


def _place(nodes: Sequence[Node], product: Einsum, register: str | None) -> int | None:
    """Where registers hold the sums, below loops over the output's variables alone; ``None``: they do not."""
    for place, node in enumerate(nodes):
        if isinstance(node, Storage):
            if node.tensors == (product.output.tensor,):
                return place if node.component == register else None
        elif isinstance(node, Spatial) or not isinstance(node, Temporal) or node.rank_variable in product.reduction_variables:
            return None
    return None


def _with_lanes(branch: Branch, product: Einsum) -> dict[str, dict[str, str]]:
    """The Einsums that follow a product and have their lanes where it has its own, as neighbours of all that they read and write: what is
    turned for lanes goes in blocks of whole vectors. Nobody else reads the product's sums.
    """
    lane, found = branch.lanes[product.name], dict[str, dict[str, str]]()
    if branch.plan.components.on_items or branch.held or lane is None:
        return found
    behind = followers(branch.segment, product)
    for einsum in (einsum for einsum in branch.segment.einsums if einsum.name in behind):
        own = behind[einsum.name].get(lane)
        touched = [access for access in (*einsum.operands, einsum.output) if own in access.variables]
        if own is None or own != branch.lanes[einsum.name] or not all(is_contiguous(access, own) for access in touched):
            break
        found[einsum.name] = behind[einsum.name]
    return found if is_held(branch.segment, product, {product.name, *found}) else {}
