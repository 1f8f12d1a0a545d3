"""Whole cache lines: what a tile that is not contiguous costs the memory that it is fetched from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from constantdict import constantdict

from ...formats.arch import Arch, ArchNode, Array, Fork, Hierarchical, Memory
from ...formats.opencl import CACHE_KINDS, GROUP_KINDS, SHARED_KINDS
from ...formats.spec import Spec
from ..accelforge.component import bits_per_value
from ..accelforge.tile import values
from .footprint import TreePath, line_bits, lines


def whole_lines(spec: Spec) -> Spec:
    """The spec with memories that move whole lines to the next level.

    Between two memories that are global, cache or local, a tile moves by lines: each of its contiguous runs is rounded up. A memory's
    actions for a tensor then move ``1 / factor`` of the values that they would otherwise, with the largest factor of the Einsums that touch
    the tensor. Memories that say themselves how many values an action moves are left alone.
    """
    if spec.arch is None or spec.mapping is None or spec.opencl is None:
        return spec
    factors: dict[str, dict[str, float]] = {}
    for placed in spec.mapping.paths():
        for memory, tensor, factor in _factors(spec, TreePath(spec, placed)):
            found = factors.setdefault(memory, {})
            found[tensor] = max(found.get(tensor, 1.0), factor)
    wasteful = {memory: {t: f for t, f in found.items() if f > 1} for memory, found in factors.items()}
    return spec.replace(arch=Arch(_with(spec, spec.arch.nodes, wasteful), spec.arch.variables)) if any(wasteful.values()) else spec


def _factors(spec: Spec, path: TreePath) -> Iterator[tuple[str, str, float]]:
    """(memory, tensor, lines moved over values moved) for each pair of memories next to each other in a tensor's chain."""
    assert spec.opencl is not None
    kinds = spec.opencl.memories
    for tensor in path.nest.einsum.tensors:
        access = path.nest.access(tensor)
        chain = path.holders(tensor)
        for (_, outer), (index, inner) in pairwise(chain):
            if kinds.get(outer) in SHARED_KINDS and kinds.get(inner) in CACHE_KINDS | GROUP_KINDS:
                shapes = path.shapes(index, inner)
                size = float(values(access, shapes)) * access.bits_per_value
                yield outer, tensor, lines(access, shapes, path.nest.bounds, line_bits(spec)) / size


def _with(spec: Spec, nodes: tuple[ArchNode, ...], factors: dict[str, dict[str, float]]) -> tuple[ArchNode, ...]:
    result: list[ArchNode] = []
    for node in nodes:
        if isinstance(node, Hierarchical | Fork | Array):
            result.append(replace(node, nodes=_with(spec, node.nodes, factors)))
        elif isinstance(node, Memory) and factors.get(node.name) and not node.values_per_action:
            result.append(_slowed(spec, node, factors[node.name]))
        else:
            result.append(node)
    return tuple(result)


def _slowed(spec: Spec, memory: Memory, factors: dict[str, float]) -> Memory:
    widths = {access.name: access.bits_per_value for einsum in spec.workload.einsums for access in einsum.tensor_accesses}
    per_action = memory.bits_per_action if memory.bits_per_action is not None else 1.0
    moved = {tensor: per_action / (bits_per_value(memory, tensor, widths[tensor]) * factor) for tensor, factor in factors.items()}
    return replace(memory, values_per_action=constantdict(moved))
