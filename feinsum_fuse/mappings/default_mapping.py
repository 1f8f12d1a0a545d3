"""A mapping for any cascade, from its indexing, sizes and element types alone: the family's, by its rules."""

from __future__ import annotations

import dataclasses

from ..cascades.cascade import Cascade
from ..errors import LoweringError, MappingError, ScheduleError
from ..formats.mapping import Mapping
from ..formats.opencl import OpenCL
from ..formats.reading.building import spec as spec_of
from ..formats.spec import Spec
from ..schedule.target import ANY_DEVICE, DeviceLimits, Target
from .components import default_architecture
from .family import Family, table_of
from .legality import check_lowering


def default_mapping(
    cascade: Cascade, limits: DeviceLimits | None = None, opencl: OpenCL | None = None, *, target: Target = ANY_DEVICE
) -> Mapping:
    """A legal mapping with groups, register tile and lanes for the workload ``cascade.workload``, on the architecture of
    :func:`default_spec`.

    Einsums that are chained and share independent rows are fused over tiles of them, as long as what they exchange fits a core's cache.
    Lanes are as many as a vector of ``target`` holds; work-items, if ``opencl`` binds a fanout to ``local.0`` and none to ``vector``.
    ``limits`` are those of the device, in place of the target's if they are given. Raises :class:`LoweringError` for a cascade that
    nothing can run, and :class:`~feinsum_fuse.errors.CascadeError` for symbolic sizes.
    """
    mapping = default_spec(cascade, limits, opencl, target=target).mapping
    assert mapping is not None
    return mapping


def default_spec(
    cascade: Cascade, limits: DeviceLimits | None = None, opencl: OpenCL | None = None, *, target: Target = ANY_DEVICE
) -> Spec:
    """The cascade with its default mapping, and the architecture and bindings that the mapping is for.

    Of ``opencl`` only what lanes are is looked at. The architecture's energies and rates are 1: ``ff.calibrate`` measures those of a
    device. Raises as :func:`default_mapping`.
    """
    if limits is not None:
        target = dataclasses.replace(target, limits=limits)
    family = Family(default_space(cascade, opencl, target), target)
    reasons: list[str] = []
    for chooser in family.fallbacks():
        try:
            found = family.spec.replace(mapping=family.mapping(chooser))
            check_lowering(found, target)
        except (LoweringError, ScheduleError, MappingError) as error:
            reasons.append(error.message)
            continue
        return found
    raise LoweringError(f"no default mapping can be lowered: {'; '.join(dict.fromkeys(reasons))}")


def default_space(cascade: Cascade, opencl: OpenCL | None = None, target: Target = ANY_DEVICE) -> Spec:
    """The cascade on the architecture that default mappings are for, without a mapping."""
    types = table_of({name: tensor.dtype for name, tensor in cascade.tensors.items()})
    sums = table_of({e.output.tensor: e.accumulate for e in cascade.einsums})
    arch, bindings = default_architecture(opencl, target)
    return spec_of(cascade, arch, None, dataclasses.replace(bindings, dtypes=types, accumulate=sums))
