"""What ``ff.optimize`` answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import loopy as lp

from ..archive.facts.fact import Fact


class How(StrEnum):
    """What made a kernel faster."""

    fact = "a recorded fact"
    choice = "the default mapping"
    spread = "its own loops on groups"
    tuned = "tuned here"
    own = "the caller's own transformation"
    unchanged = "nothing: the kernel is as it was"


@dataclass(frozen=True, repr=False)
class Optimized:
    """A kernel, and what was done to it."""

    kernel: lp.TranslationUnit
    """With the arguments of the given one."""
    how: How
    detail: str
    """In words: the fact, or what was chosen and why no fact was."""
    verified: bool
    """Whether it was run beside the given kernel on random data, and gave the same."""
    speedup: float = 1.0
    """The given kernel's time over this one's, on this device, at full size; at least that, if the given one was too slow to wait for."""
    fact: Fact | None = None
    reasons: tuple[str, ...] = field(default=())
    """Why what else was tried was not taken."""
    spread: tuple[float, float] | None = None
    """Between which the speedup lay from one turn to the next; ``None`` where there was one turn only, or none."""

    def __repr__(self) -> str:
        between = f" ({self.spread[0]:.3g} to {self.spread[1]:.3g} from turn to turn)" if self.spread is not None else ""
        how = "verified on random data" if self.verified else "not verified"
        checked = f"{how}, {self.speedup:.3g} times as fast as it was{between}" if self.how is not How.unchanged else how
        lines = [f"{self.how}: {self.detail}" if self.detail else str(self.how), checked]
        return "\n".join((*lines, *(f"not taken: {reason}" for reason in self.reasons)))
