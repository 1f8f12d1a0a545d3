"""A disk that fills while a file is written: one clear error, and the file of before; a cache is done without."""

from __future__ import annotations

import errno
import os
import resource
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import loopy as lp
import numpy as np
import pytest

import feinsum_fuse as ff
from feinsum_fuse import cache_folder
from feinsum_fuse.cli.compare import _save
from feinsum_fuse.cli.console import draw
from feinsum_fuse.cli.db import export_
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.calibration import device_file
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.export import export
from feinsum_fuse.device.runtime import isolation
from feinsum_fuse.mapper.stocks.store import Store
from feinsum_fuse.whole_file import replacing, write_whole
from tests.archive.samples import measurement
from tests.device.test_program import FUSED, chain
from tests.model.test_kernel_time import product

pytestmark = pytest.mark.usefixtures("own_processes")
ROOM = 64
"""Bytes: less than anything that is written here, so that each write ends in its middle."""


@contextmanager
def full(room: int = ROOM) -> Iterator[None]:
    """No file may grow beyond so many bytes: what the system then says is what it says of a full disk, by another number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _calibrated(file: Path) -> None:
    device_file.calibrated(find_device("pocl"), file, quick=True)


def _exported(file: Path) -> None:
    export(Executable("x" * ROOM * 2, (), (), ()), file.parent, file.stem)


def _compared(file: Path) -> None:
    _save(file.parent, {file.stem.removeprefix("mapping_"): chain(FUSED)})


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "picture": ("a.svg", lambda file: draw(file, "<svg>" * ROOM)),
    "facts": ("a.jsonl", lambda file: export_(file, url=str(file.parent.parent / "facts.sqlite3"))),
    "mapping": ("a.yaml", lambda file: chain(FUSED).save_mapping(file)),
    "mappings": ("mapping_a.yaml", _compared),
    "program": ("a.cl", _exported),
    "device": ("device.yaml", _calibrated),
}


@pytest.mark.parametrize("writer", list(WRITERS))
def test_a_file_that_no_longer_fits_stays_as_it_was(writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_file, "calibrate", lambda device, **_: product(1, 1))
    monkeypatch.setattr(cache_folder, "LARGEST", 0)  # there was room when it was looked for
    ff.record(measurement(), url=str(tmp_path / "facts.sqlite3"))
    name, write = WRITERS[writer]
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / name
    file.write_text("# before\n")
    with full(), pytest.raises(ff.Error, match=os.strerror(errno.EFBIG)):
        write(file)
    assert {path.name: path.read_text() for path in file.parent.iterdir()} == {name: "# before\n"}
    write(file)
    assert len(file.read_text()) > ROOM


def test_tables_of_the_search_that_do_not_fit_are_not_kept(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    with full():
        store.save("key", ["x"] * ROOM)
    assert store.load("key") is None
    assert not list(tmp_path.iterdir())
    store.save("key", ["x"] * ROOM)
    assert store.load("key") == (["x"] * ROOM, [])


def test_code_is_generated_without_caches_that_take_no_more() -> None:
    """The kernel is a new one each time, so that no cache knows it."""
    kernel = lp.make_kernel(f"{{[i]: 0<=i<{secrets.randbelow(1 << 40) + 1}}}", "out[i] = 2 * a[i]", lang_version=(2018, 2))
    kernel = lp.add_dtypes(kernel, {"a": np.float32})
    with full(0):
        assert "__kernel" in executable(kernel).source


def test_too_small_files_are_said_before_a_compiler_ends_the_process(tmp_path: Path) -> None:
    with full(5000):
        assert "5000 bytes (ulimit -f)" in cache_folder.fault(tmp_path)
        with pytest.raises(ff.DeviceError, match=r"cache folder .* cannot be used.*5000 bytes"):
            ff.compile(chain(FUSED))
    assert cache_folder.fault(tmp_path) == ""


def test_room_for_a_kernel_is_tried_before_it_is_compiled(tmp_path: Path) -> None:
    """A quota shows only there; LLVM would end the process."""
    with full(2 << 20):
        assert "4 MiB cannot be written there" in cache_folder.writing_fault(tmp_path / "cache")
        with pytest.raises(ff.Error, match=r"cannot take a compiled kernel: 4 MiB cannot be written there"):
            ff.compile(chain(FUSED))
    assert cache_folder.writing_fault(tmp_path / "cache") == ""
    assert not list((tmp_path / "cache").iterdir())


def test_no_room_for_what_goes_to_a_child_process() -> None:
    with pytest.raises(ff.DeviceError, match=f"{os.strerror(errno.ENOSPC)}\n  .*free some space"), isolation.exchanging():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_cannot_be_replaced_is_written_in_place(tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, "after")
    assert link.is_symlink()
    assert file.read_text() == "after"
    assert file.stat().st_mode & 0o777 == 0o640
    write_whole(Path(os.devnull), "nothing")
    with replacing(Path(os.devnull)) as place:
        assert place == Path(os.devnull)
