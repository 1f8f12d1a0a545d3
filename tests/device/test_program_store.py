"""Executables on disk: found again by their keys alone, damaged and foreign ones never."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from feinsum_fuse.codegen.executable import Argument, Executable, Launch
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program import program_store
from feinsum_fuse.device.program.origin import ChosenBy, Origin
from feinsum_fuse.device.program.program_store import Kept, KeptPrograms, kept_programs, key_of


def program(size: int = 3, text: str = "") -> Kept:
    arguments = (Argument("A", "float32", (size, 2), "input", (4, 1)), Argument("Z", "float32", (size,), "output"))
    executable = Executable("__kernel void f() {}" + text, ("-O",), arguments, (Launch("f", (size,), (1,), ("A", "Z")),), (("A", 2),))
    return Kept(executable, Origin(ChosenBy.fact, "a detail", ("a reason",)), {"cascade": "{}", "spec": "ümlaut\n"})


@pytest.fixture
def programs(tmp_path: Path) -> KeptPrograms:
    return KeptPrograms(tmp_path / "kept")


def only(programs: KeptPrograms) -> Path:
    assert programs.folder is not None
    (file,) = programs.folder.iterdir()
    return file


def test_what_is_kept_is_found(programs: KeptPrograms) -> None:
    assert programs.find("a") is None
    programs.keep("a", program())
    found = programs.find("a")
    assert found is not None and found.executable == program().executable and found.texts == program().texts
    assert found.origin == Origin(ChosenBy.fact, "a detail", ("a reason",), is_kept=True)
    assert programs.find("b") is None


def test_the_umask_does_not_matter(programs: KeptPrograms) -> None:
    before = os.umask(0)
    try:
        programs.keep("a", program())
    finally:
        os.umask(before)
    assert programs.find("a") is not None
    assert only(programs).stat().st_mode & 0o077 == 0 and only(programs).parent.stat().st_mode & 0o077 == 0


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _changed(file: Path) -> None:
    file.write_text(file.read_text().replace("kernel void f", "kernel void g"))


def _renamed(file: Path) -> None:
    file.rename(file.with_name("b.json"))


def _of_another_version(file: Path) -> None:
    body = '{"executable": "[]"}'
    file.write_text(f"{program_store._digest('a', body)}\n{body}")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_text(""),
    "binary": lambda file: file.write_bytes(b"\xff\xfe\0"),
    "cut": _cut,
    "changed": _changed,
    "under another key": _renamed,
    "of another version": _of_another_version,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_entries_are_made_anew(programs: KeptPrograms, damage: Callable[[Path], object]) -> None:
    programs.keep("a", program())
    damage(only(programs))
    assert programs.find("a") is None and programs.find("b") is None
    programs.keep("a", program())
    assert programs.find("a") is not None


def _foreign(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)


TRESPASSES: dict[str, Callable[[Path, pytest.MonkeyPatch], object]] = {
    "somebody else's": _foreign,
    "a file that others can write": lambda file, _: file.chmod(0o666),
    "a file that the group can write": lambda file, _: file.chmod(0o620),
    "a folder that others can write": lambda file, _: file.parent.chmod(0o777),
    "a link": lambda file, _: file.rename(file.parent.parent / "other") and file.symlink_to(file.parent.parent / "other"),
    "a pipe": lambda file, _: (file.unlink(), os.mkfifo(file, 0o600)),
}


@pytest.mark.parametrize("trespass", TRESPASSES.values(), ids=TRESPASSES)
def test_what_others_could_have_written_is_not_believed(
    programs: KeptPrograms, monkeypatch: pytest.MonkeyPatch, trespass: Callable[[Path, pytest.MonkeyPatch], object]
) -> None:
    programs.keep("a", program())
    trespass(only(programs), monkeypatch)
    assert programs.find("a") is None


def test_a_folder_that_is_a_link_is_not_believed(tmp_path: Path) -> None:
    KeptPrograms(tmp_path / "kept").keep("a", program())
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    assert KeptPrograms(tmp_path / "link").find("a") is None


@pytest.mark.parametrize("blocked", [True, False])
def test_what_cannot_be_written_is_not_kept(tmp_path: Path, blocked: bool) -> None:
    (tmp_path / "file").write_text("")
    programs = KeptPrograms(tmp_path / "file" / "kept" if blocked else None)
    programs.keep("a", program())
    assert programs.find("a") is None


def test_least_recently_used_entries_make_room(tmp_path: Path) -> None:
    programs = KeptPrograms(tmp_path / "kept", most_files=8)
    for number in range(8):
        programs.keep(f"k{number}", program())
        os.utime(tmp_path / "kept" / f"k{number}.json", (number, number))
    assert programs.find("k0") is not None  # used now
    programs.keep("k8", program())
    left = {number for number in range(9) if programs.find(f"k{number}") is not None}
    assert left == {0, 4, 5, 6, 7, 8}


def test_the_folder_is_bounded_in_bytes(tmp_path: Path) -> None:
    programs = KeptPrograms(tmp_path / "kept", most_bytes=20_000)
    for number in range(30):
        programs.keep(f"k{number}", program(text="x" * 3_000))
    assert sum(file.stat().st_size for file in (tmp_path / "kept").iterdir()) <= 20_000
    assert programs.find("k29") is not None


def test_a_large_program_is_not_kept(programs: KeptPrograms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_store, "LARGEST", 100)
    programs.keep("a", program())
    assert programs.find("a") is None


def test_folders_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(program_store.FOLDER, "off")
    assert kept_programs().folder is None
    monkeypatch.setenv(program_store.FOLDER, str(tmp_path))
    assert kept_programs().folder == tmp_path
    monkeypatch.delenv(program_store.FOLDER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kept_programs().folder
    assert folder is not None and folder.is_relative_to(tmp_path)


def test_keys_depend_on_request_device_and_makers(monkeypatch: pytest.MonkeyPatch) -> None:
    device = find_device()
    first = key_of("a", device)
    assert key_of("a", device) == first != key_of("b", device)
    monkeypatch.setattr(program_store, "_makers", lambda: "other versions")
    assert key_of("a", device) != first


def test_sources_are_part_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "below" / "__pycache__").mkdir(parents=True)
    (tmp_path / "below" / "module.py").write_text("x = 1\n")
    (tmp_path / "below" / "__pycache__" / "module.py").write_text("")
    ((name, status),) = program_store._sources(str(tmp_path))
    assert name.endswith("below/module.py") and status.st_size == 6
