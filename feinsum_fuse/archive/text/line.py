"""One fact as a line of JSON, and what a line must be before it is believed."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints

from ...device.timing.measurement import MeasurementText, Subject
from ...errors import ArchiveError
from ...formats.validation.adapter import Adapter, StrictModel
from ...model.prediction import PredictionText
from ..facts.fact import FactId, Record
from ..facts.recording import applicable_sizes, record_from
from ..tables.storage import compact, schedule_from_text, schedule_to_text
from .cascade_text import CascadeText, cascade_of, cascade_to_json

Text = Annotated[str, StringConstraints(max_length=100_000)]


class PredictionLine(PredictionText):
    """What a model said; each figure is marked as predicted."""

    model_config = ConfigDict(alias_generator=lambda name: f"predicted_{name}", populate_by_name=True)


class FactLine(StrictModel):
    """A fact; cascade, schedule and arguments in canonical names."""

    format: Literal[1]
    fact: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    structure: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """The hash of the cascade's structure, by which lines can be picked out of a file; an import computes it anew."""
    cascade: CascadeText
    schedule: Annotated[list[dict[str, JsonValue]], Field(max_length=100_000)] | None
    measurement: MeasurementText
    prediction: PredictionLine | None
    mapping: Text = ""
    applicable: Text = ""
    """The sizes for which the schedule is legal; derived where a line does not say them."""


FACTS: Adapter[FactLine] = Adapter(FactLine, "fact", ArchiveError)


def line_of(record: Record) -> str:
    """The line of a record, without a line end."""
    return compact(
        {
            "format": 1,
            "fact": record.id,
            "structure": record.key.structure,
            "cascade": json.loads(cascade_to_json(record.cascade)),
            "schedule": json.loads(schedule_to_text(record.schedule)),
            "measurement": json.loads(record.measurement.to_json()),
            "prediction": None if record.prediction is None else _finite(PredictionLine.of(record.prediction).model_dump(by_alias=True)),
            "mapping": record.mapping,
            "applicable": applicable_sizes(record),
        }
    )


def record_from_line(line: FactLine) -> Record:
    """The record in a line, its keys computed anew; an :class:`~feinsum_fuse.errors.Error` or ``ValueError`` if its parts do not fit."""
    schedule = schedule_from_text(json.dumps(line.schedule))
    prediction = None if line.prediction is None else line.prediction.prediction()
    measurement = dataclasses.replace(line.measurement, subject=Subject(cascade_of(line.cascade), schedule))
    return record_from(measurement, prediction, FactId(line.fact), line.mapping, line.applicable)


def _finite(data: JsonValue) -> JsonValue:
    """The data with figures that strict JSON cannot hold as text: a memory without limits has infinite size."""
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data
