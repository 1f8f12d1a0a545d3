"""What a search has found, and how: it prints itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from ..archive.facts.fact import Fact
from ..arguments import NOTHING, PLOT_AXES, expect
from ..device.catalogue import DeviceInfo
from ..device.program.program import Program
from ..device.timing.measurement import Measurement, time_text
from ..device.timing.outcome import Outcome
from ..errors import SearchError
from ..formats.spec import Spec
from ..presentation import InNotebooks, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WITHIN = 1.1
"""How many times as long as the fastest the best transform may take, before the catalogue is said to lack one."""
SHOWN = 8
"""Candidates in the table of the fastest."""


@dataclass(frozen=True)
class Tried:
    """A candidate, and what came of it; times in seconds of one run, ``None`` where there is none."""

    spec: Spec = field(repr=False)
    variant: str
    """What the workload was rewritten by; empty as it was given."""
    origin: str
    predicted: float | None
    measured: float | None
    outcome: Outcome
    message: str = ""
    recorded: bool = False
    """Whether the time is from the archive, and nothing was run."""
    estimated: bool = False
    """Whether only a slice of the work-groups was timed."""
    equal: bool = False
    """Whether the program's text was that of an earlier candidate, whose time this is."""
    transform: str = ""
    """The transform that makes it, too, whoever proposed it first; empty if none was seen to."""


@dataclass(frozen=True, repr=False)
class Tuned(InNotebooks):
    """The fastest program that was found, never slower than the default mapping's in the turns that decided."""

    program: Program
    measurement: Measurement
    """Of the turns that decided."""
    default: Measurement
    """The default mapping's in the same turns."""
    fact: Fact | None
    """What the archive knows of it from now on; ``None`` if it does not hand it out."""
    history: tuple[Tried, ...]
    """Every candidate, in the order in which it was measured."""
    floor: float
    """Seconds below which no mapping can be, by the rates of the device."""
    seconds: float
    """That the search took."""
    device: DeviceInfo
    finalists: tuple[tuple[Spec, Measurement], ...]
    """The best that were compared in turns, as many as were asked for, the fastest first."""
    interrupted: bool = False
    unrecorded: int = 0
    """Measurements that the archive did not take."""
    problem: str = ""
    """Why not."""
    learned: str = ""
    """What corrected the model's predictions, and how well; empty if nothing did."""

    @property
    def spec(self) -> Spec | None:
        """The workload, rewritten if that is faster, with its mapping; ``None`` for a fact's schedule without one."""
        return self.program.spec

    @property
    def measured(self) -> int:
        """How many candidates were run, those with equal texts once."""
        return sum(not (tried.recorded or tried.equal) and tried.outcome is not Outcome.rejected for tried in self.history)

    @property
    def best_transform(self) -> tuple[str, float] | None:
        """The transform that came nearest, and how many times as long it takes as the fastest candidate; ``None`` if none ran."""
        nearest = self.nearest
        if nearest is None or nearest.measured is None:
            return None
        fastest = min(tried.measured for tried in self.history if tried.measured)
        return nearest.transform, 1.0 if nearest.spec == self._winner else nearest.measured / fastest

    @property
    def nearest(self) -> Tried | None:
        """The fastest candidate that a transform makes; ``None`` if none ran."""
        tried = [t for t in self.history if t.measured and t.transform]
        # The turns that decided say which is the fastest: in the search a sample may have been held up.
        winner = next((t for t in tried if t.spec == self._winner), None)
        return winner or min(tried, key=lambda t: (t.measured or 0.0, t.transform), default=None)

    @property
    def _winner(self) -> Spec | None:
        """What was fastest in the turns that decided."""
        return next((spec for spec, _ in self.finalists), None)

    def plot(self, axes: Axes | None = None) -> Axes:
        """The course of the search into these axes of matplotlib's or new ones: seconds of each candidate in the order of measuring, the
        best so far, the default mapping, and the floor."""
        expect(axes, NOTHING | PLOT_AXES, "axes", SearchError)
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.figure(layout="constrained").add_subplot()
        from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

        timed = [(number, tried.measured) for number, tried in enumerate(self.history, 1) if tried.measured]
        numbers, times = [number for number, _ in timed], [seconds for _, seconds in timed]
        axes.plot(numbers, times, "o", label="candidates")
        axes.plot(numbers, list(accumulate(times, min)), drawstyle="steps-post", label="best so far")
        # The default mapping's time in the search, of which the candidates' are multiples, not that of the turns that decided.
        default = next((t.measured for t in self.history if t.measured and t.origin == "default" and not t.recorded), self.default.median)
        for label, level in (("default mapping", default), ("floor", self.floor)):
            if level > 0:
                axes.axhline(level, linestyle="--", color="grey" if label == "floor" else "C3", label=label)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(EngFormatter("s"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("candidate")
        axes.set_ylabel("time")
        axes.legend()
        return axes

    def __repr__(self) -> str:
        spec = self.spec
        rewriting = ", ".join(map(str, self.program.cascade.rewritings))
        lines = [self._headline(), ""]
        lines.append(table(["", "from", "rewritten by", "predicted", "measured", "of the best"], list(self._rows()), numbers=3))
        failures = [tried for tried in self.history if tried.outcome not in (Outcome.ok, Outcome.rejected)]
        refused = sum(tried.outcome is Outcome.rejected for tried in self.history)
        if failures or refused:
            kinds = ", ".join(sorted({str(tried.outcome) for tried in failures}))
            lines += ["", f"{len(failures)} candidates failed{f' ({kinds})' if kinds else ''}, {refused} could not be made into a kernel"]
        nearest = self.best_transform
        if nearest is not None:
            remark = "no transform comes within 10 %: one is missing" if nearest[1] > WITHIN else "a transform is as good"
            lines += ["", f"{nearest[0]} takes {nearest[1]:.2f} times as long as the fastest: {remark}"]
        if self.unrecorded:
            lines += ["", f"{self.unrecorded} measurements are not on record: {self.problem}"]
        if self.learned:
            lines += ["", self.learned]
        if rewriting:
            lines += ["", f"rewritten by {rewriting}"]
        if spec is not None and spec.mapping is not None:
            lines += ["", str(spec.mapping)]
        return "\n".join(lines)

    def _headline(self) -> str:
        best, default = self.measurement.median, self.default.median
        how = f"{self.seconds:.0f} s{', interrupted' if self.interrupted else ''}"
        floor = f", {self.floor / best:.2f} of what the device's rates allow" if self.floor > 0 else ""
        return (
            f"{self.device}\n{time_text(best)}, {default / best:.2f} times as fast as the default mapping ({time_text(default)}){floor}; "
            f"{self.measured} candidates measured in {how}"
        )

    def _rows(self) -> Iterator[list[str]]:
        timed = (tried for tried in self.history if tried.measured is not None and not tried.equal)
        seen = sorted(timed, key=lambda tried: tried.measured or math.inf)
        for place, tried in enumerate(seen[:SHOWN]):
            predicted = time_text(tried.predicted) if tried.predicted is not None else "-"
            assert tried.measured is not None and seen[0].measured is not None
            yield [
                str(place + 1),
                tried.origin + (" (recorded)" if tried.recorded else "") + (" (slice)" if tried.estimated else ""),
                tried.variant,
                predicted,
                time_text(tried.measured),
                f"{seen[0].measured / tried.measured:.2f}",
            ]
