"""The command lines of the benchmarks."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyopencl as cl
import pytest

import feinsum_fuse as ff
from benchmarks import bytes, catalogue, chosen, foreign_times, kept_runs, with_avx2
from benchmarks.ceiling.mixes import disassembled
from benchmarks.fidelity import cases, figures, judging, measuring, residuals
from feinsum_fuse.device.catalogue import devices, find_device
from feinsum_fuse.model.kernel.interval import RESIDUALS, Residuals
from feinsum_fuse.report.agreement import Agreement

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
WITH_NAMES = [path for path in sorted(FOLDER.rglob("*.py")) if any(f'nargs="{count}"' in path.read_text() for count in "*+")]


@pytest.mark.parametrize("path", WITH_NAMES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_names_may_stand_before_and_behind_options(path: Path) -> None:
    """argparse gives the first run of words to the names, none of them where an option comes first."""
    assert "parse_args(" not in path.read_text()
    assert "parse_intermixed_args(" in path.read_text()


def test_the_first_instruction_that_a_compiler_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or none: which of them this processor's compiler takes, no test depends on."""
    device = find_device("Portable")
    assert bytes.dot_instruction(device) in {None, *bytes.DOT_INSTRUCTIONS}
    monkeypatch.setattr(bytes, "DOT_INSTRUCTIONS", {"no such": "defined(NO_SUCH)", "any": "1"})
    assert bytes.dot_instruction(device) == "any"
    monkeypatch.setattr(bytes, "DOT_INSTRUCTIONS", {"no such": "defined(NO_SUCH)"})
    assert bytes.dot_instruction(device) is None


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
def test_products_of_bytes_take_the_instruction_that_is_said(device: cl.Device) -> None:
    """Compared with the binary where it can be read; a device that has none is named."""
    instruction = bytes.dot_instruction(device)
    made = bytes.product("64x128x64", bytes.TYPES["int8"], device).executable
    if shutil.which("objdump") and device == find_device():
        assert ("vpdpbusd" in disassembled(made.source, made.options)) == (instruction in {"AVX-512 VNNI", "AVX-VNNI"})
    if instruction is None:
        pytest.skip(f"{device.platform.name} has no instruction for dot products of bytes here: products of 16 bits stand in for it")


def test_the_last_runs_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "device" / "bytes.json"
    for number in range(kept_runs.KEPT + 2):
        kept_runs.keep(file, "300", {"alone": {"float32": 6.0, "int8": 1.0 + number}})
    kept_runs.keep(file, "400", {})
    found = kept_runs.known_runs(file)
    assert found.keys() == {"300", "400"}
    assert kept_runs.ratios(found["300"], "alone", "int8", "float32") == "2.00, 1.50, 1.20"


def test_kernels_are_timed_on_the_runtime_that_was_calibrated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which a device file's first line says; a device's own name may have an ``on``, too."""
    known = {folder.name: cases.Device(folder.name).opencl_device for folder in cases.DATA.iterdir()}
    assert known["epyc_zen5.3"] == "platform:Portable Computing Language"
    assert known["epyc_zen5_intel"] == "platform:Intel(R) OpenCL"
    monkeypatch.setattr(cases, "DATA", tmp_path)
    (tmp_path / "here").mkdir()
    device = find_device("Portable")
    info = f"Cores on a board (cpu, 2 units) on {device.platform.name}, driver 1 on 2"
    (tmp_path / "here" / "device.yaml").write_text(f"# Measured by feinsum-fuse calibrate on {info}.\n# Rates, driver, and so on.\n")
    assert find_device(cases.Device("here").opencl_device) == device


def test_a_slow_slot_is_no_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """However steady it is: another one has to agree."""
    monkeypatch.setattr(cases, "DATA", tmp_path)
    (tmp_path / "here").mkdir()
    here = cases.Device("here")
    wanted = []
    for seconds in (3e-4, 1e-4, 1.02e-4):
        here.add_samples("matmul", 5, [seconds * 1e9] * 30)
        wanted.append(measuring.is_noisy(here.slots("matmul")[5]))
    assert wanted == [True, True, False]
    assert len(here.samples("matmul")[5]) == 90
    assert measuring.is_noisy([[1e-4] * 7, [1e-4] * 7])
    assert [measuring.disagree(slots) for slots in ([[3e-4], [1e-4]], [[3e-4], [1e-4], [1.02e-4]], [[1e-4]])] == [True, False, False]


def test_slots_that_disagree_are_shown() -> None:
    """Beside the noise, which does not tell of a slot that was slowed down steadily."""
    device = cases.Device("epyc_zen4_intel.7")
    found = judging.judged(device, "transport_step")
    assert found is not None
    assert found.apart == sum(map(measuring.disagree, device.slots("transport_step").values())) > 20
    assert "apart" in judging.report(device, ("transport_step",))


def test_figures_go_on_where_the_last_run_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A workload is kept as soon as it is predicted, and predicted again where other values are tried."""
    asked: list[str] = []
    monkeypatch.setattr(figures, "RESULTS", tmp_path / "figures.json")
    some = [Agreement.of([1, 2], [1, 4])] * len(figures.TRIED)
    monkeypatch.setattr(figures, "agreements", lambda device, case: asked.append(case) or some)
    measured = [cases.Device("epyc_zen5")]
    count = figures.predict(measured, 0, anew=False)
    assert count > 20 and not asked
    assert figures.predict(measured, 60, anew=False) == 0 and len(asked) == count
    assert figures.predict(measured, 60, anew=False) == 0 and len(asked) == count
    assert "epyc_zen5, 31" in figures.report() and "1.000, 25.0%" in figures.report()
    monkeypatch.setattr(figures, "TRIED", ({}, {"cache_share": 0.9}))
    assert figures.predict(measured, 0, anew=False) == count


def test_the_front_page_has_the_results_that_are_committed(root: Path) -> None:
    found = runpy.run_path(str(root / "doc" / "tuned.py"))
    assert found["table"]() == (root / "doc" / "tuned.csv").read_text()


def test_the_catalogues_tables_have_the_results_that_are_committed(root: Path) -> None:
    found = runpy.run_path(str(root / "doc" / "catalogue.py"))
    for name, table in found["TABLES"].items():
        assert table() == (root / "doc" / name).read_text()


def test_the_suites_tables_have_the_results_that_are_committed(root: Path) -> None:
    found = runpy.run_path(str(root / "doc" / "suite.py"))
    for name, folder in found["TABLES"].items():
        assert found["text_of"](folder) == (root / "doc" / name).read_text()


def test_the_tables_of_kernels_of_others_have_the_results_that_are_committed(root: Path) -> None:
    found = runpy.run_path(str(root / "doc" / "foreign.py"))
    for name in found["TABLES"]:
        assert found["text_of"](name) == (root / "doc" / name).read_text()


def test_kernels_of_others_are_timed_as_loopy_writes_them() -> None:
    """With guards where a length is no multiple of a group's, and as many groups as its author has asked for."""
    kernel = dict(foreign_times.scheduled("matrix_vector", ["on groups"]))["on groups"]
    found = foreign_times.as_loopy_writes_it(kernel, ["y"])
    assert "if (1999 + -64 * gid(0) + -1 * lid(0) >= 0)" in found.source
    assert (found.launches[0].global_size, found.launches[0].local_size) == ((2048,), (64,))


def test_a_time_is_inside_an_interval_as_well_as_it_is_known() -> None:
    """It is between the fastest run and what is faster by the noise."""
    row = {"author": {"seconds": 1.1e-3, "noise": 0.2}, "ours": {"seconds": 1e-3, "noise": 0.0}}
    row["predicted"] = {"seconds": 0.9e-3, "interval": [0.8e-3, 1e-3]}  # type: ignore[dict-item]
    assert foreign_times.is_inside(row)
    assert foreign_times.error(row) == pytest.approx(-0.18, abs=0.01)
    row["author"]["noise"] = 0.05
    assert not foreign_times.is_inside(row)


def test_a_transform_is_compared_with_the_faster_of_tuned_and_default(tmp_path: Path) -> None:
    """What was tuned by an older search may be slower than the default mapping, which tuning keeps then."""
    times = {"tuned": 2e-3, "default": 1e-3, "transform": 1.5e-3, "NumPy": 3e-3}
    known = {"entry": "one", "kind": "tccg", "times_s": times, "floor_s": 5e-4, "interference": 0.0, "transform": "products.kept_panels"}
    (tmp_path / "one.json").write_text(json.dumps(known))
    text = catalogue.report([tmp_path / "one.json"])
    assert "products.kept_panels 1.50" in text
    assert "1.50 in the geometric mean of 1" in text
    assert "as the fastest in 0 of 1" in text


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> chosen.Checkout:
    """This one, as ``benchmarks.chosen`` asks it, on a device that nobody calibrated."""
    (tmp_path / "device.yaml").touch()
    monkeypatch.setattr(chosen, "default_file", lambda device: tmp_path / "device.yaml")
    return chosen.Checkout(FOLDER.parent, tmp_path / "texts")


def test_checkouts_choose_as_compile_does(checkout: chosen.Checkout) -> None:
    """Axes are joined before a mapping is chosen."""
    device = find_device()
    entry = catalogue.einsum_entry("joined", "any", "abc,bcd->ad", {"a": 8, "b": 6, "c": 5, "d": 8})
    checkout.write({"joined": entry}, device)
    program = ff.compile(entry.cascade(), device)
    assert program.spec is not None
    assert checkout.texts("joined", device)["default mapping"] == str(program.spec.mapping)
    assert "B" not in program.spec.workload.rank_sizes or "C" not in program.spec.workload.rank_sizes


@pytest.mark.parametrize("name", ["selection._joined", "selection._by_model", "model_choice.time"])
def test_checkouts_that_lack_what_is_asked_of_them_are_not_compared(
    checkout: chosen.Checkout, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They would be compared by other rules than their own."""
    lacking = f"from feinsum_fuse.compilation import selection\nfrom feinsum_fuse.tuning import model_choice\ndel {name}\n"
    monkeypatch.setattr(chosen, "_WRITE", lacking + chosen._WRITE)
    with pytest.raises(SystemExit, match="ended with 1"):
        checkout.write({"one": catalogue.einsum_entry("one", "any", "ab->a", {"a": 8, "b": 8})}, find_device())


_AWAKE = """
import os
from benchmarks.fidelity import awake
made, start = [], awake.subprocess.Popen
awake.subprocess.Popen = lambda *arguments: made.append(start(*arguments)) or made[-1]
with awake.awake():
    print(*(process.pid for process in made), flush=True)
    if input() == "die":
        os._exit(0)
"""
"""Says which processes keep the processors awake, and ends well or badly when told to."""


def _soon(condition: Callable[[], bool]) -> bool:
    """Whether it comes true within some seconds."""
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has processes that run where nothing else wants to")
@pytest.mark.parametrize("end", ["leave", "die"])
def test_processors_are_kept_awake_by_who_wants_nothing(end: str) -> None:
    """One idle-class process on each; none is left, also where the one that started them dies."""
    command = [sys.executable, "-c", _AWAKE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=FOLDER.parent) as process:
        assert process.stdout is not None
        spinning = [int(word) for word in process.stdout.readline().split()]
        assert _soon(lambda: all(os.sched_getscheduler(one) == os.SCHED_IDLE for one in spinning))
        assert [os.sched_getaffinity(one) for one in spinning] == [{one} for one in os.sched_getaffinity(0)]
        process.communicate(f"{end}\n")
    assert _soon(lambda: not any(Path(f"/proc/{one}").exists() for one in spinning))


def test_a_processor_without_avx_512_is_another_one() -> None:
    """PoCL is told which instructions there are by the list that this changes; device files go by family and model."""
    listed = "cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fma avx avx2 avx512f avx512_vnni avx_vnni bmi2\n"
    assert with_avx2.without_avx512(listed) == "cpu family\t: 25\nmodel\t\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fma avx avx2 bmi2\n"


def test_intervals_are_of_what_was_said_before_anybody_looked() -> None:
    """The model's table is what the kept predictions and the times of their mappings make of it, rounded; none is of a set to come."""
    said = residuals.first_said()
    assert not {case for of in said.values() for case in of} & {*cases.NOT_LOOKED_AT, *cases.DEVELOPED}
    found = residuals.residuals(said)
    sure = residuals.known_well(found)
    made = residuals.intervals(sure, residuals.best_tail(found))
    counts = {kind: sum(one.kind == kind for one in sure) for kind in made}
    assert {kind: Residuals(round(low, 2), round(high, 2), counts[kind]) for kind, (low, high) in made.items()} == RESIDUALS


def test_what_is_said_of_a_set_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every so manieth mapping that was measured, beside what was kept before."""
    before = {"epyc_zen3": {"ice_flow": {"0": (1e-4, "scalars")}}}
    file = tmp_path / "said.json"
    file.write_text(json.dumps(before))
    monkeypatch.setattr(residuals, "FIRST", file)
    device = cases.Device("xeon_avx512.5")
    residuals.keep(device, ("mapped_points",), every=30)
    said = residuals.first_said()
    assert list(said["xeon_avx512.5"]["mapped_points"]) == [str(number) for number in sorted(device.samples("mapped_points"))[::30]]
    one, *_ = [one for one in residuals.residuals(said) if one.workload == ("xeon_avx512.5", "mapped_points")]
    assert one.kind in RESIDUALS and 0.2 < one.ratio < 5
    assert "ice_flow" in said["epyc_zen3"]
