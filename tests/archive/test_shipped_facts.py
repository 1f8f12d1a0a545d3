"""The facts that ship with the package: found without any set-up, beneath the user's own, and still true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from feinsum_fuse.archive import export_facts, forget, import_facts, query, record, remember, retrieve
from feinsum_fuse.archive.facts import shipped_facts as shipped
from feinsum_fuse.archive.facts.question import Fit
from feinsum_fuse.archive.facts.record import Record
from feinsum_fuse.archive.key.device_identity import device_family
from feinsum_fuse.archive.text.lines import lines_of, read_facts
from feinsum_fuse.cascades.names import chosen_names
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import POCL_PLATFORM, DeviceInfo, devices
from feinsum_fuse.device.program.building import build
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import ArchiveError
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.vector_steps import Vectorize
from tests.sweeps import SLOW

from .samples import HERE, measurement, product, tiled

FILES = shipped.shipped_files()
RECORDS = [record for file in FILES for record in read_facts(file.read_text(encoding="utf-8").splitlines(), file.name)]

VERIFIED = [known for known in RECORDS if known.measurement.outcome is Outcome.ok]
SAMPLE = {
    known.key.structure: known
    for known in sorted(VERIFIED, key=lambda known: (known.device.platform == POCL_PLATFORM, -known.measurement.median))
}
"""Structure of a cascade -> the fact that runs shortest, on PoCL if there is one."""
REPLAYED = VERIFIED if SLOW else [*SAMPLE.values()][::5]


@pytest.fixture(autouse=True, scope="module")
def shipped_facts() -> Iterator[None]:
    """Those of the files, as users have them, read once for all tests that change none."""
    shipped.forget()
    yield
    shipped.forget()


@pytest.fixture
def one_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As if one fact had shipped, and the user had recorded nothing."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    record(measurement(median_ns=10.0), url=folder / "facts.sqlite3")
    (folder / "device.jsonl").write_text("\n".join(export_facts(folder / "facts.sqlite3")))
    monkeypatch.setattr(shipped, "shipped_files", lambda: (folder / "device.jsonl",))
    shipped.forget()
    yield folder / "device.jsonl"
    shipped.forget()  # whoever asks next reads the files that ship


def test_facts_of_a_checkout_are_found_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(shipped, "PACKAGE", "feinsum_fuse.no_such_package")
    assert [Path(str(file)).resolve() for file in shipped.shipped_files()] == sorted((root / "database").glob("*.jsonl"))


def test_shipped_facts_are_found_without_a_database(one_shipped: Path, tmp_path: Path) -> None:
    url = tmp_path / "none.sqlite3"
    fact = retrieve(product(), HERE, url)
    assert (fact.found, fact.source) == (Fit.exact, "shipped with feinsum_fuse")
    assert fact.schedule == tiled()
    assert not url.exists()


def test_a_shipped_fact_can_be_masked(one_shipped: Path, tmp_path: Path) -> None:
    """In the database of whoever forgets it, and there alone."""
    url, other = tmp_path / "facts.sqlite3", tmp_path / "other.sqlite3"
    fact = retrieve(product(), HERE, url).known.id
    assert str(forget(fact[:12], url)) == f"fact {fact} (shipped with feinsum_fuse)"
    assert not retrieve(product(), HERE, url)
    assert retrieve(product(), HERE, other).known.id == fact
    assert str(import_facts(one_shipped, url)) == "0 facts added, 0 were there already, 1 left out as forgotten"
    assert remember(fact, url).source == "shipped with feinsum_fuse"
    assert retrieve(product(), HERE, url).known.id == fact


def test_the_users_facts_lie_above(one_shipped: Path, tmp_path: Path) -> None:
    url = tmp_path / "facts.sqlite3"
    record(measurement(schedule=tiled(factor=4), median_ns=5.0), url=url)
    assert [fact.source for fact in query(product(), HERE, url=url)] == [str(url), "shipped with feinsum_fuse"]
    import_facts(one_shipped, url)
    assert [fact.source for fact in query(product(), HERE, url=url)] == [str(url), str(url)]
    assert len(list(export_facts(url))) == 2


def test_a_damaged_shipped_file_is_named(one_shipped: Path, tmp_path: Path) -> None:
    one_shipped.write_text(one_shipped.read_text() + "\n" + one_shipped.read_text().replace('"samples_ns":[10.0]', '"samples_ns":"fast"'))
    with pytest.raises(ArchiveError, match=r"device\.jsonl:2: "):
        retrieve(product(), HERE, tmp_path / "none")


def test_a_schedule_of_another_version_is_passed_over(one_shipped: Path, tmp_path: Path) -> None:
    one_shipped.write_text(one_shipped.read_text().replace('"version":1}', '"version":99}'))
    assert retrieve(product(), HERE, tmp_path / "none").found is Fit.nothing


def test_files_are_as_export_writes_them() -> None:
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        records = list(read_facts(text.splitlines(), file.name))
        assert text == "".join(f"{line}\n" for line in lines_of(records)), file.name
        assert len({(known.device.platform, known.device.name, known.device.units) for known in records}) == 1, "one file for each device"
    assert len({known.id for known in RECORDS}) == len(RECORDS)


def test_what_ships_was_measured_on_more_than_one_runtime() -> None:
    assert len({known.device.platform for known in RECORDS if known.measurement.outcome is Outcome.ok}) > 1


def test_whatever_takes_long_runs_in_lanes() -> None:
    """A mapping that is lowered without its bindings becomes scalar loops on one core, which nobody wants to retrieve."""
    slow = [known for known in RECORDS if (known.measurement.median or 0) > 1e-3]
    assert slow
    for known in slow:
        assert any(isinstance(step, Vectorize) for step in known.schedule.steps), label(known)


def label(known: Record) -> str:
    return f"{known.device.platform.split()[0]}: {known.measurement.label}"


@pytest.mark.parametrize("known", VERIFIED, ids=label)
def test_every_shipped_schedule_is_legal(known: Record) -> None:
    """All its steps apply to its cascade."""
    assert isinstance(known.schedule, Schedule)
    known.schedule.nest(known.cascade.kernel())


@pytest.mark.parametrize("known", REPLAYED, ids=label)
def test_every_shipped_schedule_replays(known: Record) -> None:
    """The source is the one that was measured, or the new one computes the right result; by default of every fifth cascade."""
    assert isinstance(known.schedule, Schedule)
    kernel = known.schedule.apply(known.cascade.kernel())
    arrays = chosen_names(known.cascade).arrays
    generated = executable(kernel, outputs=[arrays[tensor] for tensor in known.cascade.outputs])
    replayed = generated.renamed({array: tensor for tensor, array in arrays.items()})
    if replayed.source_hash == known.measurement.provenance.source_hash and not SLOW:
        return
    here = [device for device in devices() if device_family(DeviceInfo.of(device)) == device_family(known.device)]
    for device in here[:1]:
        assert build(known.cascade, known.schedule, device).first_run.outcome is Outcome.ok


@pytest.mark.parametrize("known", VERIFIED, ids=label)
def test_every_shipped_fact_is_found_on_its_device(known: Record, tmp_path: Path) -> None:
    best = retrieve(known.cascade, known.device, tmp_path / "none")
    assert best.found is Fit.exact
    assert best.measurement.median <= known.measurement.median
