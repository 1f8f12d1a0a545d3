"""Measuring: verified programs timed together, and failures as results.

A measurement says how much of the processors other processes used meanwhile; for times that are to be cold the caches are emptied before
each sample.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyopencl as cl

from ...arguments import HOOK, SECONDS, expect
from ...cascades.reading.reader import cascade as cascade_of
from ...codegen.executable import Argument, Executable, Launch
from ...errors import DeviceError, LoweringError, MappingError, ScheduleError, UnsupportedTypeError
from ...progress import Hook, Stage
from ..calibration.caches import caches
from ..catalogue import DeviceInfo, find_device
from ..program.building import build, lowered
from ..program.program import Program
from ..runtime.host_processor import host_processor, processor_name
from ..runtime.isolation import TIMEOUT
from ..runtime.loaded_executable import Loaded, queue_of
from .machine_share import CoreWatch, Interference
from .measurement import Measurement, Provenance, Subject
from .outcome import KernelError, Outcome
from .resident import Resident
from .timing import CacheState, Samples, time_together

if TYPE_CHECKING:
    from ...formats.spec import Spec


TIMES_THE_CACHE = 3
MEMORY_PART, MOST_EVICTED = 32, 1 << 30
"""Of a GPU's memory that a cold run is preceded by at least, up to so many bytes: OpenCL tells of a part of its caches (4.3 of 50 MB of an
H100), which are a hundredth of its memory or less."""
_SOURCE = """
__kernel void evict(__global float4 *x)
{
    for (size_t i = get_global_id(0); i < ELEMENTS; i += get_global_size(0))
        x[i] += 1.0f;
}
"""


def evicted_bytes(device: cl.Device) -> int:
    """As many bytes as leave none of a program's in the device's caches: three times what the largest holds, by a device that says so."""
    told = TIMES_THE_CACHE * max([1 << 20, *[cache.size for cache in caches(device)]])
    if device.type & cl.device_type.CPU:
        return told
    return max(told, min(int(device.global_mem_size) // MEMORY_PART, int(device.max_mem_alloc_size), MOST_EVICTED))


class Eviction:
    """Calling it reads and writes so much memory on all compute units that a device's caches hold nothing else."""

    def __init__(self, device: cl.Device) -> None:
        self._queue = queue_of(device)
        elements = evicted_bytes(device) // 16
        items = 64 * 4 * int(device.max_compute_units)
        argument = Argument("x", "float32", (elements, 4), "temporary")
        launch = Launch("evict", (items,), (64,), ("x",))
        self._loaded = Loaded(Executable(_SOURCE, (f"-DELEMENTS={elements}",), (argument,), (launch,)), self._queue.context)
        self._buffer = self._loaded.buffer("x")
        cl.enqueue_fill_buffer(self._queue, self._buffer, np.float32(0), 0, argument.nbytes)
        self._loaded.bind({"x": self._buffer})

    def __call__(self) -> None:
        self._loaded.enqueue(self._queue)
        self._queue.finish()


@dataclass(frozen=True)
class HostFunction:
    """Something that runs in this process without OpenCL, to be timed beside programs: NumPy, for example."""

    label: str
    function: Callable[[], object] = field(compare=False)
    lingers: ClassVar[bool] = True
    """The threads of NumPy's and PyTorch's libraries stay busy for a while after a call."""

    def run(self, times: int) -> Sequence[float]:
        """Call it this many times; there is no device clock."""
        for _ in range(times):
            self.function()
        return ()


class BoundProgram:
    """A program with device buffers of its own that hold its example, ready to be run again and again.

    Raises :class:`~feinsum_fuse.device.timing.outcome.KernelError` if this process cannot load what a child could: for lack of memory, say.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        queue = queue_of(program.device)
        try:
            self.resident = Resident(Loaded(program.executable, queue.context), queue, program.example.inputs)
            self.run(1)
        except cl.Error as error:
            raise KernelError(Outcome.launch_failed, "load", str(error), program.executable) from error

    def run(self, times: int) -> Sequence[float]:
        """Run and wait; the device's own ns for each run, summed over its launches."""
        return self.resident.run(times)

    def outputs(self) -> dict[str, np.ndarray]:
        """What the last run wrote."""
        return self.resident.outputs()


def measure(
    what: Spec | Program,
    *,
    repeats: int | None = None,
    device: cl.Device | str | None = None,
    cold: bool = False,
    label: str = "",
    timeout_s: float = TIMEOUT,
    reference_bytes: int | None = None,
    progress: Hook | None = None,
) -> Measurement:
    """Time a program, or compile a Spec and time it; see :func:`measure_together`."""
    (found,) = measure_together(
        [what],
        repeats=repeats,
        device=device,
        cold=cold,
        labels=[label],
        timeout_s=timeout_s,
        reference_bytes=reference_bytes,
        progress=progress,
    )
    return found


def measure_together(
    items: Sequence[Spec | Program | HostFunction],
    *,
    repeats: int | None = None,
    device: cl.Device | str | None = None,
    cold: bool = False,
    labels: Sequence[str] = (),
    timeout_s: float = TIMEOUT,
    reference_bytes: int | None = None,
    progress: Hook | None = None,
) -> tuple[Measurement, ...]:
    """Times of several programs, taken in turns in this process; one measurement for each item, in order.

    Every program was verified in a child process before, and its outputs are compared once more after the last sample. A kernel that fails
    and a mapping that cannot be lowered are no errors here: they end as measurements with that outcome. ``cold`` empties the caches before
    each sample. ``reference_bytes``: memory for the reference, as for ``ff.compile``. ``progress`` is told of stages. Raises
    :class:`~feinsum_fuse.errors.DeviceError` for a device that does not exist and for times too short to be measured cold.
    """
    expect(timeout_s, SECONDS, "timeout_s", DeviceError)
    expect(progress, HOOK, "progress", DeviceError)
    if device is None:
        device = next((item.device for item in items if isinstance(item, Program)), None)
    chosen = device if isinstance(device, cl.Device) else find_device(device)
    attempts = []
    with Stage("lowering, building and verifying", progress, len(items)) as preparing:
        for item in items:
            attempts.append(_attempt(item, chosen, timeout_s, reference_bytes))
            preparing.advance()
    timed = [attempt for attempt in attempts if not isinstance(attempt, Measurement)]
    evict = Eviction(chosen) if cold and timed else None
    watch = Interference()
    with Stage("measuring in turns", progress, repeats) as sampling, CoreWatch(chosen if timed else None) as cores:

        def after_round() -> None:
            sampling.advance()
            cores.look()

        samples = iter(time_together(timed, repeats=repeats, evict=evict, after_round=after_round) if timed else ())
    others = watch.share()
    names = [*labels, *[""] * (len(items) - len(labels))]
    results = []
    for attempt, label in zip(attempts, names, strict=True):
        found = attempt if isinstance(attempt, Measurement) else _judged(attempt, next(samples))
        text = label or (attempt.label if isinstance(attempt, HostFunction) else "")
        state: CacheState = "cold" if cold else "warm"
        if found.samples_ns:
            origin = dataclasses.replace(found.provenance, cores=cores.given if isinstance(attempt, BoundProgram) else None)
            found = dataclasses.replace(found, interference=others, provenance=origin)
        results.append(dataclasses.replace(found, label=text, cache_state=state))
    return tuple(results)


def _attempt(
    item: Spec | Program | HostFunction, device: cl.Device, timeout_s: float, reference_bytes: int | None
) -> BoundProgram | HostFunction | Measurement:
    """What can be timed, or the measurement that says why nothing can."""
    if isinstance(item, HostFunction):
        return item
    if isinstance(item, Program):
        device, subject = item.device, _subject(item)
    else:
        subject = Subject(cascade_of(item), None, item)
    info = DeviceInfo.of(device)
    try:
        if isinstance(item, Program):
            return BoundProgram(item)
        mapped, schedule = lowered(item, device)
        subject = Subject(cascade_of(mapped), schedule, mapped)
        program = build(subject.cascade, schedule, device, spec=mapped, timeout_s=timeout_s, reference_bytes=reference_bytes)
        return BoundProgram(program)
    except KernelError as error:
        failed = error.executable
        origin = Provenance.now(info, failed.source_hash, failed.options)
        return Measurement(error.outcome, error.stage, error.reason, origin, arguments=failed.arguments, subject=subject)
    except (ScheduleError, LoweringError, MappingError, UnsupportedTypeError) as error:
        return Measurement(Outcome.rejected, "lower", str(error), Provenance.now(info), subject=subject)


def _judged(attempt: BoundProgram | HostFunction, samples: Samples) -> Measurement:
    """The measurement of what was timed, its outputs compared with the reference once more."""
    if isinstance(attempt, HostFunction):
        origin = Provenance.now(_host())
        return Measurement(
            Outcome.ok, "done", "", origin, samples_ns=samples.host_ns, event_ns=samples.event_ns, runs_per_sample=samples.runs
        )
    program = attempt.program
    trial = program.example
    check = trial.judged(attempt.outputs(), program.cascade.tolerance())
    worst = max(check.tensors, key=lambda tensor: tensor.error / max(tensor.tolerance, 1e-300), default=None)
    return Measurement(
        outcome=Outcome.ok if check.passed else Outcome.wrong_result,
        stage="done" if check.passed else "verify",
        message="" if check.passed else f"after timing, {check}",
        provenance=Provenance.now(DeviceInfo.of(program.device), program.executable.source_hash, program.executable.options),
        samples_ns=samples.host_ns if check.passed else (),
        event_ns=samples.event_ns if check.passed else (),
        runs_per_sample=samples.runs,
        error=worst.error if worst else None,
        tolerance=worst.tolerance if worst else None,
        arguments=program.executable.arguments,
        subject=_subject(program),
    )


def _subject(program: Program) -> Subject:
    function = program.function
    return Subject(program.cascade, program.schedule if function is None else None, program.spec, function)


def _host() -> DeviceInfo:
    """This processor, described as a device whose platform is NumPy."""
    import os

    units = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    name = processor_name() or platform.machine()
    version = platform.python_version()
    return DeviceInfo("NumPy", name, 0, platform.machine(), np.__version__, version, "cpu", units, 0, 0, 0, host_processor())
