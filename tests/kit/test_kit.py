"""The kit's script refuses machines by name; its random mappings have work-items; and a kit runs by itself, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from itertools import islice
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.cascades.reading.reader import cascade
from feinsum_fuse.lowering.lowering import lower
from kit.make import MOST_BYTES, SMALLEST, fitting_trees, folder_bytes, write_trees
from tests.sweeps import SLOW

MINOR = sys.version_info.minor


def script(root: Path, folder: Path, wheel: str, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run the kit's script beside a folder with one empty wheel."""
    (folder / "wheels").mkdir()
    (folder / "wheels" / wheel).touch()
    shutil.copy(root / "kit" / "gpu.py", folder)
    command = [sys.executable, str(folder / "gpu.py"), *arguments]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)


def test_another_python_is_asked_for(root: Path, tmp_path: Path) -> None:
    answer = script(root, tmp_path, "numpy-1.0-cp39-cp39-manylinux_2_28_x86_64.whl")
    assert answer.returncode == 1
    assert f"wheels are for Python 3.9; this is 3.{MINOR}." in answer.stderr
    assert answer.stderr.endswith(f"Make the kit for this one: make wheels WHEELS_PYTHON=3.{MINOR}\n")


def test_a_kit_without_wheels_is_no_kit(root: Path, tmp_path: Path) -> None:
    answer = script(root, tmp_path, "pure-1.0-py3-none-any.whl")
    assert answer.returncode == 1 and "has no wheels of one version of Python" in answer.stderr


def test_the_python_of_the_wheels_is_found(root: Path, tmp_path: Path) -> None:
    """What a stub of that name says is not believed."""
    for name, text in (("stub", "exit 1"), ("real", 'case "$1" in -c) echo 3.9;; *) echo "ran $2";; esac')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python3.9").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name / "python3.9").chmod(0o755)
    path = f"{tmp_path / 'stub'}:{tmp_path / 'real'}"
    answer = script(root, tmp_path, "numpy-1.0-cp39-cp39-manylinux_2_28_x86_64.whl", "--seconds", "3", path=path)
    assert answer.stdout == "ran --seconds\n"


def test_random_mappings_of_a_kit_load_and_fit_any_gpu(tmp_path: Path) -> None:
    write_trees(tmp_path / "trees", 3)
    found = [ff.load(file) for file in sorted((tmp_path / "trees").glob("*.yaml"))]
    assert found == list(islice(fitting_trees(), 3))
    for spec in found:
        lower(spec, target=SMALLEST)
        assert "WorkItem" in str(spec.mapping)


@pytest.mark.parametrize("name", ["attention", "dg_divergence", "matrix_vector", "product", "softmax", "three_products"])
def test_workloads_of_a_kit_are_read_at_any_size(root: Path, name: str) -> None:
    spec = ff.load(root / "kit" / "workloads" / f"{name}.yaml", variables={"SIZE": 8})
    assert cascade(spec).outputs


@pytest.mark.skipif(not SLOW, reason="makes a kit: pip, some 100 MB, a minute")
def test_a_kit_runs_in_an_environment_of_its_own_without_a_network(root: Path, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    subprocess.run([sys.executable, "-m", "kit.make", "--with-pocl", "--output", str(kit)], cwd=root, check=True)
    assert folder_bytes(kit / "wheels") <= MOST_BYTES
    away = ["unshare", "-n"] if subprocess.run(["unshare", "-n", "true"], check=False).returncode == 0 else []
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "PIP_INDEX_URL": "http://127.0.0.1:9/"}
    command = [*away, sys.executable, str(kit / "gpu.py"), "--output", str(tmp_path / "found.tar.gz"), "--seconds", "300"]
    command += ["--only", "devices", "--only", "smoke", "--only", "trees", "--set", "SIZE=32"]
    answer = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    with tarfile.open(tmp_path / "found.tar.gz") as tar:
        assert {"found/summary.txt", "found/facts.jsonl"} <= set(tar.getnames())
    assert os.path.exists(kit / "venv" / "complete")
