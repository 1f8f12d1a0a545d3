"""Exported programs run with nothing of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyopencl
import pytest

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Argument, Executable
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.building import PLAIN, build
from feinsum_fuse.device.program.export import export
from feinsum_fuse.device.program.program import Program
from tests.device.programs import skip_where_pocl_alone_builds_nothing


@pytest.fixture(scope="module")
def program() -> Program:
    cascade = ff.cascade(["T[m,n] = A[m,k]*B[k,n]", "Z[m] = max(T[m,n])"], sizes={"M": 7, "K": 5, "N": 11}, dtypes={"All": "float32"})
    return build(cascade, PLAIN, find_device("portable"))


def test_the_python_file_runs_alone(program: Program, tmp_path: Path) -> None:
    program.export(tmp_path, "chain")
    np.savez(tmp_path / "given.npz", **program.example.inputs)
    text = "import numpy as np, chain; np.savez('got.npz', **chain.run(**np.load('given.npz')))"
    skip_where_pocl_alone_builds_nothing()
    subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True, capture_output=True)
    got = np.load(tmp_path / "got.npz")
    np.testing.assert_allclose(got["Z"], program.example.expected["Z"], rtol=1e-5)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_file_builds_and_runs(program: Program, tmp_path: Path) -> None:
    program.export(tmp_path, "chain")
    subprocess.run(["cc", "-Wall", "-Werror", "-o", "chain", "chain.c", "-ldl"], cwd=tmp_path, check=True)
    for name, array in program.example.inputs.items():
        array.tofile(tmp_path / f"{name}.bin")
    loaders = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libOpenCL*.so*"))
    environment = {}
    if loaders:  # pyopencl's own loader wants drivers by their whole paths
        drivers = tmp_path / "drivers"
        drivers.mkdir()
        for driver in loaders[0].parent.glob("libpocl*"):
            (drivers / f"{driver.stem}.icd").write_text(f"{driver}\n")
        environment = {"OPENCL_LIBRARY": str(loaders[0]), "OCL_ICD_VENDORS": str(drivers)}
    part = program.device.name
    skip_where_pocl_alone_builds_nothing()
    subprocess.run(["./chain", part], cwd=tmp_path, check=True, env={**os.environ, **environment})
    got = np.fromfile(tmp_path / "Z.bin", np.float32)
    np.testing.assert_allclose(got, program.example.expected["Z"], rtol=1e-5)


def test_what_c_lacks_is_refused(tmp_path: Path, program: Program) -> None:
    half = Executable("", (), (Argument("A", "float16", (3,), "input"),), ())
    with pytest.raises(ff.DeviceError, match="A has elements of type float16"):
        export(half, tmp_path)
    with pytest.raises(ff.DeviceError, match="cannot name files"):
        program.export(tmp_path, "a b")
    (tmp_path / "file").write_text("")
    with pytest.raises(ff.DeviceError, match="cannot be written"):
        program.export(tmp_path / "file")
