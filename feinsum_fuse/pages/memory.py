"""Charts of what each memory holds in the course of a mapping: a band for each tensor, cut where one tile makes room for the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import ModelError
from ..formats.language.caps import shortened
from ..formats.writing.amounts import amount
from ..model.course import CourseStep, LiveTile, MemoryCourse, memory_courses
from .chart import GREY, PALETTE, Chart, ChartAxis, Series
from .subject import Case

NEAR = 1 / 8
"""What share of a memory is held, at least, for its whole size to have a place on the axis."""


@dataclass(frozen=True)
class _Span:
    """A tile where it stands: from step to step, and above the tiles below it."""

    tile: LiveTile
    first: int
    last: int
    bottom: float


def courses(case: Case) -> list[Chart]:
    """One chart for each memory of finite size that a mapping holds anything in; none without a prediction."""
    try:
        return [_chart(case, found, place) for place, found in enumerate(_courses(case))]
    except ModelError:
        return []


def course_of(case: Case, memory: str) -> Chart:
    """That of one memory. Raises :class:`~feinsum_fuse.errors.ModelError` if the mapping is not modelled or holds nothing there."""
    found = {course.memory: course for course in _courses(case)}
    if memory not in found:
        what = f"the mapping holds nothing in {shortened(memory)}, or it is no memory of finite size"
        raise ModelError(what, hint=f"Memories that it does: {', '.join(found) or 'none'}.")
    return _chart(case, found[memory], list(found).index(memory))


def _courses(case: Case) -> tuple[MemoryCourse, ...]:
    if case.placed is None or case.prediction is None:
        raise ModelError(f"{case.label} is not modelled: {case.note}")
    return memory_courses(case.placed, case.prediction)


def _chart(case: Case, course: MemoryCourse, place: int) -> Chart:
    """Bytes over steps, stacked by tensor; the memory's size where it is near."""
    steps, size, memory = course.steps, course.size / 8, course.memory
    spans = list(_spans(steps))
    tensors = list(dict.fromkeys(span.tile.tensor for span in spans))
    shown = tensors[: len(PALETTE) - (len(tensors) > len(PALETTE))]
    series = [_series(tensor, [s for s in spans if s.tile.tensor == tensor], steps, PALETTE[number]) for number, tensor in enumerate(shown)]
    if rest := [span for span in spans if span.tile.tensor not in shown]:
        series.append(_series(f"{len(tensors) - len(shown)} others", rest, steps, "#cccccc"))
    most = max(span.bottom + span.tile.bits / 8 for span in spans)
    if most >= NEAR * size:
        line = Series(f"all of {memory}", "line", (-0.5, len(steps) - 0.5), (size, size), dashed=True, colour=GREY)
        series.append(line)
    told = f"Iterations that are drawn: {course.left_out}; the others are like these. " if course.left_out else ""
    caption = f"{told}Steps are as wide as each other. A band is cut where a tile makes room for the next, and ends where it is freed."
    title = f"{case.label}: tiles in {memory} as loops run, at most {amount(most, 'B')} of {amount(size, 'B')}"
    x = ChartAxis("step: Einsum, and iteration of its loops", categories=tuple(step.name for step in steps))
    return Chart(f"{case.key}-course-{place}", title, x, ChartAxis("held", "B"), tuple(series), caption)


def _spans(steps: Sequence[CourseStep]) -> Iterator[_Span]:
    """The tiles, those that live longest at the bottom; one that stays where it is, is one span."""
    held = [step.tiles for step in steps]
    lives: dict[LiveTile, int] = {}
    for tiles in held:
        for tile in tiles:
            lives[tile] = lives.get(tile, 0) + 1
    longest: dict[str, int] = {}
    for tile, life in lives.items():
        longest[tile.tensor] = max(life, longest.get(tile.tensor, 0))
    standing: dict[LiveTile, _Span] = {}
    for step, tiles in enumerate(held):
        bottom, now = 0.0, {}
        for tile in sorted(tiles, key=lambda tile: (-longest[tile.tensor], tile.tensor)):
            before = standing.pop(tile, None)
            if before is not None and before.bottom == bottom:
                now[tile] = _Span(tile, before.first, step, bottom)
            else:
                if before is not None:
                    yield before
                now[tile] = _Span(tile, step, step, bottom)
            bottom += tile.bits / 8
        yield from standing.values()
        standing = now
    yield from standing.values()


def _series(name: str, spans: Sequence[_Span], steps: Sequence[CourseStep], colour: str) -> Series:
    spans = sorted(spans, key=lambda span: (span.first, span.bottom))
    return Series(
        name,
        "spans",
        tuple(float(span.first) for span in spans),
        tuple(span.tile.bits / 8 for span in spans),
        tuple(_note(span, steps) for span in spans),
        tuple((span.first - 0.5, span.last + 0.5) for span in spans),
        tuple((span.bottom, span.bottom + span.tile.bits / 8) for span in spans),
        colour=colour,
    )


def _note(span: _Span, steps: Sequence[CourseStep]) -> str:
    """How long the tile stays."""
    seconds = sum(step.seconds for step in steps[span.first : span.last + 1])
    until = f" to {steps[span.last].name}" if span.last > span.first else ""
    return f"{span.tile.tensor}: {steps[span.first].name}{until}, {amount(seconds, 's')} of the steps that are drawn"
