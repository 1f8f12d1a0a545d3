"""Archives that somebody else holds: who waits says so, for whom and for how long, and gives up in the end."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from feinsum_fuse.archive import query, record
from feinsum_fuse.archive.tables import database, server, waiting
from feinsum_fuse.archive.tables.address import locate
from feinsum_fuse.errors import ArchiveBusyError, ArchiveError, WaitingWarning

from .postgres import Server
from .samples import HERE, measurement, product

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in sys.argv[2:]:
    connection.execute(line)
print("held", flush=True)
sys.stdin.read()
"""
ALONE = ("PRAGMA locking_mode=EXCLUSIVE", "CREATE TABLE IF NOT EXISTS more (a)", "INSERT INTO more VALUES (1)")
"""Keeps readers out, too."""


@contextmanager
def held(url: str, *lines: str) -> Iterator[subprocess.Popen[str]]:
    """Another process holds a database until the context ends, or it is told to."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, url, *(lines or ("BEGIN IMMEDIATE",))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SOON_S", 0.05)


@pytest.mark.parametrize("alone", [False, True])
def test_a_writer_says_for_whom_it_waits_and_goes_on(alone: bool, url: str) -> None:
    record(measurement(), url=url)
    with held(url, *(ALONE if alone else ())) as holder, pytest.warns(WaitingWarning) as told:
        name = Path(f"/proc/{holder.pid}/comm").read_text().strip()
        threading.Timer(0.5, holder.kill).start()
        record(measurement(median_ns=7.0), url=url)
    (warning,) = [one for one in told if one.category is WaitingWarning]
    assert str(warning.message).endswith(f" for {url}: process {holder.pid} ({name}) holds it; at most 120 s")
    assert len(query(product(), HERE, url=url)) == 2


def test_a_writer_gives_up_in_the_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record(measurement(), url=url)
    with held(url) as holder, pytest.warns(WaitingWarning), pytest.raises(ArchiveBusyError) as caught:
        database.write(locate(url), lambda connection: None, 0.2)
    assert f"cannot write {url}: process {holder.pid} " in str(caught.value) and "over 0 s" in str(caught.value)
    assert isinstance(caught.value, ArchiveError) and caught.value.hint


def test_a_reader_waits_once_and_not_for_each_of_its_attempts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record(measurement(), url=url)
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.3)
    with held(url, "CREATE TABLE more (a)"):
        """Killed, it leaves a log and the log's index behind."""
    with held(url, *ALONE), pytest.warns(WaitingWarning, match="holds it"), pytest.raises(ArchiveBusyError, match="cannot read"):
        query(product(), HERE, url=url)


def test_who_is_not_kept_waiting_says_nothing(url: str) -> None:
    record(measurement(), url=url)
    with held(url), warnings.catch_warnings():
        warnings.simplefilter("error", WaitingWarning)
        assert len(query(product(), HERE, url=url)) == 1


def test_another_thread_of_this_process_and_nobody_known(url: str, tmp_path: Path) -> None:
    record(measurement(), url=url)
    with closing(sqlite3.connect(url, isolation_level=None)) as mine:
        mine.execute("BEGIN IMMEDIATE")
        assert waiting.holder(Path(url)) == "another thread of this process"
    assert waiting.holder(Path(url)) == waiting.holder(tmp_path / "nothing") == "another process, such as a search or an import,"


def test_a_servers_writer_says_that_it_waits(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres.new_schema()
    record(measurement(), url=url)
    monkeypatch.setattr(server, "SOON_S", 0.1)
    engine = create_engine(locate(url).url)
    with engine.connect() as other, pytest.warns(WaitingWarning, match="others hold its tables; at most 60 s"):
        other.execute(text("LOCK TABLE measurements"))
        threading.Timer(0.6, other.rollback).start()
        record(measurement(median_ns=7.0), url=url)
    assert len(query(product(), HERE, url=url)) == 2
    monkeypatch.setattr(server, "RESTART_SECONDS", 0.3)
    with engine.connect() as other, pytest.warns(WaitingWarning), pytest.raises(ArchiveError, match="lock timeout"):
        other.execute(text("LOCK TABLE measurements"))
        record(measurement(median_ns=9.0), url=url)
    engine.dispose()
