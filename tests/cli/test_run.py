"""``run``: figures side by side, records, and exit codes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.program import building
from feinsum_fuse.device.timing import harness
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from feinsum_fuse.errors import ArchiveError
from feinsum_fuse.report import trial
from tests.cli.conftest import Invoke
from tests.cli.files import ARCH, MAPPING, WORKLOAD, write

MATVECS = "examples/matvecs"
VARIANTS = ("mapping", "unfused", "a_above", "a_off_chip")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database of the test's own."""
    return tmp_path / "facts.sqlite3"


def _matvecs(root: Path) -> list[str]:
    folder = root / MATVECS
    names = ("workload", "arch", "mapping", "mapping_unfused", "mapping_a_above", "mapping_a_off_chip")
    return [str(folder / f"{name}.yaml") for name in names]


def test_the_four_mappings_of_two_matvecs(invoke: Invoke, root: Path, database: Path) -> None:
    ended = invoke("run", *_matvecs(root), "--set", "N=24", "--repeats", 2, "--url", database, "--json")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert list(found["mappings"]) == list(VARIANTS)
    assert found["operations"] == 2 * 2 * 24 * 24
    for label, figures in found["mappings"].items():
        assert figures["outcome"] == "ok"
        assert figures["error"] <= figures["tolerance"]
        assert figures["median_s"] > 0 and len(figures["samples_ns"]) == 2
        assert figures["gflops"] == pytest.approx(found["operations"] / figures["median_s"] / 1e9)
        # A is written once and read once, or never leaves the chip.
        expected = 2 * 24 * 4 if label in ("unfused", "a_off_chip") else 0
        assert figures["intermediate_bytes"] == figures["predicted_intermediate_bytes"] == expected
        assert figures["predicted_over_measured"] == pytest.approx(figures["predicted_time_s"] / figures["median_s"])
        assert figures["earlier"] is None
    assert found["numpy"]["median_s"] > 0
    assert found["numpy"]["error"] < 1e-4


def test_a_second_run_is_compared_with_the_records_of_the_first(invoke: Invoke, root: Path, database: Path) -> None:
    workload, arch, mapping, *_ = _matvecs(root)
    first = json.loads(invoke("run", workload, arch, mapping, "--repeats", 2, "--url", database, "--json").out)
    ended = invoke("run", workload, arch, mapping, "--repeats", 2, "--url", database)
    assert ended.code == 0
    cells = [re.split(r"\s{2,}", line.strip()) for line in ended.out.splitlines()]
    lines = {name: rest for name, *rest in cells}
    number, unit = lines["recorded before, median"][0].split()
    scale = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    assert float(number) == pytest.approx(first["mappings"]["mapping"]["median_s"] * scale, rel=1e-3)
    assert float(lines["measured / recorded"][0]) > 0
    assert f"recorded in {database}, beside 1 earlier measurement of these kernels since " in ended.out
    assert json.loads(invoke("db", "stats", "--json", "--url", database).out)["facts"] == 2


def test_nothing_is_recorded_on_request(invoke: Invoke, root: Path, database: Path) -> None:
    workload, arch, mapping, *_ = _matvecs(root)
    ended = invoke("run", workload, arch, mapping, "--repeats", 1, "--no-record", "--url", database)
    assert ended.code == 0
    assert "recorded" not in ended.out
    assert not database.exists()


def test_other_sizes_change_every_figure(invoke: Invoke, root: Path, database: Path) -> None:
    workload, arch, *_, off_chip = _matvecs(root)
    common = ("--repeats", 1, "--no-record", "--json")
    found = [json.loads(invoke("run", workload, arch, off_chip, "--set", f"NA={n}", *common).out) for n in (16, 48)]
    small, large = (one["mappings"]["a_off_chip"] for one in found)
    assert large["intermediate_bytes"] == 3 * small["intermediate_bytes"]
    assert large["predicted_time_s"] == pytest.approx(3 * small["predicted_time_s"], rel=0.05)
    assert found[1]["operations"] == 3 * found[0]["operations"]


@pytest.mark.parametrize("outcome", [Outcome.build_failed, Outcome.crashed, Outcome.timeout, Outcome.wrong_result])
def test_a_kernel_that_fails_is_recorded_and_exits_with_3(
    invoke: Invoke, tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KernelError(outcome, "launch", "it broke", Executable("", (), (), ()))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(harness, "build", fail)
    ended = invoke("run", *write(tmp_path), "--url", database)
    assert ended.code == 3
    assert ended.err.splitlines()[-1] == f"error: mapping: {outcome}: it broke"
    assert str(outcome) in ended.out
    assert json.loads(invoke("db", "stats", "--json", "--url", database).out)["by_device_and_outcome"][0]["outcome"] == str(outcome)


def test_a_tile_that_no_device_holds_is_rejected_and_the_others_go_on(
    invoke: Invoke, tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = target(find_device())
    small = replace(found, limits=replace(found.limits, local_bytes=1 << 14))
    monkeypatch.setattr(building, "target", lambda _: small)
    monkeypatch.chdir(tmp_path)
    bindings = "opencl: {memories: {Main: global, Buffer: local}}\n"
    workload, arch, mapping = write(tmp_path, arch=ARCH.replace("size: 256", "size: inf") + bindings)
    lines = MAPPING.splitlines(keepends=True)
    lines[3:5] = ["  - !Storage {component: Buffer, tensors: [A]}\n", lines[4], lines[3]]
    (tmp_path / "mapping_large.yaml").write_text("".join(lines))
    ended = invoke("run", workload, arch, mapping, "mapping_large.yaml", "--set", "M=1025", "--repeats", 1, "--url", database)
    assert ended.code == 1
    assert re.search(r"^outcome +ok +rejected +ok$", ended.out, re.MULTILINE)
    assert ended.err.splitlines()[-2].startswith("error: large: rejected: ")
    alone = invoke("run", workload, arch, "mapping_large.yaml", "--set", "M=1025", "--repeats", 1, "--url", database)
    assert (alone.code, alone.out) == (1, "")


def test_a_mapping_that_cannot_be_predicted_stops_no_other(invoke: Invoke, tmp_path: Path, database: Path) -> None:
    """Values of 8 bits, computed as float32, which is said once; a buffer for a row of A, and a tile that is all of it."""
    write(tmp_path, arch=ARCH.replace("size: 256", "size: 64"), workload=WORKLOAD.replace("All: 32", "All: 8"))
    lines = MAPPING.splitlines(keepends=True)
    held, rows, columns = "  - !Storage {component: Buffer, tensors: [A]}\n", lines[3], lines[4]
    for name, order in (("mapping", (rows, held, columns)), ("mapping_large", (held, columns, rows))):
        (tmp_path / f"{name}.yaml").write_text("".join([*lines[:3], *order, *lines[5:]]))
    files = [tmp_path / f"{name}.yaml" for name in ("workload", "arch", "mapping", "mapping_large")]
    ended = invoke("run", *files, "--repeats", 1, "--url", database)
    assert ended.code == 1
    assert re.search(r"^outcome +ok +ok +ok$", ended.out, re.MULTILINE)
    assert "large: no prediction: Einsum Z uses" in ended.out and "its size is only 64 bits" in ended.out
    assert ended.err.splitlines()[-1] == "error: large: measured, not predicted"
    assert ended.err.count("computed as float32") == 1
    alone = invoke("predict", *files)
    assert (alone.code, alone.err.splitlines()[-2][:13]) == (1, "error: large:")
    assert "Prediction: " in alone.out


MASKED = """
workload:
  rank_sizes: {M: 77, P: 131, E: 3, F: 5}
  bits_per_value: {All: 32}
  einsums:
  - S[m, p] = where(p <= m, Q[m, e] * K[p, e], 0)
  - O[m, f] = S[m, p] * V[p, f]
"""


def test_masked_cascades_run_and_are_recorded(invoke: Invoke, tmp_path: Path, database: Path) -> None:
    (tmp_path / "masked.yaml").write_text(MASKED)
    common = (tmp_path / "masked.yaml", "--repeats", 1, "--url", database)
    found = json.loads(invoke("run", *common, "--json").out)["mappings"]["default mapping"]
    assert (found["outcome"], found["trouble"], bool(found["fact"])) == ("ok", [], True)
    ended = invoke("compare", *common)
    assert (ended.code, ended.err.count("error")) == (0, 0)
    assert json.loads(invoke("db", "stats", "--json", "--url", database).out)["facts"] == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ArchiveError("the disk is full"), "measured, but not recorded: the disk is full"),
        (RuntimeError("spaces differ"), "measured, but not recorded: RuntimeError: spaces differ (a mistake of feinsum_fuse)"),
    ],
)
def test_what_fails_after_a_measurement_costs_no_figure(
    invoke: Invoke, tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trial, "record", fail)
    for verb in ("run", "compare"):
        ended = invoke(verb, *write(tmp_path), "--repeats", 1, "--url", database)
        assert ended.code == 1
        assert "measured" in ended.out and "recorded in" not in ended.out
        assert ended.err.splitlines()[-1] == f"error: mapping: {said}"


def test_without_a_mapping_the_default_one_runs(invoke: Invoke, root: Path, database: Path) -> None:
    workload = root / "examples" / "matmul" / "workload.yaml"
    ended = invoke("run", workload, "--repeats", 1, "--set", "M=37", "--url", database, "--json")
    assert ended.code == 0
    figures = json.loads(ended.out)["mappings"]["default mapping"]
    assert figures["outcome"] == "ok"
    assert figures["predicted_time_s"] > 0
    assert "LoopTree\n" in invoke("show", workload, "--tree", "--schedule").out
