"""The charts of a report: times, roofline, what time and energy go into, memory over the mapping, searches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..errors import Error
from ..formats.arch import Compute, Memory
from ..formats.writing.amounts import amount
from ..mapper.curves import Curve
from ..mapper.failures import NoMappingError
from ..mapper.result import Result
from ..model.floor import bounds
from ..model.prediction import Figures, Prediction
from ..report.bytes_moved import bytes_moved
from ..report.sweep import Sweep
from .chart import GREY, PALETTE, Chart, ChartAxis, Series
from .subject import Case, Course

TIME_AXIS = ChartAxis("time", "s")
NAMES = {"unfused": "unfused", "whole": "whole intermediates", "ffmr": "fused by FFMR", "all": "any LoopTree"}
WIDTHS = {"unfused": 8.0, "whole": 5.5, "ffmr": 3.5, "all": 1.5}
"""Of the curves' lines."""
MOST_NAMED = 7
"""Series of one chart that have a colour of their own; the least of more are added up."""


def times(cases: Sequence[Case]) -> Chart:
    """Measured time, predicted time and floor of each mapping, on a logarithmic scale."""
    axis = ChartAxis("mapping", categories=tuple(case.label for case in cases))
    measured = [case.measured for case in cases]
    predicted = [case.predicted_time for case in cases]
    floors = [case.predicted.predicted_floor if case.predicted else math.nan for case in cases]
    quartiles = tuple(_quartiles(case) for case in cases)
    intervals = tuple(case.interval for case in cases)
    series = (
        _points("measured, median", measured, y_range=quartiles, colour=PALETTE[0]),
        _points("predicted", predicted, y_range=intervals, colour=PALETTE[1]),
        _points("roofline floor", floors, colour=GREY),
    )
    caption = "Bars: the middle half of the samples; the times between which 8 in 10 kernels of the prediction's kind were."
    return Chart("times", "Time of each mapping", axis, ChartAxis("time", "s", log=True), tuple(s for s in series if s.x), caption)


def agreement(cases: Sequence[Case]) -> Chart | None:
    """Predicted against measured times with their errors, and the line on which they are equal; ``None`` if no mapping has both."""
    both = [case for case in cases if case.measured > 0 and case.predicted_time > 0]
    if not both:
        return None
    every = [time for case in both for time in (case.measured, case.predicted_time)]
    low, high = min(every) / 1.6, max(every) * 1.6
    lines = [Series("equal", "line", (low, high), (low, high), dashed=True, colour=GREY)]
    for name, factor in (("half", 0.5), ("twice", 2.0)):
        lines.append(Series(name, "line", (low, high), (low * factor, high * factor), dashed=True, colour="#bbbbbb"))
    points = Series(
        "mappings",
        "points",
        tuple(case.measured for case in both),
        tuple(case.predicted_time for case in both),
        tuple(case.label for case in both),
        tuple(_quartiles(case) for case in both),
        tuple(case.interval for case in both),
        colour=PALETTE[0],
    )
    caption = "Bars: the middle half of the samples, and the interval of the prediction where the kernel model gives one."
    x, y = ChartAxis("measured time, median", "s", log=True), ChartAxis("predicted time", "s", log=True)
    return Chart("agreement", "Predicted against measured time", x, y, (*lines, points), caption)


def roofline(cases: Sequence[Case], operations: int) -> Chart | None:
    """Operations a second over operations a byte, below the roofs of every memory; ``None`` without a prediction.

    A roof is what a memory moves a second in the mix of reads and writes that no mapping avoids (:func:`.model.floor.bounds`). A mapping
    has a point for each memory, at the bytes that the model counts there and the speed that was measured, or predicted if it was not.
    """
    modelled = [case for case in cases if case.placed is not None and case.prediction is not None]
    if not modelled:
        return None
    points: dict[str, list[tuple[float, float, str]]] = {}
    roofs: dict[str, float] = {}
    peak = 0.0
    for case in modelled:
        speeds, top = _roofs(case, operations)
        peak = max(peak, top)
        for name, (intensity, speed) in speeds.items():
            roofs[name] = max(roofs.get(name, 0.0), speed)
            seconds, how = (case.measured, "measured") if case.measured > 0 else (case.predicted_time, "predicted")
            if seconds > 0 and math.isfinite(intensity):
                points.setdefault(name, []).append((intensity, operations / seconds, f"{case.label}, {how}"))
    every = [x for found in points.values() for x, _, _ in found]
    if not every or not peak:
        return None
    low, high = min(every) / 4, max([*every, *(peak / speed for speed in roofs.values() if speed)]) * 4
    series = [
        Series(f"{name}, {_speed(speed)}", "line", *_roof(low, high, speed, peak), dashed=True, colour=PALETTE[place % len(PALETTE)])
        for place, (name, speed) in enumerate(roofs.items())
        if speed
    ]
    series += [
        Series(name, "points", *_columns(found), colour=PALETTE[place % len(PALETTE)]) for place, (name, found) in enumerate(points.items())
    ]
    caption = "Dashed: what the device's rates allow. Points: each mapping at the bytes that the model counts in each memory."
    x, y = ChartAxis("operations per byte", "op/B", log=True), ChartAxis("speed", "op/s", log=True)
    return Chart("roofline", "Roofline", x, y, tuple(series), caption)


def _roofs(case: Case, operations: int) -> tuple[dict[str, tuple[float, float]], float]:
    """Memory -> (operations per byte, bytes a second), and operations a second of the compute units."""
    spec, prediction = case.placed, case.prediction
    assert spec is not None and prediction is not None and spec.arch is not None
    floor, count = bounds(case.ran, cold=case.cold), spec.workload.n_instances
    least = bytes_moved(spec, _only(prediction, floor.actions))
    moved = bytes_moved(spec, prediction)
    found: dict[str, tuple[float, float]] = {}
    top = 0.0
    for leaf in spec.arch.components:
        seconds = floor.seconds.get(leaf.name, 0.0)
        if isinstance(leaf, Compute) and seconds:
            top = max(top, operations * count / seconds)
        if isinstance(leaf, Memory) and seconds:
            here = sum(b for (_, component, _, _), b in moved.items() if component == leaf.name)
            floor_here = sum(b for (_, component, _, _), b in least.items() if component == leaf.name)
            found[leaf.name] = (operations * count / here if here else math.inf, floor_here / seconds)
    return found, top


def _only(prediction: Prediction, least: Mapping[tuple[str, str], float]) -> Prediction:
    """The prediction with actions scaled to the least count of each component and action."""
    entries = prediction.actions.entries
    sums: dict[tuple[str, str], float] = {}
    for (_, component, _, action), n in entries.items():
        sums[str(component), str(action)] = sums.get((str(component), str(action)), 0.0) + n
    scaled = {
        key: n * least.get((str(key[1]), str(key[3])), 0.0) / total
        for key, n in entries.items()
        if (total := sums[str(key[1]), str(key[3])])
    }
    return replace(prediction, actions=Figures(prediction.actions.axes, scaled))


def _roof(low: float, high: float, speed: float, peak: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    ridge = peak / speed
    xs = tuple(sorted({low, min(max(ridge, low), high), high}))
    return xs, tuple(min(x * speed, peak) for x in xs)


def _speed(value: float) -> str:
    return amount(value, "B/s")


def shares(case: Case) -> Iterator[Chart]:
    """Those of a mapping; none without a prediction."""
    return shares_of(case.prediction, case.key, case.label) if case.prediction is not None else iter(())


def shares_of(prediction: Prediction, key: str, label: str) -> Iterator[Chart]:
    """What time and energy go into, by component and Einsum, and what the memories hold meanwhile."""
    busy = _stacked(((str(e), str(c), s) for (e, c), s in prediction.component_latency.entries.items()), 1.0)
    caption = "Components work side by side: the longest counts."
    yield _bars(f"{key}-busy", f"{label}: how long each component is busy", TIME_AXIS, *busy, caption)
    energies: dict[tuple[str, str], float] = {}
    for (einsum, component, *_), joules in (*prediction.action_energy.entries.items(), *prediction.leak_energy.entries.items()):
        energies[str(einsum), str(component)] = energies.get((str(einsum), str(component)), 0.0) + joules
    spent = [(e, c, joules) for (e, c), joules in energies.items() if joules]
    if spent:
        axis = _energy_axis("energy", assumed=prediction.energies_assumed)
        yield _bars(f"{key}-energy", f"{label}: energy by component and Einsum", axis, *_stacked(spent, 1.0))
    held = list(_held(prediction))
    if held:
        caption = "Of each memory of finite size, over the Einsums in the order in which they run; stacked by tensor."
        yield _bars(f"{key}-memory", f"{label}: memory in use", ChartAxis("share of the size", "%"), *_stacked(held, 100.0), caption)


def _held(prediction: Prediction) -> Iterator[tuple[str, str, float]]:
    """(tensor, ``memory during Einsum``, share of the memory)."""
    for (einsum, memory, tensor), bits in prediction.occupancy.entries.items():
        size = prediction.sizes[str(memory)]
        if bits and 0 < size < math.inf:
            yield str(tensor), f"{memory} in {einsum}", bits / size


def _stacked(entries: Iterable[tuple[str, str, float]], scale: float) -> tuple[tuple[str, ...], tuple[Series, ...]]:
    """(places along the axis, a series for each name); entries are (name, place, figure). The least of many names are one."""
    sums: dict[str, dict[str, float]] = {}
    places: dict[str, int] = {}
    for name, place, figure in entries:
        places.setdefault(place, len(places))
        found = sums.setdefault(name, {})
        found[place] = found.get(place, 0.0) + figure * scale
    if len(sums) > MOST_NAMED + 1:
        order = sorted(sums, key=lambda name: -sum(sums[name].values()))
        rest: dict[str, float] = {}
        for name in order[MOST_NAMED:]:
            for place, figure in sums[name].items():
                rest[place] = rest.get(place, 0.0) + figure
        sums = {name: sums[name] for name in sums if name in order[:MOST_NAMED]} | {f"{len(order) - MOST_NAMED} others": rest}
    series = (Series(name, "bars", tuple(float(places[p]) for p in found), tuple(found.values())) for name, found in sums.items())
    return tuple(places), tuple(series)


def _bars(key: str, title: str, y: ChartAxis, places: tuple[str, ...], series: tuple[Series, ...], caption: str = "") -> Chart:
    return Chart(key, title, ChartAxis("", categories=places), y, series, caption, stacked=True)


def _energy_axis(title: str, *, assumed: bool) -> ChartAxis:
    """Joules, said to be assumed where they are: a unit has prefixes before it and nothing behind it."""
    return ChartAxis(f"{title}, by assumed energies" if assumed else title, "J")


def curves(found: Sequence[Curve]) -> Chart:
    """Orojenesis: least traffic of the outermost memory, or least energy, over the size of another, and what that memory has.

    The legend says what each kind reaches there. Raises :class:`~feinsum_fuse.errors.Error` if there is nothing to draw.
    """
    kinds = [one for one in found if one.points]
    if not kinds:
        raise Error("There is no curve to draw.")
    first = kinds[0]
    unit = "bit" if first.against == "traffic" else "J"
    finite = 0 < first.capacity < math.inf
    heights = [one.height(point) for one in kinds for point in one.points]
    least = min([point.size for one in kinds for point in one.points if point.size > 0] or [2.0]) / 2
    most = 1.25 * max([point.size for one in kinds for point in one.points] + [first.capacity] * finite + [2 * least])
    series = [_curve(one, unit, finite, (least, most)) for one in kinds]
    if finite:
        name = f"{first.memory} has {amount(first.capacity, 'bit')}"
        series.append(Series(name, "line", (first.capacity,) * 2, (min(heights), max(heights)), dashed=True, colour="#000000"))
    what = f"least traffic of {kinds[0].points[0].outer}" if first.against == "traffic" else "least energy"
    x = ChartAxis(f"size of {first.memory}", "bit", log=True)
    caption = "Left of a step no mapping of its kind does as well."
    title = f"What a larger {first.memory} would bring"
    y = ChartAxis(what, unit, log=True) if unit == "bit" else replace(_energy_axis(what, assumed=first.energies_assumed), log=True)
    return Chart("curves", title, x, y, tuple(series), caption)


def _curve(one: Curve, unit: str, finite: bool, ends: tuple[float, float]) -> Series:
    """A staircase between two ends; its name says what it comes to at the memory's capacity, if that is finite.

    What needs no room has no place on a logarithmic axis, and lies at the left end.
    """
    name = NAMES[one.kind]
    if finite:
        try:
            name += f": {amount(one.height(one.at(one.capacity)), unit)}"
        except NoMappingError:
            name += ": does not fit"
    least, most = ends
    x, y = tuple(point.size or least for point in one.points), tuple(one.height(point) for point in one.points)
    notes = tuple("" if point.size else "needs no room: drawn at the left end" for point in one.points)
    return Series(name, "steps", (*x, most), (*y, y[-1]), (*notes, f"any larger {one.memory}, too"), width=WIDTHS[one.kind], marked=True)


def swept(found: Sweep) -> Chart:
    """Predicted times over the first variable, and floors: a line for each mapping and each combination of the other variables' values."""
    every = list(dict.fromkeys(point.values[found.names[0]] for point in found.points))
    numbers = [value for value in every if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(every):
        places: dict[object, float] = {value: float(value) for value in numbers}
        axis = ChartAxis(found.names[0], log=min(numbers) > 0)
    else:
        places = {value: float(number) for number, value in enumerate(every)}
        axis = ChartAxis(found.names[0], categories=tuple(map(str, every)))
    series = []
    for number, (name, points) in enumerate(found.lines().items()):
        points = sorted(points, key=lambda point: places[point.values[found.names[0]]])
        x, colour = tuple(places[point.values[found.names[0]]] for point in points), PALETTE[number % len(PALETTE)]
        series.append(Series(name, "line", x, tuple(p.latency for p in points), marked=True, colour=colour))
        floors = tuple(point.floor if point.floor > 0 else math.nan for point in points)
        series.append(Series(f"{name}, floor", "line", x, floors, dashed=True, colour=colour))
    title = f"Predicted time over {', '.join(found.names)}"
    return Chart("sweep", title, axis, ChartAxis("predicted time", "s", log=True), tuple(series))


def front(result: Result, place: int, name: str) -> Chart:
    """The mappings that a search kept: energy over latency."""
    points = [(one.latency, one.energy, f"mapping {number}") for number, one in enumerate(result.front, 1)]
    proved = "proved" if result.proved else f"gap {100 * result.gap:.3g} %"
    return Chart(
        f"front-{place}",
        f"{name}: what the search for least {result.objective} kept ({proved})",
        ChartAxis("latency", "s"),
        _energy_axis("energy", assumed=result.energies_assumed),
        (Series("mappings", "points", *_columns(points)),),
    )


def course(tuned: Course, place: int) -> Chart:
    """A tuner's history: each candidate's time in the order of measuring, the best so far, the default mapping's time, and the floor."""
    timed = [(number, seconds, note) for number, (seconds, note) in enumerate(tuned.times, 1) if seconds is not None]
    best = math.inf
    steps: list[tuple[float, float]] = []
    for number, seconds, _ in timed:
        best = min(best, seconds)
        steps.append((number, best))
    ends = (1.0, float(max(len(tuned.times), 2)))
    series = [Series("candidates", "points", *_columns(timed), colour=PALETTE[1])] if timed else []
    if steps:
        series.append(Series("best so far", "steps", tuple(at for at, _ in steps), tuple(best for _, best in steps), colour=PALETTE[0]))
    for name, level in (("default mapping", tuned.default), ("floor", tuned.floor)):
        if level > 0 and math.isfinite(level):
            series.append(Series(name, "line", ends, (level, level), dashed=True, colour=GREY if name == "floor" else PALETTE[3]))
    y = ChartAxis("time", "s", log=True)
    return Chart(f"course-{place}", f"{tuned.name}: the tuner's course", ChartAxis("candidate"), y, tuple(series))


def _points(name: str, values: Sequence[float], *, y_range: tuple[tuple[float, float], ...] = (), colour: str) -> Series:
    """Values at the places of a category axis; those that are no number left out."""
    here = [place for place, value in enumerate(values) if value > 0 and math.isfinite(value)]
    ranges = tuple(y_range[place] if all(y_range[place]) else (values[place], values[place]) for place in here) if y_range else ()
    return Series(name, "points", tuple(map(float, here)), tuple(values[place] for place in here), y_range=ranges, colour=colour)


def _columns(rows: Iterable[tuple[float, float, str]]) -> tuple[tuple[float, ...], tuple[float, ...], tuple[str, ...]]:
    xs, ys, notes = zip(*rows, strict=True)
    return xs, ys, notes


def _quartiles(case: Case) -> tuple[float, float]:
    samples = case.samples
    if len(samples) < 2:
        return (case.measured, case.measured)
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return (first, third)
