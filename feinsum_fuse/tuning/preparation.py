"""From a candidate to what a device can run, and what the model says of it: work for any process, since it touches no device."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..cascades.names import chosen_names
from ..codegen.executable import Executable
from ..codegen.generation import executable
from ..errors import Error, LoweringError, MappingError, ModelError, ScheduleError
from ..formats.arch import Arch
from ..formats.mapping import Mapping
from ..formats.opencl import OpenCL
from ..formats.spec import Spec
from ..formats.workload import Workload
from ..lowering.lowering import lower
from ..lowering.starting_point import unscheduled
from ..model.kernel.kernel_time import nest_time
from ..model.kernel.machine import Machine
from ..schedule.sameness import KEPT_WORKLOADS, Same
from ..schedule.schedule import Schedule
from ..schedule.target import Target
from .learning.ranked_terms import terms_of
from .learning.ranker import Ranker


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


@dataclass(frozen=True)
class Sent:
    """A Spec on its way to another process: what it shares with other candidates as bytes, which the other side reads once."""

    base: bytes
    mapping: Mapping | None

    @classmethod
    def of(cls, spec: Spec) -> Sent:
        """The Spec, whose workload and architecture are packed once for all mappings of them."""
        return cls(_packed(Same(spec.workload), Same(spec.arch), Same(spec.opencl)), spec.mapping)

    @property
    def spec(self) -> Spec:
        """The Spec; what was sent alike is one object, for which much is kept (:mod:`feinsum_fuse.lowering.starting_point`)."""
        return dataclasses.replace(_unpacked(self.base), mapping=self.mapping)


@lru_cache(KEPT_WORKLOADS)
def _packed(workload: Same[Workload], arch: Same[Arch | None], opencl: Same[OpenCL | None]) -> bytes:
    return pickle.dumps(Spec(workload.value, arch.value, opencl=opencl.value))


@lru_cache(KEPT_WORKLOADS)
def _unpacked(base: bytes) -> Spec:
    found: Spec = pickle.loads(base)
    return found


def prepare(spec: Spec, target: Target, schedule: Schedule | None = None) -> Prepared | Refused:
    """The OpenCL C of a Spec's mapping, or of a schedule for its cascade."""
    try:
        start = unscheduled(spec)
        cascade = start.cascade
        found = schedule or lower(spec, target=target)
        kernel = found.apply(start.kernel, target=target)
        arrays = chosen_names(cascade).arrays
        made = executable(kernel, outputs=[arrays[tensor] for tensor in cascade.outputs], target=target)
    except Error as error:
        return Refused(error.message)
    return Prepared(found, made.renamed({array: tensor for tensor, array in arrays.items()}))


def predict_seconds(spec: Spec, target: Target, ranker: Ranker | None = None) -> float | None:
    """Seconds of one instance of the Spec's workload by the kernel model; ``None`` for a mapping that cannot be lowered or modelled.

    ``ranker`` corrects them.
    """
    machine = Machine.of(spec)
    if machine is None:
        return None
    try:
        found = nest_time(lower(spec, target=target).nest(unscheduled(spec).kernel), machine)
    except (LoweringError, ScheduleError, MappingError, ModelError):
        return None
    return found.seconds if ranker is None else found.seconds * ranker.factor(terms_of(found, machine))


def predict_all(specs: Sequence[Spec], target: Target, ranker: Ranker | None = None) -> list[float | None]:
    """The same for several."""
    return [predict_seconds(spec, target, ranker) for spec in specs]


def prepare_sent(sent: Sent, target: Target, schedule: Schedule | None = None) -> Prepared | Refused:
    """As :func:`prepare`, in another process."""
    return prepare(sent.spec, target, schedule)


def predict_sent(sent: Sequence[Sent], target: Target, ranker: Ranker | None = None) -> list[float | None]:
    """As :func:`predict_all`, in another process."""
    return predict_all([one.spec for one in sent], target, ranker)
