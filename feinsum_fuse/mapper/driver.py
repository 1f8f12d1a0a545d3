"""The search: stages of growing spaces, each cut by what the one before found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from ..formats.spec import Spec, expect_spec
from ..schedule.target import DeviceLimits
from .errors import UnsearchedError
from .options import MAX_ROWS, Objective, Options, Progress
from .result import Result


def search(
    spec: Spec,
    objective: Objective = "energy",
    *,
    top: int = 1,
    pareto: Sequence[str] | None = None,
    fused: int | Literal["ffmr"] | None = None,
    imperfect: bool = False,
    tolerance: float = 0.0,
    seconds: float | None = None,
    jobs: int = 1,
    cache: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    even: bool = False,
    flip: bool = True,
    head_first: bool = False,
    head_is_tiled_fusion: bool = True,
    footprint: Literal["exact", "sum"] = "exact",
    max_rows: int = MAX_ROWS,
    device: object | None = None,
    limits: DeviceLimits | None = None,
    without: Collection[str] = (),
) -> Result:
    """The best LoopTree for a workload on an architecture, by the model of :func:`feinsum_fuse.predict`."""
    options = Options(
        objective, top, tuple(pareto or ()), fused, imperfect, tolerance, seconds, jobs, cache, progress,
        even, flip, head_first, head_is_tiled_fusion, footprint, max_rows, frozenset(without),
    )  # fmt: skip
    expect_spec(spec)
    raise UnsearchedError(f"The search for {options.objective} is not there yet.")
