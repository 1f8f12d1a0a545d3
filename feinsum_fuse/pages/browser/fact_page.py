"""One fact as pages show it: its parts as texts, its kernel, its history as a picture, and two facts side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...archive.facts.record import Record
from ...device.timing.measurement import time_text
from ...errors import Error
from ...formats.language.caps import clipped
from ..chart import Chart, ChartAxis, Series
from ..picture import picture
from .questions import FactRow

FactParts = dict[str, list[tuple[str, str]]]
"""Heading -> (what, text)."""
MOST_STEPS = 2_000
"""Of a schedule whose kernel is generated while somebody waits."""


def shown(record: Record) -> FactParts:
    """What there is to read of a record."""
    measured, prediction, key = record.measurement, record.prediction, record.key
    parts: FactParts = {
        "What": [("cascade", str(record.cascade)), ("structure", key.structure), ("sizes", " x ".join(map(str, key.sizes)))]
    }
    parts["What"] += [("element types", ", ".join(key.dtypes)), ("legal for", record.applicable or "its own sizes")]
    found = [("outcome", str(measured.outcome)), ("stage", measured.stage)]
    found += [("message", clipped(measured.message))] if measured.message else []
    if measured.samples_ns:
        each = f", {measured.runs_per_sample} runs each" if measured.runs_per_sample > 1 else ""
        found += [
            ("median", time_text(measured.median)), ("minimum", time_text(measured.minimum)),
            ("spread", time_text(measured.spread)), ("samples", f"{len(measured.samples_ns)}{each}"),
        ]  # fmt: skip
        found += [("device's own median", time_text(measured.event_median))] if measured.event_ns else []
    found.append(("caches", measured.cache_state))
    if measured.error is not None and measured.tolerance is not None:
        found.append(("largest relative error", f"{measured.error:.1e} of {measured.tolerance:.1e} allowed"))
    parts["Measurement"] = found
    if prediction is not None:
        parts["Prediction"] = [("latency", time_text(prediction.latency)), ("energy", prediction.energy_text)]
        if prediction.least_latency:
            parts["Prediction"].append(("floor", time_text(prediction.least_latency)))
        if math.isfinite(measured.median):
            times = prediction.latency / max(1, prediction.n_instances) / measured.median
            parts["Prediction"].append(("predicted / measured", f"{times:.2f}"))
        bounds = ", ".join(f"{einsum} by {component}" for einsum, component in prediction.bottleneck.items())
        parts["Prediction"].append(("bound", clipped(bounds)))
    steps = str(record.schedule) if record.schedule is not None else "none: the mapping was rejected"
    parts["Schedule"] = [("steps", steps), ("mapping", record.mapping or "none")]
    parts["Provenance"] = list(_provenance(record))
    return parts


def _provenance(record: Record) -> Iterator[tuple[str, str]]:
    about = record.measurement.provenance
    yield "fact", record.id
    yield "origin", record.origin or "measured by whoever keeps this archive"
    yield "date", about.date
    yield "device", str(about.device)
    yield "driver", about.device.driver
    yield "threads", str(about.threads) + (f", {about.missing_cores}" if about.missing_cores else "")
    yield "versions", ", ".join(f"{name} {version}" for name, version in about.versions.items())
    yield "options", " ".join(about.options)
    yield "source", about.source_hash or "-"
    yield "harness", str(about.harness)


def kernel_of(record: Record) -> str:
    """The OpenCL C of a record's schedule in canonical names, or why there is none."""
    from ...codegen.generation import executable
    from ...schedule.target import ANY_DEVICE

    if record.schedule is None:
        return "There is no schedule: the mapping was rejected before there was one."
    if len(record.schedule) > MOST_STEPS:
        return f"The schedule has {len(record.schedule)} steps, more than {MOST_STEPS}: its kernel is not generated here."
    try:
        return executable(record.schedule.apply(record.cascade.kernel(), target=ANY_DEVICE), target=ANY_DEVICE).source
    except Error as error:
        return f"This version makes no kernel of it: {error}"


def drawn(history: Sequence[FactRow]) -> bytes:
    """The medians of the same thing over its dates, as SVG."""
    timed = [row for row in history if math.isfinite(row.median)]
    dates = tuple(row.date[:19] for row in timed)
    series = Series("median", "points", tuple(map(float, range(len(timed)))), tuple(row.median for row in timed))
    axis = ChartAxis("date", categories=dates) if dates else ChartAxis("date")
    return picture(Chart("history", "Medians of the same program", axis, ChartAxis("time", "s"), (series,)))


def differing(first: FactParts, second: FactParts) -> Mapping[str, list[tuple[str, str, str, bool]]]:
    """Heading -> (what, of the first, of the second, whether they differ)."""
    found: dict[str, list[tuple[str, str, str, bool]]] = {}
    for heading in dict.fromkeys([*first, *second]):
        one, other = dict(first.get(heading, [])), dict(second.get(heading, []))
        for what in dict.fromkeys([*one, *other]):
            a, b = one.get(what, "-"), other.get(what, "-")
            found.setdefault(heading, []).append((what, a, b, a != b))
    return found
