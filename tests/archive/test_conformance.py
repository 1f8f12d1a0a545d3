"""What every database behind the archive has to do: SQLite's file and a PostgreSQL server pass the same tests."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

import feinsum_fuse as ff
from feinsum_fuse.archive import Fit, export_facts, forget, import_facts, merge, migrate, query, record, remember, retrieve
from feinsum_fuse.archive.facts.recording import insert_all, record_from
from feinsum_fuse.archive.facts.retrieval import history
from feinsum_fuse.archive.key.identity import identify
from feinsum_fuse.archive.tables import place, schema, server
from feinsum_fuse.archive.tables.address import locate
from feinsum_fuse.errors import ArchiveError
from tests.sweeps import SEED, SLOW, sweep_size

from .postgres import Server
from .samples import HERE, as_of_old, execute, measurement, product, tiled
from .writers import Writers


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


def samples_in(url: str) -> set[tuple[float, ...]]:
    return {tuple(json.loads(line)["measurement"]["samples_ns"]) for line in export_facts(url)}


def test_nothing_is_found_where_nothing_is(url: str) -> None:
    assert query(product(), HERE, url=url) == ()
    assert retrieve(product(), HERE, url=url).found is Fit.nothing
    assert list(export_facts(url)) == []


def test_what_is_known_of_structures_has_a_digest(url: str) -> None:
    """By SQLAlchemy for any database, without it for SQLite's: the same, and another one after each fact about them alone."""
    own, other = (identify(cascade).structure for cascade in (product(), ff.cascade(["Z[m] = A[m, k]"], sizes={"M": 3, "K": 4})))
    nothing = schema.digest_of_facts(url, [own])
    seen = [nothing]
    for known in (own, own):
        record(measurement(), url=url)
        seen.append(schema.digest_of_facts(url, [known]))
    assert len(set(seen)) == 3
    assert schema.digest_of_facts(url, [other]) == nothing != schema.digest_of_facts(url, [other, own]) == seen[-1]
    assert place.digest_of_facts(url, [own]) == (None if "://" in url else seen[-1])
    assert (place.Stamp.of(url) is None) is ("://" in url)


TEXTS = ["'; DROP TABLE measurements; --", "a\x00b", "half \ud800 a character", "\N{PILE OF POO} \u202e", "%s %(x)s :x ? {}", "x" * 100_000]


def test_what_was_recorded_comes_back_whole(url: str) -> None:
    for message in TEXTS:
        record(dataclasses.replace(measurement(outcome="build_failed"), message=message, label=message), url=url)
    record(measurement(samples=[3.0, 1.0, 2.0]), url=url)
    best, *failed = query(product(), HERE, outcome=None, url=url)
    assert best.measurement.samples_ns == (3.0, 1.0, 2.0)
    shown = {message.replace("\x00", "\\x00").replace("\ud800", "\\ud800") for message in TEXTS}
    assert {fact.measurement.message for fact in failed} == {fact.measurement.label for fact in failed} == shown
    assert retrieve(product(), HERE, url=url).schedule == tiled()
    assert len(history(measurement(), url=url)) == 1
    with pytest.raises(ArchiveError, match="a measurement is expected, not Fact"):
        history(best, url=url)  # type: ignore[arg-type]


def test_facts_move_between_databases(new_url: Callable[[], str], tmp_path: Path) -> None:
    first, second, file = new_url(), new_url(), tmp_path / "facts.jsonl"
    for factor in (2, 4, 8):
        record(measurement(schedule=tiled(factor=factor), median_ns=factor), url=first)
    lines = list(export_facts(first))
    file.write_text("\n".join(lines))
    assert str(import_facts(file, second)) == "3 facts added, 0 were there already"
    assert str(import_facts(file, second)) == "0 facts added, 3 were there already"
    assert list(export_facts(second)) == lines
    edited = json.loads(lines[1]) | {"fact": "0" * 32}
    wrong = json.loads(lines[2])
    wrong["measurement"]["samples_ns"] = [1.0]
    file.write_text("\n".join(json.dumps(line) for line in (edited, wrong)))
    with pytest.raises(ArchiveError, match="is in the database with another content"):
        import_facts(file, second)
    assert list(export_facts(second)) == lines


def test_a_forgotten_fact_is_gone_for_good_and_others_stay(url: str, tmp_path: Path) -> None:
    """Neither questions nor histories answer it, and a file that holds it does not bring it back, until it is remembered."""
    bad, good = (record(measurement(median_ns=time), url=url) for time in (1.0, 7.0))
    file = tmp_path / "facts.jsonl"
    file.write_text("\n".join(export_facts(url)))
    structure = identify(product()).structure
    before = schema.digest_of_facts(url, [structure])
    done = forget(bad, url)
    assert (done.fact, done.source) == (bad, str(locate(url)))
    assert "median 1 ns" in str(done)
    assert schema.digest_of_facts(url, [structure]) != before
    assert [fact.known.id for fact in query(product(), HERE, url=url)] == [good]
    assert retrieve(product(), HERE, url=url).known.id == good
    assert [known.median for known in history(measurement(), url=url)] == [pytest.approx(7e-9)]
    assert str(import_facts(file, url)) == "0 facts added, 1 was there already, 1 left out as forgotten"
    for again in (bad, bad[:10]):
        with pytest.raises(ArchiveError, match=f"fact {bad} is forgotten already"):
            forget(again, url)
    assert remember(bad, url).fact == bad
    assert str(import_facts(file, url)) == "1 fact added, 1 was there already"


def test_what_names_no_fact_is_not_forgotten(url: str) -> None:
    facts = [record(measurement(median_ns=time), url=url) for time in range(1, 20)]
    common = next(first for first in (fact[0] for fact in facts) if sum(fact.startswith(first) for fact in facts) > 1)
    for name, message in ((common, "facts begin with"), ("0" * 32, "no fact begins with"), ("%", "no identifier"), ("", "no identifier")):
        with pytest.raises(ArchiveError, match=message):
            forget(name, url)
    with pytest.raises(ArchiveError, match="no fact begins with"):
        remember(facts[0], url)
    assert len(query(product(), HERE, url=url)) == len(facts)


def test_a_damaged_fact_can_be_forgotten(url: str) -> None:
    fact = record(measurement(), url=url)
    execute(url, "UPDATE measurements SET document = '{'")
    assert "damaged" in str(forget(fact[:8], url))
    assert query(product(), HERE, url=url) == ()


def test_schemas_of_other_versions_and_other_peoples_tables(new_url: Callable[[], str]) -> None:
    newer, older, foreign = new_url(), new_url(), new_url()
    for url in (newer, older):
        record(measurement(), url=url)
    execute(newer, "UPDATE feinsum_fuse_version SET version_num = '9999'")
    for use in (lambda: query(product(), HERE, url=newer), lambda: record(measurement(), url=newer), lambda: migrate(newer)):
        with pytest.raises(ArchiveError, match="its schema is 9999, newer than"):
            use()
    execute(older, *as_of_old("0001"))
    if locate(older).file is None:
        for use in (lambda: query(product(), HERE, url=older), lambda: record(measurement(), url=older)):
            with pytest.raises(ArchiveError, match=r"older than .*\n.*migrate with its URL"):
                use()
        migrate(older)
    record(measurement(median_ns=5.0), url=older)
    assert len(query(product(), HERE, url=older)) == 2
    assert migrate(older) is None
    execute(foreign, "CREATE TABLE photographs (id INTEGER)")
    assert query(product(), HERE, url=foreign) == ()  # ours are there, so others may be
    execute(foreign, "DROP TABLE feinsum_fuse_version")
    for use in (lambda: query(product(), HERE, url=foreign), lambda: record(measurement(), url=foreign)):
        with pytest.raises(ArchiveError, match="holds other tables"):
            use()


def test_a_damaged_row_is_one_clear_error(url: str) -> None:
    record(measurement(), url=url)
    execute(url, "UPDATE measurements SET document = '{'")
    with pytest.raises(ArchiveError, match=r"fact [0-9a-f]{32} is damaged in the database: "):
        query(product(), HERE, url=url)


def test_many_writers_lose_nothing_and_one_makes_the_tables(new_url: Callable[[], str], writers: Writers) -> None:
    """Each database is made by whichever of the writers comes first."""
    for _ in range(sweep_size(20)):
        url, count = new_url(), 2
        writers.start(url, count, *range(4))
        assert (writers.finish(), writers.errors) == ([0] * 4, [])
        assert len(set(writers.facts)) == 4 * count
        assert samples_in(url) == {(float(number), float(k)) for number in range(4) for k in range(count)}


def test_killed_writers_lose_nothing_that_was_acknowledged(url: str, writers: Writers) -> None:
    generator = random.Random(SEED)
    acknowledged: set[str] = set()
    kills = sweep_size(40)
    for number in range(kills):
        writers.start(url, 1_000_000, number)
        while not (writers.children and writers.facts):
            writers.line()
        time.sleep(generator.uniform(0, 0.05))
        os.kill(writers.children[0], signal.SIGKILL)
        assert writers.finish() == [-signal.SIGKILL]
        assert writers.errors == []
        acknowledged |= set(writers.facts)
    stored = {json.loads(line)["fact"] for line in export_facts(url)}
    assert acknowledged <= stored
    assert len(stored) <= len(acknowledged) + kills


def test_a_commit_whose_answer_was_lost_is_not_repeated_twice(url: str) -> None:
    made = record_from(measurement())
    for _ in range(2):
        schema.tell(locate(url), lambda connection: insert_all(connection, (made,)))
    assert len(list(export_facts(url))) == 1


def test_restarts_lose_nothing_that_was_acknowledged(postgres: Server, writers: Writers) -> None:
    """Restarts, orderly and by crash, while three processes write; none of them has to know."""
    url, generator = postgres.new_schema(), random.Random(SEED)
    count = 500 if SLOW else 50
    writers.start(url, count, *range(3))
    end = threading.Thread(target=writers.finish)
    end.start()
    while {number for number, _ in samples_in(url)} != {0, 1, 2}:
        time.sleep(0.02)  # who has never reached a server may have its address wrong, and does not wait for it
    for number in range(7 if SLOW else 2):
        time.sleep(generator.uniform(0.05, 0.2))
        postgres.stop("immediate" if number % 2 else "fast")
        postgres.start()
    while end.is_alive():
        known = len(writers.facts)
        end.join(60)
        assert not end.is_alive() or len(writers.facts) > known, "nobody has written anything for a minute"
    assert writers.errors == []
    assert len(set(writers.facts)) == 3 * count
    assert {json.loads(line)["fact"] for line in export_facts(url)} == set(writers.facts)


def test_writers_that_wait_for_each_other_both_write(postgres: Server) -> None:
    """Two imports of the same new cascades in opposite orders: the server breaks the deadlock, and the loser begins anew."""
    url = postgres.new_schema()
    record(measurement(), url=url)
    records = [record_from(measurement(product(m=m))) for m in range(1, 9)]
    others = [record_from(measurement(product(m=m))) for m in range(8, 0, -1)]
    gate = threading.Barrier(2)
    tried: list[int] = []

    def write(chosen: list[object]) -> None:
        def add(connection: Connection) -> None:
            tried.append(1)
            insert_all(connection, (chosen[0],))  # type: ignore[arg-type]
            if len(tried) <= 2:
                gate.wait(20)
            insert_all(connection, tuple(chosen[1:]))  # type: ignore[arg-type]

        schema.tell(locate(url), add)

    threads = [threading.Thread(target=write, args=(chosen,)) for chosen in (records, others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(tried) > 2
    assert len(list(export_facts(url))) == 17
    assert str(merge(records, url)) == "0 facts added, 8 were there already"


def test_a_wrong_address_is_one_clear_error_at_once(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, reason in (
        (f"postgresql://postgres:secret@/facts?host={postgres.folder}/nowhere", "No such file or directory"),
        (postgres.url("nowhere"), 'database "nowhere" does not exist'),
        ("postgresql://postgres:secret@127.0.0.1:1/facts", "Connection refused"),
    ):
        for use in (lambda url=url: query(product(), HERE, url=url), lambda url=url: record(measurement(), url=url)):
            with pytest.raises(ArchiveError) as error:
                use()
            assert reason in str(error.value)
            assert "secret" not in str(error.value)
    assert locate("postgresql://x/y").url.drivername == "postgresql+psycopg"


def test_a_restart_during_the_first_connection_is_waited_for(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server goes away between accepting a connection and its first answer, in a process that has never spoken with it."""
    address = locate(postgres.new_schema())
    cut: list[int] = []

    def first(*_: object) -> None:
        if not cut:
            cut.append(1)
            raise server._operational(address.url)("consuming input failed: server closed the connection unexpectedly")

    monkeypatch.setattr(server, "_reached", set())
    event.listen(server._engine(address.url).pool, "first_connect", first)
    assert schema.tell(address, lambda _: "done") == "done"
    assert cut


def test_a_server_that_stays_away_is_given_up(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres.new_schema()
    record(measurement(), url=url)
    monkeypatch.setattr(server, "RESTART_SECONDS", 0.2)
    attempts: list[int] = []

    def away(connection: Connection) -> None:
        attempts.append(1)
        raise OperationalError("", {}, server._operational(locate(url).url)("server closed the connection"))

    with pytest.raises(ArchiveError, match="server closed the connection"):
        schema.ask(locate(url), away)
    assert len(attempts) > 2
