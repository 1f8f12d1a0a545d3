"""Kernels in the caller's process."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyopencl as cl
import pytest

from feinsum_fuse.device.catalogue import devices
from feinsum_fuse.device.runtime.loaded_executable import Loaded, context_of
from tests.device.programs import program


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.platform.name.split()[0])
def test_what_pyopencl_has_kept_and_the_runtime_refuses_is_built_again(
    device: cl.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    Loaded(program("C[i] = 2*A[i];"), context_of(device))
    kept = list(tmp_path.glob("pyopencl/*/*/binary"))
    if not kept:
        pytest.skip("pyopencl keeps no programs of this platform")
    for file in kept:
        file.write_bytes(b"no program")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Loaded(program("C[i] = 2*A[i];"), context_of(device))
