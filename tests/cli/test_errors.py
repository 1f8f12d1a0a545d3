"""Bad input: the whole text of each message, on stderr alone, and the exit code."""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyopencl as cl
import pytest

from feinsum_fuse.device.runtime import runtimes
from tests.cli.conftest import Invoke
from tests.cli.files import ARCH, MAPPING, WORKLOAD, write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, so that messages show bare file names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _lasting(text: str) -> str:
    """A text without the lines of progress, of which a busy machine prints more."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.endswith(" ...\n"))


def _fails(invoke: Invoke, text: str, *arguments: object) -> None:
    ended = invoke(*arguments)
    assert (ended.code, ended.out, _lasting(ended.err)) == (1, "", _lasting(text))


def test_no_such_file(invoke: Invoke, folder: Path) -> None:
    write(folder)
    _fails(invoke, "error: There is no file worklaod.yaml.\n  Did you mean workload.yaml?\n", "check", "worklaod.yaml")


def test_not_yaml(invoke: Invoke, folder: Path) -> None:
    write(folder, workload="workload: [\n")
    text = "error: workload.yaml:2:1: This is not YAML: expected the node content, but found '<stream end>'.\n"
    _fails(invoke, text, "check", "workload.yaml")


@pytest.mark.parametrize("verb", ["check", "show", "predict", "run", "compare"])
def test_a_file_without_end(invoke: Invoke, folder: Path, verb: str) -> None:
    """It is not read: here within the memory that this process has and 1 GiB more."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), limits[1]))
    try:
        _fails(invoke, "error: /dev/zero is not a file.\n", verb, "/dev/zero")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_unknown_field(invoke: Invoke, folder: Path) -> None:
    write(folder, workload=WORKLOAD.replace("rank_sizes", "rank_size"))
    text = "error: workload.yaml:3:3: workload.rank_size: The field 'rank_size' is not known here.\n  Did you mean rank_sizes?\n"
    _fails(invoke, text, "check", "workload.yaml")


def test_a_tensor_that_no_einsum_has(invoke: Invoke, folder: Path) -> None:
    files = write(folder, mapping=MAPPING.replace("[A, B, Z]", "[A, B, Y, Z]"))
    text = "error: mapping.yaml:3:48: mapping.nodes[0].tensors[2]: No Einsum has a tensor Y.\n  Known: A, B, Z.\n"
    _fails(invoke, text, "check", *files)


def test_missing_storage(invoke: Invoke, folder: Path) -> None:
    files = write(folder, mapping=MAPPING.replace("[A, B, Z]", "[A, B]"))
    text = (
        "error: mapping.yaml:7:5: mapping.nodes[4]: Tensor Z of Einsum Z has no Storage node above its Compute.\n"
        "  Add !Storage {tensors: [Z], component: ...} above it.\n"
    )
    _fails(invoke, text, "check", *files)


def test_unknown_rank_variable(invoke: Invoke, folder: Path) -> None:
    files = write(folder, mapping=MAPPING.replace("rank_variable: m", "rank_variable: q"))
    text = "error: mapping.yaml:4:31: mapping.nodes[1].rank_variable: No Einsum has a rank variable q.\n  Known: k, m, n.\n"
    _fails(invoke, text, "check", *files)


def test_tile_larger_than_the_bound(invoke: Invoke, folder: Path) -> None:
    files = write(folder, mapping=MAPPING.replace("rank_variable: m, tile_shape: 1", "rank_variable: m, tile_shape: 16"))
    text = (
        "error: mapping.yaml:4:46: mapping.nodes[1].tile_shape: The tile shape 16 of m exceeds its bound, 8, in Einsum Z.\n"
        "  Tile shapes shrink from the outermost loop to the innermost.\n"
    )
    _fails(invoke, text, "check", *files)


@pytest.mark.parametrize("verb", ["predict", "run"])
def test_sizes_that_do_not_fit(invoke: Invoke, folder: Path, verb: str) -> None:
    loop = "  - !Temporal {rank_variable: m"
    files = write(folder, mapping=MAPPING.replace(loop, f"  - !Storage {{component: Buffer, tensors: [A, B]}}\n{loop}"))
    text = (
        "error: Einsum Z uses 2048 bits of Buffer, but its size is only 256 bits.\n"
        "  Use smaller tile shapes for the loops above the storage nodes of Buffer.\n"
    )
    _fails(invoke, text, verb, *files)


def test_no_opencl_device(invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> list[cl.Platform]:
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", none)
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr(importlib.metadata, "files", lambda package: ())
    text = (
        "error: no OpenCL device was found\n  The package pocl-binary-distribution is installed and its files can be read; "
        "OCL_ICD_VENDORS is not set. Or install a driver for your device.\n"
    )
    _fails(invoke, text, "run", *write(folder))
    _fails(invoke, text, "devices")


def test_what_hinders_the_loader_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package, a file of it, or its permissions; the superuser reads everything, so that answer is injected."""
    file = tmp_path / "pocl.icd"
    listed = SimpleNamespace(name="pocl.icd", locate=lambda: file)
    monkeypatch.setattr(importlib.metadata, "files", lambda package: [listed])
    assert f"its file {file} is missing" in runtimes.without_device()
    file.write_text("libpocl.so")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert f"its file {file} may not be read" in runtimes.without_device()

    def absent(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    assert runtimes.without_device().startswith("Install the package pocl-binary-distribution")


def test_no_device_of_that_name(invoke: Invoke, folder: Path) -> None:
    ended = invoke("run", *write(folder), "--device", "nonesuch")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: no OpenCL device matches 'nonesuch'\n  Give part of a platform's or device's name,")
    assert "There are:\n    1  " in ended.err


def test_read_only_database(invoke: Invoke, folder: Path) -> None:
    files = write(folder)
    database = folder / "facts.sqlite3"
    assert invoke("run", *files, "--repeats", 1, "--url", database).code == 0
    before = database.read_bytes()
    database.chmod(0o400)
    text = (
        f"error: cannot write {database}: the database is read-only\n"
        "  make it writable, or choose another place with FEINSUM_FUSE_DATABASE\n"
    )
    _fails(invoke, text, "run", *files, "--repeats", 1, "--url", database)
    assert database.read_bytes() == before
    assert sorted(file.name for file in folder.iterdir()) == ["arch.yaml", "facts.sqlite3", "mapping.yaml", "workload.yaml"]


def test_no_mapping(invoke: Invoke, folder: Path) -> None:
    workload, arch, _ = write(folder)
    text = "error: A prediction needs an architecture and a mapping.\n  Give files with the keys arch and mapping.\n"
    _fails(invoke, text, "predict", workload, arch)


def test_a_template_variable_that_is_not_set(invoke: Invoke, folder: Path) -> None:
    write(folder, workload=WORKLOAD.replace("| default(8)", ""))
    text = "error: workload.yaml:3:16: The template variable 'M' is not defined.\n  Give it a value, or write M | default(...).\n"
    _fails(invoke, text, "check", "workload.yaml")
    assert invoke("check", "workload.yaml", "--set", "M=16").code == 0


def test_import_of_what_is_no_fact(invoke: Invoke, folder: Path) -> None:
    (folder / "facts.jsonl").write_text("{}\n")
    ended = invoke("db", "import", "facts.jsonl", "--url", folder / "facts.sqlite3")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("importing ...\nerror: facts.jsonl:1: ")
    assert not (folder / "facts.sqlite3").exists()


@pytest.mark.parametrize("verb", ["check", "show", "predict", "run", "compare"])
def test_a_misspelt_template_variable(invoke: Invoke, folder: Path, verb: str) -> None:
    files = write(folder)
    _fails(invoke, "error: No file has a template variable m.\n  Did you mean M?\n", verb, *files, "--set", "m=16")
    files = write(folder, workload=WORKLOAD.replace("{% set M = M | default(8) %}\n", "").replace("{{M}}", "8"))
    _fails(invoke, "error: No file has a template variable M.\n", verb, *files, "--set", "M=16")


def test_a_template_variable_may_be_meant_for_an_included_file(invoke: Invoke, folder: Path) -> None:
    write(folder)
    (folder / "whole.yaml").write_text('workload: {{include("workload.yaml", "workload")}}\n')
    ended = invoke("check", "whole.yaml", "--set", "M=1e1", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["tensors"]["A"]["shape"] == [10, 4]


@pytest.mark.parametrize("verb", ["predict", "run", "compare"])
def test_a_device_is_no_workload(invoke: Invoke, folder: Path, verb: str) -> None:
    write(folder, arch=ARCH + "opencl: {memories: {Main: global}}\n")
    _fails(invoke, "error: No file has a workload.\n  Give one with the top key workload.\n", verb, "arch.yaml")


@pytest.mark.parametrize("verb", ["predict", "run"])
def test_a_type_that_does_not_exist(invoke: Invoke, folder: Path, verb: str) -> None:
    text = (
        "error: there is no element type 'float7'\n  Supported are float16, float32, float64, complex64, complex128, int8, int16, int32, "
        "int64, uint8, uint16, uint32, uint64, bfloat16.\n"
    )
    _fails(invoke, text, verb, *write(folder), "--dtype", "float7")


def test_a_database_whose_driver_is_missing(invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    ended = invoke("db", "stats", "--url", "mysql://somebody@somewhere/facts")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: the driver of mysql is not installed: ")


def test_import_of_no_file(invoke: Invoke, folder: Path) -> None:
    _fails(invoke, "importing ...\nerror: cannot read facts.jsonl: No such file or directory\n", "db", "import", "facts.jsonl")


@pytest.mark.parametrize("braces", ["{{", "{%"])
def test_many_templates_that_are_not_closed_are_read_over_once(braces: str, invoke: Invoke, folder: Path) -> None:
    """Each looked for its end to the end of the file: minutes for the longest file that is read."""
    (folder / "braces.yaml").write_text(braces * 50_000)
    start = time.process_time()
    ended = invoke("check", folder / "braces.yaml", "--set", "M=4")
    assert ended.code == 1
    assert time.process_time() - start < 20
