"""Trials: mappings of one workload predicted, verified, measured in turns with NumPy, and recorded.

A trial knows what the archive already holds of the very thing that was measured. Trials print themselves as one table of text: a row for
each figure, a column for each mapping, NumPy last.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyopencl as cl

from .. import presentation
from ..archive.facts.recording import record
from ..archive.facts.retrieval import history
from ..archive.tables.address import Url, locate
from ..archive.tables.schema import tell
from ..cascades.cascade import Cascade
from ..cascades.reading.reader import cascade as cascade_of
from ..device.catalogue import DeviceInfo
from ..device.checking.array_traffic import intermediate_bytes
from ..device.checking.example import example
from ..device.checking.room import check_room
from ..device.timing.harness import HostFunction, measure_together
from ..device.timing.measurement import BUSY_SHARE, LEAST_CORES, Measurement, fewer_cores, time_text
from ..device.timing.outcome import Outcome
from ..errors import CascadeError, Error, LoweringError, ModelError
from ..formats.spec import Spec
from ..model.evaluation import predicted_seconds
from ..model.kernel.machine import Machine
from ..progress import Hook, Stage
from .floors import beaten_floor
from .operation_counts import operations
from .peer import NumpyPeer
from .run_prediction import Predicted, as_run, with_cores


@dataclass(frozen=True)
class Earlier:
    """Earlier measurements of the same schedule, cascade and device."""

    median: float
    """Seconds: the median of the latest."""
    count: int
    since: str
    """The date of the first."""
    latest: str
    """The date of the latest."""


def earlier(measurement: Measurement, url: str | os.PathLike[str] | None = None) -> Earlier | None:
    """What was recorded before of what this measurement measured; ``None`` for a failure and for something new."""
    if measurement.outcome is not Outcome.ok or measurement.subject is None:
        return None
    known = history(measurement, url)
    if not known:
        return None
    return Earlier(known[-1].median, len(known), known[0].provenance.date, known[-1].provenance.date)


T = TypeVar("T")


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
    trouble: tuple[str, ...] = ()
    """What failed after the measurement, which stands all the same."""

    @property
    def beaten_floor(self) -> str:
        """Why the kernel was faster than the floor; empty if it was not, or if there is none."""
        subject = self.measurement.subject
        if self.predicted is None or subject is None:
            return ""
        return beaten_floor(self.spec, subject.schedule, self.predicted, self.measurement.median)

    @property
    def missing_cores(self) -> str:
        """That the machine gave fewer cores than the prediction counts on, and what the model expects of as many; empty if it did not."""
        machine, given = Machine.of(self.spec), self.measurement.provenance.cores
        threads = self.measurement.provenance.threads
        alone, counted = (1.0, threads) if machine is None else (machine.together(1), machine.together(machine.cores))
        if given is None or not fewer_cores(given, counted / alone):
            return ""
        text = fewer_cores(given, threads) or f"the machine gave {given:.1f} of {threads} cores while this was timed"
        if self.predicted is None or machine is None or self.measurement.subject is None:
            return text
        expected = predicted_seconds(with_cores(as_run(self.spec, self.measurement.subject.cascade), max(given, LEAST_CORES)))
        return f"{text}; of so many the model expects {time_text(expected)}"

    @property
    def shortcoming(self) -> str:
        """Why the trial is no pair of a time and a prediction; empty if it is one."""
        if self.measurement.outcome is not Outcome.ok:
            return f"{self.measurement.outcome}: {self.measurement.message}"
        return f"measured, not predicted: {self.note}" if self.predicted is None else ""


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
    peer: Peer
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

    @property
    def state(self) -> str:
        """``caches warm``, or cold."""
        return "caches " + " and ".join(sorted({trial.measurement.cache_state for trial in self.trials}))

    def __str__(self) -> str:
        failures = [f"{t.label}: {t.measurement.outcome}: {t.measurement.message}" for t in (*self.failed, *self.rejected)]
        return "\n\n".join([side_by_side(self), *failures])


def run(
    specs: Mapping[str, Spec],
    device: cl.Device,
    *,
    written: Spec | None = None,
    repeats: int | None = None,
    cold: bool = False,
    url: Url | None = None,
    recording: bool = True,
    must_predict: bool = False,
    together: int | None = None,
    reference_bytes: int | None = None,
    progress: Hook | None = None,
) -> Trials:
    """Compile, verify, measure in turns, predict and record mappings of one workload; ``specs``: label -> Spec.

    ``written``: the workload that NumPy computes and whose operations are counted, if that of ``specs`` is a rewriting of it.
    A mapping that cannot be lowered and a kernel that fails are results with an outcome. A mapping that the model refuses has no
    prediction, and its trial's ``note`` says why; the others go on. ``must_predict``: the model must take one of them at least.
    ``reference_bytes``: memory for the reference, as for ``ff.compile``.
    ``together``: so many mappings are measured in turns and recorded before the next ones; default all.
    Raises :class:`~feinsum_fuse.errors.CascadeError` if the Specs compute different things,
    :class:`~feinsum_fuse.device.checking.room.NoRoomError` if their arrays do not fit the memory,
    :class:`~feinsum_fuse.errors.ModelError` for want of a prediction, and, before anything is measured, what writing to the archive raises.
    Nothing that fails after a measurement is raised: the trial keeps the measurement, and says what failed as its ``trouble``.
    """
    cascades = {label: cascade_of(spec) for label, spec in specs.items()}
    labels = list(specs)
    first = cascades[labels[0]]
    if others := [label for label in labels if cascades[label] != first]:
        raise CascadeError(f"{others[0]} and {labels[0]} compute different cascades", hint="Run them one by one: times are compared.")
    asked = first if written is None else cascade_of(written)
    check_room(first, device, budget=reference_bytes)
    budget = check_room(asked, device, budget=reference_bytes)
    predictions = {}
    with Stage("predicting", progress if len(specs) > 1 else None, len(specs)) as predicting:
        for label, spec in specs.items():
            predictions[label] = _predicted(spec, first, cold)
            predicting.advance()
    if must_predict and not any(found for found, _ in predictions.values()):
        raise ModelError(predictions[labels[0]][1])
    if recording:
        tell(locate(url), lambda _: None)
    size = together or len(specs)
    trials: list[Trial] = []
    peer: Peer | None = None
    for start in range(0, len(specs), size):
        chunk = {label: specs[label] for label in labels[start : start + size]}
        with_numpy = " with NumPy" if peer is None else ""
        what = f"lowering, building, verifying, and measuring in turns{with_numpy}{_which(start, len(chunk), len(specs))}"
        with Stage(what, progress):
            measured, peer = _measured(asked, chunk, device, peer, repeats=repeats, cold=cold, budget=budget, progress=progress)
        trials += [_trial(label, specs[label], found, *predictions[label], url, recording) for label, found in measured.items()]
    assert peer is not None
    database = str(locate(url)) if any(trial.fact for trial in trials) else ""
    return Trials(first, DeviceInfo.of(device), tuple(trials), peer, operations(asked), database)


def _trial(
    label: str, spec: Spec, measured: Measurement, predicted: Predicted | None, note: str, url: Url | None, recording: bool
) -> Trial:
    """What was measured beside what was predicted and known before, and recorded if asked for."""
    after = _After([])
    before = after.kept("not compared with what was recorded before", partial(earlier, measured, url))
    prediction = predicted.prediction if predicted else None
    fact = (after.kept("not recorded", partial(record, measured, prediction, url)) or "") if recording else ""
    moved = after.kept("its traffic was not counted", partial(_intermediate_bytes, measured))
    return Trial(label, spec, measured, predicted, note, moved, before, fact, tuple(after.trouble))


@dataclass(frozen=True)
class _After:
    """What is done with a measurement; whatever fails there is told, and costs no measurement."""

    trouble: list[str]

    def kept(self, what: str, action: Callable[[], T]) -> T | None:
        """The action's result, or ``None`` if it failed."""
        try:
            return action()
        except Error as error:
            self.trouble.append(f"measured, but {what}: {error}")
        except Exception as error:
            self.trouble.append(f"measured, but {what}: {type(error).__name__}: {error} (a mistake of feinsum_fuse)")
        return None


def _which(start: int, count: int, total: int) -> str:
    return "" if count == total else f", {start + 1} to {start + count} of {total}"


def _measured(
    cascade: Cascade,
    specs: Mapping[str, Spec],
    device: cl.Device,
    peer: Peer | None,
    *,
    repeats: int | None,
    cold: bool,
    budget: int,
    progress: Hook | None,
) -> tuple[dict[str, Measurement], Peer]:
    """Label -> measurement, all programs taken in turns, and NumPy among them if it was not measured before.

    ``budget``: bytes of the reference.
    """
    in_turns = partial(measure_together, repeats=repeats, device=device, cold=cold, reference_bytes=budget, progress=progress)
    if peer is not None:
        times = in_turns(list(specs.values()), labels=list(specs))
        return dict(zip(specs, times, strict=True)), peer
    trial = example(cascade, budget=budget)
    numpy = NumpyPeer(cascade, trial.inputs)
    items: Sequence[Spec | HostFunction] = [*specs.values(), HostFunction("NumPy", numpy)]
    *found, host = in_turns(items, labels=[*specs, "NumPy"])
    check = trial.judged(numpy(), cascade.tolerance())
    error = max((tensor.error for tensor in check.tensors), default=0.0)
    note = numpy.note if check.passed else "its result differs from the reference by more than rounding explains"
    return dict(zip(specs, found, strict=True)), Peer(host, error, note)


def _interval(predicted: Predicted | None) -> str:
    """The times between which 8 in 10 kernels of a prediction's kind were; ``-`` where no kernel model said so."""
    low, high = predicted.interval if predicted else (0.0, 0.0)
    return f"{time_text(low)} to {time_text(high)}" if high else "-"


def _predicted(spec: Spec, cascade: Cascade, cold: bool) -> tuple[Predicted | None, str]:
    """The prediction, or why there is none."""
    try:
        return Predicted.of(spec, cascade, cold=cold), ""
    except ModelError as error:
        return None, str(error)


def _intermediate_bytes(measurement: Measurement) -> int | None:
    """``None`` where there was no kernel, and where the count depends on data."""
    subject = measurement.subject
    if subject is None or subject.schedule is None or measurement.outcome is Outcome.rejected:
        return None
    try:
        return intermediate_bytes(subject.schedule.apply(subject.cascade.kernel()), subject.cascade.intermediates)
    except LoweringError:
        return None


def side_by_side(trials: Trials) -> str:
    """The table, what went wrong, and where the records are."""
    lines = [f"{trials.device}, {trials.state}", ""]
    rows = [[name, *cells] for name, cells in table(trials)]
    lines.append(presentation.table(["", *header(trials)], rows, numbers=len(header(trials))))
    lines += remarks(trials)
    return "\n".join(lines)


def header(trials: Trials) -> list[str]:
    """The names of the columns."""
    return [*(trial.label for trial in trials.trials), "NumPy"]


def table(trials: Trials) -> list[tuple[str, list[str]]]:
    """The rows: a name, and a cell for each column."""
    ours, peer = trials.trials, trials.peer
    host = peer.measurement

    def row(name: str, cells: list[str], numpy: str = "") -> tuple[str, list[str]]:
        return name, [*cells, numpy]

    def measured(figure: str) -> tuple[list[str], str]:
        return [_time(t.measurement, figure) for t in ours], _time(host, figure)

    rows = [
        row("outcome", [str(t.measurement.outcome) for t in ours], str(host.outcome)),
        row("largest relative error", [_error(t.measurement.error) for t in ours], _error(peer.error)),
        row("measured time, median", *measured("median")),
        row("  spread (interquartile range)", *measured("spread")),
        row("GFLOP/s", [_rate(trials.operations, t.measurement) for t in ours], _rate(trials.operations, host)),
        row("intermediates through main memory", [_bytes(t.intermediate_bytes) for t in ours]),
        row("  predicted", [_bytes(t.predicted.predicted_intermediate_bytes if t.predicted else None) for t in ours]),
        row("predicted time", [time_text(t.predicted.predicted_time) if t.predicted else "-" for t in ours]),
        row("  8 in 10 like it", [_interval(t.predicted) for t in ours]),
        row("  roofline floor", [time_text(t.predicted.predicted_floor) if t.predicted else "-" for t in ours]),
        row("  measured / floor", [_ratio(t.measurement.median, t.predicted.predicted_floor if t.predicted else math.nan) for t in ours]),
        row("predicted / measured", [_ratio(t.predicted.predicted_time if t.predicted else math.nan, t.measurement.median) for t in ours]),
    ]
    if any(t.earlier for t in ours):
        rows.append(row("recorded before, median", [time_text(t.earlier.median) if t.earlier else "-" for t in ours]))
        rows.append(row("  measured / recorded", [_ratio(t.measurement.median, t.earlier.median if t.earlier else math.nan) for t in ours]))
    return rows


def remarks(trials: Trials) -> list[str]:
    """What a reader must know beside the figures."""
    lines: list[str] = []
    for trial in trials.trials:
        if trial.note:
            lines += ["", f"{trial.label}: no prediction: {trial.note}"]
        if trial.predicted and trial.predicted.reservation:
            lines += ["", f"{trial.label}: {trial.predicted.reservation}"]
        if trial.predicted and trial.predicted.n_instances > 1:
            lines += ["", f"{trial.label}: one instance of {trial.predicted.n_instances}"]
        if trial.beaten_floor:
            lines += ["", f"{trial.label}: {trial.beaten_floor}"]
    others = max((trial.measurement.interference or 0.0 for trial in trials.trials), default=0.0)
    if others > BUSY_SHARE:
        lines += ["", f"This machine was busy: other processes had {others:.0%} of its processors."]
    lines += [line for trial in trials.trials for line in ("", f"{trial.label}: {trial.missing_cores}") if trial.missing_cores]
    if trials.peer.note:
        lines += ["", f"NumPy: {trials.peer.note}"]
    if trials.database:
        lines += ["", f"recorded in {trials.database}{_history(trials.trials)}"]
    return lines


def _history(trials: tuple[Trial, ...]) -> str:
    known = [trial.earlier for trial in trials if trial.earlier]
    if not known:
        return ""
    count = sum(one.count for one in known)
    return f", beside {count} earlier measurement{'s' if count > 1 else ''} of these kernels since {min(one.since for one in known)}"


def _time(measurement: Measurement, figure: str) -> str:
    seconds = getattr(measurement, figure)
    return "-" if math.isnan(seconds) else time_text(seconds)


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def _rate(operations: int, measurement: Measurement) -> str:
    seconds = measurement.median
    return "-" if math.isnan(seconds) else f"{operations / seconds / 1e9:.4g}"


def _ratio(value: float, base: float) -> str:
    return "-" if math.isnan(value) or math.isnan(base) or not base else f"{value / base:.2f}"


def _bytes(count: float | None) -> str:
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"
