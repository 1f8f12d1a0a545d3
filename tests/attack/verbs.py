"""Command lines: verbs with options and files that are right, and the same with a part exchanged."""

from __future__ import annotations

import random
from pathlib import Path

from .functions import EXAMPLES, WHOLE, WORKLOAD
from .values import FRAGMENTS, TEXTS

FILE = "FILE"
"""Stands for one of the generated files."""
LINES: tuple[tuple[float, str], ...] = (
    (6, f"check {FILE}"),
    (2, f"check {FILE} --json --set M=4 --dtype float32"),
    (2, f"check {FILE} {FILE}"),
    (2, f"show {FILE} --cascade --tree"),
    (1, f"show {FILE} --schedule --upto 3 --json"),
    (0.5, f"show {FILE} --kernel --source"),
    (1, f"show {FILE} --svg picture.svg"),
    (1, f"show {FILE} --model --cold"),
    (4, f"predict {FILE} --cold"),
    (2, f"predict {FILE} --json --set M=4 --dtype A=float32"),
    (0.05, f"run {FILE} --repeats 1 --url run.sqlite3"),
    (0.05, f"compare {FILE} {FILE} --repeats 1 --url run.sqlite3"),
    (0.5, "calibrate --device nonesuch --output arch.yaml"),
    (0.5, "devices --json"),
    (2, "db stats --url facts.sqlite3"),
    (1, f"db best {FILE} --limit 3 --url facts.sqlite3"),
    (1, "db export out.jsonl --url facts.sqlite3"),
    (0.5, "db forget 0 --undo --url facts.sqlite3"),
    (0.5, "db make nonesuch --list --seconds 1 --measurements 1 -o ."),
    (0.5, f"transforms {FILE} --name products.register_tiles"),
    (0.3, f"explain {FILE} --json"),
    (0.2, "survey --only nonesuch --seconds 1 -o survey.tar.gz"),
    (2, "db import facts.jsonl --url new.sqlite3"),
    (0.3, f"map {FILE} --objective energy --seconds 1"),
    (0.02, f"tune {FILE} --seconds 1 --measurements 1"),
    (0.2, f"report {FILE} --no-run -o page.html --url facts.sqlite3"),
    (0.1, f"export {FILE} --name program -o program"),
    (0.5, f"predict {FILE} --sweep M=4..8"),
    (1, "--help"),
    (1, "--version"),
)
ODD = (
    "--set",
    "--set=M",
    "--set=M=abc",
    "--set=1=2",
    "--json",
    "--no-such",
    "--device=\x1b[31m",
    "--dtype=float3",
    "--limit=-1",
    "--",
    "-o",
    "-x",
)


def command_line(folder: Path, choose: random.Random) -> list[str]:
    """A command line, right or wrong, whose files lie in the folder in which it is run: names that are spoilt lead to places in it."""
    ((_, line),) = choose.choices(LINES, [weight for weight, _ in LINES])
    words = [_file(folder, number, choose) if word == FILE else word for number, word in enumerate(line.split())]
    if choose.random() < 0.3:
        at = choose.randrange(len(words))
        ways = (
            lambda: words[:at] + words[at + 1 :],
            lambda: [*words, choose.choice(ODD)],
            lambda: [*words[:at], words[at] + choose.choice(FRAGMENTS), *words[at + 1 :]],
            lambda: [*words[:at], str(choose.choice(TEXTS)), *words[at + 1 :]],
        )
        words = choose.choice(ways)()
    return words


def _file(folder: Path, number: int, choose: random.Random) -> str:
    """A workload or more, now and then one that has been damaged, or something that is no file of text."""
    name = f"given{number}.yaml"
    kind = choose.random()
    if kind < 0.08:
        return choose.choice((".", "nothing.yaml", "/dev/null", "/proc/self/mem", "/dev/full"))
    text = choose.choice((WHOLE, WHOLE, WORKLOAD, choose.choice(EXAMPLES).read_text()))
    if kind < 0.3:
        at = choose.randrange(len(text))
        text = text[:at] + choose.choice(FRAGMENTS) + text[at + choose.choice((0, 1, 5)) :]
    data = text.encode("utf-8", "surrogatepass")
    (folder / name).write_bytes(data if kind < 0.97 else choose.choice((b"\xff\xfe" + data, data[: len(data) // 2], b"\x00" * 100, b"")))
    return name
