"""What a roofline floor takes of a processor beside its rates: what caches keep between runs, and what functions take at the least.

A run before has left in a cache that all units share as much as it has room for. How much of that is lost depends on who else uses the
cache, and on a cloud's processor on the hour: a floor that counted what a calibration had found lost was beaten by up to 3.6 times in a
quieter hour. So it is counted where it is asked for: of a tensor each of whose values is used at one point of a run, everything else that
is used so comes between two runs' uses of a line, in whatever order a run goes, and a calibration measured how much of a last cache's lines
are lost then (``last_cache_lost_*``). Values that many points use can be used last and first, and may be kept.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from ..cascades.maps import primitive
from ..formats.arch import Arch, Memory
from ..formats.mapping import Storage
from ..formats.opencl import CACHE_KINDS, MAIN_KINDS
from ..formats.spec import Spec
from ..formats.workload import TensorAccess, WorkloadEinsum, operand_name
from .accelforge.tile import values
from .kernel.machine import Machine
from .kernel.value_operations import counted_operations, is_call
from .processor import LOST_BETWEEN_RUNS, MANY_RUNS

WORD_BITS = 32
"""Of the numbers whose functions a calibration measures."""

WhereKept = Mapping[str, float]
"""Memory -> the part of a tensor's values that come from it, or go to it."""


def handed_on(spec: Spec) -> frozenset[str]:
    """Intermediates that a mapping keeps in main memory between Einsums."""
    kinds = spec.opencl.memories if spec.opencl is not None else {}
    paths = spec.mapping.paths() if spec.mapping is not None else ()
    nodes = [placed.node for path in paths for placed in path if isinstance(placed.node, Storage)]
    main = {tensor for node in nodes if kinds.get(node.component) in MAIN_KINDS for tensor in node.tensors}
    return frozenset(main & spec.workload.intermediates)


def homes(
    spec: Spec, arch: Arch, machine: Machine | None, stored: Collection[str] = (), *, cold: bool, lossy: bool = False
) -> dict[str, WhereKept]:
    """Input or output -> where its values are when a run begins; ``stored``: intermediates -> where one Einsum finds those of another.

    That is the innermost cache that all units share and that all inputs and outputs fit, all of it, not the share that a prediction counts
    on. What does not fit the largest one comes from the outermost memory, all of it if ``cold``; if ``lossy``, what a calibration found the
    largest one to lose between runs, too.
    """
    memories = [leaf for leaf in arch.components if isinstance(leaf, Memory)]
    if not memories:
        return {}
    kinds = spec.opencl.memories if spec.opencl is not None else {}
    shared = itertools.takewhile(lambda leaf: not leaf.spatial, arch.components)
    caches = [leaf for leaf in shared if isinstance(leaf, Memory) and kinds.get(leaf.name) in CACHE_KINDS]
    sizes = _sizes(spec)
    found = dict.fromkeys(sizes, _kept(memories[0], () if cold else caches, sum(sizes.values())))
    found |= {tensor: _kept(memories[0], caches, size) for tensor, size in _sizes(spec, stored).items()}
    if lossy and caches and not cold and machine is not None and any(name.startswith(LOST_BETWEEN_RUNS) for name in arch.variables):
        largest = max(caches, key=lambda cache: cache.size)
        once = [tensor for tensor in sizes if _is_used_once(spec, tensor)]
        times = sum(map(sizes.__getitem__, once)) / largest.size
        lost = min(machine.lost_between_runs(times, runs) for runs in (1, MANY_RUNS))
        for tensor in once:
            if lost > found[tensor].get(memories[0].name, 0.0) and largest.name in found[tensor]:
                found[tensor] = {memories[0].name: lost, largest.name: 1 - lost}
    return found


def _kept(outermost: Memory, caches: Iterable[Memory], size: float) -> WhereKept:
    """Where so many bits are that were all used."""
    caches = list(caches)
    fitting = next((cache.name for cache in reversed(caches) if size <= cache.size), None)
    if fitting is not None or not caches:
        return {fitting or outermost.name: 1.0}
    largest = max(caches, key=lambda cache: cache.size)
    return {outermost.name: 1 - largest.size / size, largest.name: largest.size / size}


def _sizes(spec: Spec, tensors: Collection[str] | None = None) -> dict[str, float]:
    """Tensor, inputs and outputs if none are given -> bits that are touched."""
    sizes: dict[str, float] = {}
    for einsum in spec.workload.einsums:
        for access in einsum.tensor_accesses:
            if access.name in spec.workload.intermediates if tensors is None else access.name not in tensors:
                continue
            sizes[access.name] = max(sizes.get(access.name, 0.0), touched(access, einsum) * access.bits_per_value)
    return sizes


def touched(access: TensorAccess, einsum: WorkloadEinsum) -> float:
    """A floor under the values of a tensor that an Einsum touches: strides leave gaps in the box that its indices span."""
    return min(float(values(access, einsum.bounds)), float(math.prod(einsum.bounds[v] for v in access.rank_variables)))


def _is_used_once(spec: Spec, tensor: str) -> bool:
    """Whether no Einsum uses a value at two of its points."""
    uses = [(einsum, access) for einsum in spec.workload.einsums for access in einsum.tensor_accesses if access.name == tensor]
    return all(math.prod(einsum.bounds.values()) <= touched(access, einsum) for einsum, access in uses)


def call_seconds(spec: Spec, machine: Machine, parts: Mapping[str, float]) -> float:
    """Seconds that all cores need for the functions of all maps, each called once for each of the values that it is made of.

    A call takes what it takes in the fastest of the forms that were measured. What one instruction does is left out, and so are powers,
    divisions and roots, which may be done once for many values, or beside everything else. ``parts``: Einsum -> the part of its points that
    is computed, if not all.
    """
    if machine.lanes == 1:
        return 0.0
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for einsum in spec.workload.einsums:
        if einsum.operation.map is None or max(access.bits_per_value for access in einsum.tensor_accesses) > WORD_BITS:
            continue
        named = {operand_name(k): access for k, access in enumerate(einsum.inputs)}
        own: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for (what, names), count in counted_operations(primitive(einsum.operation.map), (), frozenset())[0]:
            if not is_call(what) or what == "pow":
                continue
            moving = {v for name in names for v in (named[name].rank_variables if name in named else (name,))}
            points = math.prod(einsum.bounds.get(v, 1) for v in moving) * einsum.n_instances * parts.get(einsum.name, 1.0)
            own[what, tuple(sorted(named[name].name for name in names if name in named))] += math.ceil(count * points)
        found |= own  # the same of the same tensors is done once
    return sum(count * _least(machine, what) for (what, _), count in found.items()) / machine.together(machine.cores)


def _least(machine: Machine, what: str) -> float:
    """Seconds of one call on one number."""
    whole, half = machine.lanes, max(1, machine.lanes // 2)
    return min(machine.function(what, whole) / whole, machine.function(what, half) / half, machine.looped(what))
