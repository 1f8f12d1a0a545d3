"""Programs on disk, so that what this machine has built and verified once need not be made again.

An entry is a file of JSON below the user's cache folder. Its name is the digest of what was asked for, of the device and its driver, and of
the versions and sources that generate code; its first line is the digest of the rest. What is damaged, belongs to somebody else or could be
written by somebody else is as if it were not there. Nothing in an entry is ever executed but its OpenCL C. Imports neither loopy nor
anything that does.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs
import pyopencl as cl

from ... import __file__ as package
from ...codegen.executable import Executable
from ...errors import Error
from ...whole_file import replacing
from ..catalogue import DeviceInfo
from .origin import ChosenBy, Origin

FOLDER = "FEINSUM_FUSE_PROGRAMS"
"""An environment variable: another folder for kept programs, or ``off``."""
MOST_BYTES = 128 << 20
MOST_FILES = 4096
LARGEST = 8 << 20
"""Bytes of one entry; larger ones are not kept."""
KEPT_AFTER_THINNING = 0.75
"""The part of the bounds that is left when they were passed: thinning takes time, and is not for every entry."""
_FORMAT = 1
_LIBRARIES = ("loopy", "islpy", "pymbolic", "pyopencl", "numpy", "opt_einsum")
"""Those that have a say in what is generated."""


@dataclass(frozen=True)
class Kept:
    """An entry: a program that ran well, and what is known of how it was made, as texts that others read."""

    executable: Executable
    origin: Origin
    texts: Mapping[str, str] = field(default_factory=dict)
    """Whatever the writer wants to find again, by name."""

    def to_json(self) -> str:
        """One line of JSON."""
        origin = {"by": self.origin.by.name, "detail": self.origin.detail, "reasons": self.origin.reasons}
        return json.dumps({"executable": self.executable.to_json(), "origin": origin, "texts": dict(self.texts)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Kept:
        """The inverse, for what :meth:`to_json` wrote; raises all sorts of errors for other texts."""
        data: dict[str, Any] = json.loads(text)
        given = data["origin"]
        origin = Origin(ChosenBy[given["by"]], str(given["detail"]), tuple(map(str, given["reasons"])), is_kept=True)
        texts = {str(name): str(value) for name, value in data["texts"].items()}
        return cls(Executable.from_parent(data["executable"]), origin, texts)


class KeptPrograms:
    """The entries in a folder; ``None`` keeps nothing. Safe for any number of processes: files appear whole, and may vanish any time."""

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
        self.folder = folder
        self._most_bytes, self._most_files = most_bytes, most_files

    def find(self, key: str) -> Kept | None:
        """The entry of this key, which counts as used now."""
        if self.folder is None or not _is_ours_alone(self.folder):
            return None
        file = self.folder / f"{key}.json"
        text = _read(file)
        if text is None:
            return None
        digest, _, body = text.partition("\n")
        if digest == _digest(key, body):
            with suppress(ValueError, TypeError, KeyError, AttributeError, Error):
                found = Kept.from_json(body)
                with suppress(OSError):
                    os.utime(file)
                return found
        with suppress(OSError):
            file.unlink()  # damaged
        return None

    def keep(self, key: str, program: Kept) -> None:
        """Write an entry, where that is possible; those that were not used for longest make room for it."""
        body = program.to_json()
        if self.folder is None or len(body) > LARGEST:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours_alone(self.folder):
                with replacing(self.folder / f"{key}.json") as place:
                    place.touch(mode=0o600)  # whatever the umask is: what a group can write is not believed
                    place.write_text(f"{_digest(key, body)}\n{body}", encoding="utf-8")
                self._thin(self.folder)

    def _thin(self, folder: Path) -> None:
        """Remove the entries that were not used for longest, once there are too many or they are too large."""
        entries = sorted(_entries(folder), key=lambda entry: entry.used, reverse=True)
        if len(entries) <= self._most_files and sum(entry.size for entry in entries) <= self._most_bytes:
            return
        size = 0
        for place, entry in enumerate(entries):
            size += entry.size
            if place >= KEPT_AFTER_THINNING * self._most_files or size > KEPT_AFTER_THINNING * self._most_bytes:
                with suppress(OSError):
                    entry.file.unlink()


@dataclass(frozen=True)
class _Entry:
    file: Path
    size: int
    used: float


def _entries(folder: Path) -> Iterator[_Entry]:
    """All files, what a process that was killed left half-written too."""
    with os.scandir(folder) as found:
        for item in found:
            with suppress(OSError):
                status = item.stat(follow_symlinks=False)
                yield _Entry(folder / item.name, status.st_size, status.st_mtime)


def _digest(key: str, body: str) -> str:
    """Of a body under its key: an entry that was given another's name is damaged."""
    return hashlib.sha256(f"{key}\n{body}".encode()).hexdigest()


def _is_ours_alone(place: Path) -> bool:
    """Whether a folder is there, belongs to this user, and can be written by nobody else."""
    try:
        status = os.lstat(place)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and _is_private(status)


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(file: Path) -> str | None:
    """The text of a regular file that belongs to this user and that nobody else can write; no link is followed."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_private(status) or status.st_size > 2 * LARGEST:
            return None
        try:
            return opened.read().decode()
        except (OSError, UnicodeDecodeError):
            return ""


def kept_programs() -> KeptPrograms:
    """Those of this user: below the cache folder, or where ``$FEINSUM_FUSE_PROGRAMS`` says."""
    chosen = os.environ.get(FOLDER, "")
    if chosen == "off":
        return KeptPrograms(None)
    return KeptPrograms(Path(chosen).absolute() if chosen else Path(platformdirs.user_cache_dir("feinsum_fuse")) / "programs")


def key_of(request: str, device: cl.Device) -> str:
    """The name of an entry: what was asked for, on this device, by what generates code here."""
    return hashlib.sha256("\0".join((request, _identity(device), _makers())).encode(errors="surrogatepass")).hexdigest()


@functools.cache
def _identity(device: cl.Device) -> str:
    """What decides about a device's code; not its memory, which PoCL reports by what is free."""
    info = DeviceInfo.of(device)
    hardware = (info.kind, info.ordinal, info.units, info.local_bytes, info.processor)
    return json.dumps((info.platform, info.name, info.vendor, info.driver, info.version, *hardware))


@functools.cache
def _makers() -> str:
    """The versions of what generates code, and the state of this package's own sources and facts."""
    versions = []
    for name in _LIBRARIES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(name)
    root = Path(package).resolve().parent
    folders = (root, root.parent / "database")
    sources = [(name, status.st_size, status.st_mtime_ns) for folder in folders for name, status in _sources(str(folder))]
    return hashlib.sha256(json.dumps([_FORMAT, str(root), versions, sorted(sources)]).encode()).hexdigest()


def _sources(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files of a folder and those below it that code is made from; compiled Python is not among them."""
    with suppress(OSError), os.scandir(folder) as found:
        for item in found:
            if item.is_dir() and item.name != "__pycache__":
                yield from _sources(item.path)
            elif item.name.endswith((".py", ".jsonl")):
                yield item.path, item.stat()
