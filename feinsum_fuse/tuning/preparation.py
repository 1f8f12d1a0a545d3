"""From a candidate to what a device can run, and what the model says of it: work for any process, since it touches no device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..cascades.names import chosen_names
from ..cascades.reading.reader import cascade as cascade_of
from ..codegen.executable import Executable
from ..codegen.generation import executable
from ..errors import Error, LoweringError, MappingError, ModelError, ScheduleError
from ..formats.spec import Spec
from ..lowering.lowering import lower
from ..lowering.starting_point import unscheduled
from ..model.kernel.kernel_time import nest_time
from ..model.kernel.machine import Machine
from ..schedule.schedule import Schedule
from ..schedule.target import Target


@dataclass(frozen=True)
class Prepared:
    """A schedule and its program."""

    schedule: Schedule
    executable: Executable
    """Its arguments are called by their tensors' names."""


@dataclass(frozen=True)
class Refused:
    """Why there is no program."""

    reason: str


def prepare(spec: Spec, target: Target, schedule: Schedule | None = None) -> Prepared | Refused:
    """The OpenCL C of a Spec's mapping, or of a schedule for its cascade."""
    try:
        cascade = cascade_of(spec)
        found = schedule or lower(spec, target=target)
        kernel = found.apply(cascade.kernel(), target=target)
        arrays = chosen_names(cascade).arrays
        made = executable(kernel, outputs=[arrays[tensor] for tensor in cascade.outputs], target=target)
    except Error as error:
        return Refused(error.message)
    return Prepared(found, made.renamed({array: tensor for tensor, array in arrays.items()}))


def predict_seconds(spec: Spec, target: Target) -> float | None:
    """Seconds of one instance of the Spec's workload by the kernel model; ``None`` for a mapping that cannot be lowered or modelled."""
    machine = Machine.of(spec)
    if machine is None:
        return None
    try:
        return nest_time(lower(spec, target=target).nest(unscheduled(spec).kernel), machine).seconds
    except (LoweringError, ScheduleError, MappingError, ModelError):
        return None


def predict_all(specs: Sequence[Spec], target: Target) -> list[float | None]:
    """The same for several."""
    return [predict_seconds(spec, target) for spec in specs]
