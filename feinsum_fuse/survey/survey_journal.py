"""The folder of a survey: JSON lines that are on disk as soon as they are known, and files beside them."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import DeviceError
from ..whole_file import write_whole

RECORDS, TEXTS, SPECS, LOGS = "records", "opencl", "specs", "logs"
"""Folders below that of a survey: JSON lines of each step, OpenCL texts, what ran as YAML, what the steps printed."""
FACTS, DATABASE, DEVICE_FILE = "facts.jsonl", "facts.sqlite", "device.yaml"
_LONGEST_NAME = 120


@dataclass(frozen=True)
class SurveyJournal:
    """One folder that several processes write one after another; each line is flushed to disk before anything else happens."""

    folder: Path

    def prepare(self) -> None:
        """Make the folders; raises :class:`~feinsum_fuse.errors.DeviceError` where that is not possible."""
        try:
            for name in (RECORDS, TEXTS, SPECS, LOGS):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DeviceError(f"cannot write {self.folder}: {error.strerror}", hint="Give another place with --output.") from error

    def write(self, step: str, record: Mapping[str, object]) -> None:
        """Add a line about a step; numbers that JSON lacks become texts."""
        with (self.folder / RECORDS / f"{step}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(plain(record), sort_keys=True) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def read(self, step: str) -> Iterator[dict[str, object]]:
        """The lines of a step; a last one that a dying process has not finished is left out."""
        path = self.folder / RECORDS / f"{step}.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found

    def done(self, step: str) -> set[str]:
        """What lines of a step call done: their labels, or in ``steps`` the names."""
        return {str(line.get("label", line.get("name"))) for line in self.read(step) if line.get("outcome") == "ok"}

    def drop_failed(self, step: str) -> None:
        """Keep of a step's lines those of what ended well, so that the rest can be tried again."""
        kept = [json.dumps(line, sort_keys=True) + "\n" for line in self.read(step) if line.get("outcome") == "ok"]
        write_whole(self.folder / RECORDS / f"{step}.jsonl", "".join(kept))

    def keep(self, folder: str, label: str, ending: str, text: str) -> str:
        """Write a text beside the lines; its name below the survey's folder."""
        name = f"{folder}/{file_name(label)}{ending}"
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    @property
    def url(self) -> str:
        """The database that the survey's facts are recorded in."""
        return str(self.folder / DATABASE)


def file_name(label: str) -> str:
    """A label as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", label).strip("-.")[:_LONGEST_NAME] or "unnamed"


def plain(value: object) -> object:
    """A value as JSON can have it."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)
