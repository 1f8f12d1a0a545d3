"""``db``: records out and in again, and what is best."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke


@pytest.fixture
def database(invoke: Invoke, root: Path, tmp_path: Path) -> Path:
    """A database with two facts: the mapping documentation's LoopTree, and the same unfused."""
    file = tmp_path / "facts.sqlite3"
    names = ("workload", "arch", "mapping", "mapping_unfused")
    files = [root / "examples" / "matvecs" / f"{name}.yaml" for name in names]
    assert invoke("run", *files, "--repeats", 1, "--set", "N=8", "--url", file).code == 0
    return file


def test_facts_travel_as_text(invoke: Invoke, database: Path, tmp_path: Path) -> None:
    text, other = tmp_path / "facts.jsonl", tmp_path / "other.sqlite3"
    assert invoke("db", "export", text, "--url", database).code == 0
    assert invoke("db", "import", text, "--url", other).out == "2 facts added, 0 were there already\n"
    assert json.loads(invoke("db", "import", text, "--url", other, "--json").out) == {"added": 0, "present": 2, "forgotten": 0}
    assert invoke("db", "export", "--url", other).out == text.read_text()


def test_best_finds_the_faster_of_the_two(invoke: Invoke, database: Path, root: Path) -> None:
    workload = root / "examples" / "matvecs" / "workload.yaml"
    found = json.loads(invoke("db", "best", workload, "--set", "N=8", "--url", database, "--json").out)
    exact = [fact for fact in found if fact["found"] == "exact" and fact["source"] == str(database)]
    assert len(exact) == 2
    assert exact[0]["median_s"] <= exact[1]["median_s"]
    table = invoke("db", "best", workload, "--set", "N=8", "--url", database, "--schedule").out
    assert "Explicate(order=[EinsumA, EinsumB])" in table
    other = invoke("db", "best", workload, "--set", "N=8", "--dtype", "float64", "--url", database)
    assert other.out.startswith("nothing is recorded"), "facts are about the types that ran"


def test_a_fact_is_forgotten_and_remembered(invoke: Invoke, database: Path, tmp_path: Path) -> None:
    text = tmp_path / "facts.jsonl"
    assert invoke("db", "export", text, "--url", database).code == 0
    fact = json.loads(text.read_text().splitlines()[0])["fact"]
    done = invoke("db", "forget", fact[:12], "--url", database).out
    assert done.startswith(f"forgotten: fact {fact} ({database}): ")
    assert "median" in done
    assert invoke("db", "import", text, "--url", database).out == "0 facts added, 1 was there already, 1 left out as forgotten\n"
    again = invoke("db", "forget", fact, "--url", database)
    assert (again.code, f"fact {fact} is forgotten already" in again.err) == (1, True)
    assert json.loads(invoke("db", "forget", "--undo", fact, "--url", database, "--json").out)["fact"] == fact
    assert invoke("db", "import", text, "--url", database).out == "1 fact added, 1 was there already\n"


def test_stats_of_no_database_are_empty_and_make_none(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "none.sqlite3"
    assert invoke("db", "stats", "--url", file).out == f"{file}: 0 facts about 0 cascades\n"
    assert not file.exists()
