"""Spaces small enough to be measured whole, and what was measured of them: ``data/NAME.yaml`` (the device) and ``data/NAME.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.calibration.device_file import default_file, known_device
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.errors import Error
from feinsum_fuse.formats.reading.load import load
from feinsum_fuse.mappings.choices import Rules, sweep
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.preparation import predict_seconds
from feinsum_fuse.tuning.space import Space

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Table:
    """A workload, and the kinds of decisions whose combinations are its configurations; the rules take all others."""

    name: str
    lines: tuple[str, ...]
    sizes: Mapping[str, int]
    kinds: tuple[str, ...]

    @property
    def device_file(self) -> Path:
        """The device as it was when the table was measured."""
        return DATA / f"{self.name}.yaml"

    @property
    def file(self) -> Path:
        """A line of JSON for each configuration that was measured."""
        return DATA / f"{self.name}.jsonl"

    @cached_property
    def cascade(self) -> Cascade:
        """The workload."""
        return ff.cascade(list(self.lines), sizes=dict(self.sizes))

    @cached_property
    def space(self) -> Space:
        """On the device of the table, which is this one's when there is no table yet."""
        if not self.device_file.exists():
            DATA.mkdir(exist_ok=True)
            known_device(find_device())
            self.device_file.write_text(default_file(find_device()).read_text())
        device = load(self.device_file)
        assert device.arch is not None and device.opencl is not None
        return Space(self.cascade, device.arch, device.opencl, target(find_device()), self.kinds)

    @cached_property
    def every(self) -> tuple[Candidate, ...]:
        """All configurations, each tree once."""
        made = sweep(lambda chooser: self.space.made("", chooser, "swept"), set(self.kinds))
        return tuple(dict.fromkeys(made))

    @cached_property
    def default(self) -> Candidate:
        """What the rules give."""
        return self.space.made("", Rules(), "default")

    def read(self) -> dict[str, float | None]:
        """Tree -> seconds, ``None`` for failures, of those that were measured."""
        rows = [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        return {row["tree"]: row["seconds"] for row in rows}


@dataclass
class Model:
    """Predictions, each made once."""

    table: Table
    known: dict[str, float | None]

    def __call__(self, candidate: Candidate) -> float | None:
        if candidate.tree not in self.known:
            try:
                self.known[candidate.tree] = predict_seconds(candidate.spec, self.table.space.families[""].target)
            except Error:
                self.known[candidate.tree] = None
        return self.known[candidate.tree]


SOFTMAX = ("X[m] = max(S[m, p])", "N[m, p] = exp(S[m, p] - X[m])", "L[m] = N[m, p]", "Y[m, p] = N[m, p] / L[m]")
TABLES = {
    table.name: table
    for table in (
        Table(
            "product",
            ("Z[m, n] = A[m, k] * B[k, n]",),
            {"M": 192, "N": 160, "K": 224},
            ("tile", "lane", "second", "vectors", "down", "copied", "accumulator"),
        ),
        Table("softmax", SOFTMAX, {"M": 300, "P": 700}, ("budget", "tile", "layout", "lane")),
        Table(
            "two_sums",
            ("Z[a, b] = A[c, a, d] * B[d, b, c]",),
            {"A": 96, "B": 112, "C": 24, "D": 20},
            ("lane", "second", "vectors", "down", "block", "copied", "accumulator", "reductions"),
        ),
    )
}
