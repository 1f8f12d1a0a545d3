"""Canonical labelling of graphs with coloured vertices and labelled edges, by individualisation and refinement.

The method is that of McKay and Piperno (Practical graph isomorphism II, 2014) in a simple form: colours are refined until
neighbourhoods tell nothing new; what is left falls into components that are labelled one by one (equal ones may be exchanged); a
component in which nothing is alone is searched by giving each vertex of its smallest cell a colour of its own, where vertices that a
known automorphism maps to each other are tried once. Colours are 64-bit hashes of what is invariant, so that refinement is a few NumPy
operations, and the result depends on no order of insertion and on no hash seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Colours = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Permutation = dict[int, int]
"""Vertex -> vertex, for those that move."""

_ALONE = np.uint64(0x9E3779B97F4A7C15)


@lru_cache(maxsize=65536)
def hashed(text: str) -> int:
    """A 64-bit hash that is the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class ColouredGraph:
    """A graph under construction; vertices are numbered from 0."""

    def __init__(self) -> None:
        self.colours: list[int] = []
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.labels: list[int] = []

    def vertex(self, colour: str) -> int:
        """Add a vertex; its number."""
        self.colours.append(hashed(colour))
        return len(self.colours) - 1

    def edge(self, source: int, target: int, label: str) -> None:
        """Add an edge; both ends see its label and its direction."""
        self.sources += (source, target)
        self.targets += (target, source)
        self.labels += (hashed(label), hashed(f"{label}<"))

    def labelling(self) -> Labelling:
        """The canonical order of the vertices, and generators of the automorphism group."""
        count = len(self.colours)
        loops = list(range(count))
        sources = np.array(self.sources + loops, dtype=np.int64)
        targets = np.array(self.targets + loops, dtype=np.int64)
        labels = np.array(self.labels + [0] * count, dtype=np.uint64)
        by_source = np.argsort(sources, kind="stable")
        part = _Part(sources[by_source], targets[by_source], labels[by_source], np.arange(count, dtype=np.int64))
        found = _labelled(part, np.array(self.colours, dtype=np.uint64))
        return Labelling(tuple(found.order), tuple(found.generators))


@dataclass(frozen=True)
class Labelling:
    """Vertices in canonical order, and generators of the automorphism group."""

    order: tuple[int, ...]
    generators: tuple[Permutation, ...]


@dataclass(frozen=True)
class _Part:
    """A subgraph: its edges (sorted by source, a loop at every vertex) between positions in ``names``."""

    sources: Colours
    targets: Colours
    labels: Hashes
    names: Colours

    def starts(self) -> Colours:
        return np.searchsorted(self.sources, np.arange(len(self.names)))

    def restricted(self, chosen: Colours) -> _Part:
        """The subgraph of some positions, given in ascending order."""
        new = np.full(len(self.names), -1, dtype=np.int64)
        new[chosen] = np.arange(len(chosen))
        kept = (new[self.sources] >= 0) & (new[self.targets] >= 0)
        return _Part(new[self.sources[kept]], new[self.targets[kept]], self.labels[kept], self.names[chosen])


@dataclass
class _Found:
    order: list[int] = field(default_factory=list)
    certificate: tuple[int, ...] = ()
    generators: list[Permutation] = field(default_factory=list)


def _mixed(x: Hashes) -> Hashes:
    """The finaliser of splitmix64: a bijection in which every bit of the result depends on every bit of ``x``."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _refined(part: _Part, colours: Hashes) -> Hashes:
    """Colours that also say what each vertex sees, until that splits no cell any more."""
    starts = part.starts()
    cells = len(np.unique(colours))
    while True:
        seen = np.add.reduceat(_mixed(colours[part.targets] + part.labels), starts)
        colours = _mixed(colours * np.uint64(3) + seen)
        split = len(np.unique(colours))
        if split == cells:
            return colours
        cells = split


def _components(part: _Part, alone: NDArray[np.bool_]) -> list[Colours]:
    """The connected components of what is not alone, as ascending positions."""
    kept = ~(alone[part.sources] | alone[part.targets])
    rest = np.flatnonzero(~alone)
    new = np.full(len(part.names), -1, dtype=np.int64)
    new[rest] = np.arange(len(rest))
    sources, targets = new[part.sources[kept]], new[part.targets[kept]]
    starts = np.searchsorted(sources, np.arange(len(rest)))
    component = np.arange(len(rest))
    while True:
        least = np.minimum.reduceat(component[targets], starts)
        least = least[least]
        if (least == component).all():
            break
        component = least
    by_component = np.argsort(component, kind="stable")
    cuts = np.flatnonzero(np.diff(component[by_component])) + 1
    return [rest[chosen] for chosen in np.split(by_component, cuts)]


def _labelled(part: _Part, colours: Hashes, exhaustive: bool = True) -> _Found:
    """The least labelling of a part; if not ``exhaustive``, the one that the first vertex of every cell leads to."""
    colours = _refined(part, colours)
    _, cell, sizes = np.unique(colours, return_inverse=True, return_counts=True)
    alone = sizes[cell] == 1
    by_colour = np.argsort(colours, kind="stable")
    single = by_colour[alone[by_colour]]
    found = _Found(part.names[single].tolist(), tuple(colours[single].tolist()))
    if len(single) == len(part.names):
        return found
    pieces = []
    components = _components(part, alone)
    for positions in components:
        own = colours[positions]
        by_own_colour = np.argsort(own, kind="stable")
        ordered = own[by_own_colour]
        if (ordered[1:] != ordered[:-1]).all():
            pieces.append(_Found(part.names[positions[by_own_colour]].tolist(), tuple(ordered.tolist())))
        elif len(positions) == len(part.names):
            pieces.append(_searched(part, colours, sizes[cell], exhaustive))
        else:
            pieces.append(_labelled(part.restricted(positions), own, exhaustive))
    pieces.sort(key=lambda piece: piece.certificate)
    for number, piece in enumerate(pieces):
        found.order += piece.order
        found.certificate += (len(piece.order), *piece.certificate)
        found.generators += piece.generators
        if number and pieces[number - 1].certificate == piece.certificate:
            other = pieces[number - 1].order
            found.generators.append({**dict(zip(other, piece.order, strict=True)), **dict(zip(piece.order, other, strict=True))})
    return found


def _searched(part: _Part, colours: Hashes, cell_sizes: Colours, exhaustive: bool) -> _Found:
    """Label a connected part in which no vertex is alone: give each vertex of the smallest cell its own colour; the least result counts.

    Before a vertex is searched, one way down from it is compared with one way down from the first: if they end alike, an automorphism
    maps one to the other.
    """
    smallest = np.flatnonzero(cell_sizes == cell_sizes.min())
    cell = smallest[colours[smallest] == colours[smallest].min()]
    orbit = {int(name): int(name) for name in part.names}

    def root(vertex: int) -> int:
        while orbit[vertex] != vertex:
            vertex = orbit[vertex]
        return vertex

    def branch_at(position: int, exhaustive: bool) -> _Found:
        chosen = colours.copy()
        chosen[position] ^= _ALONE
        return _labelled(part, chosen, exhaustive)

    first = branch_at(int(cell[0]), False)
    if not exhaustive:
        return _Found(first.order, first.certificate)
    best: _Found | None = None
    generators: list[Permutation] = []
    tried: list[int] = []
    for position in cell.tolist():
        vertex = int(part.names[position])
        if root(vertex) in {root(other) for other in tried}:
            continue
        leaf = branch_at(position, False) if tried else first
        tried.append(vertex)
        if leaf is not first and leaf.certificate == first.certificate:
            new = [_mapping(first, leaf)]
        else:
            branch = branch_at(position, True)
            new = branch.generators
            if best is not None and branch.certificate == best.certificate:
                new = [*new, _mapping(best, branch)]
            elif best is None or branch.certificate < best.certificate:
                best = branch
        generators += new
        for generator in new:
            for a, b in generator.items():
                orbit[root(a)] = root(b)
    assert best is not None
    return _Found(best.order, best.certificate, generators)


def _mapping(one: _Found, other: _Found) -> Permutation:
    return {a: b for a, b in zip(one.order, other.order, strict=True) if a != b}
