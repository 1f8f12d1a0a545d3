"""What releases before this one wrote is still read, and is written again byte for byte.

``tests/golden/records`` holds lines of commit ac6462c: real programs, predictions and measurements, steps of every class, and a database as
SQL. A line that no longer comes back means that somebody's records are lost.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import optuna
import pytest
from pydantic import JsonValue

from feinsum_fuse.archive import export_facts, import_facts, migrate
from feinsum_fuse.archive.facts.record import Record
from feinsum_fuse.archive.text.lines import read_facts
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.timing.measurement import Measurement
from feinsum_fuse.errors import Error
from feinsum_fuse.model.prediction import Prediction
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import REGISTRY
from tests.sweeps import SLOW

FOLDER = Path(__file__).parent / "golden" / "records"
SHIPPED = sorted((Path(__file__).parents[1] / "database").glob("*.jsonl"))


def lines(name: str) -> list[str]:
    """The lines of a file, which may hold separators that are line ends to others than JSON."""
    return (FOLDER / name).read_text(encoding="utf-8").rstrip("\n").split("\n")


@pytest.mark.parametrize("line", lines("steps.jsonl"))
def test_steps(line: str) -> None:
    assert Schedule.from_json(f"[{line}]").to_json() == f"[{line}]"


def test_every_class_of_steps_has_a_line() -> None:
    assert {json.loads(line)["step"] for line in lines("steps.jsonl")} == set(REGISTRY)


def test_a_schedule() -> None:
    text = "\n".join(lines("schedule.json"))
    assert Schedule.from_json(text).to_json() == text


def test_an_executable() -> None:
    (line,) = lines("executables.jsonl")
    program = Executable.from_json(line)
    assert program.to_json() == line
    assert program.arguments[0].shape == tuple(json.loads(line)["arguments"][0]["shape"])


@pytest.mark.parametrize("line", lines("measurements.jsonl"))
def test_measurements(line: str) -> None:
    measurement = Measurement.from_json(line)
    assert measurement.to_json() == line
    assert hash(measurement) == hash(Measurement.from_json(line))


@pytest.mark.parametrize("line", lines("predictions.jsonl"))
def test_predictions(line: str) -> None:
    """Those that were stored before there was a floor are read with none; an interval that is not set is not written."""
    prediction = Prediction.from_json(line)
    data = json.loads(prediction.to_json())
    assert json.dumps({name: data[name] for name in json.loads(line)}) == line
    assert data.keys() - json.loads(line).keys() <= {"least_latency"}


@pytest.mark.parametrize("line", lines("rewritings.jsonl"))
def test_rewritings(line: str) -> None:
    assert rewritings_to_json(rewritings_from_json(line)) == line


def key(record: Record) -> str:
    """A record's identifier and a hash of its keys."""
    data = json.dumps([record.cascade_key, *dataclasses.astuple(record.key)])
    return f"{record.id} {hashlib.sha256(data.encode()).hexdigest()}"


def test_keys_of_facts() -> None:
    """Those of the package's own facts too: under these keys users have recorded what they compare with them."""
    known = {line.split()[0]: line for line in lines("keys.txt")}
    for file in [FOLDER / "facts.jsonl", *SHIPPED]:
        for record in read_facts(file.read_text(encoding="utf-8").split("\n"), file.name):
            assert key(record) == known.get(record.id, key(record))
    assert {json.loads(line)["fact"] for line in lines("facts.jsonl")} <= known.keys()


def test_facts_come_back_from_a_database(tmp_path: Path) -> None:
    facts = lines("facts.jsonl")
    assert import_facts(FOLDER / "facts.jsonl", tmp_path / "new").added == len(facts)
    assert list(export_facts(tmp_path / "new")) == facts


def test_a_database(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old")) as connection:
        connection.executescript((FOLDER / "archive.sql").read_text(encoding="utf-8"))
    assert list(export_facts(tmp_path / "old")) == lines("facts.jsonl")


def test_a_database_with_a_study(tmp_path: Path) -> None:
    """Of commit a89e617: our version is in the table that is Optuna's by now; reading leaves it there, migrating gives Optuna its own."""
    file = tmp_path / "old"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((FOLDER / "archive_with_study.sql").read_text(encoding="utf-8"))
    content = file.read_bytes()
    assert list(export_facts(file)) == lines("facts.jsonl")[:1]
    assert file.read_bytes() == content
    assert migrate(file) is not None
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("v3.2.0.a",)]
    assert list(export_facts(file)) == lines("facts.jsonl")[:1]
    storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
    (name,) = optuna.get_all_study_names(storage)
    values = [trial.value for trial in optuna.load_study(study_name=name, storage=storage).trials]
    assert values == [None, None, None, 2.0, 3.0]


READERS: dict[str, Callable[[str], object]] = {
    "schedule.json": Schedule.from_json,
    "rewritings.jsonl": rewritings_from_json,
    "executables.jsonl": Executable.from_json,
    "measurements.jsonl": Measurement.from_json,
    "predictions.jsonl": Prediction.from_json,
    "facts.jsonl": lambda line: list(read_facts([line], "facts.jsonl")),
}
HOSTILE: list[object] = [None, True, -(10**30), 1e400, math.nan, "", "x" * 2_000, [], {}, [[]], {"": 0}]


def _changed(data: JsonValue, generator: random.Random) -> JsonValue:
    """The data with something else at a random place, a key more or a key less."""
    if isinstance(data, dict) and data and generator.random() < 0.9:
        name = generator.choice(list(data))
        match generator.randrange(12):
            case 0:
                return {**data, "new": 1}
            case 1:
                return {key: value for key, value in data.items() if key != name}
        return {**data, name: _changed(data[name], generator)}
    if isinstance(data, list) and data and generator.random() < 0.9:
        place = generator.randrange(len(data))
        return [*data[:place], _changed(data[place], generator), *data[place + 1 :]]
    return generator.choice(HOSTILE)  # type: ignore[return-value]


@pytest.mark.parametrize("name", READERS)
def test_damaged_records_are_refused_with_one_clear_error(name: str) -> None:
    """Whatever is read in spite of a change is something that can be written."""
    generator = random.Random(name)
    text = "\n".join(lines(name)) if name == "schedule.json" else lines(name)[0]
    refused = 0
    for _ in range(2_000 if SLOW else 200):
        changed = json.dumps(_changed(json.loads(text), generator))
        try:
            READERS[name](changed)
        except Error as error:
            assert error.message
            refused += 1
    assert refused > 100
    for damaged in (text[:-1], "[" * 100_000, text.replace('"', '"\\ud800', 1), text.replace("{", '{"twice": 1, "twice": 1, ', 1)):
        with pytest.raises(Error):
            READERS[name](damaged)
