"""What a report is about: mappings with what is known of each, and the searches beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..cascades.cascade import Cascade
from ..device.timing.measurement import Measurement
from ..errors import SearchError
from ..formats.reading.files import read_text
from ..formats.spec import Spec
from ..formats.validation.adapter import Adapter
from ..model.hardware.placement import place_caches
from ..model.prediction import Prediction
from ..report.run_prediction import Predicted, as_run
from ..tuning.tuned import Tuned


@dataclass(frozen=True)
class Case:
    """One mapping: predicted, measured, or both."""

    label: str
    key: str
    """Its name in the page."""
    spec: Spec = field(repr=False)
    cascade: Cascade = field(repr=False)
    predicted: Predicted | None
    note: str = ""
    """Why there is no prediction."""
    measurement: Measurement | None = None
    cold: bool = False

    @property
    def prediction(self) -> Prediction | None:
        """The model's figures."""
        return self.predicted.prediction if self.predicted else None

    @cached_property
    def ran(self) -> Spec:
        """The Spec with the widths of the element types that ran."""
        return as_run(self.spec, self.cascade)

    @cached_property
    def placed(self) -> Spec | None:
        """The Spec as the model saw it, with caches where hardware puts them; ``None`` without a prediction."""
        return place_caches(self.ran, cold=self.cold) if self.predicted else None

    @property
    def measured(self) -> float:
        """The median in seconds; not a number if nothing was measured."""
        return self.measurement.median if self.measurement else math.nan

    @property
    def samples(self) -> tuple[float, ...]:
        """Seconds of each sample."""
        return tuple(1e-9 * ns for ns in self.measurement.samples_ns) if self.measurement else ()

    @property
    def predicted_time(self) -> float:
        """Seconds; not a number without a prediction."""
        return self.predicted.predicted_time if self.predicted else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Between which times 8 in 10 kernels of this kind were; the prediction itself where the model does not say."""
        low, high = self.predicted.interval if self.predicted else (0.0, 0.0)
        return (low, high) if high else (self.predicted_time, self.predicted_time)


@dataclass(frozen=True)
class Course:
    """A tuner's history, in seconds."""

    name: str
    times: tuple[tuple[float | None, str], ...]
    """(time or ``None`` for a failure, where the candidate came from) in the order of measuring."""
    default: float
    floor: float

    @classmethod
    def of(cls, tuned: Tuned, name: str = "Tuning") -> Course:
        """That of a search which has just ended."""
        return cls(name, tuple((one.measured, one.origin) for one in tuned.history), tuned.default.median, tuned.floor)

    @classmethod
    def read(cls, file: Path) -> Course:
        """The course in a file that holds what ``tune --json`` printed.

        Raises :class:`~feinsum_fuse.errors.SearchError` for a file that holds something else, and
        :class:`~feinsum_fuse.errors.SpecError` for one that cannot be read.
        """
        found = _COURSES.read(read_text(file, str(file)))
        times = tuple((one.measured, one.origin) for one in found.history)
        return cls(f"{file.name} ({found.device})", times, found.default_median_s, found.floor_s)


class _TriedText(BaseModel):
    """A candidate, as ``tune --json`` prints it; what a course does not show is not looked at."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    origin: str
    measured: float | None


class _CourseText(BaseModel):
    """What ``tune --json`` prints."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    device: str
    default_median_s: float
    floor_s: float
    history: list[_TriedText]


_COURSES: Adapter[_CourseText] = Adapter(_CourseText, "output of tune --json", SearchError)
