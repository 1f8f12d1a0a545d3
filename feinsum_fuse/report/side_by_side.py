"""Trials as one table of text: a row for each figure, a column for each mapping, NumPy last."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..device.timing.measurement import BUSY, Measurement, time_text
from ..formats.writing import presentation

if TYPE_CHECKING:
    from .trial import Trial, Trials


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
        if trial.predicted and trial.predicted.n_instances > 1:
            lines += ["", f"{trial.label}: one instance of {trial.predicted.n_instances}"]
    others = max((trial.measurement.interference or 0.0 for trial in trials.trials), default=0.0)
    if others > BUSY:
        lines += ["", f"This machine was busy: other processes had {others:.0%} of its processors."]
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
