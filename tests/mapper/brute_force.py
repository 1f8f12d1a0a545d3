"""The mapper's judge: it goes through every LoopTree of a small cascade and asks nothing but the model which is best.

Nothing here comes from the mapper, and none of its theorems is used. What is used is said by the model alone (doc/model.rst):

- an Einsum's energy and latency are those of its own path, so a path is evaluated once and met again in every tree that has it;
- what is alive at a time never shrinks if one of its parts grows, so of two paths with one prefix the one that is worse in energy,
  latency and every peak can go.

Whole trees are then put together, cheapest first, and handed to :func:`feinsum_fuse.predict` with the real capacities: the first that it
takes is the optimum. :class:`~.tree_space.TreeSpace` says what counts as a LoopTree of the space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import feinsum_fuse as ff
from feinsum_fuse.formats import mapping as tree
from feinsum_fuse.formats.arch import Memory
from feinsum_fuse.formats.workload import WorkloadEinsum

from .tree_paths import Figures, TooLarge, TreePaths
from .tree_space import Frame, Holder, Path, loop_node

OBJECTIVES: dict[str, Callable[[Figures, Figures], Figures]] = {
    "energy": lambda energy, latency: energy,
    "latency": lambda energy, latency: latency,
    "edp": lambda energy, latency: energy * latency,
}


@dataclass
class Optimum:
    """The best value of an objective and a mapping that has it; no value where nothing fits."""

    value: float = float("inf")
    mapping: tree.Mapping | None = None


@dataclass
class BruteForce(TreePaths):
    """Every LoopTree of a Spec without mapping, put together from paths."""

    whole: int = 0
    """Trees that the model was asked about."""

    def optima(self, objectives: Sequence[str] = tuple(OBJECTIVES), capacity: bool = True) -> dict[str, Optimum]:
        """The best tree for each objective; without ``capacity``, as if every memory were endless."""
        best = {name: Optimum() for name in objectives}
        frames: list[Frame] = []
        for homes in self.all_homes():
            for frame in self.frames(homes):
                frames.append(frame)
                if len(frames) > self.most:
                    raise TooLarge(f"more than {self.most} frames")
        for name in objectives:
            rated = []
            for frame in frames:
                lists = [self._fitting(self.paths(n, prefix), capacity) for n, prefix in enumerate(frame.prefixes)]
                if all(lists):
                    rated.append((self._values(lists, name), frame, lists))
            for values, frame, lists in sorted(rated, key=lambda item: float(item[0].min())):
                self._improve(best[name], values, frame, lists, capacity)
        return best

    def _fitting(self, paths: Sequence[Path], capacity: bool) -> list[Path]:
        """Without the paths that fit no memory even when they are alone: nothing that is alive besides them makes them smaller."""
        sizes = [leaf.size for leaf in self.levels if isinstance(leaf, Memory) and leaf.name in self.finite]
        return [p for p in paths if not capacity or all(bits <= size for bits, size in zip(p.peaks, sizes, strict=True))]

    def _values(self, lists: Sequence[Sequence[Path]], objective: str) -> Figures:
        """The objective of every combination of paths, one axis per Einsum."""
        sums = []
        for figure in ("energy", "latency"):
            total = np.zeros(())
            for rows in lists:
                total = np.add.outer(total, np.array([getattr(path, figure) for path in rows]))
            sums.append(total)
        return OBJECTIVES[objective](*sums)

    def _improve(self, best: Optimum, values: Figures, frame: Frame, lists: Sequence[Sequence[Path]], capacity: bool) -> None:
        flat = values.ravel()
        better = np.flatnonzero(flat < best.value * (1 - 1e-12) if best.value < float("inf") else flat < float("inf"))
        for index in better[np.argsort(flat[better], kind="stable")]:
            picks = np.unravel_index(index, values.shape)
            paths = [rows[int(k)] for rows, k in zip(lists, picks, strict=True)]
            mapping = self._tree(frame, paths)
            if mapping is None:
                continue
            self.whole += 1
            try:
                p = ff.predict(self.spec.replace(mapping=mapping, arch=self.arch if capacity else self.roomy))
            except ff.ModelError:
                continue
            whole = np.array([sum(path.energy for path in paths), sum(path.latency for path in paths)])
            assert np.allclose([p.energy, p.latency], whole, rtol=1e-9), (mapping, p.energy, p.latency, whole)
            best.value, best.mapping = float(flat[index]), mapping
            return

    def _tree(self, frame: Frame, paths: Sequence[Path]) -> tree.Mapping | None:
        """The tree of these paths; ``None`` if one would find on its way what only another wants."""
        homes = {h for path in paths for h in path.layout.prefix.homes}
        inner = {t for t, _, _ in homes}
        top = tuple(t for t in self.spec.workload.tensors if t not in inner)
        nodes = [tree.Storage(tensors=top, component=self.levels[0].name)] if top else []
        mapping = tree.Mapping(nodes=(*nodes, *self._group(frame, paths, 0, len(paths) - 1, 0, frozenset())))
        for path, einsum, found in zip(paths, self.einsums, mapping.paths(), strict=True):
            if self._seen(einsum, found) != self._meant(einsum, path):
                return None
        return mapping

    def _group(self, frame: Frame, paths: Sequence[Path], low: int, high: int, depth: int, done: frozenset[Holder]) -> list[tree.Node]:
        """The nodes of consecutive Einsums below the ``depth`` loops that they share."""
        if low == high and len(paths[low].layout.prefix.loops) == depth:
            rest = [h for h in paths[low].layout.segments[depth] if h not in done]
            return [*map(self.storage_node, rest), *paths[low].below, self._leaf(low)]
        cuts = [b for b in range(low, high) if frame.shared[b] == depth]
        wanted = dict.fromkeys(h for path in paths[low : high + 1] for h in path.layout.segments[depth] if h not in done)
        if cuts:
            crossing = {t for path in paths for t, _, d in path.layout.prefix.homes if d == depth and self._crosses(t, cuts)}
            level = max((h.level for h in wanted if h.tensor in crossing and self._is_home(paths, h)), default=-1)
            wanted = dict.fromkeys(h for h in wanted if h.level < level or (h.tensor in crossing and self._is_home(paths, h)))
        ordered = sorted(wanted, key=lambda h: (h.level, not self._is_home(paths, h)))
        nodes = [self.storage_node(h) for h in ordered]
        if not cuts:
            loop = self._shared_loop(paths, low, high, depth)
            return [*nodes, loop, *self._group(frame, paths, low, high, depth + 1, frozenset())]
        starts, ends = [low, *(b + 1 for b in cuts)], [*cuts, high]
        branches = [self._group(frame, paths, a, b, depth, done | wanted.keys()) for a, b in zip(starts, ends, strict=True)]
        return [*nodes, tree.Sequential(nodes=tuple(tree.Nested(nodes=tuple(branch)) for branch in branches))]

    def _crosses(self, tensor: str, cuts: Sequence[int]) -> bool:
        touched = [n for n, e in enumerate(self.einsums) if tensor in e.tensors]
        return any(touched[0] <= cut < touched[-1] for cut in cuts)

    def _is_home(self, paths: Sequence[Path], holder: Holder) -> bool:
        return any((holder.tensor, holder.level) == (t, level) for path in paths for t, level, _ in path.layout.prefix.homes)

    def _leaf(self, number: int) -> tree.Node:
        return tree.Compute(einsum=self.einsums[number].name, component=self.compute)

    def _shared_loop(self, paths: Sequence[Path], low: int, high: int, depth: int) -> tree.Node:
        loops = {self.einsums[n].name: paths[n].layout.prefix.loops[depth] for n in range(low, high + 1)}
        names = {name: loop.variable for name, loop in loops.items()}
        one = len(set(names.values())) == 1
        return loop_node(next(iter(names.values())) if one else names, next(iter(loops.values())))

    def _seen(self, einsum: WorkloadEinsum, path: Sequence[tree.Placed]) -> list[tuple[str, ...]]:
        result: list[tuple[str, ...]] = []
        for placed in path:
            node = placed.node
            if isinstance(node, tree.Storage | tree.Toll):
                # One node's tensors have no order.
                result += [(t, node.component) for t in sorted(node.tensors) if t in einsum.tensors]
            elif isinstance(node, tree.Temporal):
                result.append((str(node.variable(einsum.name)), str(node.tile_shape), getattr(node, "name", "")))
        return result

    def _meant(self, einsum: WorkloadEinsum, path: Path) -> list[tuple[str, ...]]:
        nodes = self.top(einsum, path.layout)
        for place, row in enumerate(path.layout.segments):
            nodes += [self.storage_node(h) for h in row]
            nodes += [self.prefix_loop(loop) for loop in path.layout.prefix.loops[place : place + 1]]
        return self._seen(einsum, [tree.Placed((), node) for node in [*nodes, *path.below]])
