"""Optuna's studies of transforms' parameters in the archive's database: they go on, and Optuna's dashboard shows them."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from wsgiref.util import setup_testing_defaults

import optuna
import pytest

from feinsum_fuse.archive import migrate, record
from feinsum_fuse.archive.tables.address import locate
from feinsum_fuse.errors import SearchError
from feinsum_fuse.tuning.sketches.study import ParameterSearch, open_study
from tests.archive.postgres import Server
from tests.archive.samples import as_of_old, execute, measurement

from .test_sketches import sketching


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an archive that holds nothing."""
    if request.param == "sqlite":
        yield str(tmp_path / "facts.sqlite3")
        return
    server = Server()
    yield server.new_schema()
    server.close()


def test_a_study_proposes_each_candidate_once_and_goes_on(url: str) -> None:
    """Whoever opens the archive by Optuna's own interface, as its dashboard does, finds the trials with their values."""
    first = ParameterSearch(sketching(), "a device", url, 1)
    proposed = first.ask(6)
    assert len(set(proposed)) == len(proposed) == 6
    for place, candidate in enumerate(proposed):
        first.tell(candidate, 1.0 + place if place else None)
    assert first.ranking == proposed[1:]
    again = ParameterSearch(sketching(), "a device", url, 1)
    assert len(again._study.trials) >= 6
    storage = optuna.storages.RDBStorage(locate(url).url.render_as_string(hide_password=False))
    (name,) = optuna.get_all_study_names(storage)
    trials = optuna.load_study(study_name=name, storage=storage).trials
    assert {trial.value for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE} == {2.0, 3.0, 4.0, 5.0, 6.0}
    assert all(trial.params for trial in trials)


def page(kept: optuna.storages.RDBStorage, path: str) -> tuple[str, bytes]:
    """What the dashboard answers: the status, and the body."""
    dashboard = pytest.importorskip("optuna_dashboard", reason="optuna-dashboard is not installed")
    environment: dict[str, object] = {"PATH_INFO": path, "wsgi.input": io.BytesIO()}
    setup_testing_defaults(environment)
    answered: list[str] = []
    body = dashboard.wsgi(kept)(environment, lambda status, _, __=None: answered.append(status))
    return answered[0], b"".join(body)


def test_the_dashboard_shows_an_archives_studies(url: str) -> None:
    """Its pages ask for no migration, neither before nor after ours; its interface for programs has the trials."""
    record(measurement(), url=url)
    study = open_study("of ours", url, 1)
    study.tell(study.ask(), 2.5)
    execute(url, *as_of_old("0005"))
    migrate(url)
    kept = optuna.storages.RDBStorage(
        locate(url).url.render_as_string(hide_password=False), skip_compatibility_check=True, skip_table_creation=True
    )
    status, body = page(kept, "/dashboard/")
    assert (status, b"incompatible" in body.lower()) == ("200 OK", False)
    status, body = page(kept, "/api/studies")
    assert status == "200 OK" and b'"of ours"' in body
    status, body = page(kept, f"/api/studies/{study._study_id}")
    assert status == "200 OK" and b"2.5" in body


def test_optunas_tables_of_another_release_are_refused(url: str) -> None:
    open_study("one", url, 1)
    execute(url, "UPDATE alembic_version SET version_num = 'v3.0.0.d'")
    with pytest.raises(SearchError, match=r"are not those of Optuna .*\n.*optuna storage upgrade"):
        open_study("another", url, 1)
    assert record(measurement(), url=url)


def test_studies_that_begin_together(url: str) -> None:
    """Optuna's tables are made by whichever comes first; the others wait for them."""
    record(measurement(), url=url)
    gate, errors, count = threading.Barrier(3), list[BaseException](), 3

    def begin() -> None:
        gate.wait(20)
        try:
            study = open_study("the same", url, 1)
            study.tell(study.ask(), 1.0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(open_study("the same", url, 1).trials) == count


def test_a_storage_that_cannot_be_made_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise optuna.exceptions.StorageInternalError("the disk is on fire")

    monkeypatch.setattr(optuna.storages, "RDBStorage", refused)
    monkeypatch.setattr("feinsum_fuse.tuning.sketches.study.STORAGE_ATTEMPTS", 2)
    with pytest.raises(SearchError, match=r"Optuna cannot make its tables in .*: the disk is on fire"):
        open_study("one", str(tmp_path / "facts"), 1)
