"""Programs: what a cascade and a schedule become on a device, verified once in a child process, and callable with arrays.

A companion program shows what a fused one never writes: it has every tensor in main memory, one Einsum after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyopencl as cl
from constantdict import constantdict

from ...cascades.cascade import Cascade
from ...cascades.names import chosen_names
from ...cascades.reading.reader import cascade as cascade_of
from ...codegen.executable import Executable
from ...codegen.generation import executable
from ...codegen.half import check_types
from ...errors import DeviceError, LoweringError, ScheduleError
from ...formats.mapping import Compute, Nested, Node, Sequential, Spatial, Storage, Temporal
from ...formats.mapping import Mapping as LoopTree
from ...formats.opencl import FanoutKind, MemoryKind, OpenCL
from ...formats.workload import WorkloadEinsum
from ...lowering import lower
from ...mappings.components import fitted
from ...mappings.default_mapping import default_spec
from ...mappings.suited import suited
from ...progress import Hook, Stage
from ...schedule.schedule import Schedule
from ...schedule.steps.explicate import Explicate
from ..catalogue import target
from ..checking.example import Example, example
from ..checking.room import NoRoomError, check_room
from ..runtime.isolation import TIMEOUT, RunResult, run_isolated
from ..timing.outcome import KernelError, Outcome
from .export import export
from .runner import Array, Runner

if TYPE_CHECKING:
    from loopy import TranslationUnit

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


@dataclass(frozen=True, eq=False)
class Program:
    """A cascade that runs on a device, by a schedule; its first run was verified on ``example``.

    The executable's arguments are called by their tensors' names.

    Calling it with the input tensors returns the tensors that no Einsum consumes, as a dict. NumPy arrays give NumPy arrays; if any
    argument is a pyopencl array, results are pyopencl arrays on its queue. Shapes and element types must be those of the cascade.
    """

    cascade: Cascade
    schedule: Schedule
    kernel: TranslationUnit
    executable: Executable
    device: cl.Device
    example: Example = field(repr=False)
    first_run: RunResult = field(repr=False)
    spec: Spec | None = field(default=None, repr=False)

    @property
    def source(self) -> str:
        """The OpenCL C text."""
        return self.executable.source

    def export(self, folder: str | Path, name: str = "program") -> tuple[Path, ...]:
        """Write files that run the program without this package; see :func:`.export.export`."""
        return export(self.executable, Path(folder), name)

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Input tensor -> shape."""
        return {tensor: self.cascade.fixed_shape(tensor) for tensor in self.cascade.inputs}

    @property
    def output_shapes(self) -> dict[str, tuple[int, ...]]:
        """Output tensor -> shape."""
        return {tensor: self.cascade.fixed_shape(tensor) for tensor in self.cascade.outputs}

    @cached_property
    def runner(self) -> Runner:
        """The executable with its checks; built in this process on the first call."""
        return Runner(self.executable, self.device)

    def __call__(
        self,
        arrays: Mapping[str, Array] | None = None,
        /,
        *,
        out: Mapping[str, Array] | None = None,
        outputs: Collection[str] = (),
        **named: Array,
    ) -> dict[str, Array]:
        """Run once: ``program(A=a, B=b)``, or ``program({"A": a, "B": b})`` for tensors whose names are no keywords.

        ``out`` gives memory for results; ``outputs`` names further tensors to return. Those that the schedule keeps in tiles inside the
        kernel are computed by a second, unfused program, which is compiled when they are first asked for. Raises
        :class:`~feinsum_fuse.errors.DeviceError` that names the tensor for arguments that do not fit.
        """
        given = {**(arrays or {}), **named}
        passed = {argument.name for argument in self.executable.arguments}
        hidden = [tensor for tensor in outputs if tensor in self.cascade.intermediates and tensor not in passed]
        results = self.runner(given, out, [tensor for tensor in outputs if tensor not in hidden])
        if hidden:
            shown = self.companion.runner(given, None, hidden)
            results |= {tensor: shown[tensor] for tensor in hidden}
        return results

    @cached_property
    def companion(self) -> Program:
        """The same cascade with every tensor in main memory."""
        if self.spec is None:
            raise DeviceError("tiles inside this kernel cannot be seen: it was not made from a Spec")
        schedule = unfused_schedule(self.spec, target(self.device))
        return build(self.cascade, schedule, self.device, spec=self.spec)

    def __repr__(self) -> str:
        shapes = {**self.input_shapes, **self.output_shapes}
        lines = [f"Program on {self.device.name} ({self.device.platform.name.strip()}), {len(self.executable.launches)} kernels"]
        lines += [f"  {name}: {self.cascade.tensors[name].dtype}{list(shape)}" for name, shape in shapes.items()]
        return "\n".join(lines)


def lowered(spec: Spec, device: cl.Device) -> tuple[Spec, Schedule]:
    """A Spec and the schedule that its mapping asks for.

    Without a mapping the Spec returned has the cascade's default mapping for the device, on the architecture that goes with it; where no
    default mapping can be lowered, it is the one given, with the plainest schedule.
    """
    found = target(device)
    if spec.mapping is not None:
        return spec, lower(spec, target=found)
    try:
        mapped = default_spec(suited(cascade_of(spec)), opencl=spec.opencl, target=fitted(found, spec))
        return mapped, lower(mapped, target=found)
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
    progress: Hook | None = None,
) -> Program:
    """The cascade by a schedule on a device, built and verified once in a child process.

    ``reference_bytes``: memory for the reference that it is verified against, which is computed in parts where it does not fit; by default
    half of what is free.

    Raises :class:`~feinsum_fuse.errors.Error` for what cannot be generated, and
    :class:`~feinsum_fuse.device.timing.outcome.KernelError`, which carries the :class:`~feinsum_fuse.device.timing.outcome.Outcome`, for a
    kernel that fails or computes something else within ``timeout_s`` seconds.
    """
    found = target(device)
    with Stage("generating OpenCL C", progress):
        kernel = schedule.apply(cascade.kernel(), target=found)
        arrays = chosen_names(cascade).arrays
        generated = executable(kernel, outputs=[arrays[tensor] for tensor in cascade.outputs], target=found)
    generated = generated.renamed({array: tensor for tensor, array in arrays.items()})
    check_types(generated.arguments, device)
    try:
        budget = check_room(cascade, device, budget=reference_bytes)
    except NoRoomError as error:
        raise KernelError(Outcome.launch_failed, "allocate", str(error), generated) from error
    with Stage("computing the reference", progress):
        trial = example(cascade, budget=budget)
        judge = partial(trial.judged, tolerance=cascade.tolerance())
    with Stage("building and verifying in a child process", progress):
        result = run_isolated(generated, trial.inputs, device, timeout_s=timeout_s, judge=judge)
    if result.outcome is not Outcome.ok:
        raise KernelError(result.outcome, result.stage, result.message, generated)
    return Program(cascade, schedule, kernel, generated, device, trial, result, spec)
