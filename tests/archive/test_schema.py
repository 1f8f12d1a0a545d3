"""The schema's versions, and that reading leaves no trace."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, func, insert, select, text

from feinsum_fuse.archive import export_facts, query, record
from feinsum_fuse.archive.tables import database, schema, table_rows, version_table
from feinsum_fuse.archive.tables.address import Address, locate
from feinsum_fuse.archive.tables.place import default_file
from feinsum_fuse.errors import ArchiveError

from .samples import HERE, as_of_old, measurement, product


def count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(table_rows.ScheduleRow)).scalar_one()


def add(address: Address, key: str) -> None:
    schema.tell(address, lambda connection: connection.execute(insert(table_rows.ScheduleRow).values(digest=key, document="{}")))


def differences(connection: Connection) -> object:
    """Between the tables of a database and those that the code uses."""
    return compare_metadata(
        MigrationContext.configure(connection, opts={"version_table": version_table.VERSION_TABLE}), table_rows.Base.metadata
    )


def trace(folder: Path) -> dict[str, tuple[int, str]]:
    """Name -> time of change and content of every file."""
    return {
        str(file.relative_to(folder)): (file.stat().st_mtime_ns, hashlib.sha256(file.read_bytes()).hexdigest())
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return locate(tmp_path / "new folder" / "facts%20.sqlite3")


def test_the_place_is_the_argument_then_the_environment_then_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEINSUM_FUSE_DATABASE", raising=False)
    assert locate().file == default_file()
    assert default_file().is_relative_to(os.environ["XDG_DATA_HOME"])
    monkeypatch.setenv("FEINSUM_FUSE_DATABASE", str(tmp_path / "a"))
    assert locate().file == tmp_path / "a"
    monkeypatch.setenv("FEINSUM_FUSE_DATABASE", f"sqlite:///{tmp_path}/b")
    assert locate().file == tmp_path / "b"
    assert locate(tmp_path / "c").file == tmp_path / "c"


@pytest.mark.parametrize("url", ["nonsense://x", "sqlite://", "sqlite:///:memory:", "sqlite:///x?mode=ro"])
def test_a_url_that_can_hold_no_archive_is_refused(url: str) -> None:
    with pytest.raises(ArchiveError, match=r"names no plain SQLite file|is not a database URL"):
        locate(url)


def test_migrations_end_at_the_tables_that_the_code_uses(address: Address) -> None:
    add(address, "a")
    assert schema.ask(address, differences) == []
    script = ScriptDirectory(str(Path(schema.__file__).parent / "migrations"))
    assert [step.revision for step in reversed(list(script.walk_revisions()))] == list(schema.REVISIONS)


def test_reading_creates_nothing(address: Address, tmp_path: Path) -> None:
    assert schema.ask(address, count) is None
    assert trace(tmp_path) == {}
    assert not list(tmp_path.iterdir())


def test_reading_writes_nothing(address: Address, tmp_path: Path) -> None:
    add(address, "a")
    before = trace(tmp_path)
    assert list(before) == ["new folder/facts%20.sqlite3"]
    assert schema.ask(address, count) == 1
    assert trace(tmp_path) == before


@pytest.mark.parametrize("index", [True, False])
def test_reading_what_a_killed_writer_left_writes_nothing(address: Address, tmp_path: Path, index: bool) -> None:
    add(address, "a")
    writer = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute(\"INSERT INTO schedules (digest, document) VALUES ('b', '')\"); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", writer, str(address.file)], check=False)
    if not index:
        Path(f"{address.file}-shm").unlink()
    before = trace(tmp_path)
    assert any(name.endswith("-wal") for name in before)
    assert schema.ask(address, count) == 2
    assert trace(tmp_path) == before


def test_a_log_without_a_page_is_read_at_once_and_left_alone(address: Address, tmp_path: Path) -> None:
    """As a writer leaves it that is killed between the log's header and its first page; SQLite would wait for its repair, in vain."""
    add(address, "a")
    writer = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute(\"INSERT INTO schedules (digest, document) VALUES ('b', '')\"); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", writer, str(address.file)], check=False)
    os.truncate(f"{address.file}-wal", 32)
    before = trace(tmp_path)
    assert schema.ask(address, count) == 1
    assert trace(tmp_path) == before
    add(address, "c")
    assert schema.ask(address, count) == 2


def test_reading_while_another_process_holds_the_database_sees_what_is_committed(address: Address) -> None:
    add(address, "a")
    with closing(sqlite3.connect(str(address.file), isolation_level=None)) as writer:
        writer.execute("INSERT INTO schedules (digest, document) VALUES ('b', '')")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO schedules (digest, document) VALUES ('c', '')")
        assert schema.ask(address, count) == 2
        writer.execute("COMMIT")
        assert schema.ask(address, count) == 3


def test_a_newer_schema_is_refused_for_reading_and_writing(address: Address, tmp_path: Path) -> None:
    add(address, "a")
    with closing(sqlite3.connect(str(address.file))) as connection, connection:
        connection.execute("UPDATE feinsum_fuse_version SET version_num = '9999'")
    before = trace(tmp_path)
    expected = (
        f"cannot use {address}: its schema is 9999, newer than {schema.REVISIONS[-1]}, the newest that this feinsum_fuse knows\n"
        "  upgrade feinsum_fuse, or choose another place with FEINSUM_FUSE_DATABASE"
    )
    with pytest.raises(ArchiveError) as reading:
        schema.ask(address, count)
    with pytest.raises(ArchiveError) as writing:
        add(address, "b")
    assert str(reading.value) == str(writing.value) == expected
    assert trace(tmp_path).keys() == before.keys()


def test_an_older_schema_is_migrated_after_a_backup(address: Address, tmp_path: Path) -> None:
    """A file of the first release, with a fact in it."""
    assert address.file is not None
    record(measurement(), url=str(address.file))
    lines = list(export_facts(address.file))
    with closing(sqlite3.connect(str(address.file))) as connection, connection:
        for statement in as_of_old("0001"):
            connection.execute(statement)
    before = trace(tmp_path)
    assert list(export_facts(address.file)) == lines
    assert len(query(product(), HERE, url=address.file)) == 1
    assert trace(tmp_path) == before
    content = address.file.read_bytes()
    record(measurement(median_ns=5.0), url=address.file)
    assert len(query(product(), HERE, url=address.file)) == 2
    (backup,) = address.file.parent.glob("*.backup")
    assert re.fullmatch(r"facts%20\.sqlite3\.schema-0001\.\d{8}T\d{6}\.backup", backup.name)
    assert list(export_facts(backup)) == lines
    with closing(sqlite3.connect(str(backup))) as copy:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
    assert len(content) == len(backup.read_bytes())
    with closing(sqlite3.connect(str(address.file))) as migrated:
        tables = {name for (name,) in migrated.execute("SELECT name FROM sqlite_master")}
        assert "alembic_version" not in tables
        assert migrated.execute("SELECT version_num FROM feinsum_fuse_version").fetchall() == [(schema.REVISIONS[-1],)]
    assert len(list(address.file.parent.iterdir())) == 2
    assert schema.migrate(address.file) is None


def test_every_older_schema_can_be_migrated_to_the_newest() -> None:
    """With the version in our own table, and in alembic's, where it was."""
    for old in schema.REVISIONS:
        engine = database.memory_engine()
        with engine.begin() as connection:
            schema.upgrade(connection, old)
            assert schema.revision(locate("here"), connection) == old
        with engine.begin() as connection:
            schema.upgrade(connection)
            assert differences(connection) == []
    for old in version_table.KEPT_THERE:
        engine = database.memory_engine()
        with engine.begin() as connection:
            schema.upgrade(connection)
            for statement in as_of_old(old):
                connection.execute(text(statement))
            assert schema.revision(locate("here"), connection) == old
            schema.upgrade(connection)
            assert schema.revision(locate("here"), connection) == schema.REVISIONS[-1]
            assert differences(connection) == []


def test_a_migration_that_fails_leaves_the_old_file(address: Address, tmp_path: Path) -> None:
    assert address.file is not None
    record(measurement(), url=str(address.file))
    with closing(sqlite3.connect(str(address.file))) as connection, connection:
        for statement in as_of_old("0005"):
            connection.execute(statement)
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(ArchiveError, match=r"cannot write .*: duplicate column name: mapping"):
        record(measurement(), url=str(address.file))
    with closing(sqlite3.connect(str(address.file))) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
        assert connection.execute("SELECT COUNT(*) FROM measurements").fetchone() == (1,)
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'feinsum_fuse_version'").fetchall() == []


def test_other_peoples_databases_are_refused_and_unchanged(address: Address, tmp_path: Path) -> None:
    assert address.file is not None
    address.file.parent.mkdir()
    with closing(sqlite3.connect(str(address.file))) as connection, connection:
        connection.execute("CREATE TABLE photographs (id INTEGER)")
    before = trace(tmp_path)
    with pytest.raises(ArchiveError, match=r"it holds other tables \(photographs\) and is no archive of feinsum_fuse"):
        add(address, "a")
    with pytest.raises(ArchiveError, match=r"it holds other tables \(photographs\) and is no archive of feinsum_fuse"):
        schema.ask(address, count)
    assert trace(tmp_path) == before


def test_what_is_no_database_is_refused(address: Address) -> None:
    assert address.file is not None
    address.file.parent.mkdir()
    address.file.write_text("Dear diary, " * 1000)
    for use in (lambda: add(address, "a"), lambda: schema.ask(address, count)):
        with pytest.raises(ArchiveError) as error:
            use()
        assert "the file is no SQLite database" in str(error.value)
    assert address.file.read_text().startswith("Dear diary")


def test_a_file_marked_read_only_is_one_clear_error(address: Address) -> None:
    add(address, "a")
    assert address.file is not None
    address.file.chmod(0o444)
    with pytest.raises(ArchiveError) as error:
        add(address, "b")
    assert str(error.value) == (
        f"cannot write {address.file}: the database is read-only\n  make it writable, or choose another place with FEINSUM_FUSE_DATABASE"
    )
    assert schema.ask(address, count) == 1


def test_a_directory_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match=r"cannot write .*/file/facts: File exists: .*/file\n  choose another place"):
        add(locate(tmp_path / "file" / "facts"), "a")


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError) as writing:
        add(locate(tmp_path), "a")
    assert str(writing.value) == (
        f"cannot write {tmp_path}: the file cannot be opened\n  check that the directory exists and that you may use it"
    )
    with pytest.raises(ArchiveError) as reading:
        schema.ask(locate(tmp_path), count)
    assert str(reading.value) == (
        f"cannot read {tmp_path}: the file system refused to read it\n  check that it is a file that you may read"
    )


def test_a_copy_in_memory_is_of_the_same_content(address: Address) -> None:
    add(address, "a")
    engine = database.read(address, database.copy_in_memory)
    assert engine is not None
    with engine.begin() as connection:
        assert count(connection) == 1
