"""Trials: mappings of one workload predicted, verified, measured in turns with NumPy, and recorded."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import pyopencl as cl

from ..archive.address import locate
from ..archive.recording import record
from ..archive.schema import tell
from ..cascade.cascade import Cascade
from ..cascade.reading import cascade as cascade_of
from ..device.catalogue import DeviceInfo
from ..device.example import example
from ..device.harness import HostFunction, measure_together
from ..device.measurement import Measurement, Provenance, Subject
from ..device.outcome import KernelError, Outcome
from ..device.program import Program
from ..device.program import compile as compile_program
from ..device.traffic import intermediate_bytes
from ..device.verification import verify
from ..errors import CascadeError, LoweringError, MappingError, ModelError, ScheduleError
from ..spec.spec import Spec
from .history import Earlier, earlier
from .operations import operations
from .peer import NumpyPeer
from .predicted import Predicted

Url = str | os.PathLike[str]


class Progress(Protocol):
    """Says what is being done while the context lasts."""

    def __call__(self, what: str) -> AbstractContextManager[None]: ...


@dataclass(frozen=True)
class Trial:
    """One mapping: what was predicted, what was measured, and where it was recorded before."""

    label: str
    spec: Spec = field(repr=False)
    measurement: Measurement = field(repr=False)
    predicted: Predicted | None
    note: str = ""
    """Why there is no prediction."""
    intermediate_bytes: int | None = None
    """Bytes of intermediates that the generated kernel reads from and writes to global memory."""
    earlier: Earlier | None = None
    fact: str = ""
    """The identifier of the record; empty if nothing was recorded."""


@dataclass(frozen=True)
class Peer:
    """NumPy on the same inputs in the same run."""

    measurement: Measurement = field(repr=False)
    error: float
    """The largest relative error against the float64 reference."""
    note: str = ""


@dataclass(frozen=True)
class Trials:
    """Mappings of one cascade side by side."""

    cascade: Cascade = field(repr=False)
    device: DeviceInfo
    trials: tuple[Trial, ...]
    peer: Peer | None
    operations: int
    """By the naive count, of one instance."""
    database: str = ""

    @property
    def failed(self) -> tuple[Trial, ...]:
        """Trials whose kernel failed or was wrong."""
        return tuple(t for t in self.trials if t.measurement.outcome not in (Outcome.ok, Outcome.rejected))

    @property
    def rejected(self) -> tuple[Trial, ...]:
        """Trials that did not get as far as a kernel."""
        return tuple(t for t in self.trials if t.measurement.outcome is Outcome.rejected)

    def __str__(self) -> str:
        from .side_by_side import side_by_side

        failures = [f"{t.label}: {t.measurement.outcome}: {t.measurement.message}" for t in (*self.failed, *self.rejected)]
        return "\n\n".join([side_by_side(self), *failures])


def run(
    specs: Mapping[str, Spec],
    device: cl.Device,
    *,
    repeats: int | None = None,
    cold: bool = False,
    url: Url | None = None,
    recording: bool = True,
    must_predict: bool = False,
    progress: Progress = lambda _: nullcontext(),
) -> Trials:
    """Compile, verify, measure in turns, predict and record mappings of one workload; ``specs``: label -> Spec.

    A mapping that cannot be lowered and a kernel that fails are results with an outcome. A mapping that the model refuses has no
    prediction, unless ``must_predict``. Raises :class:`~feinsum_fuse.errors.CascadeError` if the Specs compute different things,
    :class:`~feinsum_fuse.errors.ModelError` if ``must_predict``, and, before anything is measured, what writing to the archive raises.
    """
    cascades = {label: cascade_of(spec) for label, spec in specs.items()}
    labels = list(specs)
    first = cascades[labels[0]]
    if others := [label for label in labels if cascades[label] != first]:
        raise CascadeError(f"{others[0]} and {labels[0]} compute different cascades", hint="Run them one by one: times are compared.")
    predictions = {label: _predicted(spec, first, must_predict) for label, spec in specs.items()}
    if recording:
        tell(locate(url), lambda _: None)
    attempts: dict[str, Program | Measurement] = {}
    for label, spec in specs.items():
        with progress(f"{label}: lowering, building and verifying"):
            attempts[label] = _attempt(spec, device)
    with progress("measuring in turns with NumPy"):
        measured, peer = _measured(first, attempts, device, repeats=repeats, cold=cold)
    trials = []
    for label, attempt in attempts.items():
        predicted, note = predictions[label]
        found = measured[label]
        moved = _intermediate_bytes(attempt) if isinstance(attempt, Program) else None
        before = earlier(found, url)
        fact = record(found, predicted.prediction if predicted else None, url) if recording else ""
        trials.append(Trial(label, specs[label], found, predicted, note, moved, before, fact))
    return Trials(first, DeviceInfo.of(device), tuple(trials), peer, operations(first), str(locate(url)) if recording else "")


def _attempt(spec: Spec, device: cl.Device) -> Program | Measurement:
    """The verified program, or the measurement that says why there is none."""
    try:
        return compile_program(spec, device)
    except KernelError as error:
        outcome, stage, message = error.outcome, error.stage, error.reason
    except (ScheduleError, LoweringError, MappingError) as error:
        outcome, stage, message = Outcome.rejected, "lower", str(error)
    subject = Subject(cascade_of(spec), None, spec)
    return Measurement(outcome, stage, message, Provenance.now(DeviceInfo.of(device)), subject=subject)


def _measured(
    cascade: Cascade, attempts: Mapping[str, Program | Measurement], device: cl.Device, *, repeats: int | None, cold: bool
) -> tuple[dict[str, Measurement], Peer | None]:
    """Label -> measurement, all programs and NumPy taken in turns."""
    failures = {label: dataclasses.replace(a, label=label) for label, a in attempts.items() if isinstance(a, Measurement)}
    if len(failures) == len(attempts):
        return failures, None
    trial = example(cascade)
    numpy = NumpyPeer(cascade, trial.inputs)
    programs = {label: attempt for label, attempt in attempts.items() if isinstance(attempt, Program)}
    items: Sequence[Program | HostFunction] = [*programs.values(), HostFunction("NumPy", numpy)]
    *times, host = measure_together(items, repeats=repeats, device=device, cold=cold, labels=[*programs, "NumPy"])
    measured = dict(zip(programs, times, strict=True))
    check = verify(numpy(), trial.expected, cascade.tolerance())
    error = max((tensor.error for tensor in check.tensors), default=0.0)
    return measured | failures, Peer(host, error, numpy.note)


def _predicted(spec: Spec, cascade: Cascade, must: bool) -> tuple[Predicted | None, str]:
    """The prediction, or why there is none."""
    try:
        return Predicted.of(spec, cascade), ""
    except ModelError as error:
        if must:
            raise
        return None, str(error)


def _intermediate_bytes(program: Program) -> int | None:
    """``None`` where the count depends on data."""
    try:
        return intermediate_bytes(program.kernel, program.cascade.intermediates)
    except LoweringError:
        return None
