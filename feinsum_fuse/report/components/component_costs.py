"""What compute, memory, copies, cores and starting a kernel cost: measured beside predicted, component by component."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...arguments import COUNT, HOOK, NOTHING, expect
from ...cascades.names import chosen_names
from ...cascades.reading.reader import cascade as cascade_of
from ...codegen.generation import executable
from ...device.catalogue import find_device, target
from ...device.checking.example import example
from ...device.runtime.isolation import run_isolated
from ...device.runtime.loaded_executable import Loaded, queue_of
from ...device.timing.machine_share import CoreWatch
from ...device.timing.measurement import fewer_cores
from ...device.timing.outcome import Outcome
from ...device.timing.resident import Resident
from ...device.timing.timing import time_together
from ...errors import Error, ModelError, SpecWarning
from ...formats.spec import Spec, expect_spec
from ...lowering.lowering import lower
from ...lowering.starting_point import unscheduled
from ...model.kernel.interval import interval
from ...model.kernel.kernel_time import nest_time
from ...model.kernel.machine import Machine
from ...presentation import table
from ...progress import Hook, Stage
from ...schedule.kernel.writing import written
from ...schedule.tree.nest import Nest
from .reduced_kernels import TOGETHER, variants

if TYPE_CHECKING:
    import pyopencl as cl

    from ...cascades.cascade import Cascade
    from ...codegen.executable import Executable
    from ...device.checking.example import Example

WHOLE = "nothing"
_HEAD = ("without", "measured/s", "predicted/s", "ratio", "costs, measured/s", "costs, predicted/s")
HALF = 0.05
"""A component whose cost is less than this part of the kernel's time, measured and predicted, is none that matters."""
APART = 1.5
"""Two costs that differ by more than this factor part."""


@dataclass(frozen=True)
class Without:
    """A kernel with something taken away, in seconds."""

    what: str
    measured: float
    predicted: float


@dataclass(frozen=True, repr=False)
class KernelComponents:
    """One kernel, whole and with one thing after another taken away; it prints itself."""

    whole: Without
    parts: tuple[Without, ...]
    expected: tuple[float, float]
    """The ends of the interval that holds 8 in 10 ratios of measured to predicted time."""
    left_out: Mapping[str, str]
    """What could not be taken away, and why."""
    missing_cores: str = ""
    """That the machine gave fewer cores than the device has while the kernels were timed; empty if it did not."""

    def costs(self, part: Without) -> tuple[float, float]:
        """How much longer the whole kernel takes, measured and predicted; less than 0 where it is faster."""
        return self.whole.measured - part.measured, self.whole.predicted - part.predicted

    @property
    def apart(self) -> tuple[str, ...]:
        """What measurement and model disagree about: its cost matters in one of them, and is another one in the other."""
        found = []
        for part in self.parts:
            measured, predicted = map(abs, self.costs(part))
            matters = measured > HALF * self.whole.measured or predicted > HALF * self.whole.predicted
            if matters and max(measured, predicted) > APART * min(measured, predicted):
                found.append(part.what)
        return tuple(found)

    def to_json(self) -> dict[str, object]:
        """Plain data, in seconds."""
        rows = [{"without": p.what, "measured": p.measured, "predicted": p.predicted} for p in (self.whole, *self.parts)]
        return {"kernels": rows, "apart": list(self.apart), "expected_ratio": list(self.expected), "left_out": dict(self.left_out)}

    def __repr__(self) -> str:
        rows = [self._row(self.whole), *(self._row(part) for part in self.parts)]
        low, high = self.expected
        ratio = self.whole.measured / self.whole.predicted
        where = "within" if low <= ratio <= high else "outside"
        lines = [table(_HEAD, rows, numbers=5), "", f"The whole takes {ratio:.2f} times its prediction, {where} {low:.2f} to {high:.2f}."]
        lines.append(f"Model and measurement part at {', '.join(self.apart)}." if self.apart else "No component is where the two part.")
        lines += [f"Not taken away: {what} ({why})." for what, why in self.left_out.items()]
        lines += [f"Mind that {self.missing_cores}."] if self.missing_cores else []
        return "\n".join(lines)

    def _row(self, part: Without) -> tuple[str, ...]:
        costs = ("", "") if part is self.whole else tuple(f"{cost:.3g}" for cost in self.costs(part))
        return part.what, f"{part.measured:.3g}", f"{part.predicted:.3g}", f"{part.measured / part.predicted:.2f}", *costs


def by_component(
    spec: Spec, device: cl.Device | str | None = None, *, repeats: int | None = None, progress: Hook | None = None
) -> KernelComponents:
    """A mapping's kernel on a device, whole and with one thing after another taken away: each measured, and predicted by the kernel model.

    Without far memory all instructions stay, and arrays are read and written within a part of the nearest cache; without copies a tile is
    filled once; on one core all groups run one after another; with one iteration a group does next to nothing. The kernels are timed in
    turns, warm. They do not compute what the whole kernel does, so that each is run in a child process first. ``repeats``: samples of
    each. ``left_out`` of the result names what is not taken away by itself. Raises :class:`ModelError` without a mapping or a measured
    architecture, :class:`~feinsum_fuse.errors.DeviceError` for a device that does not exist, and what ``ff.lower`` raises.
    """
    expect(repeats, COUNT | NOTHING, "repeats", ModelError)
    expect(progress, HOOK, "progress", ModelError)
    machine = Machine.of(expect_spec(spec))
    if machine is None or spec.mapping is None:
        lacks = "has no mapping" if spec.mapping is None else "is for an architecture that was not measured"
        raise ModelError(f"kernels are taken apart on measured processors; this Spec {lacks}", hint="Use the file of ff.calibrate().")
    found = find_device(device) if device is None or isinstance(device, str) else device
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecWarning)
        nest = lower(spec, target=target(found)).nest(unscheduled(spec).kernel)
    cascade = cascade_of(spec)
    trial = example(cascade)
    found_nests = list(variants(nest, machine.levels[0].size))
    nests = {WHOLE: nest, **{what: runs for what, runs, _ in found_nests}}
    asked = {WHOLE: nest, **{what: model for what, _, model in found_nests}}
    left_out = dict(TOGETHER)
    ready: dict[str, Executable] = {}
    with Stage("building kernels with one thing taken away", progress, len(nests)) as building:
        for what, one in nests.items():
            try:
                ready[what] = _runnable(cascade, one, found, trial)
            except (Error, RuntimeError) as error:
                left_out[what] = str(error).splitlines()[0]
            building.advance()
    if WHOLE not in ready:
        raise ModelError(f"the kernel itself does not run: {left_out[WHOLE]}")
    with CoreWatch(found) as cores:
        seconds = _timed(ready, found, trial, repeats, cores)
    fewer = fewer_cores(cores.given, machine.cores)
    rows = [Without(what, seconds[what], nest_time(asked[what], machine).seconds) for what in ready]
    return KernelComponents(rows[0], tuple(rows[1:]), interval(nest_time(nest, machine), machine), left_out, fewer)


def _runnable(cascade: Cascade, nest: Nest, device: cl.Device, trial: Example) -> Executable:
    """The program of a nest, after a first run in a child process."""
    kernel = written(cascade.kernel(), nest, target(device).quirks)
    arrays = chosen_names(cascade).arrays
    text = executable(kernel, outputs=[arrays[tensor] for tensor in cascade.outputs], target=target(device))
    program = text.renamed({array: tensor for tensor, array in arrays.items()})
    result = run_isolated(program, trial.inputs, device)
    # What it computes is not what the cascade does.
    if result.outcome not in {Outcome.ok, Outcome.wrong_result}:
        raise ModelError(f"it ends with {result.outcome.value}")
    return program


def _timed(ready: Mapping[str, Executable], device: cl.Device, trial: Example, repeats: int | None, cores: CoreWatch) -> dict[str, float]:
    queue = queue_of(device)
    inputs = {name: np.asarray(array) for name, array in trial.inputs.items()}
    subjects = [Resident(Loaded(program, queue.context), queue, inputs) for program in ready.values()]
    samples = time_together(subjects, repeats=repeats, after_round=cores.look)
    return {what: statistics.median(one.host_ns) * 1e-9 for what, one in zip(ready, samples, strict=True)}
