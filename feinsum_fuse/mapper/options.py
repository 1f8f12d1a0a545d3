"""What a caller may ask of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..arguments import described
from ..progress import Hook, Progress
from .failures import UnsearchedError
from .stocks.store import Shelf

Objective = Literal["energy", "latency", "edp"]
OBJECTIVES: tuple[Objective, ...] = ("energy", "latency", "edp")
AXES = ("energy", "latency", "usage")
"""What a front may be taken over; ``usage`` stands for the peak of each finite memory."""
MAX_ROWS = 20_000_000
"""Rows held at once, of all tables and joins together (:class:`~feinsum_fuse.mapper.budget.Budget`), before a search gives up proving."""
RULES: tuple[str, ...] = ("block", "free", "prefix", "budget", "dominance", "floor", "merge")
"""The rules that cut the space; each may be switched off, and the optimum stays."""
UNEVEN_RULES = frozenset({"block", "free", "prefix"})
"""Those that may give each tensor a place of its own."""


@dataclass(frozen=True)
class SearchProgress(Progress):
    """Where a search stands; the units are those of its objective."""

    floor: float = 0.0
    incumbent: float = math.inf
    rows: int = 0
    """Partial mappings looked at."""

    @property
    def gap(self) -> float:
        """How much better than the incumbent a mapping could still be, as a fraction of it."""
        return gap(self.incumbent, self.floor)

    def __str__(self) -> str:
        best = "no mapping yet" if math.isinf(self.incumbent) else f"best {self.incumbent:.6g}, gap {self.gap:.3g}"
        return f"{self.stage}: floor {self.floor:.6g}, {best}, {self.rows} rows, {self.seconds:.1f} s"


def gap(incumbent: float, floor: float) -> float:
    """``1 - floor / incumbent``; 0 where both are 0, 1 where there is no incumbent."""
    if math.isinf(incumbent):
        return 1.0
    return max(0.0, 1 - floor / incumbent) if incumbent > 0 else 0.0


@dataclass(frozen=True)
class Options:
    """The arguments of :func:`feinsum_fuse.search`, checked."""

    objective: Objective = "energy"
    top: int = 1
    pareto: tuple[str, ...] = ()
    fused: int | Literal["ffmr"] | None = None
    imperfect: bool = False
    tolerance: float = 0.0
    seconds: float | None = None
    jobs: int = 1
    cache: str | Shelf | None = None
    progress: Hook | None = None
    even: bool = False
    flip: bool = True
    head_first: bool = False
    head_is_tiled_fusion: bool = True
    footprint: Literal["exact", "sum"] = "exact"
    max_rows: int = MAX_ROWS
    resume: str | None = None
    without: frozenset[str] = frozenset()
    """Names among :data:`RULES` that are switched off."""
    coarseness: float = 1.0
    """Of the tiles of a variable, ascending, those that are less than so many times the one before are left out."""
    per_dimension: float | None = None
    """The most variables along one dimension of a fanout."""

    def __post_init__(self) -> None:
        expect_among("objective", self.objective, OBJECTIVES)
        expect_among("footprint", self.footprint, ("exact", "sum"))
        for axis in self.pareto:
            expect_among("pareto", axis, AXES)
        for rule in sorted(self.without):
            expect_among("without", rule, RULES)
        if isinstance(self.fused, str):
            expect_among("fused", self.fused, ("ffmr",))
        elif self.fused is not None and self.fused < 0:
            raise UnsearchedError(f"fused is {self.fused}; a largest number of fused loops is 0 or more.")
        for name in ("top", "jobs", "max_rows"):
            if getattr(self, name) < 1:
                raise UnsearchedError(f"{name} is {getattr(self, name)}; it must be 1 or more.")
        if not 0 <= self.tolerance < math.inf:
            raise UnsearchedError(f"tolerance is {self.tolerance}; it must be a fraction of 0 or more.")
        if self.seconds is not None and not self.seconds > 0:
            raise UnsearchedError(f"seconds is {self.seconds}; a time limit must be positive.")
        if self.resume is not None and self.pareto:
            raise UnsearchedError("A front is searched in one go: resume keeps the state of a search for the best mapping.")
        if not self.head_is_tiled_fusion and self.footprint == "exact":
            message = "head_is_tiled_fusion=False says what is summed over Einsums, and an exact footprint sums nothing."
            raise UnsearchedError(message, hint='Give footprint="sum", too.')

    @property
    def switched_off(self) -> frozenset[str]:
        """The rules that do not hold: those that the caller switched off, and with ``even`` those that count on places of one's own."""
        return self.without | UNEVEN_RULES if self.even else self.without


def expect_among(name: str, value: object, known: Sequence[str]) -> None:
    """Raise :class:`UnsearchedError` for a value that is none of those known."""
    if value not in known:
        raise UnsearchedError(f"{name} is {described(value)}.", hint=f"It may be {', '.join(known)}.")
