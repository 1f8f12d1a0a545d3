"""What a measurement found, with everything that is needed to judge it later."""

from __future__ import annotations

import importlib.metadata
import json
import math
import statistics
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from constantdict import constantdict
from pydantic import GetPydanticSchema, SerializerFunctionWrapHandler, WrapSerializer
from pydantic_core import core_schema

from ...codegen.executable import Argument
from ...errors import DeviceError
from ...field_types import Bounded, Count, Finite, Nanoseconds, Word
from ...formats.validation.adapter import Adapter, Partly
from ...presentation import InNotebooks
from ..catalogue import DeviceInfo
from .outcome import Outcome
from .timing import CacheState

if TYPE_CHECKING:
    from ...cascades.cascade import Cascade
    from ...formats.spec import Spec
    from ...schedule.function import FunctionName
    from ...schedule.schedule import Schedule

HARNESS = 3
"""Raised with every change of how times are taken; times of different harnesses are not compared. 2: memory on large pages. 3: PoCL's
threads stay on cores of their own."""
BUSY_SHARE = 0.1
"""The share of the processors from which on other processes are mentioned beside a time."""
Versions = Annotated[
    constantdict[str, str],
    GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(constantdict, handler(dict[Word, Word])),
    ),
]
"""Package -> its version."""
PACKAGES = ("feinsum_fuse", "loopy", "islpy", "pyopencl", "numpy")


def _as_seen(device: DeviceInfo, write: SerializerFunctionWrapHandler) -> dict[str, object]:
    """Without a processor that nobody looked at: records from before there was such a field stay as they are."""
    found: dict[str, object] = write(device)
    return {name: value for name, value in found.items() if name != "processor" or value}


DeviceText = Annotated[DeviceInfo, WrapSerializer(_as_seen)]
"""A device as it is stored."""


@dataclass(frozen=True)
class Provenance:
    """Where, with what and when something was measured; ``threads`` are the compute units in use.

    Units of a processor may be those of a machine that is shared with others, so what ``cores`` says is less at times.
    """

    device: DeviceText
    versions: Versions
    source_hash: Annotated[str, Bounded(pattern=r"^([0-9a-f]{64})?$")]
    options: tuple[str, ...]
    threads: Count
    date: Annotated[str, Bounded(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$", max_length=40)]
    harness: Count = HARNESS
    cores: Finite | None = None
    """Cores' worth of work that all of them did at the same time while it was timed; ``None`` where nobody looked."""

    @property
    def missing_cores(self) -> str:
        """That the machine gave fewer cores than the device has, in words; empty if it did not."""
        return fewer_cores(self.cores, self.threads)

    @classmethod
    def now(cls, device: DeviceInfo, source_hash: str = "", options: tuple[str, ...] = ()) -> Provenance:
        """The provenance of something that is being measured at this moment with the packages of this process."""
        versions = constantdict({name: importlib.metadata.version(name) for name in PACKAGES if _installed(name)})
        return cls(device, versions, source_hash, options, device.units, datetime.now(UTC).isoformat(timespec="seconds"))


def _as_known(provenance: Provenance, write: SerializerFunctionWrapHandler) -> dict[str, object]:
    """What nobody looked at is not written: records from before there was such a field stay as they are."""
    found: dict[str, object] = write(provenance)
    return {name: value for name, value in found.items() if name != "cores" or value is not None}


ProvenanceText = Annotated[Provenance, WrapSerializer(_as_known)]
"""A provenance as it is stored."""


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@dataclass(frozen=True)
class Subject:
    """What was measured, for whoever stores it: set where known, and no part of the JSON, since the archive has tables for it."""

    cascade: Cascade
    schedule: Schedule | None = None
    spec: Spec | None = None
    function: FunctionName | None = None
    """What made the kernel where no schedule did."""


@dataclass(frozen=True, repr=False)
class Measurement(InNotebooks):
    """Times of one program, or how it failed. A failure has no samples, and no number stands in for its time.

    ``samples_ns`` are host-clock times of one run in ns and ``event_ns`` the device's own; each covers ``runs_per_sample`` runs.
    ``error`` is the largest relative error of an output against the float64 reference, and ``tolerance`` what was allowed for it.
    """

    outcome: Outcome
    stage: Word
    message: str
    provenance: ProvenanceText
    samples_ns: tuple[Nanoseconds, ...] = ()
    event_ns: tuple[Finite, ...] = ()
    runs_per_sample: Annotated[int, Bounded(ge=1, lt=2**63)] = 1
    cache_state: CacheState = "warm"
    error: Finite | None = None
    tolerance: Finite | None = None
    arguments: tuple[Argument, ...] = ()
    label: str = ""
    interference: float | None = field(default=None, compare=False)
    """What other processes had of all processors while the samples were taken, from 0 to 1; ``None`` where the system does not say.

    For whoever looks at the measurement now; no part of the JSON.
    """
    subject: Subject | None = field(default=None, repr=False, compare=False)

    @property
    def median(self) -> float:
        """The median host time of one run, in seconds; not a number for a failure."""
        return statistics.median(self.samples_ns) * 1e-9 if self.samples_ns else math.nan

    @property
    def minimum(self) -> float:
        """The least host time of one run, in seconds; not a number for a failure."""
        return min(self.samples_ns) * 1e-9 if self.samples_ns else math.nan

    @property
    def spread(self) -> float:
        """The interquartile range of the host times, in seconds; not a number for a failure, 0 for a single sample."""
        return interquartile_range(self.samples_ns) * 1e-9 if self.samples_ns else math.nan

    @property
    def event_median(self) -> float:
        """The median of the device's own times, in seconds; not a number where there are none."""
        return statistics.median(self.event_ns) * 1e-9 if self.event_ns else math.nan

    def to_json(self) -> str:
        """JSON text of every field but ``subject`` and ``interference``; :meth:`from_json` gives back an equal value."""
        return json.dumps(_MEASUREMENTS.data(self), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Measurement:
        """The value that :meth:`to_json` wrote; :class:`~feinsum_fuse.errors.DeviceError` for any other text."""
        return _MEASUREMENTS.read(text)

    def __repr__(self) -> str:
        head = f"{self.label}: " if self.label else ""
        device = self.provenance.device
        where = f"{device.name} on {device.platform}, {self.provenance.threads} threads"
        if self.outcome is not Outcome.ok:
            return f"{head}{self.outcome} in stage {self.stage} ({where}): {self.message}"
        count = f"{len(self.samples_ns)} samples" + (f" of {self.runs_per_sample} runs" if self.runs_per_sample > 1 else "")
        times = f"median {time_text(self.median)}, minimum {time_text(self.minimum)}, spread {time_text(self.spread)}"
        own = f", device's own median {time_text(self.event_median)}" if self.event_ns else ""
        verified = f"; relative error {self.error:.1e} of {self.tolerance:.1e} allowed" if self.error is not None else ""
        busy = f"; other processes had {self.interference:.0%} of the processors" if (self.interference or 0) > BUSY_SHARE else ""
        fewer = f"; {self.provenance.missing_cores}" if self.provenance.missing_cores else ""
        return f"{head}{times}{own} ({self.cache_state}, {count}; {where}){verified}{busy}{fewer}"


MeasurementText = Annotated[Measurement, Partly(Measurement, without=frozenset({"subject", "interference"}))]
"""A measurement as it is stored."""
_MEASUREMENTS: Adapter[Measurement] = Adapter(MeasurementText, "measurement", DeviceError)


LEAST_CORES = 0.1
"""What a machine gives at the least, however busy it is: the kernel did run."""


def fewer_cores(given: float | None, expected: float) -> str:
    """That a machine gave fewer cores than expected, in words; empty if it gave nearly as many, or if nobody looked."""
    if given is None or given > (1 - BUSY_SHARE) * expected:
        return ""
    return f"the machine gave {given:.1f} of {expected:.3g} cores while this was timed"


def interquartile_range(values: tuple[float, ...]) -> float:
    """The distance between the quartiles; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def time_text(seconds: float) -> str:
    """A time with a unit that suits it, four digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"
