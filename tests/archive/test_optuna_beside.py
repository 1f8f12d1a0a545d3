"""An archive and Optuna's studies in one database: whoever comes first, each finds its own version."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import optuna
import pytest

from feinsum_fuse.archive import export_facts, migrate, query, record
from feinsum_fuse.archive.tables.address import locate
from feinsum_fuse.errors import ArchiveError

from .samples import HERE, as_of_old, execute, measurement, product


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


def storage(url: str) -> optuna.storages.RDBStorage:
    """Optuna's own, which checks the version of its tables."""
    return optuna.storages.RDBStorage(locate(url).url.render_as_string(hide_password=False))


def studied(url: str, trials: int = 3) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name="a user's own", storage=storage(url), load_if_exists=True)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=trials)


def trials_in(url: str) -> int:
    (summary,) = optuna.get_all_study_summaries(storage(url))
    return summary.n_trials


def test_ours_first_then_optunas(url: str) -> None:
    record(measurement(), url=url)
    studied(url)
    record(measurement(median_ns=5.0), url=url)
    assert (len(query(product(), HERE, url=url)), trials_in(url)) == (2, 3)
    assert migrate(url) is None


def test_optunas_first_then_ours(url: str) -> None:
    """A database of Optuna's holds no facts until one is recorded there."""
    studied(url)
    assert query(product(), HERE, url=url) == ()
    assert list(export_facts(url)) == []
    record(measurement(), url=url)
    studied(url, 2)
    record(measurement(median_ns=5.0), url=url)
    assert (len(query(product(), HERE, url=url)), trials_in(url)) == (2, 5)


def test_optunas_first_beside_somebody_elses_is_refused(url: str) -> None:
    record(measurement(), url=url)
    studied(url)
    ours = ("predictions", "measurements", "forgotten", "cascades", "devices", "schedules", "provenance", "feinsum_fuse_version")
    execute(url, "CREATE TABLE photographs (id INTEGER)", *(f"DROP TABLE {name}" for name in ours))
    for use in (lambda: query(product(), HERE, url=url), lambda: record(measurement(), url=url), lambda: migrate(url)):
        with pytest.raises(ArchiveError, match="it holds other tables"):
            use()
    assert trials_in(url) == 3


@pytest.mark.parametrize("old", ["0001", "0005"])
def test_an_old_archive_with_studies(url: str, old: str) -> None:
    """Our version was in Optuna's place: Optuna finds its own there after the migration."""
    record(measurement(), url=url)
    studied(url)
    execute(url, *as_of_old(old))
    with pytest.raises(RuntimeError, match="no longer compatible"):
        storage(url)
    if locate(url).file is not None:
        assert len(query(product(), HERE, url=url)) == 1
    migrate(url)
    assert (len(query(product(), HERE, url=url)), trials_in(url)) == (1, 3)
    studied(url, 2)
    record(measurement(median_ns=5.0), url=url)
    assert (len(query(product(), HERE, url=url)), trials_in(url)) == (2, 5)


def mode_of(file: str) -> str:
    with closing(sqlite3.connect(file)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def test_a_file_that_optuna_made_is_logged_ahead_like_our_own(tmp_path: Path) -> None:
    """Our readers take no locks, which is safe where writers append to a log; a file that is somebody else's stays as it is."""
    file = str(tmp_path / "facts.sqlite3")
    studied(file)
    assert mode_of(file) == "delete"
    record(measurement(), url=file)
    assert mode_of(file) == "wal"
    foreign = str(tmp_path / "photographs.sqlite3")
    with closing(sqlite3.connect(foreign)) as connection, connection:
        connection.execute("CREATE TABLE photographs (id INTEGER)")
    with pytest.raises(ArchiveError, match="it holds other tables"):
        record(measurement(), url=foreign)
    assert mode_of(foreign) == "delete"
