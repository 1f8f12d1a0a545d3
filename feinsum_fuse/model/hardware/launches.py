"""Kernels and work-groups that a mapping makes a device start, and what starting them costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...formats.mapping import Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from ...formats.opencl import SHARED_KINDS, level_of
from ...formats.spec import Spec
from ..processor import starting_seconds
from .footprint import TreePath


def kernels(spec: Spec) -> int:
    """How many kernels a mapping becomes.

    The branches of a Sequential below no loop are kernels of their own, unless a memory that groups do not share passes data between them.
    """
    return _kernels(spec, spec.mapping.nodes) if spec.mapping is not None else 0


def _kernels(spec: Spec, nodes: Sequence[Node]) -> int:
    for node in nodes:
        if isinstance(node, Temporal) or (isinstance(node, Storage) and not _shared(spec, node.component)):
            return 1
        if isinstance(node, Sequential):
            return sum(_kernels(spec, (child,)) for child in node.nodes)
        if isinstance(node, Nested):
            return _kernels(spec, node.nodes)
    return 1


def _shared(spec: Spec, memory: str) -> bool:
    """Whether all work-groups see a memory: by its binding, without one if it is the outermost."""
    if spec.opencl is not None and memory in spec.opencl.memories:
        return spec.opencl.memories[memory] in SHARED_KINDS
    return spec.arch is None or memory == spec.arch.components[0].name


def groups(spec: Spec) -> float:
    """Work-groups of all kernels: the iterations of the loops over fanouts bound to groups, and of the loops in time above them."""
    if spec.mapping is None or spec.opencl is None:
        return 0.0
    return sum(_groups(spec, spec.mapping, number) for number in range(len(spec.mapping.paths())))


def _groups(spec: Spec, mapping: Mapping, number: int) -> float:
    """Work-groups that one path is the first to need."""
    assert spec.opencl is not None
    paths = [TreePath(spec, placed) for placed in mapping.paths()]
    path, seen = paths[number], {place for earlier in paths[:number] for place in earlier.index}
    bound = [index for index, placed in enumerate(path.placed) if isinstance(placed.node, Spatial) and _is_group(spec, placed.node)]
    if not bound or path.placed[bound[-1]].position in seen:
        return 0.0
    return math.prod(math.ceil(path.trips(loop)) for index, loop in path.loops if index <= bound[-1])


def _is_group(spec: Spec, loop: Spatial) -> bool:
    assert spec.opencl is not None
    return level_of(spec.opencl.fanout(loop.component, loop.name)) == "group"


def launch_seconds(spec: Spec, working: float = 0.0, *, cold: bool = False) -> float:
    """Seconds that starting kernels and work-groups adds to a run that works for so many seconds; 0 for an architecture that does not say.

    :func:`~feinsum_fuse.model.processor.starting_seconds` has the variables.
    """
    if spec.arch is None or not {"launch_seconds", "group_seconds"} & set(spec.arch.variables):
        return 0.0
    return starting_seconds(spec.arch, kernels(spec), groups(spec), working, cold=cold)
