"""Energy that a machine counts itself: the zones of Linux's power capping interface (RAPL), where this user may read them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

ZONES = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Joules:
    """What a counter of energy said of some time; everything that runs on the machine is in it."""

    name: str
    """The zone's own name, such as ``package-0`` or ``dram``."""
    joules: float
    seconds: float


class EnergyCounters:
    """Reads every counter at both ends of a context; :attr:`found` has what each counted, empty where none can be read.

    A zone's ``energy_uj`` counts microjoules, and begins again beyond ``max_energy_range_uj``
    (https://www.kernel.org/doc/html/latest/power/powercap/powercap.html).
    """

    def __init__(self, zones: Path | None = None) -> None:
        """``zones``: the folder of the zones; default: this machine's."""
        self._zones = sorted((zones or ZONES).glob("intel-rapl:*"))
        self._before: dict[Path, int] = {}
        self._start = 0.0
        self.found: tuple[Joules, ...] = ()

    def __enter__(self) -> EnergyCounters:
        self._before = self._read()
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        seconds = time.perf_counter() - self._start
        after = self._read()
        self.found = tuple(
            Joules(_text(zone / "name") or zone.name, _passed(zone, before, after[zone]) * 1e-6, seconds)
            for zone, before in self._before.items()
            if zone in after
        )

    def _read(self) -> dict[Path, int]:
        found = {zone: _number(zone / "energy_uj") for zone in self._zones}
        return {zone: count for zone, count in found.items() if count is not None}


def _passed(zone: Path, before: int, after: int) -> int:
    """Microjoules between two readings, of which the second may have begun again."""
    return (after - before) % (_number(zone / "max_energy_range_uj") or 1 << 62)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdecimal() else None
