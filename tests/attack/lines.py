"""Hostile lines of facts: ``python -m tests.attack.lines [COUNT]`` imports a line in which one part has been exchanged, so often.

A line is refused by one of our errors with its place, and then nothing is added, or it is a fact: then it is exported, imported again and
asked for, and neither of these fails.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import feinsum_fuse as ff
from feinsum_fuse import archive
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from tests.archive.samples import HERE, measurement, product, tiled
from tests.sweeps import SEED

COUNT = 500
VALUES: tuple[object, ...] = (
    *(None, True, 0, -1, 1, 3, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, float("inf"), float("nan")),
    *("", "x", "m", "T0", "E0", "E0.i0", "E0.i0/0/1", "../../etc", "\x00", "\ud800", "\x1b[31m", "%0"),
    *("call __import__('os')", "9" * 5000),
    *("Split", "os.system", "float32", "O", "inf", "ok", "warm"),
    *("{ [s0, s1] : s0 > 0 }", "{ [s0] : 1 = 0 }", "1e999", "'; DROP TABLE x; --"),
    *([], {}, [[]], [None], ["x"], [1, 2], {"": ""}, {"x": []}, [["call", "%0"]], [0.001], {"step": "Split", "version": 1}),
)


def _places(tree: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _places(child, (*path, key))


def changed(line: str, choose: random.Random) -> str:
    """The line with one value exchanged, left out, or under another name; or with some of its characters gone."""
    way = choose.random()
    if way < 0.1:
        at = choose.randrange(len(line))
        return line[:at] + choose.choice(("", "\x00", "}", '"', ",", "[", "é", "\n", "9" * 400)) + line[at + choose.randrange(4) :]
    tree: Any = copy.deepcopy(json.loads(line))
    *above, last = choose.choice(list(_places(tree)))
    inner = tree
    for key in above:
        inner = inner[key]
    if way < 0.2:
        del inner[last]
    elif way < 0.3 and isinstance(inner, dict):
        inner[str(choose.choice(("run", "", "map", f"{last}_", "\x1b")))] = inner.pop(last)
    elif way < 0.4 and isinstance(inner, list):
        inner.append(copy.deepcopy(inner[last]))
    elif way < 0.5 and isinstance(inner[last], int | float):
        inner[last] = choose.choice((-inner[last], inner[last] + 1, inner[last] * 1000, inner[last] / 7))
    else:
        inner[last] = copy.deepcopy(choose.choice(VALUES))
    return json.dumps(tree)


def sources(folder: Path) -> list[str]:
    """Lines as an export writes them."""
    url = folder / "source.sqlite3"
    mask = ["S[m, p] = where(p <= m, Q[m] * K[p], 0)", "X[m] = max(S[m, p])"]
    masked = ff.cascade(mask, sizes={"M": 8, "P": 8}, dtypes={"All": "float32"})
    both = Schedule((Explicate(("S", "X")),))
    failed = measurement(product(8, 4, 6), outcome="timeout")
    for made in (measurement(product(8, 4, 6), tiled(factor=4)), measurement(masked, both), failed):
        archive.record(made, url=url)
    return list(archive.export_facts(url))


def ending(line: str, folder: Path) -> str:
    """``refused`` or ``kept``; ``AssertionError`` and foreign errors where a promise is broken."""
    file, url, other = folder / "line.jsonl", folder / "one.sqlite3", folder / "two.sqlite3"
    for old in (url, other):
        old.unlink(missing_ok=True)
    file.write_bytes(line.encode("utf-8", "surrogatepass"))
    try:
        archive.import_facts(file, url)
    except ff.Error as error:
        assert str(error).startswith(("cannot read ", f"{file}"))
        assert not set(str(error)) & set("\x1b\x00")
        assert not list(archive.export_facts(url))
        return "refused"
    exported = list(archive.export_facts(url))
    file.write_text("".join(f"{fact}\n" for fact in exported))
    archive.import_facts(file, other)
    assert list(archive.export_facts(other)) == exported
    for asked in (product(8, 4, 6), product(8, 4, 6, dtype="float64")):
        ff.query(asked, HERE, outcome=None, url=url)
        fact = ff.retrieve(asked, HERE, url)
        if fact.schedule is not None:
            fact.schedule.apply(asked.kernel())
    return "kept"


def attack(count: int, folder: Path) -> Iterator[tuple[str, str]]:
    """A line and how it ended, so often."""
    choose, lines = random.Random(f"lines {SEED}"), sources(folder)
    for _ in range(count):
        line = changed(choose.choice(lines), choose)
        try:
            yield line, ending(line, folder)
        except Exception as error:
            yield line, f"{type(error).__name__}: {error}"[:300]


def main(count: int = COUNT) -> int:
    """Print the counts, and every line that something foreign came of; returns how many these are."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for line, how in attack(count, Path(folder)):
            counts[how if how in ("kept", "refused") else "escaped"] += 1
            if how not in ("kept", "refused"):
                print(f"{how}\n  {line[:2000]}")
    print(f"{count} lines: {dict(counts)}")
    return counts["escaped"]


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
