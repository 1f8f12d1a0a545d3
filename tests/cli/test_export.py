"""``export``: files of a kernel that run without this package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.program import building
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from tests.cli.conftest import Invoke
from tests.cli.files import write
from tests.device.programs import skip_where_pocl_alone_builds_nothing


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A product, an architecture and a mapping in the current folder."""
    monkeypatch.chdir(tmp_path)
    return write(tmp_path)


def test_what_is_exported_runs(invoke: Invoke, files: list[str], tmp_path: Path) -> None:
    ended = invoke("export", *files, "-o", "out", "--name", "product")
    written = ["product.cl", "product.h", "product.c", "product.py", "README.rst"]
    assert (ended.code, ended.out.splitlines()) == (0, [f"out/{name}" for name in written])
    assert "mapping, verified on " in ended.err and "out/README.rst says how to run it" in ended.err
    skip_where_pocl_alone_builds_nothing()
    ran = subprocess.run([sys.executable, "-P", "product.py"], cwd=tmp_path / "out", capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("Z (8, 8) float32 ")


def test_as_json_and_without_a_mapping(invoke: Invoke, files: list[str]) -> None:
    found = json.loads(invoke("export", files[0], "-o", "out", "--json").out)
    assert (found["inputs"], found["outputs"]) == ({"A": [8, 4], "B": [4, 8]}, {"Z": [8, 8]})
    assert all(Path(file).is_file() for file in found["files"])


def test_arrays_keep_the_axes_that_a_default_mapping_joins(invoke: Invoke, files: list[str], tmp_path: Path) -> None:
    workload = ff.spec(ff.cascade(["Z[a, b, c] = 2 * X[a, b, c]"], sizes={"A": 3, "B": 4, "C": 5})).to_yaml()
    (tmp_path / "cube.yaml").write_text(workload)
    ended = invoke("export", "cube.yaml", "-o", "out", "--json")
    assert "Join(tensor='X', axis=0)" in ended.err
    found = json.loads(ended.out)
    assert (found["inputs"], found["outputs"]) == ({"X": [3, 4, 5]}, {"Z": [3, 4, 5]})


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "Missing option"),
        (["-o", "arch.yaml"], 1, "it is no folder"),
        (["-o", "none/out"], 1, "there is no folder none"),
        (["-o", "out", "--name", "a b"], 1, "cannot name files of C"),
        (["more.yaml", "-o", "out"], 1, "FILES have 2 mappings"),
    ],
)
def test_wrong_questions(invoke: Invoke, files: list[str], arguments: list[str], code: int, said: str) -> None:
    Path("more.yaml").write_text(Path(files[2]).read_text())
    ended = invoke("export", *files, *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert said in " ".join(ended.err.split())
    assert not Path("out").exists()


def test_a_kernel_that_fails_is_not_exported(invoke: Invoke, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(executable: object, *_: object, **__: object) -> None:
        raise KernelError(Outcome.wrong_result, "verify", "Z differs", executable)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "run_isolated", fail)
    ended = invoke("export", *files, "-o", "out")
    assert (ended.code, Path("out").exists()) == (3, False)
    assert "wrong_result in stage verify: Z differs" in ended.err
