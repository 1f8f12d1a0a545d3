"""``map``: searches, curves, files for ``run``."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cli.searches.answers import Standing
from feinsum_fuse.mapper import SearchProgress
from feinsum_fuse.pages import figures
from feinsum_fuse.progress import Progress
from tests.cli.conftest import Invoke
from tests.cli.files import write
from tests.mapper.devices import DEVICE, WORK_ITEMS, WORKLOADS
from tests.sweeps import SLOW

SMALL = ("--set", "M=4")
DEVICE_FILE = Path(__file__).resolve().parents[1] / "devices" / "xeon.yaml"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A product and an architecture, without a mapping."""
    return [tmp_path / name for name in write(tmp_path)[:2]]


def test_map_prints_the_best_mapping_and_the_proof(invoke: Invoke, files: list[Path]) -> None:
    ended = invoke("map", *files, *SMALL)
    best = ff.search(ff.load(*files, variables={"M": 4}))
    assert ended.code == 0
    assert ended.out.startswith(f"energy {best.value:.6g} J, proved optimal\n")
    assert str(best.front[0].mapping) in ended.out


def test_an_interrupted_map_prints_the_best_so_far(invoke: Invoke, files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object, now: Progress) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("feinsum_fuse.cli.searches.answers.Standing.__call__", interrupted)
    ended = invoke("map", *files, *SMALL)
    assert ended.code == 0
    best = ff.search(ff.load(*files, variables={"M": 4})).value
    assert float(ended.out.split()[1]) >= best
    assert ("proved optimal" in ended.out.splitlines()[0]) <= (float(ended.out.split()[1]) == pytest.approx(best))
    assert "MAC computes" in ended.out


FLIPS = """
renames: {einsums: [{name: default, tensor_accesses: [
  {name: input, source: A}, {name: output, source: Outputs}, {name: weight, source: ~(input | output)}]}]}
workload: {rank_sizes: {M: 8, K: 4, N: 2}, bits_per_value: {All: 8}, einsums: ['Z[m, n] = A[m, k] * B[k, n]']}
mapper: {metrics: ENERGY_DELAY_PRODUCT}
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, tensors: {keep: All},
      actions: [{name: read, energy: 10, throughput: inf}, {name: write, energy: 10, throughput: inf}]}
  - !Memory {name: Buffer, size: 60, leak_power: 0, area: 0, tensors: {keep: input | output},
      actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def test_map_says_which_operands_have_changed_places(invoke: Invoke, tmp_path: Path) -> None:
    """And takes the objective of the mapper key."""
    file = tmp_path / "ports.yaml"
    file.write_text(FLIPS)
    ended = invoke("map", file, "-o", tmp_path / "best.yaml")
    assert ended.out.startswith("edp ")
    assert "input and weight have changed places in Z; --no-flip" in ended.err
    assert "# input and weight have changed places in Z" in (tmp_path / "best.yaml").read_text()
    fixed = invoke("map", file, "--no-flip", "--objective", "energy", "--jobs", "2", "--cache", tmp_path / "tables")
    assert fixed.out.startswith("energy ") and "changed places" not in fixed.err


def test_map_as_json(invoke: Invoke, files: list[Path]) -> None:
    found = json.loads(invoke("map", *files, *SMALL, "--objective", "edp", "--json").out)
    best = ff.search(ff.load(*files, variables={"M": 4}), "edp")
    assert (found["proved"], found["value"]) == (True, best.value)
    assert found["front"][0]["energy"] == best.front[0].energy


def test_what_map_writes_is_predicted_alike_and_runs(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    ended = invoke("map", *files, *SMALL, "-o", tmp_path / "best.yaml")
    assert ended.err == f"wrote {tmp_path / 'best.yaml'}\n"
    spec = ff.load(*files, tmp_path / "best.yaml", variables={"M": 4})
    assert ff.predict(spec).energy == ff.search(spec).value
    ran = invoke("run", *files, tmp_path / "best.yaml", *SMALL, "--repeats", 2, "--no-record", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["mappings"]["best"]["outcome"] == "ok"


@pytest.mark.skipif(not SLOW, reason="builds twenty kernels: FEINSUM_FUSE_SLOW=1")
@pytest.mark.parametrize("kind", [DEVICE, WORK_ITEMS], ids=["groups", "work-items"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_what_map_finds_for_a_device_runs_there(invoke: Invoke, tmp_path: Path, name: str, kind: str) -> None:
    """Verified, on the device that the tests run on."""
    own, best = tmp_path / "own.yaml", tmp_path / "best.yaml"
    own.write_text(WORKLOADS[name] + kind.format(cores=2, registers=4096, lanes=4))
    found = invoke("map", own, "--objective", "latency", "--device", "1", "-o", best)
    assert (found.code, " proved optimal\n" in found.out) == (0, True)
    ran = invoke("run", own, best, "--repeats", 2, "--no-record", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["mappings"]["best"]["outcome"] == "ok"


@pytest.mark.parametrize("name", WORKLOADS if SLOW else ["chain"])
def test_what_map_finds_on_a_calibrated_device_becomes_a_kernel(invoke: Invoke, tmp_path: Path, name: str) -> None:
    """The file is what ``calibrate`` wrote on another machine; here the kernel is right, however long it takes."""
    own, best = tmp_path / "own.yaml", tmp_path / "best.yaml"
    own.write_text(WORKLOADS[name])
    found = invoke("map", own, DEVICE_FILE, "--objective", "latency", "-o", best)
    assert (found.code, " proved optimal\n" in found.out) == (0, True)
    if SLOW:
        ran = invoke("run", own, DEVICE_FILE, best, "--repeats", 2, "--no-record", "--json")
        assert ran.code == 0
        assert json.loads(ran.out)["mappings"]["best"]["outcome"] == "ok"
    else:
        assert len(ff.lower(ff.load(own, DEVICE_FILE, best)).steps) > 0


def test_a_step_of_a_curve_runs(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    curve = ff.curve(ff.load(*files, variables={"M": 4}), "Buffer")
    curve.points[0].save(tmp_path / "step.yaml")
    ran = invoke("run", tmp_path / "step.yaml", "--repeats", 2, "--no-record", "--json")
    assert ran.code == 0
    assert [one["outcome"] for one in json.loads(ran.out)["mappings"].values()] == ["ok"]


LONG = """
workload:
  rank_sizes: {H: 4, M: 48, P: 48, E: 24, F: 24}
  bits_per_value: {All: 8}
  einsums:
  - 'S[h, m, p] = Q[h, m, e] * K[h, p, e]'
  - 'X[h, m, p] = exp(S[h, m, p])'
  - 'Z[h, m, f] = X[h, m, p] * V[h, p, f]'
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
      actions: [{name: read, energy: 64, throughput: 256}, {name: write, energy: 64, throughput: 256}]}
  - !Container {name: PEs, spatial: [{name: X, fanout: 8, may_reuse: All}, {name: Y, fanout: 8, may_reuse: All}]}
  - !Memory {name: Local, size: 512, leak_power: 0, area: 0,
      actions: [{name: read, energy: 6, throughput: 64}, {name: write, energy: 6, throughput: 64}]}
  - !Memory {name: Register, size: 64, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: 64}, {name: write, energy: 1, throughput: 64}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")
def test_a_signal_ends_a_search_of_several_processes_with_the_best_so_far(tmp_path: Path) -> None:
    """As Ctrl-C at a terminal, which every process of the search gets; whether it comes early or late, a mapping is printed."""
    file = tmp_path / "long.yaml"
    file.write_text(LONG)
    command = [sys.executable, "-m", "feinsum_fuse.cli", "map", str(file), "--objective", "edp", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as search:
        assert search.stderr is not None
        search.stderr.readline()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(search.pid, signal.SIGINT)
        out, err = search.communicate(timeout=300)
    assert search.returncode == 0, err
    assert out.startswith("edp ")
    assert "MAC computes Z" in out
    assert "Traceback" not in err


def test_curves_of_all_kinds_in_one_picture(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    ended = invoke("map", *files, *SMALL, "--curve", "Buffer", "--svg", tmp_path / "curves.svg", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["capacity"]) == (0, 256)
    assert set(found["curves"]) == {"unfused", "whole", "ffmr", "all"}
    texts = [item.text or "" for item in ElementTree.parse(tmp_path / "curves.svg").getroot().iter("{http://www.w3.org/2000/svg}text")]
    assert [any(text.startswith(name) for text in texts) for name in figures.NAMES.values()] == 4 * [True]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--objective", "speed"], 1, "objective is 'speed'"),
        (["--fused", "some"], 2, "neither a number nor ffmr"),
        (["--curve", "Bufer"], 1, "no memory Bufer"),
        (["-o", "/dev/null/best.yaml"], 1, "there is no folder"),
        (["--svg", "/"], 1, "it is a folder"),
        (["--against", "energy"], 2, "give --curve MEMORY, too"),
        (["--pareto", "energy", "--top", 2], 2, "leave out --top or --pareto"),
        (["--curve", "Buffer", "--top", 2], 2, "--top: curves do not take it"),
        (["--pareto", "energy", "--resume", "state"], 1, "in one go"),
        (["--curve", "Buffer", "--seconds", 1], 2, "curves do not take it"),
    ],
)
def test_wrong_questions(invoke: Invoke, files: list[Path], arguments: list[str], code: int, said: str) -> None:
    ended = invoke("map", *files, *arguments)
    assert ended.code == code
    assert said in " ".join(ended.err.split())


def test_nothing_legal_is_said_with_exit_code_1(invoke: Invoke, files: list[Path]) -> None:
    arch = files[1].read_text().replace("name: Buffer\n    size: 256", "name: Buffer\n    tensors: {keep: All}\n    size: 1")
    files[1].write_text(arch)
    ended = invoke("map", *files, *SMALL)
    assert (ended.code, ended.out) == (1, "")
    assert "error: " in ended.err


def test_which_of_a_front_is_printed(invoke: Invoke, files: list[Path]) -> None:
    ended = invoke("map", *files, *SMALL, "--top", 3)
    count = len(ff.search(ff.load(*files, variables={"M": 4}), top=3).front)
    assert count > 1
    assert f"\nmapping 1 of {count}; --json has the others\nLoopTree" in ended.out


def test_a_tolerance_is_not_called_optimal(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    """The first mapping of all is within a factor of ten thousand."""
    ended = invoke("map", *files, *SMALL, "--tolerance", 1e4, "-o", tmp_path / "best.yaml")
    found = ff.search(ff.load(*files, variables={"M": 4}), tolerance=1e4)
    state = "proved optimal" if found.value <= found.floor else "proved within 1e+06 % of the optimum"
    assert f"J, {state}\n" in ended.out
    assert state in (tmp_path / "best.yaml").read_text()


def test_a_front_says_over_what(invoke: Invoke, files: list[Path]) -> None:
    assert " over latency, usage, proved optimal\n" in invoke("map", *files, *SMALL, "--pareto", "latency,usage").out
    assert "pareto" in invoke("map", *files, *SMALL, "--pareto", "").err


def test_each_step_of_a_curve_is_a_mapping(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    steps = json.loads(invoke("map", *files, *SMALL, "--curve", "Buffer", "--json").out)["curves"]["all"]
    (tmp_path / "step.yaml").write_text(steps[-1]["mapping"])
    arch = files[1].read_text().replace("size: 256", f"size: {steps[-1]['size']}")
    files[1].write_text(arch)
    assert ff.predict(ff.load(*files, tmp_path / "step.yaml", variables={"M": 4})).energy == steps[-1]["energy"]


def test_only_the_top_keys_that_are_wanted(invoke: Invoke, files: list[Path]) -> None:
    files[0].write_text(f"{files[0].read_text()}\nmapping: 3\n")
    assert invoke("map", *files, *SMALL).code == 1
    assert invoke("map", *files, *SMALL, "--top-key", "workload", "--top-key", "arch").code == 0


def test_includes_from_elsewhere(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    library, own = tmp_path / "library", tmp_path / "own" / "all.yaml"
    library.mkdir()
    own.parent.mkdir()
    files[1].rename(library / "arch.yaml")
    own.write_text(f"{files[0].read_text()}\n{{{{include_text('{library / 'arch.yaml'}')}}}}\n")
    assert "outside the folders that may be read" in invoke("map", own, *SMALL).err
    assert invoke("map", own, *SMALL, "--include-dir", library).code == 0


def test_every_option_reaches_the_search(invoke: Invoke, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    def search(spec: object, **options: object) -> None:
        asked.update(options)
        raise ff.errors.SearchError("not now")

    search.__signature__ = inspect.signature(ff.search)  # type: ignore[attr-defined]
    monkeypatch.setattr(ff, "search", search)
    state, tables = tmp_path / "state.jsonl", tmp_path / "tables"
    flags = ["--imperfect", "--even", "--no-flip", "--head-first", "--no-head-is-tiled-fusion"]
    values = {"objective": "edp", "fused": 2, "footprint": "sum", "jobs": 2, "tolerance": 0.5, "seconds": 9, "max_rows": 1000, "top": 3}
    texts = [text for name, value in values.items() for text in (f"--{name.replace('_', '-')}", value)]
    ended = invoke("map", *files, *SMALL, *flags, *texts, "--resume", state, "--cache", tables)
    assert ended.err == "error: not now\n"
    assert callable(asked.pop("progress"))
    switched = {"imperfect": True, "even": True, "flip": False, "head_first": True, "head_is_tiled_fusion": False}
    assert asked == {**values, **switched, "resume": str(state), "cache": str(tables)}


def test_a_search_goes_on_from_its_file(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    first = invoke("map", *files, *SMALL, "--resume", state)
    assert state.read_text().count("\n") > 0
    again = invoke("map", *files, *SMALL, "--resume", state, "--json")
    assert json.loads(again.out)["log"][0]["name"] == "resumed"
    assert first.out.startswith(f"energy {json.loads(again.out)['value']:.6g} J, proved optimal\n")
    other = invoke("map", *files, "--set", "M=8", "--resume", state)
    assert (other.code, other.out) == (1, "")
    assert "journal of another search" in other.err


def test_a_curve_writes_the_mapping_that_fits(invoke: Invoke, files: list[Path], tmp_path: Path) -> None:
    best = tmp_path / "best.yaml"
    assert invoke("map", *files, *SMALL, "--curve", "Buffer", "-o", best).code == 0
    spec = ff.load(*files, variables={"M": 4})
    step = ff.curve(spec, "Buffer").at(256)
    assert f"traffic {step.traffic:.9g} bits" in best.read_text()
    assert ff.predict(ff.load(*files, best, variables={"M": 4})).peak["Buffer"] == step.size <= 256


def test_a_long_search_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """At the end of each stage that lasts; within one only now and then, where each word is a line that stays."""
    standing = Standing()
    for seconds, ended in ((0.5, True), (1.5, False), (1.6, True)):
        standing(SearchProgress("1 fused loops", seconds=seconds, ended=ended, floor=2.0, incumbent=4.0, rows=7))
    standing.clear()
    assert capsys.readouterr().err == "1 fused loops: floor 2, best 4, gap 0.5, 7 rows, 1.6 s\n"
