"""The archive under fault: many writers, killed writers, full disks, and schemas of other versions."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from feinsum_fuse.archive import export_facts, query, record
from feinsum_fuse.archive.tables import database
from feinsum_fuse.errors import ArchiveError
from tests.sweeps import SEED, SLOW, sweep_size

from .samples import HERE, measurement, product
from .writers import Writers


def stored(url: str) -> dict[str, tuple[float, ...]]:
    """Identifier -> samples, read by SQLite alone."""
    with closing(sqlite3.connect(url)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return dict(connection.execute("SELECT fact, samples_ns FROM measurements"))


def test_eight_processes_lose_nothing(writers: Writers, tmp_path: Path) -> None:
    """The database is created by whoever comes first."""
    url, count = str(tmp_path / "facts.sqlite3"), 100 if SLOW else 10
    writers.start(url, count, *range(8))
    assert (writers.finish(), writers.errors) == ([0] * 8, [])
    assert len(set(writers.facts)) == len(writers.facts) == 8 * count
    assert stored(url).keys() == set(writers.facts)
    found = {fact.measurement.samples_ns for fact in query(product(), HERE, url=url)}
    assert found == {(number, k) for number in range(8) for k in range(count)}
    assert [file.name for file in tmp_path.iterdir()] == ["facts.sqlite3"]


def test_readers_see_every_fact_once_it_is_acknowledged(writers: Writers, tmp_path: Path) -> None:
    """Reading goes on while others write, and never sees less than before."""
    url, count = str(tmp_path / "facts.sqlite3"), 100 if SLOW else 20
    writers.start(url, count, 0, 1)
    end = threading.Thread(target=writers.finish)
    end.start()
    seen, questions = 0, 0
    while end.is_alive():
        acknowledged = len(writers.facts)
        found = len(query(product(), HERE, url=url))
        assert found >= max(seen, acknowledged)
        seen, questions = found, questions + 1
    end.join()
    assert questions > 1
    assert len(query(product(), HERE, url=url)) == 2 * count


def test_a_reader_asks_again_when_the_last_writer_leaves_as_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log and index go with it, after the reader has seen them and before it opens them."""
    file = tmp_path / "facts.sqlite3"
    record(measurement(), url=str(file))
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("CREATE TABLE more (a)")
    begins, begin = [], database._begin_reading

    def late(connection: sqlite3.Connection) -> None:
        begins.append(sorted(path.name for path in tmp_path.iterdir()))
        writer.close()
        begin(connection)

    monkeypatch.setattr(database, "_begin_reading", late)
    assert len(query(product(), HERE, url=str(file))) == 1
    assert begins[0] == [file.name, f"{file.name}-shm", f"{file.name}-wal"] and len(begins) > 1


def test_a_killed_writer_leaves_every_acknowledged_fact(writers: Writers, tmp_path: Path) -> None:
    """Killed in the middle of writing, at a random moment, by the signal that cannot be caught; all on one database."""
    url, generator = str(tmp_path / "facts.sqlite3"), random.Random(SEED)
    acknowledged: set[str] = set()
    kills = sweep_size(200)
    for number in range(kills):
        writers.start(url, 1_000_000, number)
        while not (writers.children and len(writers.facts) > number % 3):
            writers.line()
        time.sleep(generator.uniform(0, 0.05))
        os.kill(writers.children[0], signal.SIGKILL)
        assert writers.finish() == [-signal.SIGKILL]
        acknowledged |= set(writers.facts)
        found = stored(url).keys()
        in_flight = found - acknowledged
        assert acknowledged <= found
        assert len(in_flight) <= number + 1, "at most one for each kill was written and not acknowledged"
    assert len(acknowledged) > kills
    record(measurement(), url=url)
    assert len(query(product(), HERE, url=url)) == len(acknowledged | in_flight) + 1


def test_a_kill_while_the_database_is_being_made_leaves_none_or_a_good_one(writers: Writers, tmp_path: Path) -> None:
    generator = random.Random(SEED)
    for number in range(sweep_size(200)):
        url = str(tmp_path / f"facts{number}.sqlite3")
        writers.start(url, 1, number)
        while not writers.children:
            writers.line()
        time.sleep(generator.uniform(0, 0.15))
        with suppress(ProcessLookupError):  # It may be done by now.
            os.kill(writers.children[0], signal.SIGKILL)
        writers.finish()
        assert writers.errors == []
        record(measurement(), url=url)
        found = stored(url).keys()
        assert set(writers.facts) < found
        assert len(found) <= 2


def test_a_full_disk_is_one_clear_error_and_loses_nothing(writers: Writers, tmp_path: Path) -> None:
    url = str(tmp_path / "facts.sqlite3")
    record(measurement(), url=url)
    writers.start(url, 10_000, 0, file_size=Path(url).stat().st_size + 20_000)
    assert writers.finish() == [1]
    assert writers.errors == [
        f"cannot write {url}: the file system refused the write (disk full, or over a size limit)\n  free some space, or raise the limit"
    ]
    assert set(writers.facts) < stored(url).keys()
    assert len(stored(url)) == len(writers.facts) + 1
    record(measurement(), url=url)


def test_no_room_for_a_new_database_is_one_clear_error(writers: Writers, tmp_path: Path) -> None:
    url = str(tmp_path / "facts.sqlite3")
    writers.start(url, 1, 0, file_size=1000)
    assert (writers.finish(), writers.facts) == ([1], [])
    (error,) = writers.errors
    assert error.startswith(f"cannot write {url}: ")
    assert len(error.splitlines()) == 2
    record(measurement(), url=url)


def test_sqlites_own_full_error_has_a_clear_text(tmp_path: Path) -> None:
    from sqlalchemy import text

    from feinsum_fuse.archive.tables.address import locate
    from feinsum_fuse.archive.tables.schema import tell

    url = str(tmp_path / "facts.sqlite3")
    record(measurement(), url=url)

    def fill(connection: object) -> None:
        connection.execute(text("PRAGMA max_page_count=1"))  # type: ignore[attr-defined]
        for number in range(1000):
            connection.execute(text(f"INSERT INTO schedules (digest, document) VALUES ('{number}', '{'x' * 1000}')"))  # type: ignore[attr-defined]

    with pytest.raises(ArchiveError) as error:
        tell(locate(url), fill)
    assert str(error.value) == (
        f"cannot write {url}: the disk is full\n  free some space, or choose another place with FEINSUM_FUSE_DATABASE"
    )
    assert len(list(export_facts(url))) == 1


def test_a_read_only_file_is_one_clear_error(tmp_path: Path) -> None:
    url = tmp_path / "facts.sqlite3"
    record(measurement(), url=url)
    url.chmod(0o444)
    with pytest.raises(ArchiveError) as error:
        record(measurement(), url=url)
    assert str(error.value) == (
        f"cannot write {url}: the database is read-only\n  make it writable, or choose another place with FEINSUM_FUSE_DATABASE"
    )
    assert len(query(product(), HERE, url=url)) == 1


def test_a_damaged_file_is_one_clear_error(tmp_path: Path) -> None:
    url = tmp_path / "facts.sqlite3"
    record(measurement(), url=url)
    content = bytearray(url.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    url.write_bytes(content)
    with pytest.raises(ArchiveError, match=f"cannot read {url}: the file is damaged\n  restore a backup"):
        query(product(), HERE, url=url)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("measurements", "document", "{"),
        ("measurements", "document", "[]"),
        ("measurements", "samples_ns", '["fast"]'),
        ("measurements", "sizes", "5"),
        ("measurements", "outcome", "fine"),
        ("devices", "document", '{"platform": 3}'),
        ("provenance", "document", "null"),
        ("cascades", "document", '{"einsums": 3}'),
    ],
)
def test_a_damaged_row_is_one_clear_error(table: str, column: str, value: str, tmp_path: Path) -> None:
    record(measurement(), url=tmp_path / "facts")
    with closing(sqlite3.connect(tmp_path / "facts")) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    with pytest.raises(ArchiveError, match=r"fact [0-9a-f]{32} is damaged in the database: "):
        query(product(), HERE, url=tmp_path / "facts")
