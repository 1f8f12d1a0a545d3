"""Looking at a SQLite archive without SQLAlchemy: what cannot be seen is not guessed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from feinsum_fuse.archive import record
from feinsum_fuse.archive.key.identity import identify
from feinsum_fuse.archive.tables.place import Stamp, digest_of_facts, hash_of

from .samples import measurement, product

STRUCTURES = [identify(product()).structure]


def test_no_database_has_no_facts(tmp_path: Path) -> None:
    address = str(tmp_path / "none.sqlite")
    assert digest_of_facts(address, STRUCTURES) == hash_of(())
    assert Stamp.of(address) == Stamp((None, None)) and not Path(address).exists()


def test_looking_writes_nothing_and_sees_what_is_not_yet_in_the_file(tmp_path: Path) -> None:
    address = str(tmp_path / "facts.sqlite")
    record(measurement(), url=address)
    before, first = Stamp.of(address), digest_of_facts(address, STRUCTURES)
    assert Stamp.of(address) == before
    with sqlite3.connect(address) as held:  # keeps the log from being written into the file
        held.execute("SELECT count(*) FROM measurements").fetchone()
        record(measurement(), url=address)
        assert Stamp.of(address) != before
        assert digest_of_facts(address, STRUCTURES) not in (first, hash_of(()))


def test_what_is_no_archive_says_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_text("no database" * 1000)
    assert digest_of_facts(str(broken), STRUCTURES) is None
    log = tmp_path / "facts.sqlite"
    record(measurement(), url=log)
    Path(f"{log}-wal").write_bytes(b"a log that somebody left without its index" * 10)
    assert digest_of_facts(str(log), STRUCTURES) is None
