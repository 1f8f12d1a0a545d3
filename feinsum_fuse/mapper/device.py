"""What a kernel can do of a mapspace: limits of lowering, as constraints of the architecture that a search obeys.

``ff.lower`` refuses mappings that the model has figures for. Each refusal that a search could run into is a constraint here instead:

- groups do not add to the same elements (``ReductionBindingError``), and work-items would need local memory for their partial results, and
  an axis for each of several loops (``LocalSizeError``, ``BindingConflictError``): fanouts over both take ranks of the output alone;
- a group has the work-items that the device gives it (``WorkGroupSizeError``): fanouts over work-items are no larger;
- lanes lie along what is contiguous, as many in each Einsum (``VectorAccessError``): a fanout over lanes takes the variable of the output's
  last rank alone, in all Einsums by the largest factor that divides each of these variables;
- groups cannot exchange what they hold (``CrossKernelStorageError``, ``ScopeError``): below a fanout over groups no intermediate lives;
- caches hold what the hardware puts there: no mapping says so;
- each address space stands above the next: ``force_memory_hierarchy_order: false`` has no effect;
- scratchpads and registers have the bytes that the device gives a group (``LocalSizeError``, ``PrivateSizeError``): each Einsum gets an
  equal part of them, since the tiles of one kernel lie side by side, and each work-item its own;
- rows of a tile are filled up to whole vectors, which the model does not count: where lanes lie along a window, a tile may take the part of
  the bytes that leaves room for that;
- an output that sums of variables index is computed element by element, and no loop cuts what its Einsum holds: none of that is in a
  scratchpad or a register;
- a tensor that an Einsum reads by several indices (``A[m, k] * A[n, k]``) has a tile for each in a kernel, and one in the model: it is in
  no scratchpad or register either.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ..formats.affine import Affine
from ..formats.arch import Arch, ArchNode, Array, Component, Fanout, Fork, Hierarchical, Memory, SizeConstraint, TensorRules
from ..formats.opencl import CACHE_KINDS, FANOUTS, MAIN_KINDS, MEMORIES, MemoryKind, level_of
from ..formats.spec import Spec
from ..formats.workload import WorkloadEinsum
from ..schedule.kernel.operations import LANES
from ..schedule.target import DeviceLimits
from .failures import UnsearchedError

CONTIGUOUS = "contiguous"
"""The name, in every Einsum, of the rank variables along which lanes may lie."""
KEPT_OUT = TensorRules(keep="Nothing")


def lowerable(spec: Spec, limits: DeviceLimits | None = None) -> Spec:
    """The Spec with a mapspace of kernels: constraints of its own stay, those of lowering and of the device join them.

    Needs an architecture with an ``opencl`` key, such as ``calibrate`` writes; :class:`UnsearchedError` without.
    """
    if spec.arch is None or spec.opencl is None or not spec.opencl.memories:
        hint = "feinsum-fuse calibrate writes such an architecture."
        raise UnsearchedError("A search for kernels needs an architecture with an opencl key.", hint=hint)
    einsums = tuple(_named(einsum) for einsum in spec.workload.einsums)
    workload = dataclasses.replace(spec.workload, einsums=einsums)
    settings = spec.mapper and dataclasses.replace(spec.mapper, force_memory_hierarchy_order=True)
    arch = _restricted(spec, spec.arch, limits or DeviceLimits())
    return dataclasses.replace(spec, workload=workload, arch=arch, mapping=None, mapper=settings)


def for_device(spec: Spec, device: str | object | None, limits: DeviceLimits | None) -> Spec:
    """The Spec with a mapspace of kernels for a device, given by name or as a ``pyopencl.Device``, or for these limits; else as it is.

    Raises :class:`~feinsum_fuse.errors.DeviceError` for a name that no device has.
    """
    if device is None and limits is None:
        return spec
    if limits is None:
        from ..device.catalogue import find_device, target

        limits = target(find_device(device) if isinstance(device, str) else device).limits
    return lowerable(spec, limits)


def _named(einsum: WorkloadEinsum) -> WorkloadEinsum:
    """The Einsum with a name for what its lanes may lie along."""
    found = frozenset(v for access in einsum.outputs for v in _last(tuple(access.projection.values())))
    renames = einsum.renames.set(CONTIGUOUS, found)
    return dataclasses.replace(einsum, renames=renames, rank_variable_renames=einsum.rank_variable_renames | {CONTIGUOUS})


def _last(indices: tuple[Affine, ...]) -> tuple[str, ...]:
    """The variable of the last rank, if it indexes it alone."""
    return tuple(indices[-1].variables) if indices and indices[-1].bare is not None else ()


def _restricted(spec: Spec, arch: Arch, limits: DeviceLimits) -> Arch:
    """The architecture with the constraints of kernels."""
    assert spec.opencl is not None
    kinds = spec.opencl.memories
    fanouts = {(name, fanout.name): fanout for name, spatial in arch.fanouts.items() for fanout in spatial}
    levels = {(name, own): level_of(spec.opencl.fanout(name, own)) for name, own in fanouts}
    items = _work_items(spec, arch, limits)
    lanes = max((_lanes(spec, fanout.fanout) for at, fanout in fanouts.items() if levels[at] == "vector"), default=1)
    part = _filled(spec, lanes) / len(spec.workload.einsums)
    bits = {"local": 8.0 * limits.local_bytes * part, "private": 8.0 * limits.private_bytes / math.prod(items.values()) * part}
    loose = sorted({tensor for einsum in spec.workload.einsums for tensor in (_twice(einsum) if _is_cut(einsum) else einsum.tensors)})
    below_group = False

    def one(node: Component | Array) -> Component | Array:
        nonlocal below_group
        if isinstance(node, Memory) and node.name in kinds:
            node = _memory(node, kinds[node.name], below_group, bits, loose)
        below_group = below_group or any(levels[node.name, fanout.name] == "group" for fanout in node.spatial)
        spatial = (
            _fanout(fanout, levels[node.name, fanout.name], items.get((node.name, fanout.name), _lanes(spec, fanout.fanout)))
            for fanout in node.spatial
        )
        return dataclasses.replace(node, spatial=tuple(spatial))

    return dataclasses.replace(arch, nodes=_each(arch.nodes, one))


def _work_items(spec: Spec, arch: Arch, limits: DeviceLimits) -> dict[tuple[str, str], int]:
    """How far each fanout over work-items may go, outermost first, within the sizes of a group and of its axes."""
    assert spec.opencl is not None
    group = limits.max_work_group_size
    result = {}
    for name, spatial in arch.fanouts.items():
        for fanout in spatial:
            bound = FANOUTS[spec.opencl.fanout(name, fanout.name)]
            if bound.level == "local" and bound.axis is not None:
                most = max(1, min(fanout.fanout, group, limits.max_work_item_sizes[bound.axis]))
                result[name, fanout.name] = most
                group //= most
    return result


def _memory(memory: Memory, kind: MemoryKind, below_group: bool, bits: Mapping[str, float], loose: Sequence[str]) -> Memory:
    """A memory with what a kernel can hold in it; ``bits``: address space -> what an Einsum may take of it; ``loose``: tensors whose tiles
    in a kernel are not those of the model."""
    if kind in CACHE_KINDS:
        return dataclasses.replace(memory, tensors=KEPT_OUT)
    rules = dataclasses.replace(memory.tensors, force_memory_hierarchy_order=True)
    if rules == TensorRules():
        rules = TensorRules(keep="All") if kind in MAIN_KINDS else TensorRules(may_keep="All - Intermediates" if below_group else "All")
    if loose and kind not in MAIN_KINDS and rules.may_keep is not None:
        rules = dataclasses.replace(rules, may_keep=f"({rules.may_keep}) - ({' | '.join(loose)})")
    size = min(memory.size, bits.get(MEMORIES[kind].address_space, math.inf))
    return dataclasses.replace(memory, size=size, tensors=rules)


def _lanes(spec: Spec, most: int) -> int:
    """The longest vector of OpenCL that divides what is contiguous in every Einsum; 1 if there is none."""
    extents = [
        math.prod(einsum.bounds[v] for v in _last(tuple(access.projection.values())))
        for einsum in spec.workload.einsums
        for access in einsum.outputs
    ]
    return max(lanes for lanes in (1, *LANES) if lanes <= most and all(extent % lanes == 0 for extent in extents))


def _filled(spec: Spec, lanes: int) -> float:
    """The part of the bytes of tiles that is sure to hold values, where rows along a window are filled up to whole vectors.

    Such a row has more values than there are lanes: at worst one more, in two vectors.
    """
    for einsum in spec.workload.einsums:
        along = {v for access in einsum.outputs for v in _last(tuple(access.projection.values()))}
        indices = [index for access in einsum.inputs for index in access.projection.values()]
        if lanes > 1 and any(index.bare is None and along & set(index.variables) for index in indices):
            return (lanes + 1) / (2 * lanes)
    return 1.0


def _is_cut(einsum: WorkloadEinsum) -> bool:
    """Whether loops over the output's elements are loops over rank variables, each its own."""
    factors = [index.coefficients for access in einsum.outputs for index in access.projection.values()]
    return all(list(own.values()) == [1] for own in factors) and len({v for own in factors for v in own}) == len(factors)


def _twice(einsum: WorkloadEinsum) -> set[str]:
    """The tensors that an Einsum reads by several indices."""
    ways = {(access.name, tuple(access.projection.items())) for access in einsum.inputs}
    return {name for name, count in Counter(name for name, _ in ways).items() if count > 1}


def _fanout(fanout: Fanout, level: str, most: int) -> Fanout:
    """A fanout with the loops that a kernel can spread over it; ``most``: work-items or lanes that it may have."""
    if level in ("group", "local"):
        bounds = (*fanout.loop_bounds, SizeConstraint("~Outputs.rank_variables", "==", 1))
        return dataclasses.replace(fanout, fanout=most if level == "local" else fanout.fanout, loop_bounds=bounds)
    if level == "vector":
        bounds = (*fanout.loop_bounds, SizeConstraint(f"~{CONTIGUOUS}", "==", 1))
        return dataclasses.replace(fanout, fanout=most, min_usage=1.0, loop_bounds=bounds)
    return fanout


def _each(nodes: tuple[ArchNode, ...], change: Callable[[Component | Array], Component | Array]) -> tuple[ArchNode, ...]:
    """The nodes from the outermost to the innermost, each changed."""
    result: list[ArchNode] = []
    for node in nodes:
        if isinstance(node, Hierarchical | Fork):
            result.append(dataclasses.replace(node, nodes=_each(node.nodes, change)))
        elif isinstance(node, Array):
            outer = change(node)
            assert isinstance(outer, Array)
            result.append(dataclasses.replace(outer, nodes=_each(outer.nodes, change)))
        else:
            result.append(change(node))  # type: ignore[arg-type]
    return tuple(result)
