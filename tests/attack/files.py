"""Hostile files: ``python -m tests.attack.files`` gives each to the verbs that read it, in every place where a file can be named.

Whatever a file is, a verb ends with a documented exit code, in bounded time and memory, and with no traceback.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.attack.calls import Ending, line_call
from tests.attack.functions import WHOLE, WORKLOAD
from tests.formats.holes import HOLES

READERS = ("check FILE", "predict FILE", "show FILE --cascade", "run FILE --repeats 1 --url run.sqlite3", "map FILE --seconds 1")
"""Verbs that read workloads; each hostile file is given to one of them in turn, and to ``check``."""
PLACES = (
    *("db import FILE --url new.sqlite3", "db stats --url FILE", "db best good.yaml --url FILE", "db export out.jsonl --url FILE"),
    *("check good.yaml FILE", "predict good.yaml FILE", "check FILE good.yaml", "show good.yaml --svg FILE", "export good.yaml -o FILE"),
    *("calibrate --device nonesuch --output FILE", "db export FILE --url empty.sqlite3", "predict whole.yaml --sweep M=4..8 --svg FILE"),
)
"""Places of a command line where something else than a workload may be named."""


def _written(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _includes(path: Path) -> None:
    """A file that includes itself by way of another."""
    path.with_suffix(".other").write_text(f"x: !include {path.name}\n")
    path.write_text(f"workload: !include {path.with_suffix('.other').name}\n")


def _deep(path: Path) -> None:
    for number in range(300):
        path.with_suffix(f".{number}").write_text(f"!include {path.with_suffix(f'.{number + 1}').name}\n")
    path.with_suffix(".300").write_text("{}\n")
    path.write_text(f"workload: !include {path.with_suffix('.0').name}\n")


def _archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("workload.yaml", WORKLOAD)


def _sealed(path: Path) -> None:
    path.write_text(WHOLE)
    path.chmod(0)


_GOOD = WHOLE.encode()
KINDS: Mapping[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "a folder that nobody may read": lambda path: path.mkdir(0),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to a folder": lambda path: path.symlink_to("."),
    "an endless file": lambda path: path.symlink_to("/dev/zero"),
    "an endless random file": lambda path: path.symlink_to("/dev/urandom"),
    "no file at all": lambda path: path.symlink_to("/dev/null"),
    "a full device": lambda path: path.symlink_to("/dev/full"),
    "the memory of the process": lambda path: path.symlink_to("/proc/self/mem"),
    "the system's own": lambda path: path.symlink_to("/proc/self/environ"),
    "a file that is not to be read": _sealed,
    "an empty file": _written(b""),
    "one NUL": _written(b"\0"),
    "NULs": _written(b"\0" * 100_000),
    "a file with NUL": _written(_GOOD.replace(b"M: 8", b"M: 8\0")),
    "half of a character": _written(_GOOD + b"\xc3"),
    "a surrogate": _written(_GOOD + b"\xed\xa0\x80"),
    "UTF-16": _written(WHOLE.encode("utf-16")),
    "UTF-32": _written(WHOLE.encode("utf-32")),
    "a mark of UTF-8": _written(b"\xef\xbb\xbf" + _GOOD),
    "Latin 1": _written(_GOOD.replace(b"MAC", b"M\xc4C")),
    "lines of DOS": _written(_GOOD.replace(b"\n", b"\r\n")),
    "lines of old Macs": _written(_GOOD.replace(b"\n", b"\r")),
    "tabs": _written(_GOOD.replace(b"  ", b"\t")),
    "half a file": _written(_GOOD[: len(_GOOD) // 2]),
    "the same twice": _written(_GOOD + _GOOD),
    "two documents": _written(_GOOD + b"---\n" + _GOOD),
    "a hole": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "a large file": _written(_GOOD + b"# x\n" * 2_000_000),
    "one long line": _written(b"x" * 20_000_000),
    "many lines": _written(b"a\n" * 1_000_000),
    "a program": _written(Path(sys.executable).resolve().read_bytes()[:200_000]),
    "an archive of files": _archive,
    "a database of others": _written(b"SQLite format 3\0" + b"\0" * 4080),
    "a torn database": _written(b"SQLite format 3\0" + os.urandom(4080)),
    "JSON": _written(b'{"workload": 3}'),
    "a list of JSON": _written(b"[" * 100_000),
    "a page": _written(b"<!DOCTYPE html><html></html>"),
    "a table": _written(b"a,b,c\n1,2,3\n"),
    "a script": _written(b"#!/bin/sh\ntouch hole\n"),
    "Python": _written(b"import os\nos.system('touch hole')\n"),
    "a pickle": _written(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\ntouch hole\x85R."),
    "a circle of includes": _includes,
    "deep includes": _deep,
    "escapes": _written(b"workload: \x1b]0;owned\x07\n"),
    "escapes in quotes": _written(b'workload: "\\x1b]0;owned\\a"\n'),
}


def attack(folder: Path, every: int = 1) -> Iterator[Ending]:
    """How each of the command lines ended, or of every so many; the process stands in the folder afterwards."""
    os.chdir(folder)
    (folder / "good.yaml").write_text(WORKLOAD)
    (folder / "whole.yaml").write_text(WHOLE)
    files: list[tuple[str, Callable[[Path], object], Sequence[str]]] = [
        (kind, make, (*READERS, *PLACES) if "endless" in kind or number % 4 == 0 else (READERS[number % len(READERS)], *PLACES))
        for number, (kind, make) in enumerate(KINDS.items())
    ]
    files += [
        (hole, _written(text.encode("utf-8", "surrogatepass")), ("check FILE", READERS[number % len(READERS)]))
        for number, (hole, text) in enumerate(HOLES.items())
    ]
    lines = [(kind, make, line) for kind, make, given in files for line in given]
    for number, (_, make, line) in enumerate(lines[::every]):
        path = folder / f"hostile{number}.yaml"
        make(path)
        yield line_call(line.replace("FILE", path.name).split())
        if path.is_symlink() or path.is_file():
            path.unlink()
    assert not (folder / "hole").exists(), "code of a file was run"


def main() -> int:
    """Print the counts, and every command line that ended otherwise; returns how many these are."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder
        for ending in attack(Path(folder)):
            counts["escaped" if ending.foreign else "ended"] += 1
            if ending.foreign:
                print(f"{ending.call}\n{ending.foreign}", flush=True)
        os.chdir("/")
    print(f"{len(KINDS)} kinds of files and {len(HOLES)} texts, command lines: {dict(counts)}")
    return counts["escaped"]


if __name__ == "__main__":
    sys.exit(main() > 0)
