"""Which ``raise`` statements of the package no call of the sweep reaches: ``python -m tests.attack.raise_sites [CALLS [LINES]]``.

A statement counts as reached where an error that it raised came out of a call, or led to one that did. What is caught inside for good, and
what only other tests reach, is in the list as well; it says where to look, not what is wrong. The list is in ``raise_sites.txt``.
"""

from __future__ import annotations

import ast
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.attack.calls import PACKAGE, Site, function_call, verb_call
from tests.attack.functions import functions
from tests.sweeps import SEED

LIST = Path(__file__).with_suffix(".txt")


def raise_statements() -> Iterator[tuple[Site, int, str]]:
    """File and first line, last line, and what is raised, of every statement that makes an error."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                shown = " ".join((ast.get_source_segment(text, node) or "").split())
                yield (str(path.relative_to(PACKAGE)), node.lineno), node.end_lineno or node.lineno, shown


def reached(calls: int, lines: int) -> frozenset[Site]:
    """Where the errors of this many calls of functions and of verbs were raised."""
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_DATA_HOME"] = name
        os.chdir(name)
        choose, given = random.Random(f"raise sites {SEED}"), functions(Path())
        endings = [function_call(given, choose) for _ in range(calls)]
        endings += [verb_call(Path(), choose) for _ in range(lines)]
        os.chdir("/")
    return frozenset(site for ending in endings for site in ending.sites)


def main(calls: int = 4000, lines: int = 400) -> None:
    """Print the list, with the counts before it."""
    found = reached(calls, lines)
    statements = list(raise_statements())
    missed = [(site, text) for site, last, text in statements if not any((site[0], line) in found for line in range(site[1], last + 1))]
    count = len(statements) - len(missed)
    print(f"{len(statements)} raise statements, {count} reached by {calls} calls and {lines} command lines, seed {SEED}.")
    print(f"Reached by none of them: {len(missed)}.\n")
    for (file, _), text in missed:
        print(f"{file}: {text[:150]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
