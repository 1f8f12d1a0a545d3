"""A cache folder that cannot be used is replaced for a while, whatever is wrong with it; where none can be used, that is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse import cache_folder
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.runner import Runner
from feinsum_fuse.device.runtime import runtimes
from tests.device.programs import program
from tests.sweeps import SLOW

MOUNTS = {
    "noexec": ("noexec", "its file system lets nothing be executed (noexec)"),
    "full": ("size=16k", "its file system is full"),
    "read-only": ("ro", "its file system is read-only"),
}
USE = "import feinsum_fuse as ff, numpy as np; print(ff.einsum('ij,j->i', np.ones((2, 3)), np.ones(3)), ff.cache_folder.remark)"


@pytest.mark.parametrize("kind", list(MOUNTS) if SLOW else ["noexec"])
def test_a_real_home_that_cannot_hold_kernels(kind: str, tmp_path: Path) -> None:
    """Mounted so in a namespace of the test's own; PoCL ends the process where it cannot execute what it has compiled."""
    options, reason = MOUNTS[kind]
    probe = (
        subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True)
        if shutil.which("unshare")
        else None
    )
    if probe is None or probe.returncode:
        pytest.skip("nothing can be mounted here")
    command = f'mount -t tmpfs -o {options} tmpfs {tmp_path} && exec "$0" -c "$1"'
    environment = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "POCL_CACHE_DIR")} | {"HOME": str(tmp_path)}
    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command, sys.executable, USE],
        env=environment | {"FEINSUM_FUSE_DATABASE": str(tmp_path.parent / "facts")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("[3. 3.] the cache folder ")
    assert reason in ended.stdout
    replaced = Path(ended.stdout.split("; ")[1].split(" stands for it")[0])
    assert not replaced.exists()


def _system(flag: int = 0, free: int = 1 << 30) -> SimpleNamespace:
    return SimpleNamespace(f_flag=flag, f_bavail=free, f_frsize=1)


def test_what_is_wrong_with_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(os, "statvfs", lambda path: _system())
    assert cache_folder.fault(tmp_path / "not" / "there") == ""
    assert cache_folder.fault(tmp_path / "file") == "it cannot be written to"
    for system, reason in ((_system(os.ST_RDONLY), "read-only"), (_system(os.ST_NOEXEC), "noexec"), (_system(0, 1), "full")):
        monkeypatch.setattr(os, "statvfs", lambda path, system=system: system)
        assert reason in cache_folder.fault(tmp_path)


def test_no_folder_at_all_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda path: _system(os.ST_NOEXEC))
    cache_folder.settle()
    assert os.environ[cache_folder.VARIABLE] == str(tmp_path)
    with pytest.raises(
        ff.DeviceError, match=rf"the cache folder {tmp_path} cannot be used, nor can any of .*noexec.*\n  Set XDG_CACHE_HOME"
    ):
        ff.compile(ff.loads("workload: {rank_sizes: {M: 4}, bits_per_value: {All: 32}, einsums: ['Z[m] = A[m]']}"))


def test_children_work_where_things_can_be_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, own = tmp_path / "temporary", tmp_path / "own"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv(cache_folder.VARIABLE, str(own))
    assert cache_folder.scratch() == str(temporary)
    monkeypatch.setattr(cache_folder, "fault", lambda folder: "noexec" if folder == temporary else "")
    assert cache_folder.scratch() == str(own)
    assert own.is_dir()
    monkeypatch.setattr(cache_folder, "fault", lambda folder: "full")
    assert cache_folder.scratch() is None


def test_a_folder_that_is_changed_is_noticed_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of a kernel that is built ask again after half a second, and whoever builds one asks at once."""
    monkeypatch.setattr(runtimes, "_seen", None)
    now = [100.0]
    monkeypatch.setattr(runtimes, "time", SimpleNamespace(monotonic=lambda: now[0]))
    runner, given = Runner(program("C[i] = 2*A[i];"), find_device()), {"A": np.ones(64, np.float32)}
    runner(given)
    (tmp_path / "file").write_text("")
    refused = pytest.raises(ff.DeviceError, match=r"the cache folder .*file cannot be used.*\n  Set XDG_CACHE_HOME")
    with monkeypatch.context() as changed:
        changed.setenv(cache_folder.VARIABLE, str(tmp_path / "file"))
        now[0] += 0.9 * runtimes.LOOK_AGAIN_S
        assert (runner(given)["C"] == 2).all()
        now[0] += 0.2 * runtimes.LOOK_AGAIN_S
        for _ in range(2):
            with refused:
                runner(given)
    assert (runner(given)["C"] == 2).all()
    with monkeypatch.context() as changed:
        changed.setenv(cache_folder.VARIABLE, str(tmp_path / "file"))
        with refused:
            Runner(program("C[i] = 2*A[i];"), find_device())(given)
    assert runtimes.LOOK_AGAIN_S <= 0.5
