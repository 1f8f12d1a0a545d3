"""What was measured of a space: a file that is all a replay needs, without a device and whatever mappings become later.

Its first line says what was measured and on what, and lists the decisions with their options. A line follows for each configuration: the
ways of deciding that lead to it, and what the model predicts. Then come lines for measurements, in the order in which they were made; a
later one replaces an earlier one. Programs of equal texts share their time.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from constantdict import constantdict

from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.formats.workload import Workload
from feinsum_fuse.mappings.choices import Choice, Chooser, Rules
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.space import Neighbourhood

Way = Sequence[tuple[int, int]]
"""Decisions on the way to a configuration: the decision's number, and that of the option taken."""
DIGITS = 4
"""Of seconds, in the file."""


@dataclass(frozen=True)
class Measured:
    """A line about a measurement; ``text`` tells programs apart."""

    number: int
    seconds: float | None
    text: str = ""
    why: str = ""


@dataclass(frozen=True)
class Record:
    """A file of these lines, which grows."""

    file: Path

    def start(
        self,
        about: Mapping[str, object],
        choices: Sequence[Choice[object]],
        ways: Sequence[Sequence[Way]],
        trees: Sequence[str],
        predicted: Sequence[float | None],
    ) -> None:
        """A new file. ``trees``: what tells that a configuration made anew is the same; ``predicted``: seconds."""
        self.file.parent.mkdir(exist_ok=True)
        lines: list[object] = [{**about, "choices": [[choice.kind, choice.about, choice.options] for choice in choices]}]
        lines += [{"ways": w, "tree": t, "predicted": _rounded(p)} for w, t, p in zip(ways, trees, predicted, strict=True)]
        self._write(lines, "wb")

    def add(self, found: Iterable[Measured]) -> None:
        """More measurements."""
        self._write(
            [{"of": m.number, "seconds": _rounded(m.seconds), "text": m.text} | ({"why": m.why} if m.why else {}) for m in found], "ab"
        )

    def _write(self, lines: Sequence[object], mode: str) -> None:
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        with self.file.open(mode) as out:
            out.write(gzip.compress(text.encode(), mtime=0))

    @cached_property
    def _lines(self) -> list[dict[str, Any]]:
        if not self.file.exists():
            return []
        with gzip.open(self.file, "rt") as lines:
            return [json.loads(line) for line in lines]

    @property
    def about(self) -> Mapping[str, Any]:
        """What was measured, on what; empty where there is no file."""
        return constantdict(self._lines[0]) if self._lines else constantdict()

    @cached_property
    def configurations(self) -> tuple[Mapping[str, Any], ...]:
        """The lines of the configurations, in the order of their numbers."""
        return tuple(line for line in self._lines if "ways" in line)

    @cached_property
    def measured(self) -> dict[int, Measured]:
        """Number -> the last measurement of it."""
        lines = [line for line in self._lines if "of" in line]
        return {line["of"]: Measured(line["of"], line["seconds"], line["text"], line.get("why", "")) for line in lines}

    @cached_property
    def times(self) -> dict[str, float | None]:
        """Name of a configuration -> seconds, ``None`` for failures, of those that were measured; equal texts have the last one's."""
        by_text = {m.text: m.seconds for m in self.measured.values() if m.text}
        return {name_of(m.number): by_text.get(m.text, m.seconds) for m in self.measured.values()}

    @cached_property
    def predicted(self) -> dict[str, float | None]:
        """Name -> seconds by the model; ``None`` where it takes the mapping for none."""
        return {name_of(number): line["predicted"] for number, line in enumerate(self.configurations)}

    @cached_property
    def choices(self) -> tuple[Choice[object], ...]:
        """The decisions."""
        return tuple(Choice(kind, about, tuple(map(_frozen, options))) for kind, about, options in self.about["choices"])

    def space(self) -> RecordedSpace:
        """The space of these configurations."""
        return RecordedSpace(self)


def name_of(number: int) -> str:
    """A configuration's name, which stands for its tree."""
    return f"configuration {number}"


class RecordedSpace(Neighbourhood):
    """Candidates by the decisions that a record knows: the same walk through the same options as that of the family it was made by."""

    rewritings = ("",)

    def __init__(self, record: Record) -> None:
        self._choices = record.choices
        self._following: dict[tuple[tuple[int, int], ...], int] = {}
        """Decisions so far -> the next one."""
        self._ends: dict[tuple[tuple[int, int], ...], int] = {}
        for number, line in enumerate(record.configurations):
            for way in line["ways"]:
                taken = tuple((choice, option) for choice, option in way)
                self._ends[taken] = number
                for k, (choice, _) in enumerate(taken):
                    self._following[taken[:k]] = choice
        self._spec = Spec(Workload(()))

    def made(self, variant: str, chooser: Chooser, origin: str) -> Candidate:
        """The configuration at the end of these decisions."""
        taken: tuple[tuple[int, int], ...] = ()
        on_the_way: list[Choice[object]] = []
        while taken not in self._ends:
            number = self._following[taken]
            choice = self._choices[number]
            on_the_way.append(choice)
            taken = (*taken, (number, choice.options.index(chooser.choose(choice))))
        options = {self._choices[c].name: self._choices[c].options[o] for c, o in taken}
        return Candidate(self._spec, variant, name_of(self._ends[taken]), constantdict(options), tuple(on_the_way), origin=origin)

    @property
    def default(self) -> Candidate:
        """What the rules give."""
        return self.made("", Rules(), "default")


def _frozen(value: Any) -> Any:
    """Lists as tuples, however deep."""
    if isinstance(value, dict):
        return {key: _frozen(part) for key, part in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None or math.isnan(seconds) else float(f"{seconds:.{DIGITS}g}")
