"""Usage, help and exit codes."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cli import CLOSED_PIPE, options
from feinsum_fuse.cli.__main__ import VERBS
from tests.cli.conftest import Invoke


def test_help_names_every_verb_and_the_exit_codes(invoke: Invoke) -> None:
    ended = invoke("--help")
    assert ended.code == 0
    assert all(f"\n  {verb} " in ended.out for verb in VERBS)
    assert "Exit codes: 0 ok, 1 the input is wrong, 2 usage, 3 a kernel failed or was\n  wrong, 130 interrupted, 141 nobody" in ended.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(invoke: Invoke, verb: str) -> None:
    ended = invoke(verb, "--help")
    assert ended.code == 0
    assert "--json" in ended.out or "Commands:" in ended.out


def test_version(invoke: Invoke) -> None:
    ended = invoke("--version")
    assert (ended.code, ended.out) == (0, f"feinsum-fuse {ff.__version__}\n")
    assert ff.__version__ == importlib.metadata.version("feinsum_fuse")


def test_no_verb_is_a_usage_error(invoke: Invoke) -> None:
    assert invoke().code == 2


def test_unknown_verb(invoke: Invoke) -> None:
    ended = invoke("chekc", "x.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert "No such command 'chekc'" in ended.err


def test_a_bad_assignment_is_a_usage_error(invoke: Invoke) -> None:
    ended = invoke("check", "x.yaml", "--set", "M:3")
    assert (ended.code, ended.out) == (2, "")
    assert "'M:3' is not NAME=VALUE" in ended.err


def test_two_values_of_one_variable_are_a_usage_error(invoke: Invoke) -> None:
    ended = invoke("check", "x.yaml", "--set", "M=3", "--set", "N=4", "--set", "M=5")
    assert (ended.code, ended.out) == (2, "")
    assert "M is given two values" in ended.err


def test_values_of_template_variables() -> None:
    assert options.variables(["M=64", "x = 2.5e3", "name=sm80", "on=true"]) == {"M": 64, "x": 2500.0, "name": "sm80", "on": True}


def test_the_module_runs() -> None:
    answer = subprocess.run([sys.executable, "-m", "feinsum_fuse.cli", "nonsense"], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("module", ["typer", "feinsum_fuse.cli.searches.map"])
def test_an_interrupt_while_modules_load_is_one_line(module: str) -> None:
    code = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from feinsum_fuse.cli import main\n"
        "main()\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (130, "interrupted\n")


def test_an_interrupt_exits_with_130(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("feinsum_fuse.load", interrupted)
    monkeypatch.setattr("feinsum_fuse.formats.reading.load.load", interrupted)
    assert invoke("check", "x.yaml").code == 130


def test_a_reader_that_goes_away_is_no_traceback(root: Path) -> None:
    file = root / "examples" / "three_matmuls" / "workload.yaml"
    command = f"{sys.executable} -m feinsum_fuse.cli check {file} --json | head -c 1"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=root)
    assert (answer.stdout, answer.stderr) == ("{", "")


@pytest.mark.parametrize("arguments", [["check", "examples/three_matmuls/workload.yaml"], ["check", "--help"], ["--version"]])
def test_a_closed_pipe_ends_quietly(arguments: list[str], root: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "feinsum_fuse.cli", *arguments]
    answer = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=root)
    os.close(write)
    assert (answer.returncode, answer.stderr) == (CLOSED_PIPE, "")


def test_streams_that_the_caller_closed_are_not_missed(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text("workload: {rank_sizes: {M: 3, K: 3}, bits_per_value: {All: 32}, einsums: ['Z[m] = A[m]']}\n")
    command = f"{sys.executable} -c 'from feinsum_fuse.cli import main; main()' check {file} <&- 2>&-"
    answer = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=False, cwd=root)
    assert answer.returncode == 0
    assert "Z[m] = A[m]" in answer.stdout
    assert "No tensor has a rank K" not in answer.stdout


def test_a_full_disk_is_no_traceback(root: Path) -> None:
    file = root / "examples" / "three_matmuls" / "workload.yaml"
    command = f"{sys.executable} -m feinsum_fuse.cli check {file} > /dev/full"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=root)
    assert (answer.returncode, answer.stderr) == (1, "error: cannot write the output: No space left on device\n")
