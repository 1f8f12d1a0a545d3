"""Building programs: from a cascade and a schedule to what runs on a device, verified once in a child process.

A companion program shows what a fused one never writes: it has every tensor in main memory, one Einsum after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyopencl as cl
from constantdict import constantdict

from ...cascades.cascade import Cascade
from ...cascades.constants import by_constants
from ...cascades.names import chosen_names
from ...cascades.reading.reader import cascade as cascade_of
from ...codegen.executable import Executable
from ...codegen.generation import check_types, executable
from ...errors import DeviceError, LoweringError, ScheduleError
from ...formats.mapping import Compute, Nested, Node, Sequential, Spatial, Storage, Temporal
from ...formats.mapping import Mapping as LoopTree
from ...formats.opencl import FanoutKind, MemoryKind, OpenCL
from ...formats.workload import WorkloadEinsum
from ...lowering import lower
from ...mappings.components import fitted
from ...mappings.default_mapping import default_space, default_spec
from ...mappings.forms.suited import suited
from ...progress import Hook, Stage
from ...schedule.schedule import Schedule
from ...schedule.steps.explicate import Explicate
from ..catalogue import target
from ..checking.example import Example, example
from ..checking.room import NoRoomError, check_room
from ..runtime.isolation import TIMEOUT, RunResult, run_isolated
from ..timing.outcome import KernelError, Outcome
from .origin import Origin
from .program import Program

if TYPE_CHECKING:
    from loopy import TranslationUnit

    from ...formats.spec import Spec
    from ...schedule.function import FunctionName
    from ...schedule.target import Target


_MEMORY, _FANOUT, _UNIT = "MainMemory", "Core", "MAC"
_BY_SCHEDULE = Origin()
NO_SHAPES: Mapping[str, tuple[int, ...]] = constantdict()


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
    return spec.replace(arch=None, opencl=opencl, mapping=LoopTree(nodes))


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


@dataclass(eq=False)
class Recipe:
    """How a program is made: a cascade and a schedule for a device. What follows from these is made when it is first asked for."""

    cascade: Cascade
    schedule: Schedule
    device: cl.Device
    spec: Spec | None = None
    """The workload with its mapping, if the schedule comes from one."""
    timeout_s: float = TIMEOUT
    reference_bytes: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = NO_SHAPES
    """Tensor -> the shape of the caller's array, of those that are another one in the cascade since axes were joined."""

    @property
    def function(self) -> FunctionName | None:
        """What the Python function is called that made the kernel, if one did and no schedule."""
        return None

    @cached_property
    def kernel(self) -> TranslationUnit:
        """The loopy kernel after the schedule."""
        return self.schedule.apply(self.cascade.kernel(), target=target(self.device))

    @cached_property
    def executable(self) -> Executable:
        """OpenCL C, with arguments that are called by their tensors' names."""
        arrays = chosen_names(self.cascade).arrays
        outputs = [arrays[tensor] for tensor in self.cascade.outputs]
        generated = executable(self.kernel, outputs=outputs, target=target(self.device))
        return generated.renamed({array: tensor for tensor, array in arrays.items()}).shaped(self.shapes)

    @cached_property
    def example(self) -> Example:
        """Inputs and the results that are right; raises :class:`~feinsum_fuse.device.checking.room.NoRoomError`."""
        found = example(self.cascade, budget=check_room(self.cascade, self.device, budget=self.reference_bytes))
        return found.shaped(self.shapes) if self.shapes else found

    @cached_property
    def first_run(self) -> RunResult:
        """How it runs in a child process."""
        judge = partial(self.example.judged, tolerance=self.cascade.tolerance())
        return run_isolated(self.executable, self.example.inputs, self.device, timeout_s=self.timeout_s, judge=judge)

    @cached_property
    def companion(self) -> Program:
        """The same cascade with every tensor in main memory."""
        if self.spec is None:
            raise DeviceError("tiles inside this kernel cannot be seen: it was not made from a Spec")
        schedule = unfused_schedule(self.spec, target(self.device))
        return build(self.cascade, schedule, self.device, spec=self.spec, shapes=self.shapes)

    def apart(self, constants: Collection[str]) -> tuple[Program, Program] | None:
        """The Einsums that depend on these inputs alone and run inside kernels with others, and the rest, each by its default mapping.

        ``None`` where whole kernels compute all that depends on the inputs alone.
        """
        passed = {argument.name for argument in self.executable.arguments}
        cut = by_constants(self.cascade, constants)
        if cut is None or {einsum.output.tensor for einsum in cut[0].einsums} <= passed:
            return None
        made = []
        for part in cut:
            spec, schedule = lowered(default_space(part, target=target(self.device)), self.device)
            built = build(cascade_of(spec), schedule, self.device, spec=spec, timeout_s=self.timeout_s, shapes=self.shapes)
            made.append(built)
        return made[0], made[1]


def lowered(spec: Spec, device: cl.Device, progress: Hook | None = None) -> tuple[Spec, Schedule]:
    """A Spec and the schedule that its mapping asks for.

    Without a mapping the Spec returned has the cascade's default mapping for the device, on the architecture that goes with it; where no
    default mapping can be lowered, it is the one given, with the plainest schedule.
    """
    found = target(device)
    if spec.mapping is not None:
        return spec, lower(spec, target=found, progress=progress)
    try:
        mapped = default_spec(suited(cascade_of(spec), found), opencl=spec.opencl, target=fitted(found, spec), progress=progress)
        return mapped, lower(mapped, target=found, progress=progress)
    except LoweringError:
        return spec, PLAIN


def build(
    cascade: Cascade,
    schedule: Schedule,
    device: cl.Device,
    *,
    spec: Spec | None = None,
    timeout_s: float = TIMEOUT,
    reference_bytes: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] = NO_SHAPES,
    progress: Hook | None = None,
    origin: Origin = _BY_SCHEDULE,
) -> Program:
    """The cascade by a schedule on a device, built and verified once in a child process.

    ``reference_bytes``: memory for the reference that it is verified against, which is computed in parts where it does not fit; by default
    half of what is free. ``shapes``: those of the caller's arrays, of tensors whose axes were joined.

    Raises :class:`~feinsum_fuse.errors.Error` for what cannot be generated, and
    :class:`~feinsum_fuse.device.timing.outcome.KernelError`, which carries the :class:`~feinsum_fuse.device.timing.outcome.Outcome`, for a
    kernel that fails or computes something else within ``timeout_s`` seconds.
    """
    return finished(Recipe(cascade, schedule, device, spec, timeout_s, reference_bytes, shapes), origin, progress)


def finished(recipe: Recipe, origin: Origin, progress: Hook | None = None) -> Program:
    """The program of a recipe, built and verified once in a child process; raises as :func:`build`."""
    with Stage("generating OpenCL C", progress):
        generated = recipe.executable
    check_types(generated.arguments, recipe.device)
    with Stage("computing the reference", progress):
        try:
            _ = recipe.example
        except NoRoomError as error:
            raise KernelError(Outcome.launch_failed, "allocate", str(error), generated) from error
    with Stage("building and verifying in a child process", progress):
        result = recipe.first_run
    if result.outcome is not Outcome.ok:
        raise KernelError(result.outcome, result.stage, result.message, generated)
    return Program(generated, recipe.device, origin, lambda: recipe)
