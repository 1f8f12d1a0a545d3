"""The model against the device over many mappings of one workload."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..device.timing.measurement import BUSY_SHARE, Measurement, time_text
from ..device.timing.outcome import Outcome
from ..presentation import InNotebooks, table
from .agreement import Agreement
from .run_prediction import Predicted
from .trial import Trial, Trials

WORST = 10
"""How many of the largest residuals are listed with what the model thinks bounds them."""
SHOWN = 0.05
"""The share of a time from which on what it goes into is named."""
HEAD = ["mapping", "bound by", "measured", "spread", "predicted", "predicted / measured", "floor", "measured / floor"]


@dataclass(frozen=True)
class Judged:
    """A mapping that was both predicted and measured."""

    label: str
    measurement: Measurement
    predicted: Predicted
    tree: str
    """The mapping, as a tree."""
    fact: str = ""
    """The identifier of the record; empty if nothing was recorded."""

    @property
    def measured(self) -> float:
        """Seconds: the median."""
        return self.measurement.median

    @property
    def ratio(self) -> float:
        """Predicted over measured time."""
        return self.predicted.predicted_time / self.measured

    @property
    def residual(self) -> float:
        """How far off the prediction is, up or down: the magnitude of the ratio's logarithm."""
        return abs(math.log(self.ratio)) if self.ratio > 0 else math.inf

    @property
    def bounds(self) -> str:
        """What the model thinks the time goes into: ``Lane 80 %, MainMemory 20 %``; shares below 5 % are left out."""
        shares = {name: share for name, share in self.predicted.shares.items() if share >= SHOWN}
        return next(iter(shares), "nothing") if len(shares) < 2 else ", ".join(f"{name} {share:.0%}" for name, share in shares.items())

    def row(self) -> list[str]:
        """Its cells below :data:`HEAD`."""
        spread, predicted, floor = self.measurement.spread, self.predicted.predicted_time, self.predicted.predicted_floor
        return [
            self.label,
            self.bounds,
            time_text(self.measured),
            time_text(spread),
            time_text(predicted),
            f"{self.ratio:.2f}",
            time_text(floor),
            f"{self.measured / floor:.3g}" if floor else "-",
        ]


@dataclass(frozen=True)
class Comparison(InNotebooks):
    """Trials that were measured and predicted, how well they agree, and those that are left out."""

    trials: Trials
    judged: tuple[Judged, ...]
    left_out: tuple[Trial, ...]
    """Without a time or without a prediction."""
    agreement: Agreement | None
    """``None`` for fewer than two judged mappings."""
    noise: float
    """The median over the mappings of the timer's interquartile range relative to the median."""

    @classmethod
    def of(cls, trials: Trials) -> Comparison:
        """The comparison of these trials; none is dropped but by outcome or for want of a prediction."""
        judged = tuple(
            Judged(t.label, t.measurement, t.predicted, str(t.spec.mapping), t.fact)
            for t in trials.trials
            if t.measurement.outcome is Outcome.ok and t.predicted is not None
        )
        labels = {one.label for one in judged}
        left_out = tuple(t for t in trials.trials if t.label not in labels)
        noise = statistics.median(one.measurement.spread / one.measured for one in judged) if judged else math.nan
        return cls(trials, judged, left_out, agreement(judged), noise)

    @cached_property
    def ordered(self) -> tuple[Judged, ...]:
        """The judged mappings, the fastest first."""
        return tuple(sorted(self.judged, key=lambda one: one.measured))

    @property
    def fast_third(self) -> Agreement | None:
        """The agreement on the fastest third alone, which a search must tell apart; ``None`` for fewer than two mappings."""
        return agreement(self.ordered[: math.ceil(len(self.ordered) / 3)])

    @property
    def span(self) -> float:
        """How many times slower the slowest mapping is than the fastest."""
        return self.ordered[-1].measured / self.ordered[0].measured

    @property
    def worst(self) -> tuple[Judged, ...]:
        """The mappings with the largest residuals, at most ten of them."""
        return tuple(sorted(self.judged, key=lambda one: -one.residual)[:WORST])

    @property
    def reservations(self) -> tuple[str, ...]:
        """Why predictions are of mappings, and not of their kernels, where they are."""
        return tuple(text for text in dict.fromkeys(one.predicted.reservation for one in self.judged) if text)

    def __str__(self) -> str:
        lines = [f"{self.trials.device}, {self.trials.state}", ""]
        if self.judged:
            lines.append(table(HEAD, [one.row() for one in self.ordered], numbers=6))
        if self.left_out:
            lines += ["", "without a time or a prediction"]
            lines += [f"{t.label}: {t.shortcoming}" for t in self.left_out]
        lines += ["", self.verdict, *self.reservations]
        if self.agreement is not None:
            worst = self.worst if len(self.judged) > WORST else self.worst[:-1]
            lines += ["", "largest residuals", table(HEAD, [one.row() for one in worst], numbers=6)]
        others = max((t.measurement.interference or 0.0 for t in self.trials.trials), default=0.0)
        if others > BUSY_SHARE:
            lines += ["", f"This machine was busy: other processes had {others:.0%} of its processors."]
        given = [t.measurement.provenance.cores for t in self.trials.trials if t.missing_cores]
        if given:
            least, count = min(one for one in given if one is not None), len(given)
            lines += ["", f"The machine gave fewer cores than the device has, {least:.1f} at the least, while {count} of these were timed."]
        if self.trials.database:
            lines += ["", f"recorded in {self.trials.database}"]
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """How good the model is, beside the timer's own noise."""
        if self.agreement is None:
            return "too few mappings to judge the model by"
        lines = [f"{self.agreement.count} mappings, {self.span:.1f} times between the fastest and the slowest", str(self.agreement)]
        if self.fast_third is not None:
            lines.append(f"fastest third alone, {self.fast_third.count} mappings: {self.fast_third.order}")
        lines.append(f"noise: samples spread by {self.noise:.0%} around their median")
        return "\n".join(lines)


def agreement(judged: Sequence[Judged]) -> Agreement | None:
    """The agreement of these mappings' predictions with their times; ``None`` for fewer than two."""
    if len(judged) < 2:
        return None
    return Agreement.of([one.predicted.predicted_time for one in judged], [one.measured for one in judged])
