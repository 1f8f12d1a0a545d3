"""The journal of a search: a file with a line for each stage, from which a later search goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import Error, SearchError
from ...formats.reading.files import read_text
from ...formats.spec import Spec
from ...presentation import yaml
from ...whole_file import write_whole
from ..options import Options
from ..request.flips import differing
from ..result import Found, with_mapping
from ..stocks.store import version

SOURCES = ("mapper/**/*.py", "model/accelforge/*.py")
"""The code by which mappings are ruled out."""
FREE = ("top", "seconds", "jobs", "cache", "progress", "max_rows", "resume")
"""The options that may differ between a search and the one that goes on with it."""
NOTHING_DONE = -1


@dataclass(frozen=True)
class State:
    """What is known after a stage."""

    spec: Spec
    """With the best mapping so far."""
    used: int
    """Fused loops looked at to find it."""
    done: int
    """No mapping with at most so many fused loops is better; :data:`NOTHING_DONE` where that is not known even without any."""


@dataclass
class Journal:
    """A file of JSON lines: each says of what search it is, and what that had found by the end of a stage."""

    path: Path
    spec: Spec
    """What is searched, in the caller's terms."""
    question: str
    """A digest of what is asked: equal for searches that may go on with one another."""
    lines: list[str] = field(default_factory=list)
    state: State | None = None
    """That of the last line."""

    @classmethod
    def at(cls, path: str, spec: Spec, options: Options) -> Journal:
        """The journal in a file, or a new one.

        Raises :class:`SpecError` if the file cannot be read, :class:`SearchError` if it cannot be written, is no journal, or is that of
        another search.
        """
        bare = spec.replace(mapping=None)
        asked = [(f.name, getattr(options, f.name)) for f in dataclasses.fields(options) if f.name not in FREE]
        asked = [(name, sorted(value) if isinstance(value, frozenset) else value) for name, value in asked]
        result = cls(Path(path), bare, hashlib.sha256(f"{bare.to_yaml()}{asked}".encode()).hexdigest())
        try:
            if os.path.lexists(path):
                result._read(read_text(result.path, path))
            result._write()
        except OSError as error:
            raise SearchError(f"{path} cannot keep the state of a search: {error.strerror}.") from error
        return result

    def add(self, stage: str, seconds: float, floor: float, best: Found | None, *, used: int, done: int) -> None:
        """Keep the state at the end of a stage. A disk that is full meanwhile keeps the last one."""
        entry: dict[str, Any] = {"question": self.question, "code": _version(), "stage": stage, "seconds": seconds, "floor": floor}
        if best is not None:
            entry |= {"energy": best.energy, "latency": best.latency, "mapping": yaml(best.mapping), "used": used, "done": done}
            entry |= {"flipped": list(differing(self.spec.workload, best.spec.workload))}
        self.lines.append(json.dumps(entry))
        with contextlib.suppress(OSError):
            self._write()

    def _write(self) -> None:
        write_whole(self.path, "".join(f"{line}\n" for line in self.lines))

    def _read(self, text: str) -> None:
        for number, line in enumerate(text.splitlines(), 1):
            try:
                entry = json.loads(line)
                question, code = str(entry["question"]), str(entry["code"])
                if question != self.question:
                    message = f"{self.path} is the journal of another search: of another workload or architecture, or with other options."
                    raise SearchError(message, hint="Name another file, or take that one away.")
                if "mapping" in entry:
                    # What other code has looked at is looked at again; its mapping is as good as any.
                    done = int(entry["done"]) if code == _version() else NOTHING_DONE
                    spec = with_mapping(self.spec, str(entry["mapping"]), tuple(map(str, entry["flipped"])))
                    self.state = State(spec, max(0, int(entry["used"])), done)
            except SearchError:
                raise
            except (KeyError, TypeError, ValueError, RecursionError, Error) as error:
                raise _unreadable(str(self.path), number, str(error)) from error
            self.lines.append(line)


def _unreadable(path: str, number: int, reason: str) -> SearchError:
    message = f"Line {number} of {path} is no state of a search: {reason}"
    return SearchError(message, hint="Name a file that is not there yet, or one that a search has kept.")


def _version() -> str:
    return version(SOURCES)
