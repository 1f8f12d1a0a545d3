"""Searches of whole layers and of twenty Einsums: how long they take, and whether they end with a proof.

``python -m benchmarks.layers [--accelforge FOLDER]`` writes ``doc/layers.csv``; with the folder of an AccelForge checkout also for the
Llama 3 8B and Mixtral 8x22B layers of its ``examples``, 4,096 tokens. Seconds are processor time of one process, loading excluded, and hang
on the machine; all else is the same on every machine.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import feinsum_fuse as ff
from feinsum_fuse.formats.spec import Spec

FILE = Path(__file__).parents[1] / "doc" / "layers.csv"
HEAD = ("cascade", "Einsums", "architecture", "proved", "gap", "energy / J", "processor seconds")
SIZES = "H: 8, M: 256, P: 256, E: 64, D: 512, F: 2048"
LIMIT = 120.0
"""Seconds after which a search returns what it has."""
ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
      actions: [{name: read, energy: 64, throughput: 256}, {name: write, energy: 64, throughput: 256}]}
  - !Memory {name: Buffer, size: SIZE, leak_power: 0, area: 0, tensors: {keep: All},
      actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
LAYERS = {"Llama 3 8B": "llama/llama3_8B.yaml", "Mixtral 8x22B": "mixtral/mixtral8x22B.yaml"}


def block(number: int, x: str) -> list[str]:
    """A block of GPT that reads ``x``."""
    i = number
    return [
        *(f"{t}{i}[h, m, e] = {x}[m, d] * W{t}{i}[h, d, e]" for t in "QKV"),
        f"S{i}[h, m, p] = Q{i}[h, m, e] * K{i}[h, M: p, e]",
        f"X{i}[h, m, p] = exp(S{i}[h, m, p])",
        f"A{i}[h, m, e] = X{i}[h, m, p] * V{i}[h, M: p, e]",
        f"O{i}[m, d] = A{i}[h, m, e] * WO{i}[h, e, d]",
        f"R{i}[m, d] = O{i}[m, d] + {x}[m, d]",
        f"F{i}[m, f] = R{i}[m, d] * WF{i}[d, f]",
        f"G{i}[m, d] = F{i}[m, f] * WG{i}[f, d]",
    ]


def blocks(mebibits: int) -> Spec:
    """Two blocks of GPT, one after the other, with a buffer of so many Mibit."""
    lines = "".join(f"  - '{line}'\n" for line in (*block(1, "X"), *block(2, "G1")))
    workload = f"workload:\n  rank_sizes: {{{SIZES}}}\n  bits_per_value: {{All: 8}}\n  einsums:\n{lines}"
    return ff.loads(workload + ARCH.replace("SIZE", str(mebibits << 20)))


def cases(folder: Path | None) -> Iterator[tuple[str, str, Spec]]:
    """(cascade, architecture, Spec)."""
    for mebibits in (16, 4, 2):
        yield "two GPT blocks", f"two memories, {mebibits} Mibit", blocks(mebibits)
    if folder is None:
        return
    examples = folder / "examples"
    for name, file in LAYERS.items():
        for arch in ("simple.yaml", "snowcat.yaml"):
            files = (examples / "workloads" / "transformers" / file, examples / "arches" / arch)
            variables = {"DECODE": False, "BATCH_SIZE": 1, "N_NEW_TOKENS": 4096}
            yield name, f"AccelForge's {arch}", ff.load(*files, variables=variables, include_dirs=[examples])


def row(cascade: str, arch: str, spec: Spec) -> tuple[str, ...]:
    """One line of the table."""
    began = time.process_time()
    result = ff.search(spec, seconds=LIMIT)
    spent = time.process_time() - began
    proved = "yes" if result.proved else "no"
    return cascade, str(len(spec.workload.einsums)), arch, proved, f"{100 * result.gap:.2g} %", f"{result.value:.5g}", f"{spent:.2g}"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accelforge", type=Path, help="an AccelForge checkout")
    folder = parser.parse_args().accelforge
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [row(*case) for case in cases(folder)]
    with FILE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *rows])
    for found in rows:
        print("  ".join(found))


if __name__ == "__main__":
    main()
