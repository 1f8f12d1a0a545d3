"""What notebooks show of results: tables, and charts where Matplotlib is; and the same figures as frames of pandas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .. import presentation
from ..archive.facts.fact import Fact
from ..device.program.program import Program
from ..device.timing.measurement import Measurement, time_text
from ..errors import Error
from ..formats.writing.drawing import mapping_svg
from ..mapper.result import Result
from ..model.breakdown import Breakdown
from ..model.prediction import Prediction
from ..report.comparison import HEAD, Comparison
from ..tuning.tuned import Tuned
from . import figures
from .browser.fact_page import shown
from .chart import Chart, ChartAxis, Series
from .html_text import environment
from .picture import embedded
from .subject import Case, Course

SHOWN = 20
"""Rows of a table in a notebook; frames have all."""


@dataclass(frozen=True)
class Table:
    """A table under its heading."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def fragment(title: str, tables: Sequence[Table] = (), charts: Sequence[Chart | None] = (), *, note: str = "", source: str = "") -> str:
    """HTML that stands within a notebook's page. Foreign texts are escaped, and no script is in it."""
    return (
        environment()
        .get_template("notebook.html")
        .render(title=title, tables=tables, images=_images(charts), note=note, source=Markup(source), most=SHOWN)
    )


def _images(charts: Sequence[Chart | None]) -> list[tuple[str, str]]:
    """(title, picture) of each chart; none without Matplotlib."""
    try:
        return [(chart.title, embedded(chart)) for chart in charts if chart is not None and chart.series]
    except Error:
        return []


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def _table(title: str, value: object) -> Table:
    """The frame's columns and rows as a table."""
    head, rows = presentation.columns(value)
    return Table(title, head, [[_text(cell) for cell in row] for row in rows])


@presentation.columns.register
def breakdown_columns(value: Breakdown) -> presentation.Columns:
    """A row for each name."""
    return value.head, [[name, *(float(row[each]) for each in value.units)] for name, row in value.rows.items()]


@presentation.columns.register
def prediction_columns(value: Prediction) -> presentation.Columns:
    """A row for each Einsum, component, tensor and action: how often, and J."""
    energy = value.action_energy.entries
    rows = [[*key, count, energy.get(key, 0.0)] for key, count in value.actions.entries.items()]
    return ["einsum", "component", "tensor", "action", "count", f"energy/{value.energy_unit}"], rows


@presentation.columns.register
def measurement_columns(value: Measurement) -> presentation.Columns:
    """A row for each sample, in the order in which they were taken: seconds by the host's clock and by the device's own."""
    own: list[float | None] = [1e-9 * ns for ns in value.event_ns]
    own += [None] * (len(value.samples_ns) - len(own))
    return ["time/s", "device's own time/s"], [[1e-9 * ns, event] for ns, event in zip(value.samples_ns, own, strict=False)]


@presentation.columns.register
def comparison_columns(value: Comparison) -> presentation.Columns:
    """A row for each judged mapping, the fastest first; seconds."""
    rows: list[list[str | float | None]] = [
        [one.label, one.measured, one.measurement.spread, one.predicted.predicted_time, *one.predicted.interval, one.ratio,
         one.predicted.predicted_floor, one.predicted.bottleneck]
        for one in value.ordered
    ]  # fmt: skip
    head = ["mapping", "measured/s", "spread/s", "predicted/s", "predicted low/s", "predicted high/s", "predicted/measured", "floor/s"]
    return [*head, "bound by"], rows


@presentation.columns.register
def result_columns(value: Result) -> presentation.Columns:
    """A row for each mapping of the front; J, s, bits."""
    memories = sorted({name for found in value.front for name in found.peak})
    rows: list[list[str | float | None]] = [
        [f.energy, f.latency, *(float(f.peak.get(name, 0.0)) for name in memories), str(f.mapping)] for f in value.front
    ]
    return [f"energy/{value.energy_unit}", "latency/s", *(f"{name}/bit" for name in memories), "mapping"], rows


@presentation.columns.register
def tuned_columns(value: Tuned) -> presentation.Columns:
    """A row for each candidate, in the order in which they were measured; seconds."""
    rows = [[one.origin, one.variant, one.predicted, one.measured, str(one.outcome), one.message] for one in value.history]
    return ["from", "rewritten by", "predicted/s", "measured/s", "outcome", "message"], rows


@presentation.columns.register
def fact_columns(value: Fact) -> presentation.Columns:
    """A row for each thing that is known of it."""
    if value.record is None:
        return ["part", "what", "text"], [["", "found", value.detail]]
    return ["part", "what", "text"], [[part, what, text] for part, rows in shown(value.record).items() for what, text in rows]


@presentation.columns.register
def program_columns(value: Program) -> presentation.Columns:
    """A row for each argument."""
    arguments = [(role, a) for role, every in (("input", value.executable.inputs), ("output", value.executable.outputs)) for a in every]
    return ["argument", "role", "type", "shape"], [[a.name, role, str(a.dtype), " x ".join(map(str, a.shape))] for role, a in arguments]


@presentation.html.register
def breakdown_html(value: Breakdown) -> str:
    """Its table."""
    return fragment(f"by {value.kind}", [_table("", value)])


@presentation.html.register
def prediction_html(value: Prediction) -> str:
    """Totals, Einsums, components, and what time and energy go into."""
    title = f"Prediction: {time_text(value.latency)}, {value.energy_text}"
    low, high = value.latency_low, value.latency_high
    within = f"8 in 10 kernels of this kind took {time_text(low)} to {time_text(high)}. " if high else ""
    floor = f"Floor: at least {time_text(value.least_latency)}." if value.least_latency else ""
    tables = [_table("by Einsum", value.per_einsum), _table("by component", value.per_component), _table("actions", value)]
    return fragment(title, tables, list(figures.shares_of(value, "prediction", "Prediction")), note=within + floor)


@presentation.html.register
def measurement_html(value: Measurement) -> str:
    """Its line, and every sample."""
    chart = None
    if value.samples_ns:
        samples = Series("samples", "points", tuple(map(float, range(len(value.samples_ns)))), tuple(1e-9 * ns for ns in value.samples_ns))
        chart = Chart("samples", "Samples in the order in which they were taken", ChartAxis("sample"), ChartAxis("time", "s"), (samples,))
    title = time_text(value.median) if math.isfinite(value.median) else str(value.outcome)
    return fragment(f"Measurement: {title}", [], [chart], note=str(value))


@presentation.html.register
def comparison_html(value: Comparison) -> str:
    """The mappings, the fastest first, the verdict, and predicted against measured times."""
    cases = [
        Case(t.label, f"m{n}", t.spec, value.trials.cascade, t.predicted, t.note, t.measurement) for n, t in enumerate(value.trials.trials)
    ]
    table = Table("", HEAD, [one.row() for one in value.ordered])
    return fragment(f"Model against {value.trials.device}", [table], [figures.agreement(cases)], note=value.verdict)


@presentation.html.register
def result_html(value: Result) -> str:
    """The front, and the best mapping."""
    state = "optimal" if value.proved else f"gap {100 * value.gap:.3g} %"
    chart = figures.front(value, 0, "Search") if len(value.front) > 1 else None
    best = mapping_svg(value.front[0].mapping)
    return fragment(f"Search for least {value.objective}: {state}", [_table("", value)], [chart], source=best)


@presentation.html.register
def tuned_html(value: Tuned) -> str:
    """The fastest candidates, and the course of the search."""
    note = f"{time_text(value.measurement.median)}, the default mapping {time_text(value.default.median)}; {value.device}"
    return fragment("Tuned", [_table("candidates", value)], [figures.course(Course.of(value), 0)], note=note)


@presentation.html.register
def fact_html(value: Fact) -> str:
    """Everything that is on record."""
    return fragment(f"Fact: {value.found}", [_table("", value)], note=value.detail)


@presentation.html.register
def program_html(value: Program) -> str:
    """Arguments, LoopTree and text."""
    spec = value.spec
    tree = mapping_svg(spec.mapping, spec.workload) if spec is not None and spec.mapping is not None else ""
    return fragment(f"Program on {value.device.name.strip()}", [_table("", value)], note=value.source, source=tree)
