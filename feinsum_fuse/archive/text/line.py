"""One fact as a line of JSON, and what a line must be before it is believed."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, StringConstraints

from ...device.timing.measurement import Measurement, Subject
from ...device.timing.outcome import Outcome
from ...model.prediction import Prediction
from ..facts.fact import FactId, Record
from ..facts.recording import applicable_sizes, record_from
from ..tables.storage import schedule_from_text, schedule_to_text
from .cascade_text import CascadeText, StrictModel, cascade_of, cascade_to_json

Text = Annotated[str, StringConstraints(max_length=100_000)]
Word = Annotated[str, StringConstraints(max_length=1_000)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Nanoseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Figure = Annotated[float, Field(allow_inf_nan=False)] | Literal["inf", "-inf", "nan"]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def _outcome(text: str) -> str:
    return Outcome(text).value


class OpenModel(StrictModel):
    """Like a dataclass of ours that may have got further plain fields since; the dataclass itself refuses those that it does not have."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    __pydantic_extra__: dict[str, Text | int | Finite | bool | None] = Field(init=False)


class DeviceLine(OpenModel):
    """The fields of :class:`~feinsum_fuse.device.catalogue.DeviceInfo`."""

    platform: Word
    name: Word
    ordinal: Count
    vendor: Word
    driver: Word
    version: Word
    kind: Word
    units: Count
    global_bytes: Count
    cache_bytes: Count
    local_bytes: Count


class ProvenanceLine(OpenModel):
    """The fields of :class:`~feinsum_fuse.device.timing.measurement.Provenance`."""

    device: DeviceLine
    versions: dict[Word, Word] = Field(max_length=100)
    source_hash: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")]
    options: list[Word] = Field(max_length=100)
    threads: Count
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$", max_length=40)]
    harness: Count


class ArgumentLine(OpenModel):
    """The fields of :class:`~feinsum_fuse.codegen.executable.Argument`."""

    name: Word
    dtype: Word
    shape: list[Count] = Field(max_length=64)
    role: Literal["input", "output", "temporary"]
    strides: list[int] = Field(max_length=64)
    by_value: bool


class MeasurementLine(OpenModel):
    """The fields of :class:`~feinsum_fuse.device.timing.measurement.Measurement`."""

    outcome: Annotated[str, AfterValidator(_outcome)]
    stage: Word
    message: Text
    provenance: ProvenanceLine
    samples_ns: list[Nanoseconds] = Field(max_length=1_000_000)
    event_ns: list[Nanoseconds] = Field(max_length=1_000_000)
    runs_per_sample: Annotated[int, Field(ge=1, lt=2**63)]
    cache_state: Literal["cold", "warm"]
    error: Finite | None
    tolerance: Finite | None
    arguments: list[ArgumentLine] = Field(max_length=10_000)
    label: Word


class TableLine(StrictModel):
    """The fields of a :class:`~feinsum_fuse.model.prediction.Figures`: axes with their known names, and rows with the figure last."""

    axes: list[tuple[Word, list[Word | None]]] = Field(max_length=16)
    rows: list[list[Word | Figure | None]] = Field(max_length=1_000_000)


class PredictionLine(StrictModel):
    """What a model said; the fields of :class:`~feinsum_fuse.model.prediction.Prediction`, each marked as predicted."""

    predicted_energy: Figure
    predicted_latency: Figure
    predicted_dynamic_energy: Figure
    predicted_total_leak_energy: Figure
    predicted_n_instances: Annotated[int, Field(ge=1, lt=2**63)]
    predicted_least_latency: Figure = 0.0
    predicted_tables: dict[Word, TableLine] = Field(max_length=100)


class FactLine(StrictModel):
    """A fact; cascade, schedule and arguments in canonical names."""

    format: Literal[1]
    fact: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    structure: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """The hash of the cascade's structure, by which lines can be picked out of a file; an import computes it anew."""
    cascade: CascadeText
    schedule: Annotated[list[dict[str, JsonValue]], Field(max_length=100_000)] | None
    measurement: MeasurementLine
    prediction: PredictionLine | None
    mapping: Text = ""
    applicable: Text = ""
    """The sizes for which the schedule is legal; derived where a line does not say them."""


def line_of(record: Record) -> FactLine:
    """The line of a record."""
    return FactLine.model_validate_json(
        json.dumps(
            {
                "format": 1,
                "fact": record.id,
                "structure": record.key.structure,
                "cascade": json.loads(cascade_to_json(record.cascade)),
                "schedule": json.loads(schedule_to_text(record.schedule)),
                "measurement": json.loads(record.measurement.to_json()),
                "prediction": None if record.prediction is None else _prediction_to_data(record.prediction),
                "mapping": record.mapping,
                "applicable": applicable_sizes(record),
            }
        )
    )


def record_from_line(line: FactLine) -> Record:
    """The record in a line, its keys computed anew; an :class:`~feinsum_fuse.errors.Error` or ``ValueError`` if its parts do not fit."""
    measurement = Measurement.from_json(line.measurement.model_dump_json())
    schedule = schedule_from_text(json.dumps(line.schedule))
    prediction = None if line.prediction is None else _prediction_of(line.prediction)
    subject = Subject(cascade_of(line.cascade), schedule)
    return record_from(dataclasses.replace(measurement, subject=subject), prediction, FactId(line.fact), line.mapping, line.applicable)


def _prediction_to_data(prediction: Prediction) -> dict[str, Any]:
    """JSON has no infinity; a memory without limits has that size, so it is written as text."""
    data = json.loads(prediction.to_json())
    for table in data["tables"].values():
        table["rows"] = [[*row[:-1], _figure(row[-1])] for row in table["rows"]]
    return {f"predicted_{name}": _figure(value) if isinstance(value, float) else value for name, value in data.items()}


def _figure(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _prediction_of(line: PredictionLine) -> Prediction:
    data = {name.removeprefix("predicted_"): value for name, value in line.model_dump().items()}
    scalars = {name: float(value) if isinstance(value, str) else value for name, value in data.items()  if name != "tables"}
    return Prediction.from_json(json.dumps({**scalars, "tables": data["tables"]}))
