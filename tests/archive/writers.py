"""Processes that record facts at once; see :mod:`tests.archive.writer`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNLIMITED = -1


class Writers:
    """A process that forks the writers, so that what they import is imported once."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.archive.writer"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, url: str, count: int, *numbers: int, file_size: int = UNLIMITED) -> None:
        """Let one process for each number record ``count`` facts; none of them may make a file larger than ``file_size`` bytes."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{url} {count} {file_size} {' '.join(map(str, numbers))}\n")
        self.process.stdin.flush()
        self.facts: list[str] = []
        self.errors: list[str] = []
        self.children: list[int] = []

    def line(self) -> str:
        """The next line, sorted by what it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        word, _, rest = line.partition(" ")
        if word == "error":
            self.errors.append(ast.literal_eval(rest))
        elif word == "children":
            self.children = [int(child) for child in rest.split()]
        elif word != "ended":
            self.facts.append(word)
        return line

    def finish(self) -> list[int]:
        """Wait for the end; the exit codes, negative for signals."""
        while not (line := self.line()).startswith("ended"):
            assert line, "the writer ended too early"
        return [int(code) for code in line.split()[1:]]

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)
