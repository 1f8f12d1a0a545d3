"""A report as one HTML file: what a workload is, what each mapping becomes, what was predicted, measured and recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from ..archive.facts.fact import Fact
from ..cascades.cascade import Cascade
from ..device.timing.measurement import time_text
from ..formats.spec import Spec
from ..formats.writing.drawing import workload_svg
from ..formats.writing.text_tables import einsum_text, operation_text, role
from ..mapper.curves import Curve
from ..mapper.result import Result
from ..report.operation_counts import operations
from ..report.trial import Trials, header, table
from ..schedule.target import Target
from . import figures
from .chart import Chart
from .html_text import environment, packed, plotly, policy, text
from .listing import Listing, Marks, listing
from .memory import courses
from .picture import embedded
from .subject import Case, Course
from .tree_view import TreeColumn, annotated


@dataclass(frozen=True)
class Report:
    """What a page is made from. ``trials`` are missing where nothing was run."""

    title: str
    cascade: Cascade
    written: Spec
    """The workload as the user gave it."""
    cases: tuple[Case, ...]
    device: str
    target: Target = field(repr=False)
    """For the text of kernels."""
    trials: Trials | None = None
    facts: Sequence[Fact] = ()
    curves: Sequence[Curve] = ()
    results: Mapping[str, Result] = field(default_factory=dict)
    """Name of a file -> the search's result in it."""
    courses: Sequence[Course] = ()

    @property
    def operations(self) -> int:
        """By the naive count, of one instance."""
        return operations(self.cascade)

    def charts(self) -> list[Chart]:
        """The figures of the whole page, those of single mappings left out."""
        found = [
            figures.times(self.cases),
            figures.agreement(self.cases),
            figures.roofline(self.cases, self.operations),
        ]
        return [chart for chart in found if chart is not None and chart.series]

    def searches(self) -> list[Chart]:
        """The figures of searches."""
        found = [figures.curves(self.curves)] if self.curves else []
        found += [figures.front(result, place, name) for place, (name, result) in enumerate(self.results.items())]
        found += [figures.course(course, place) for place, course in enumerate(self.courses)]
        return [chart for chart in found if chart is not None and chart.series]


@dataclass(frozen=True)
class ShownChart:
    """A chart in a page: its picture, and its table."""

    chart: Chart
    image: str
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, chart: Chart) -> ShownChart:
        """The chart, drawn."""
        return cls(chart, embedded(chart), list(chart.rows()))


@dataclass(frozen=True)
class ShownCase:
    """A mapping in a page."""

    case: Case
    tree: TreeColumn
    listing: Listing
    marks: Marks
    charts: Sequence[ShownChart]
    figures: Sequence[tuple[str, str]]


def page(report: Report) -> str:
    """The page's text: one file that fetches nothing.

    Texts from files, archives and devices are escaped, and the page's own policy runs its own scripts alone. Raises
    :class:`~feinsum_fuse.errors.Error` without Matplotlib.
    """
    overall = [ShownChart.of(chart) for chart in report.charts()]
    searches = [ShownChart.of(chart) for chart in report.searches()]
    cases = [_shown(case, report.target) for case in report.cases]
    charts = [*overall, *searches, *(chart for case in cases for chart in case.charts)]
    library, script = plotly(), text("page.js")
    return (
        environment()
        .get_template("report.html")
        .render(
            report=report,
            overall=overall,
            searches=searches,
            cases=cases,
            einsums=[(e.name, einsum_text(e), operation_text(e)) for e in report.written.workload.einsums],
            tensors=_tensors(report.written, report.cascade),
            drawing=Markup(workload_svg(report.written.workload)),
            comparison=_side_by_side(report.trials),
            facts=[_fact_row(fact) for fact in report.facts],
            policy=policy([library, script] if library else [script]),
            library=packed(library) if library else "",
            script=Markup(script),
            charts={shown.chart.key: shown.chart.plotly() for shown in charts},
        )
    )


def _shown(case: Case, target: Target) -> ShownCase:
    tree = annotated(case.placed or case.spec, case.prediction)
    kernel = listing(case.spec, target)
    charts = [ShownChart.of(chart) for chart in (*figures.shares(case), *courses(case))]
    return ShownCase(case, tree, kernel, Marks(case.key, tree, kernel), charts, _figures(case))


def _side_by_side(trials: Trials | None) -> tuple[list[str], list[list[str]]] | None:
    """The head and the rows of the table that ``run`` prints."""
    return (["", *header(trials)], [[name, *cells] for name, cells in table(trials)]) if trials else None


def _tensors(spec: Spec, cascade: Cascade) -> list[tuple[str, str, str, str]]:
    workload = spec.workload
    return [
        (name, " x ".join(map(str, workload.shape(name).values())), str(cascade.tensors[name].dtype), role(workload, name))
        for name in workload.tensors
        if name in cascade.tensors
    ]


def _figures(case: Case) -> list[tuple[str, str]]:
    """What a mapping's heading is followed by."""
    found: list[tuple[str, str]] = []
    measured, predicted = case.measurement, case.predicted
    if measured is not None:
        found.append(("outcome", str(measured.outcome)))
        if measured.message:
            found.append(("why", measured.message))
        if measured.samples_ns:
            spread = f"{time_text(measured.median)}, middle half of {len(measured.samples_ns)} samples within {time_text(measured.spread)}"
            found.append(("measured time", f"{spread}, caches {measured.cache_state}"))
        if measured.error is not None and measured.tolerance is not None:
            found.append(("largest relative error", f"{measured.error:.1e} of {measured.tolerance:.1e} allowed"))
    if predicted is None:
        return [*found, ("prediction", f"none: {case.note}")]
    low, high = predicted.interval
    within = f", 8 in 10 {time_text(low)} to {time_text(high)}" if high else ""
    found.append(("predicted time", f"{time_text(predicted.predicted_time)}{within}"))
    if math.isfinite(case.measured):
        found.append(("predicted / measured", f"{predicted.predicted_time / case.measured:.2f}"))
    if predicted.predicted_floor:
        found.append(("roofline floor", f"{time_text(predicted.predicted_floor)}, by {predicted.predicted_floor_by}"))
    if predicted.prediction.energy:
        found.append(("predicted energy", predicted.prediction.energy_text))
    shares = ", ".join(f"{name} {share:.0%}" for name, share in predicted.shares.items() if share >= 0.05)
    return [*found, ("bound by", shares)] if shares else found


def _fact_row(fact: Fact) -> list[str]:
    known = fact.known
    how = f"{fact.found}{f' ({fact.detail})' if fact.detail else ''}"
    measured = known.measurement
    predicted = time_text(known.prediction.latency) if known.prediction else "-"
    date = measured.provenance.date[:16].replace("T", " ")
    return [known.id[:12], how, str(fact.trust), time_text(measured.median), predicted, date, str(known.device)]
