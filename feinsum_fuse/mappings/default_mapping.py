"""A mapping for any cascade, from its indexing, sizes and element types alone: the family's, by its rules."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ..arguments import HOOK, NOTHING, checked, instance
from ..cascades.cascade import Cascade
from ..cascades.terms import Einsum
from ..errors import LoweringError, MappingError, ScheduleError
from ..formats.mapping import Mapping, Nested, Sequential, Storage
from ..formats.opencl import OpenCL
from ..formats.reading.assembly import spec as spec_of
from ..formats.spec import Spec
from ..lowering.lowering import lower
from ..progress import Hook, Stage
from ..schedule.schedule import Schedule
from ..schedule.steps.explicate import Explicate
from ..schedule.target import ANY_DEVICE, DeviceLimits, Target
from ..schedule.tree.parallel import check_kernels
from .components import default_architecture
from .family import Family, table_of

LONG = 32
"""Einsums up to which a mapping is lowered as a whole: the time to lower grows with the square of their number."""
_WORD = re.compile(r"\w+")


def check_lowering(spec: Spec, target: Target, outputs: Iterable[str] | None = None, progress: Hook | None = None) -> None:
    """Raises what :func:`~feinsum_fuse.lowering.lowering.lower` raises, and what kernels of its groups would.

    Of a long cascade each branch of the root, which is a kernel of its own, is lowered alone, and branches that are the same but for names
    are lowered once.
    """
    if len(spec.workload.einsums) <= LONG:
        _require_kernels(lower(spec, target=target, outputs=outputs, progress=progress))
        return
    seen: set[str] = set()
    parts = list(branches(spec))
    with Stage("lowering branches", progress, len(parts)) as lowering:
        for part in parts:
            signature = _signature(part)
            if signature not in seen:
                _require_kernels(lower(part, target=target))
                seen.add(signature)
            lowering.advance()


def _require_kernels(schedule: Schedule) -> None:
    if schedule.reached is not None:
        check_kernels(schedule.reached)


def branches(spec: Spec) -> Iterator[Spec]:
    """The Spec cut along the branches of its mapping's root, each with the Einsums below it and the tensors that they touch."""
    assert spec.mapping is not None
    *above, last = spec.mapping.nodes
    if not isinstance(last, Sequential) or not all(isinstance(node, Storage) for node in above):
        yield spec
        return
    einsums = {einsum.name: einsum for einsum in spec.workload.einsums}
    for child in last.nodes:
        nodes = child.nodes if isinstance(child, Nested) else (child,)
        names = [compute.einsum for compute in Mapping(nodes).computes]
        workload = dataclasses.replace(spec.workload, einsums=tuple(einsums[name] for name in names))
        touched = set(workload.tensors)
        held = [Storage(tuple(t for t in n.tensors if t in touched), n.component) for n in above if isinstance(n, Storage)]
        yield dataclasses.replace(spec, workload=workload, mapping=Mapping((*(node for node in held if node.tensors), *nodes)))


def _signature(spec: Spec) -> str:
    """A text that two Specs with the same architecture share if they differ in no more than names."""
    einsums = spec.workload.einsums
    names = {e.name for e in einsums} | set(spec.workload.tensors) | {v for e in einsums for v in e.rank_variables}
    names |= {rank for e in einsums for access in e.tensor_accesses for rank in access.projection}
    texts = [f"{e.name} {e.tensor_accesses} {e.operation} {e.is_copy_operation} {e.bounds}" for e in einsums]
    numbers: dict[str, str] = {}
    named = _WORD.sub(lambda word: numbers.setdefault(word[0], f"#{len(numbers)}") if word[0] in names else word[0], "\n".join(texts))
    nodes = _WORD.sub(lambda word: numbers.get(word[0], word[0]), repr(spec.mapping))
    return f"{named}\n{nodes}\n{spec.opencl}"


@checked(
    LoweringError,
    cascade=instance("a Cascade", Cascade),
    limits=instance("a DeviceLimits", DeviceLimits) | NOTHING,
    opencl=instance("an OpenCL", OpenCL) | NOTHING,
    target=instance("a Target", Target),
    progress=HOOK,
)
def default_mapping(
    cascade: Cascade,
    limits: DeviceLimits | None = None,
    opencl: OpenCL | None = None,
    *,
    target: Target = ANY_DEVICE,
    progress: Hook | None = None,
) -> Mapping:
    """A legal mapping with groups, register tile and lanes for the workload ``cascade.workload``, on the architecture of
    :func:`default_spec`.

    Einsums that are chained and share independent rows are fused over tiles of them, as long as what they exchange fits a core's cache.
    Lanes are as many as a vector of ``target`` holds; work-items, if ``opencl`` binds a fanout to ``local.0`` and none to ``vector``.
    ``limits`` are those of the device, in place of the target's if they are given. ``progress`` is told of each branch that was tried.
    Raises :class:`LoweringError` for a cascade that nothing can run, and :class:`~feinsum_fuse.errors.CascadeError` for symbolic sizes.
    """
    mapping = default_spec(cascade, limits, opencl, target=target, progress=progress).mapping
    assert mapping is not None
    return mapping


def default_spec(
    cascade: Cascade,
    limits: DeviceLimits | None = None,
    opencl: OpenCL | None = None,
    *,
    target: Target = ANY_DEVICE,
    progress: Hook | None = None,
) -> Spec:
    """The cascade with its default mapping, and the architecture and bindings that the mapping is for.

    Of ``opencl`` only what lanes are is looked at. The architecture's energies and rates are 1: ``ff.calibrate`` measures those of a
    device. Raises as :func:`default_mapping`.
    """
    if limits is not None:
        target = dataclasses.replace(target, limits=limits)
    reasons: list[str] = []
    with Stage("choosing a mapping", progress):
        family = Family(default_space(cascade, opencl, target), target, outputs=cascade.outputs)
        for chooser in family.fallbacks():
            try:
                found = family.spec.replace(mapping=family.mapping(chooser))
                check_lowering(found, target, cascade.outputs, progress)
            except (LoweringError, ScheduleError, MappingError) as error:
                reasons.append(error.message)
                continue
            return found
    raise LoweringError(f"no default mapping can be lowered: {'; '.join(dict.fromkeys(reasons))}")


def default_schedule(cascade: Cascade, target: Target = ANY_DEVICE) -> Schedule:
    """The steps of the default mapping, for a cascade whose outputs may be consumed in it as well.

    Where no default mapping can be lowered, or a workload cannot say what the cascade computes, since a loop indexes no tensor, these are
    the plainest: :class:`~feinsum_fuse.schedule.steps.explicate.Explicate` alone.
    """
    if all(indexed(einsum) >= set(einsum.sizes) for einsum in cascade.einsums):
        with suppress(LoweringError):
            return lower(default_spec(cascade, target=target), target=target, outputs=cascade.outputs)
    return Schedule((Explicate(),))


def indexed(einsum: Einsum) -> set[str]:
    """The rank variables that index a tensor."""
    return {variable for access in (einsum.output, *einsum.operands) for variable in access.variables}


def default_space(cascade: Cascade, opencl: OpenCL | None = None, target: Target = ANY_DEVICE) -> Spec:
    """The cascade on the architecture that default mappings are for, without a mapping."""
    types = table_of({name: tensor.dtype for name, tensor in cascade.tensors.items()})
    sums = table_of({e.output.tensor: e.accumulate for e in cascade.einsums})
    arch, bindings = default_architecture(opencl, target)
    return spec_of(cascade, arch, None, dataclasses.replace(bindings, dtypes=types, accumulate=sums))
