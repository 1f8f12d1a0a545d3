"""Spaces small enough to be measured whole: a workload, and the kinds of decisions that are varied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.device.calibration.device_file import known_device
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.mappings.choices import Choice, Chooser, Rules, sweep
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.space import Space

from .record import Record

T = TypeVar("T")
DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Table:
    """A workload, and the kinds of decisions whose combinations are its configurations; the rules take all others."""

    name: str
    lines: tuple[str, ...]
    sizes: Mapping[str, int]
    kinds: tuple[str, ...]
    most: Mapping[str, int] = constantdict()
    """Kind -> how many options of such a decision are in the table, the usual ones first; all by default."""

    @property
    def record(self) -> Record:
        """What was measured of it."""
        return Record(DATA / f"{self.name}.jsonl.gz")

    @cached_property
    def cascade(self) -> Cascade:
        """The workload."""
        return ff.cascade(list(self.lines), sizes=dict(self.sizes))

    @cached_property
    def space(self) -> Space:
        """Its mappings on the default device of this machine."""
        device = known_device(find_device())
        assert device.arch is not None and device.opencl is not None
        return Space(self.cascade, device.arch, device.opencl, target(find_device()), self.kinds)

    @cached_property
    def default(self) -> Candidate:
        """What the rules give."""
        return self.space.made("", Rules(), "default")

    def ways(self) -> Iterator[tuple[Candidate, list[tuple[Choice[object], int]]]]:
        """Every combination of options: what it makes, and the decisions on the way with the numbers of the options taken.

        Two may make one candidate. The default comes first.
        """

        def way(chooser: Chooser) -> tuple[Candidate, list[tuple[Choice[object], int]]]:
            made = self.space.made("", Fewer(self.most, chooser), "swept")
            return made, [(fewer(choice, self.most), choice.options.index(made.decisions[choice.name])) for choice in made.choices]

        return sweep(way, set(self.kinds))


@dataclass(frozen=True)
class Fewer:
    """Leaves decisions between the first few of their options to a chooser."""

    most: Mapping[str, int]
    chooser: Chooser

    def choose(self, choice: Choice[T]) -> T:
        """One of the first options."""
        return self.chooser.choose(fewer(choice, self.most))


def fewer(choice: Choice[T], most: Mapping[str, int]) -> Choice[T]:
    """The decision between the first of its options, as many as there may be of its kind."""
    return Choice(choice.kind, choice.about, choice.options[: most.get(choice.kind)])


TABLES = {
    table.name: table
    for table in (
        Table(
            "product",
            ("Z[m, n] = A[m, k] * B[k, n]",),
            {"M": 224, "N": 192, "K": 256},
            ("tile", "lane", "second", "vectors", "down", "copied", "accumulator"),
            constantdict({"tile": 5}),
        ),
        Table(
            "permuted",
            ("Z[a, b, c] = A[d, c, a] * B[b, d]",),
            {"A": 44, "B": 36, "C": 28, "D": 50},
            ("tile", "lane", "second", "down", "copied", "block", "accumulator"),
            constantdict({"tile": 3, "down": 5, "block": 3, "accumulator": 2}),
        ),
        Table(
            "two_sums",
            ("Z[a, b] = A[c, a, d] * B[d, b, c]",),
            {"A": 96, "B": 112, "C": 24, "D": 20},
            ("lane", "second", "vectors", "down", "block", "copied", "accumulator", "reductions"),
            constantdict({"down": 3}),
        ),
    )
}
