"""A second program that shows what a fused one never writes: every tensor in main memory, one Einsum after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from constantdict import constantdict

from ...errors import LoweringError, ScheduleError
from ...formats.mapping import Compute, Mapping, Nested, Node, Sequential, Spatial, Storage, Temporal
from ...formats.opencl import FanoutKind, MemoryKind, OpenCL
from ...formats.workload import WorkloadEinsum
from ...lowering import lower
from ...schedule.schedule import Schedule
from ...schedule.steps.explicate import Explicate

if TYPE_CHECKING:
    from ...formats.spec import Spec
    from ...schedule.target import Target

_MEMORY, _FANOUT, _UNIT = "MainMemory", "Core", "MAC"


PLAIN = Schedule((Explicate(),))
"""One Einsum after the other in one work-item, which any cascade can be."""


def unfused_schedule(spec: Spec, target: Target) -> Schedule:
    """A schedule without tiles: work-groups over the first variable of each output where that can be lowered, else :data:`PLAIN`."""
    try:
        return lower(_unfused(spec), target=target)
    except (LoweringError, ScheduleError):
        return PLAIN


def _unfused(spec: Spec) -> Spec:
    """The Spec with a mapping of its own, on an architecture of one memory."""
    nodes: tuple[Node, ...] = (
        Storage(tensors=spec.workload.tensors, component=_MEMORY),
        Sequential(nodes=tuple(_branch(einsum) for einsum in spec.workload.einsums)),
    )
    given = spec.opencl or OpenCL()
    memories: constantdict[str, MemoryKind] = constantdict({_MEMORY: "global"})
    fanouts: constantdict[str, FanoutKind] = constantdict({_FANOUT: "group.0"})
    opencl = OpenCL(memories=memories, fanouts=fanouts, dtypes=given.dtypes, accumulate=given.accumulate)
    return spec.replace(arch=None, opencl=opencl, mapping=Mapping(nodes))


def _branch(einsum: WorkloadEinsum) -> Node:
    """All loops of an Einsum, those of its output outside."""
    first = einsum.outputs[0].rank_variables
    order = [*first, *(variable for variable in einsum.rank_variables if variable not in first)]
    loops: list[Node] = []
    for position, variable in enumerate(order):
        if position == 0 and first:
            loops.append(Spatial(rank_variable=variable, tile_shape=1, name="core", component=_FANOUT))
        else:
            loops.append(Temporal(rank_variable=variable, tile_shape=1))
    return Nested(nodes=(*loops, Compute(einsum=einsum.name, component=_UNIT)))
