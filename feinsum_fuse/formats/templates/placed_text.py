"""Rendered text and where each piece of it stood in a user's file."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from ...errors import Location


@dataclass(frozen=True)
class PlacedPiece:
    """Rendered characters from ``start`` on came from this place; copied character by character if ``verbatim``, else computed there."""

    start: int
    file: str
    line: int
    column: int
    verbatim: bool


@dataclass(frozen=True)
class PlacedText:
    """The text of one file after templates, with its origin."""

    file: str
    text: str
    segments: tuple[PlacedPiece, ...] = ()
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", tuple(segment.start for segment in self.segments))

    def location(self, offset: int, path: str = "") -> Location:
        """Where the rendered character at ``offset`` came from; lines and columns count from 1."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return Location(self.file, path=path)
        segment = self.segments[index]
        if not segment.verbatim:
            return Location(segment.file, segment.line, segment.column, path)
        before = self.text[segment.start : offset]
        newlines = before.count("\n")
        column = len(before) - before.rfind("\n") if newlines else segment.column + len(before)
        return Location(segment.file, segment.line + newlines, column, path)
