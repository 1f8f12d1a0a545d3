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

    def __repr__(self) -> str:
        checked = f"verified, {self.speedup:.3g} times as fast" if self.verified else "not verified"
        lines = [f"{self.how}: {self.detail}" if self.detail else str(self.how), checked]
        return "\n".join((*lines, *(f"not taken: {reason}" for reason in self.reasons)))
