"""How long computations say where they are: one hook for the whole package, given as ``progress=``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias


@dataclass(frozen=True)
class Progress:
    """Where a computation is: ``done`` parts of ``total`` of a stage that began ``seconds`` ago.

    ``total`` is ``None`` for a stage that has no parts, or an unknown number of them. ``ended`` marks the last word about a stage.
    """

    stage: str
    done: int = 0
    total: int | None = None
    seconds: float = 0.0
    ended: bool = False

    def __str__(self) -> str:
        count = f": {self.done} of {self.total}" if self.total is not None else f": {self.done}" if self.done else ""
        return f"{self.stage}{count}, {self.seconds:.1f} s"


Hook: TypeAlias = "Callable[[Progress], object]"
"""Called when a stage begins, after each of its parts, and when it ends; what it raises ends the computation.

It runs between parts, in the thread that computes: no time that is being measured contains it.
"""


class Stage:
    """A stage of ``total`` parts while its context lasts; without a hook nothing is told.

    ``with Stage("predicting", progress, len(specs)) as predicting: ...; predicting.advance()``
    """

    def __init__(self, name: str, hook: Hook | None, total: int | None = None) -> None:
        self._name, self._hook, self._total = name, hook, total
        self._done = 0
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        self._tell()
        return self

    def __exit__(self, *_: object) -> None:
        self._tell(ended=True)

    @property
    def is_heard(self) -> bool:
        """Whether anybody is told."""
        return self._hook is not None

    def advance(self, parts: int = 1) -> None:
        """So many more parts are done."""
        if self._hook is not None:
            self._done += parts
            self._tell()

    def _tell(self, *, ended: bool = False) -> None:
        if self._hook is not None:
            self._hook(Progress(self._name, self._done, self._total, time.monotonic() - self._start, ended))
