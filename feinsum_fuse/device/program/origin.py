"""Where a program's schedule comes from, and whether anything was built for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChosenBy(StrEnum):
    """Who decided how a program runs, in the order of precedence."""

    mapping = "the given mapping"
    tuned = "tuned: measured for this call"
    fact = "a recorded fact"
    model = "the model's choice"
    default = "the default mapping"
    schedule = "a given schedule"
    """For whoever builds a cascade by a schedule of their own."""
    function = "a given function"
    """By which a caller transforms loopy kernels."""


@dataclass(frozen=True)
class Origin:
    """What was chosen, and why."""

    by: ChosenBy = ChosenBy.schedule
    detail: str = ""
    """In words: the fact, or why there is none."""
    reasons: tuple[str, ...] = ()
    """Why what else was considered was not taken."""
    is_kept: bool = False
    """Whether the executable was on disk, verified when it was made, and nothing had to be generated."""

    @property
    def name(self) -> str:
        """In words, on one line."""
        return f"{self.by}: {self.detail}" if self.detail else str(self.by)

    def __str__(self) -> str:
        lines = [self.name, *(f"not taken: {reason}" for reason in self.reasons)]
        return "\n".join([*lines, "kept from before"] if self.is_kept else lines)
