"""What releases before this one wrote is still read, and is written again byte for byte.

``tests/golden/records`` holds lines of commit ac6462c: real programs, predictions and measurements, steps of every class, and a database as
SQL. A line that no longer comes back means that somebody's records are lost.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from feinsum_fuse.archive import export_facts, import_facts
from feinsum_fuse.archive.facts.fact import Record
from feinsum_fuse.archive.text.text import read_facts
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_from_json, rewritings_to_json
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.timing.measurement import Measurement
from feinsum_fuse.model.prediction import Prediction
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.step import REGISTRY

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
    """Those that were stored before there was a floor are read with none."""
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
