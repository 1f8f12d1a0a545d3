"""A survey's steps end in time and leave what they found, whatever happens in them; one runs from end to end on PoCL."""

from __future__ import annotations

import dataclasses
import json
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.text.lines import import_facts
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.schedule.target import ANY_GPU, DeviceLimits
from feinsum_fuse.schedule.tree.sizes import allocated
from feinsum_fuse.survey import peers as comparing
from feinsum_fuse.survey import survey as surveying
from feinsum_fuse.survey.accuracy import on_device
from feinsum_fuse.survey.kernels import fitting, tilings
from feinsum_fuse.survey.step_process import MODULES
from feinsum_fuse.survey.step_session import SurveySession, SurveySettings, surveyed_device
from feinsum_fuse.survey.summary import failures, summary
from feinsum_fuse.survey.survey import PLAN, SurveyStep, chosen, limit, run_process, survey
from feinsum_fuse.survey.survey_journal import FACTS, SurveyJournal, file_name
from kit.make import fitting_trees
from tests.sweeps import SLOW


def python(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(lines)]


def settings(trees: Path | None = None) -> SurveySettings:
    return SurveySettings("Portable", None, str(trees) if trees else None, None, {})


def test_a_process_that_ends_says_how(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run_process(python("print(1)"), log, 20).outcome == "ok"
    failed = run_process(python("print('so it is'); raise SystemExit(4)"), log, 20)
    assert (failed.outcome, failed.message.splitlines()[-1]) == ("failed", "so it is")
    assert run_process(python("import os", "os.kill(os.getpid(), 11)"), log, 20).message.startswith("died of SIGSEGV")


def test_what_a_hanging_process_has_started_ends_with_it(tmp_path: Path) -> None:
    """A kernel runs in a session of its own, and would keep the device busy for whoever comes next."""
    mark = tmp_path / "child"
    child = "import time; time.sleep(600)"
    lines = [
        "import subprocess, sys, time",
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)",
        f"open({str(mark)!r}, 'w').write(str(child.pid))",
        "time.sleep(600)",
    ]
    for seconds in (1.5, 6, 24):  # until the process has come so far
        assert run_process(python(*lines), tmp_path / "log", seconds).outcome == "timeout"
        if mark.exists():
            break
    pid = int(mark.read_text())
    for _ in range(100):
        if not _runs(pid):
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} still runs")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_time_that_a_step_leaves_goes_to_those_after_it() -> None:
    steps = [SurveyStep("a", "", 1), SurveyStep("b", "", 3)]
    assert (limit(100, steps), limit(90, steps[1:]), limit(-1, steps)) == (25, 90, 0)
    assert sum(limit(100, PLAN[k:]) > 0 for k in range(len(PLAN))) == len(PLAN)


def test_steps_are_named() -> None:
    assert [step.name for step in chosen(["smoke", "devices"])] == ["devices", "smoke"]
    assert list(MODULES) == [step.name for step in PLAN]
    with pytest.raises(ff.DeviceError, match="a survey has no step smok"):
        chosen(["smok"])


def test_a_line_that_was_not_finished_is_left_out(tmp_path: Path) -> None:
    journal = SurveyJournal(tmp_path)
    journal.prepare()
    journal.write("smoke", {"a": float("inf"), "b": (1, {"c": tmp_path})})
    with (tmp_path / "records" / "smoke.jsonl").open("a") as stream:
        stream.write('{"half": ')
    assert list(journal.read("smoke")) == [{"a": "inf", "b": [1, {"c": str(tmp_path)}]}]
    assert list(journal.read("nothing")) == []
    assert file_name("../a b/\n") == "a-b"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a short survey."""
    folder = tmp_path_factory.mktemp("survey")
    trees = folder / "trees"
    trees.mkdir()
    (trees / "one.yaml").write_text(next(fitting_trees()).to_yaml())
    (trees / "two.yaml").write_text("workload: {einsums: 3}\n")
    archive = folder / "found.tar.gz"
    survey(archive, settings(trees), seconds=3000, only=["devices", "smoke", "trees"])
    return archive


def test_a_survey_runs_from_end_to_end(ended: Path) -> None:
    journal = SurveyJournal(ended.with_name("found"))
    assert [(line["name"], line["outcome"]) for line in journal.read("steps")] == [("devices", "ok"), ("smoke", "ok"), ("trees", "ok")]
    (first, *_), (smoke,), trees = (list(journal.read(step)) for step in ("devices", "smoke", "trees"))
    assert first["chosen"] and "max_work_group_size" in first["limits"] and first["target"]["limits"]["local_bytes"] > 0  # type: ignore[index,operator]
    assert smoke["outcome"] == "ok" and smoke["median_s"] > 0 and smoke["error"] <= smoke["tolerance"]  # type: ignore[operator]
    assert {(line["label"], line["outcome"]) for line in trees} == {("one", "ok"), ("two", "failed")}
    page = summary(journal)
    assert "surveyed: " in page and "smoke: product" in page and "random trees with work-items: 1 failed, 1 ok" in page
    assert [text.split(":")[0] for text in failures(journal)] == ["trees two"]


def test_the_archive_has_everything_but_the_database(ended: Path, tmp_path: Path) -> None:
    with tarfile.open(ended) as tar:
        names = set(tar.getnames())
        tar.extractall(tmp_path, members=[member for member in tar if member.isfile()])  # Python 3.11.2 knows no filters
    assert {"found/summary.txt", "found/facts.jsonl", "found/records/smoke.jsonl", "found/logs/devices.log"} <= names
    assert any(name.startswith("found/opencl/smoke") for name in names) and any(name.startswith("found/specs/trees") for name in names)
    assert not any("sqlite" in name for name in names)
    merged = import_facts(tmp_path / "found" / FACTS, tmp_path / "database.sqlite")
    assert (merged.added, merged.present) == (1, 0)


def test_a_survey_that_is_there_stays(ended: Path) -> None:
    before = ended.read_bytes()
    with pytest.raises(ff.DeviceError, match="is there already"):
        survey(ended, settings(), seconds=1)
    assert ended.read_bytes() == before


def test_a_step_that_dies_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is killed, the second hangs, the third has no time left; the archive is there all the same."""
    outcomes = iter([(python("import os", "os.abort()"), 60.0, 0.1), (python("import time", "time.sleep(60)"), 1.0, 4.0)])
    real, now = surveying.run_process, [0.0]

    def run(_: object, log: Path, seconds: float) -> object:
        command, patience, takes = next(outcomes)
        now[0] += takes
        return real(command, log, patience)

    monkeypatch.setattr(surveying, "run_process", run)
    monkeypatch.setattr(surveying, "time", SimpleNamespace(time=lambda: now[0]))
    journal = survey(tmp_path / "a.tar.gz", settings(), seconds=4, only=["devices", "smoke", "trees"])
    assert [line["outcome"] for line in journal.read("steps")] == ["crashed", "timeout", "left out"]
    assert (tmp_path / "a.tar.gz").exists() and "died of SIGABRT" in " ".join(failures(journal))


def test_a_survey_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ended well is neither run nor written again; what failed is tried anew."""
    ran: list[str] = []

    def run(command: list[str], _: Path, __: float) -> surveying.Ended:
        ran.append(command[4])
        journal = SurveyJournal(Path(command[5]))
        open_ = [label for label in ("one", "two") if label not in journal.done(command[4])]
        for label, outcome in zip(open_, ("ok", "failed"), strict=False):
            journal.write(command[4], {"label": label, "outcome": outcome})
        return surveying.Ended("timeout" if len(open_) == 2 and command[4] == "trees" else "ok")

    monkeypatch.setattr(surveying, "run_process", run)
    archive = tmp_path / "a.tar.gz"
    survey(archive, settings(), seconds=100, only=["smoke", "trees"])
    journal = survey(archive, settings(), seconds=100, only=["smoke", "trees"], resume=True)
    assert ran == ["smoke", "trees", "trees"]
    assert [(line["name"], line["outcome"]) for line in journal.read("steps")] == [("smoke", "ok"), ("trees", "ok")]
    assert [(line["label"], line["outcome"]) for line in journal.read("trees")] == [("one", "ok"), ("two", "ok")]


def test_libraries_of_another_installation_are_found_after_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    journal = SurveyJournal(tmp_path / "survey")
    journal.prepare()
    (tmp_path / "numpy").mkdir()
    given = dataclasses.replace(settings(), libraries=(str(tmp_path),))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(comparing, "libraries", lambda _: iter([]))
    comparing.peers(SurveySession("peers", journal, given, time.time() + 1000))
    assert sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize(("left", "compared"), [(100.0, ["product", "softmax"]), (1e-9, ["product"])])
def test_peers_begin_only_what_ends_in_time(left: float, compared: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After the first comparison the longest one is known; what was compared before is not compared again."""
    journal = SurveyJournal(tmp_path)
    journal.prepare()
    journal.write("peers", {"label": "attention", "outcome": "ok"})
    session = SurveySession("peers", journal, settings(), time.time() + 1000)
    seen: list[str] = []

    def compare(_: object, label: str, *__: object) -> None:
        seen.append(label)
        object.__setattr__(session, "deadline", time.time() + left)

    monkeypatch.setattr(comparing, "libraries", lambda _: iter([SimpleNamespace(name="a library")]))
    monkeypatch.setattr(comparing, "workloads", lambda _: iter([(name, None) for name in ("attention", "product", "softmax")]))
    monkeypatch.setattr(comparing, "lowered", lambda *_: (None, None))
    monkeypatch.setattr(comparing, "cascade", lambda _: None)
    monkeypatch.setattr(comparing, "build", lambda *_, **__: None)
    monkeypatch.setattr(comparing, "_compare", compare)
    comparing.peers(session)
    assert seen == compared
    assert [line["message"] for line in journal.read("peers") if "message" in line] == ["softmax: no time was left"] * (2 - len(seen))


def test_the_device_is_a_gpu_or_the_default() -> None:
    assert surveyed_device("Portable") == find_device("Portable")
    with pytest.raises(ff.DeviceError):
        surveyed_device("no such device")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ff.DeviceError, match="cannot write"):
        survey(tmp_path / "file" / "x.tar.gz", settings(), seconds=1)


def test_rates_go_by_what_components_are_bound_to(root: Path) -> None:
    """A nominal GPU takes the rates of a calibrated device."""
    examples = root / "examples"
    known = ff.load(examples / "matmul" / "workload.yaml", examples / "cpu.yaml")
    spec = ff.load(examples / "matmul" / "workload.yaml", examples / "gpu.yaml", examples / "matmul" / "mapping_packed.yaml")
    taken = on_device(spec, known)
    assert taken.arch is not None and known.arch is not None and spec.arch is not None
    for name in ("MainMemory", "MAC"):
        mine, theirs = (arch.component(name).actions for arch in (taken.arch, known.arch))
        assert [action.throughput for action in mine] == [action.throughput for action in theirs]
    assert [leaf.name for leaf in taken.arch.components] == [leaf.name for leaf in spec.arch.components]


def test_tiles_of_every_example_fit_48_kib(root: Path) -> None:
    """With work-items as lanes, by the examples' GPU; the largest that fit are taken."""
    device = dataclasses.replace(ANY_GPU, limits=DeviceLimits(1024, (1024, 1024, 64), 48 << 10, 1 << 20))
    for mapping in sorted((root / "examples").glob("*/mapping*.yaml")):
        if "Lane" not in mapping.read_text() or not (SLOW or mapping.stem == "mapping_fused"):
            continue
        files = [mapping.with_name("workload.yaml"), root / "examples" / "gpu.yaml", mapping]
        spec = fitting([(variables, files) for variables in tilings(device)], device)
        nest = lower(spec, target=device).nest(ff.cascade(spec).kernel())
        tiles = allocated(nest)
        assert sum(tiles[name] for name, tile in nest.tiles.items() if tile.memory == "local") <= 48 << 10, mapping


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    given = SurveySettings(None, "a", None, "b", {"SIZE": 3}, ("/libraries",))
    given.write(tmp_path)
    assert SurveySettings.read(tmp_path) == given and json.loads((tmp_path / "settings.json").read_text())["device"] is None
