"""The model against the device over many mappings of one workload."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from ..device.measurement import time_text
from ..device.outcome import Outcome
from ..model.prediction import columns
from .agreement import Agreement
from .trial import Trial, Trials

WORST = 10
"""How many of the largest residuals are listed with what the model thinks bounds them."""


@dataclass(frozen=True)
class Comparison:
    """Trials that were measured and predicted, how well they agree, and those that are left out."""

    trials: Trials
    judged: tuple[Trial, ...]
    left_out: tuple[Trial, ...]
    """Without a time or without a prediction."""
    agreement: Agreement | None
    """``None`` for fewer than two judged trials."""
    noise: float
    """The median over the trials of the timer's interquartile range relative to the median."""

    @classmethod
    def of(cls, trials: Trials) -> Comparison:
        """The comparison of these trials; none is dropped but by outcome or for want of a prediction."""
        judged = tuple(t for t in trials.trials if t.measurement.outcome is Outcome.ok and t.predicted is not None)
        left_out = tuple(t for t in trials.trials if t not in judged)
        noise = statistics.median(t.measurement.spread / t.measurement.median for t in judged) if judged else math.nan
        agreement = Agreement.of([_predicted(t) for t in judged], [t.measurement.median for t in judged]) if len(judged) > 1 else None
        return cls(trials, judged, left_out, agreement, noise)

    def __str__(self) -> str:
        head = ["mapping", "bound by", "measured", "spread", "predicted", "predicted / measured"]
        ordered = sorted(self.judged, key=lambda t: t.measurement.median)
        lines = [str(self.trials.device), "", columns(head, [_row(t) for t in ordered], numbers=4)]
        lines += [f"{t.label}: {t.measurement.outcome}: {t.measurement.message or t.note}" for t in self.left_out]
        if self.agreement is None:
            return "\n".join([*lines, "", "too few mappings to judge the model by"])
        spread = _span(self.judged)
        lines += ["", f"{self.agreement.count} mappings, {spread:.1f} times between the fastest and the slowest", str(self.agreement)]
        lines.append(f"noise: samples spread by {self.noise:.0%} around their median")
        worst = sorted(self.judged, key=lambda t: -abs(math.log(_predicted(t) / t.measurement.median)))[: min(WORST, len(self.judged) - 1)]
        lines += ["", "largest residuals", columns(head, [_row(t) for t in worst], numbers=4)]
        return "\n".join(lines)


def _predicted(trial: Trial) -> float:
    assert trial.predicted is not None
    return trial.predicted.predicted_time


def _span(judged: tuple[Trial, ...]) -> float:
    times = [t.measurement.median for t in judged]
    return max(times) / min(times)


def _row(trial: Trial) -> list[str]:
    found, predicted = trial.measurement, _predicted(trial)
    assert trial.predicted is not None
    bounds = ", ".join(dict.fromkeys(trial.predicted.prediction.bottleneck.values()))
    ratio = f"{predicted / found.median:.2f}"
    return [trial.label, bounds, time_text(found.median), time_text(found.spread), time_text(predicted), ratio]
