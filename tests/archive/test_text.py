"""Facts as JSON lines: stable, merging, and believed only after a check."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive import export_facts, import_facts, merge, query, record
from feinsum_fuse.archive.text.cascade_text import cascade_from_json, cascade_to_json
from feinsum_fuse.archive.text.lines import Merge
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.errors import ArchiveError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate

from .samples import HERE, measurement, product, tiled
from .test_retrieval import prediction


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with facts of every kind."""
    url = tmp_path_factory.mktemp("original") / "facts.sqlite3"
    record(measurement(samples=[3.0, 1.5, 2.25]), prediction(), url=url)
    record(measurement(product(m=7), tiled(factor=2), cache_state="cold", label="Zürich \u2028"), url=url)
    record(measurement(outcome="crashed", device=dataclasses.replace(HERE, units=3)), url=url)
    made = measurement(outcome="rejected")
    assert made.subject is not None
    record(dataclasses.replace(made, subject=dataclasses.replace(made.subject, schedule=None)), url=url)
    return url


@pytest.fixture(scope="module")
def lines(original: Path) -> list[str]:
    return list(export_facts(original))


@pytest.fixture
def url(original: Path, tmp_path: Path) -> str:
    """A copy of that database."""
    return str(shutil.copy(original, tmp_path / "facts.sqlite3"))


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_export_of_import_is_the_same_text(lines: list[str], tmp_path: Path) -> None:
    file = write(tmp_path / "facts.jsonl", random.Random(0).sample(lines, len(lines)))
    assert import_facts(file, tmp_path / "other") == Merge(4, 0)
    assert list(export_facts(tmp_path / "other")) == lines
    (fact,) = query(product(), HERE, limit=1, url=tmp_path / "other")
    assert fact.prediction == prediction()
    assert fact.measurement.samples_ns == (3.0, 1.5, 2.25)


def test_every_line_is_strict_json_with_sorted_keys(lines: list[str]) -> None:
    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    for line in lines:
        assert "\n" not in line
        data = json.loads(line, parse_constant=refuse)
        assert json.dumps(data, sort_keys=True, separators=(",", ":")) == line
    (predicted,) = (data for data in map(json.loads, lines) if data["prediction"])
    assert all(key.startswith("predicted_") for key in predicted["prediction"])
    assert "predicted" not in json.dumps(predicted["measurement"])


def test_importing_twice_adds_nothing(lines: list[str], url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "facts.jsonl", [*lines, "", lines[0]])
    assert str(import_facts(file, url)) == "0 facts added, 5 were there already"
    other = tmp_path / "other"
    record(measurement(median_ns=7.0), url=other)
    assert import_facts(file, other) == Merge(4, 1)
    assert len(list(export_facts(other))) == 5


def test_a_new_fact_adds_lines_and_changes_none(lines: list[str], url: str) -> None:
    record(measurement(product(m=65)), url=url)
    record(measurement(median_ns=2.0), url=url)
    after = list(export_facts(url))
    assert len(after) == len(lines) + 2
    assert [line for line in after if line in lines] == lines


def test_no_database_exports_nothing_and_creates_none(tmp_path: Path) -> None:
    assert list(export_facts(tmp_path / "none")) == []
    assert list(tmp_path.iterdir()) == []


def changed(line: str, *path: str | int, to: object = None) -> str:
    """The line with one value replaced."""
    data = json.loads(line)
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return json.dumps(data)


TIMES = ("measurement", "samples_ns")
TABLES = ["actions", "action_energy", "leak_energy", "component_latency", "occupancy", "peak", "computes", "sizes", "usage"]


def predicted(line: str, row: list[object]) -> str:
    """The line with a prediction, whose table of sizes has this one row."""
    figures = {f"predicted_{name}": 1.0 for name in ("energy", "latency", "dynamic_energy", "total_leak_energy")}
    tables = {name: {"axes": [["component", ["DRAM"]]], "rows": [row] if name == "sizes" else []} for name in TABLES}
    return changed(line, "prediction", to={**figures, "predicted_n_instances": 1, "predicted_tables": tables})


HOSTILE: dict[str, tuple[Callable[[str], str], str]] = {
    "no JSON": (lambda line: "hello", "this is no fact in JSON: Expecting value"),
    "cut off": (lambda line: line[:100], "this is no fact in JSON: Expecting"),
    "no object": (lambda line: "[1, 2]", "A mapping of names to values is expected, not [1, 2]"),
    "an unknown field": (lambda line: changed(line, "run", to="rm"), "run: The field 'run' is not known here"),
    "an unknown field of a measurement": (
        lambda line: changed(line, "measurement", "run", to="rm"),
        "measurement.run: The field 'run' is not known here",
    ),
    "a field of a measurement that is no plain value": (
        lambda line: changed(line, "measurement", "run", to={"a": 1}),
        "measurement.run",
    ),
    "an unknown format": (lambda line: changed(line, "format", to=2), "format: 1 is expected, not 2"),
    "an identifier that is a path": (lambda line: changed(line, "fact", to="../../etc"), "fact: Text that matches the pattern"),
    "a made-up outcome": (lambda line: changed(line, "measurement", "outcome", to="fine"), "measurement.outcome: "),
    "negative times": (lambda line: changed(line, *TIMES, to=[-1.0]), "A value greater than or equal to 0 is expected, not -1.0"),
    "times that are text": (lambda line: changed(line, *TIMES, to=["1.0"]), 'measurement.samples_ns[0]: A number is expected, not "1.0"'),
    "infinite times": (lambda line: changed(line, *TIMES, to=[float("inf")]), "A finite number is expected, not Infinity"),
    "no step": (lambda line: changed(line, "schedule", to=[{"step": "os.system", "version": 1}]), "'os.system' is not known here"),
    "a step's wrong version": (
        lambda line: changed(line, "schedule", 0, "version", to=99),
        "Explicate was recorded in version 99; this release knows version 1",
    ),
    "a step's unknown field": (lambda line: changed(line, "schedule", 0, "evil", to=1), "[0].evil: The field 'evil' is not known here"),
    "code in a map": (lambda line: changed(line, "cascade", "einsums", 0, "map", to=["call __import__('os')", "%0"]), "unknown operator"),
    "a truth value in a map": (lambda line: changed(line, "cascade", "einsums", 0, "map", 1, to=True), "a map holds true"),
    "a number that no type holds": (lambda line: changed(line, "cascade", "einsums", 0, "map", 1, to=10**400), "which is no expression"),
    "a message as long as the file": (lambda line: changed(line, "schedule", 0, "step", to="9" * 5000), "999...'"),
    "a map too deep": (
        lambda line: changed(line, "cascade", "einsums", 0, "map", to=json.loads("[\"not\"," * 90 + "1" + "]" * 90)),
        "nests more than 60 deep",
    ),
    "a name that is nothing": (lambda line: changed(line, "cascade", "einsums", 0, "map", 1, to="os"), "names 'os', which is neither"),
    "an operand that is not there": (lambda line: changed(line, "cascade", "einsums", 0, "map", 1, to="%7"), "names '%7', which"),
    "a tensor without description": (
        lambda line: changed(line, "cascade", "einsums", 0, "output", "tensor", to="T9"),
        "tensor T9 is used and not described",
    ),
    "another number of axes": (lambda line: changed(line, "cascade", "tensors", "T0", "shape", to=[3]), "has 2 indices for 1 axes"),
    "no element type": (lambda line: changed(line, "cascade", "tensors", "T0", "dtype", to="O"), "'O' is no type of numbers"),
    "a size of zero": (lambda line: changed(line, "cascade", "einsums", 0, "sizes", 0, 1, to=0), "sizes[0][1]: "),
    "a symbolic size": (lambda line: changed(line, "cascade", "einsums", 0, "sizes", 0, 1, to="N"), "line is no fact: "),
    "an unknown variable": (lambda line: changed(line, "cascade", "einsums", 0, "sizes", 0, 0, to="j"), "has no size"),
    "an output that is not computed": (lambda line: changed(line, "cascade", "outputs", to=["T0"]), "output T0 is not computed"),
    "a wrong date": (lambda line: changed(line, "measurement", "provenance", "date", to="yesterday"), "provenance.date"),
    "a key twice": (lambda line: line.replace('"format":', '"format": 1, "format":'), "JSON: the key 'format' stands twice"),
    "a figure that is text": (lambda line: predicted(line, ["DRAM", "much"]), "a row is 1 names and a figure, not ['DRAM', 'much']"),
    "a row of figures": (lambda line: predicted(line, [1.0, 2.0]), "a row is 1 names and a figure, not [1.0, 2.0]"),
    "a row without names": (lambda line: predicted(line, [1.0]), "prediction.predicted_tables.sizes: a row is 1 names and a figure"),
    "an empty row": (lambda line: predicted(line, []), "a row is 1 names and a figure, not []"),
    "an unknown role": (
        lambda line: changed(line, "measurement", "arguments", 0, "role", to="root"),
        "measurement.arguments[0].role: 'input', 'output' or 'temporary' is expected, not",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_fact_is_refused_with_file_and_line_and_adds_nothing(case: str, lines: list[str], tmp_path: Path) -> None:
    change, message = HOSTILE[case]
    file = write(tmp_path / "hostile.jsonl", [lines[1], change(lines[0])])
    target = tmp_path / "target"
    with pytest.raises(ArchiveError) as error:
        import_facts(file, target)
    assert str(error.value).startswith(f"{file}:2: ")
    assert message in str(error.value)
    assert not target.exists()


def test_a_fact_with_another_content_under_a_known_identifier_is_refused(lines: list[str], url: str, tmp_path: Path) -> None:
    index = next(k for k, line in enumerate(lines) if json.loads(line)["measurement"]["outcome"] == "ok")
    forged = changed(lines[index], "measurement", "samples_ns", to=[0.001])
    file = write(tmp_path / "forged.jsonl", [json.dumps({**json.loads(lines[index]), "fact": "0" * 32}), forged])
    with pytest.raises(ArchiveError, match="is in the database with another content"):
        import_facts(file, url)
    assert list(export_facts(url)) == lines


def test_keys_are_computed_and_not_believed(lines: list[str], tmp_path: Path) -> None:
    """Other names in a line are other names for the same: the schedule goes with them."""
    line = next(line for line in lines if json.loads(line)["prediction"])
    data = json.loads(line.replace('"T0"', '"X0"').replace('"E0"', '"Q"').replace("E0.i0", "Q.i0"))
    assert import_facts(write(tmp_path / "renamed.jsonl", [json.dumps(data)]), tmp_path / "other") == Merge(1, 0)
    assert list(export_facts(tmp_path / "other")) == [line]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"cannot read .*none.jsonl: "):
        import_facts(tmp_path / "none.jsonl", tmp_path / "facts")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArchiveError, match=r"cannot read .*binary.jsonl: "):
        import_facts(tmp_path / "binary.jsonl", tmp_path / "facts")


CASCADES = {
    "product": product(),
    "mask": ff.cascade(["P[m,p] = where(p <= m, exp(S[m,p] - 0.5*X[m]), -inf)"], sizes={"M": 5, "P": 6}, dtypes={"All": "float32"}),
    "maximum": ff.cascade(["X[m] = max(min(S[m,p], 2) ** 3 / (1 + abs(S[m,p])))"], sizes={"M": 5, "P": 6}, dtypes={"All": "float64"}),
    "convolution": ff.cascade(["Z[p] = I[X: 2*p+r] * W[r]"], sizes={"P": 5, "R": 3}, dtypes={"All": "float32"}),
    "logic": ff.cascade(
        ["Z[m] = where(not (A[m] > 1 and B[m] == 2 or A[m] != 3), A[m], B[m] + 2)"], sizes={"M": 5}, dtypes={"All": "int32"}
    ),
    "chain": ff.cascade(
        ["T[m,n] = A[m,k] * B[k,n]", "Y[m] = relu(0.5*T[m,n] + 1)"], sizes={"M": 5, "N": 6, "K": 7}, dtypes={"All": "float32"}
    ),
}


@pytest.mark.parametrize("name", CASCADES)
def test_a_cascades_text_gives_the_cascade_back(name: str, tmp_path: Path) -> None:
    cascade: Cascade = CASCADES[name]
    again = cascade_from_json(cascade_to_json(cascade))
    assert again == cascade
    assert (again.key, again.structure_key) == (cascade.key, cascade.structure_key)
    assert cascade_to_json(again) == cascade_to_json(cascade)
    schedule = Schedule((Explicate(tuple(einsum.name for einsum in cascade.einsums)),))
    record(measurement(cascade, schedule), url=tmp_path / "facts")
    (line,) = export_facts(tmp_path / "facts")
    import_facts(write(tmp_path / "facts.jsonl", [line]), tmp_path / "other")
    (fact,) = query(cascade, HERE, url=tmp_path / "other")
    assert fact.known.cascade_key == cascade.key == fact.known.cascade.key


def test_text_that_is_no_cascade() -> None:
    with pytest.raises(ArchiveError, match="this is no cascade in JSON: einsums: A list of at least 1 item is expected, not \\[\\]"):
        cascade_from_json('{"einsums": [], "tensors": {}, "outputs": []}')


@pytest.mark.parametrize("records", [np.array(3.0), 5, "facts", [3]])
def test_what_are_no_records_is_refused(records: object, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"is to be a (list or the like|record), not"):
        merge(records, tmp_path / "facts")  # type: ignore[arg-type]
