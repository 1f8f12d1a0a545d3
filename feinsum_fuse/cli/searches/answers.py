"""What ``map`` says of a search: while it runs, as text, as JSON, as a file for ``run``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..console import SELDOM, note

if TYPE_CHECKING:
    from ...formats.spec import Spec
    from ...mapper import Found, Result
    from ...progress import Progress

SOON = 1.0
"""Seconds of a search before it says where it is."""


class Standing:
    """Says on stderr where a search is, once it takes longer than a second: in one line on a terminal, else after each stage and now and
    then within one."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, now: Progress) -> None:
        if now.seconds <= SOON:
            return
        if sys.stderr.isatty():
            print(f"\r\x1b[K{now}", end="", file=sys.stderr, flush=True)
        elif now.ended or time.monotonic() - self._last > SELDOM:
            self._last = time.monotonic()
            note(str(now))

    def clear(self) -> None:
        """Take the line off a terminal."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def text(result: Result, axes: Sequence[str] | None, tolerance: float) -> str:
    """The best mapping, its figures, and what is proved."""
    count = len(result.front)
    figure = f"{result.objective} {result.value:.6g} {result.unit}"
    what = f"front of {count} over {', '.join(axes)}" if axes else f"best {count}, from {figure}" if count > 1 else figure
    which = [f"mapping 1 of {count}; --json has the others"] if count > 1 else []
    lines = [f"{what}, {_state(result, tolerance)}", "", result.table(), "", *which, str(result.front[0].mapping)]
    if result.omitted:
        lines += ["", f"not searched: {'; '.join(result.omitted)}"]
    return "\n".join(lines)


def _state(result: Result, tolerance: float) -> str:
    """What is proved. With a tolerance a search ends before it knows more than that."""
    if not result.proved:
        return f"not proved: the floor is {result.floor:.6g}, {100 * result.gap:.3g} % below"
    if tolerance and result.value > result.floor:
        return f"proved within {100 * tolerance:.3g} % of the optimum"
    return "proved optimal"


def mapping_file(result: Result, tolerance: float, flipped: Sequence[str]) -> str:
    """The best mapping as YAML, under a remark on what it is."""
    from ...presentation import yaml

    figure = f"{result.objective} {result.value:.9g} {result.unit}"
    remark = f"# input and weight have changed places in {', '.join(flipped)}\n" if flipped else ""
    return f"# {figure}, {_state(result, tolerance)} (feinsum-fuse map)\n{remark}{yaml(result.front[0].mapping)}"


def flipped(result: Result, spec: Spec) -> Sequence[str]:
    """The Einsums whose operands have other roles in the best mapping than in the files."""
    from ...mapper.request.flips import differing

    return differing(spec.workload, result.best.workload)


def data(result: Result, spec: Spec) -> dict[str, object]:
    """Everything for ``--json``."""
    return {
        "objective": result.objective,
        "value": result.value,
        "energies_assumed": result.energies_assumed,
        "proved": result.proved,
        "floor": result.floor,
        "gap": result.gap,
        "front": [_found(found) for found in result.front],
        "flipped": list(flipped(result, spec)),
        "omitted": list(result.omitted),
        "space": {("log10_mappings" if name == "mappings" else name): figure for name, figure in vars(result.space).items()},
        "log": [vars(stage) for stage in result.log],
    }


def _found(found: Found) -> dict[str, object]:
    from ...presentation import yaml

    return {"energy": found.energy, "latency": found.latency, "peak": dict(found.peak), "mapping": yaml(found.mapping)}
