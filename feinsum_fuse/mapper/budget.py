"""What a search may spend: rows that it holds, and time."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .failures import LateError, UnprovedError


@dataclass
class Budget:
    """The rows that a search may hold at once in all, and how long it may take.

    A row is a partial mapping, a step of its chain of holders, or a pair of partial mappings that are joined: some hundred bytes at most.
    """

    max_rows: int
    deadline: float = math.inf
    """When to stop, on the clock of ``time.perf_counter``."""
    evaluated: int = 0
    kept: int = 0
    """Partial mappings that tables held."""
    joined: int = 0
    lasting: int = 0
    """Rows of tables and joins that are alive."""
    passing: int = 0
    """Those of the table that is being made."""

    _interval: float = math.inf
    _next: float = math.inf
    """When there is to be a word, on the same clock."""
    _tell: Callable[[], object] | None = None

    def tell_every(self, seconds: float, tell: Callable[[], object]) -> None:
        """Call this about so often, as long as rows are spent."""
        self._interval, self._tell = seconds, tell
        self._next = time.perf_counter() + seconds

    @property
    def held(self) -> int:
        """All rows that are alive."""
        return self.lasting + self.passing

    def spend(self, rows: int) -> None:
        """Count rows that a step has made."""
        self.evaluated += rows
        self.check(rows)

    def check(self, rows: int = 0) -> None:
        """:class:`UnprovedError` if so many rows more would be too many, :class:`LateError` where time is up."""
        now = time.perf_counter()
        if now > self.deadline:
            raise LateError("The search's seconds are over.")
        if now > self._next and self._tell is not None:
            self._next = now + self._interval
            self._tell()
        if self.held + rows > self.max_rows:
            raise UnprovedError(f"The search would hold {self.held + rows} partial mappings at once; max_rows is {self.max_rows}.")

    def hold(self, owner: object, rows: int) -> None:
        """Count rows as held while their owner lives."""
        self.check(rows)
        self.lasting += rows
        weakref.finalize(owner, self._release, rows).atexit = False

    def _release(self, rows: int) -> None:
        self.lasting -= rows

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is added to :attr:`passing` inside is gone afterwards."""
        before = self.passing
        try:
            yield
        finally:
            self.passing = before
