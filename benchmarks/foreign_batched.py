"""How many of feinsum's batched einsums take a recorded fact, as kernels of several rows in one nest.

    python -m benchmarks.foreign_batched feinsum=CHECKOUT [--data FILE]

A checkout holds archives of measured transformations (``data/transform_archive_*.sqlite``). Each batched einsum in them becomes a kernel in
feinsum's grammar, its rows in one nest and its long axis symbolic. A fact is made of the same rows as a cascade at one length (its default
mapping, by ``ff.compile``, ``ff.measure`` and ``ff.record``); then it is retrieved for the kernel and applied, which runs both. Counts,
reasons of refusals and the commit are written to ``--data``; what is there already of that commit is not done again.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import loopy as lp
import numpy as np
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target_of
from feinsum_fuse.mappings.default_mapping import default_schedule

DATA = Path(__file__).with_name("foreign_data") / "batched.json"
LONG = 500
"""Elements along the symbolic axis where facts are made."""


@dataclass(frozen=True)
class Batched:
    """A batched einsum as an archive has it."""

    subscripts: str
    lengths: tuple[tuple[str, int], ...]
    """Index -> length; what is not there is symbolic."""
    rows: tuple[tuple[str, ...], ...]
    """The arrays of each row."""
    dtypes: tuple[tuple[str, str], ...]

    @property
    def indices(self) -> list[str]:
        """Of each operand, then of the output."""
        inputs, _, output = self.subscripts.replace(" ", "").partition("->")
        return [*inputs.split(","), output]

    def shape(self, indices: str, long: int | str) -> tuple[int | str, ...]:
        """Lengths of axes."""
        known = dict(self.lengths)
        return tuple(known.get(index, long) for index in indices)

    def kernel(self) -> lp.TranslationUnit:
        """The rows in one nest, operands read through rules."""
        *inputs, output = self.indices
        dtypes, known = dict(self.dtypes), dict(self.lengths)
        every = sorted(set("".join(inputs)))
        bounds = " and ".join(f"0 <= {index} < {known.get(index, 'long_axis')}" for index in every)
        shapes = {array: self.shape(inputs[k], "long_axis") for row in self.rows for k, array in enumerate(row)}
        reduced = ", ".join(index for index in every if index not in output)
        axes = {array: ", ".join(f"d{k}" for k in range(len(shape))) for array, shape in shapes.items()}
        texts = [f"{array}_({names}) := {f'{array}[{names}]' if names else array}" for array, names in axes.items()]
        for k, row in enumerate(self.rows):
            reads = "*".join(f"{array}_({', '.join(indices)})" for array, indices in zip(row, inputs, strict=True))
            value = f"sum([{reduced}], {reads})" if reduced else reads
            texts.append(f"out{k}[{', '.join(output)}] = {value} {{id=row{k}}}")
        result = np.result_type(*(np.dtype(dtypes[array]) for array in shapes))
        arguments = [lp.GlobalArg(array, np.dtype(dtypes[array]), shape=shape) for array, shape in shapes.items()]
        outputs = [lp.GlobalArg(f"out{k}", result, shape=self.shape(output, "long_axis")) for k in range(len(self.rows))]
        domain = f"[long_axis] -> {{ [{', '.join(every)}] : {bounds} }}"
        symbol = lp.ValueArg("long_axis", np.int32)
        return lp.make_kernel(domain, texts, [*arguments, *outputs, symbol], assumptions="long_axis >= 1", lang_version=(2018, 2))

    def cascade(self) -> ff.Cascade:
        """The rows as Einsums of their own, at one length."""
        *inputs, _ = self.indices
        dtypes = dict(self.dtypes)
        rows = [
            [ff.array(array, self.shape(indices, LONG), np.dtype(dtypes[array])) for array, indices in zip(row, inputs, strict=True)]
            for row in self.rows
        ]
        return ff.batched_einsum(self.subscripts, rows)


def batched_in(checkout: Path) -> Iterator[Batched]:
    """What a checkout's archives speak of, each once."""
    seen: set[Batched] = set()
    for archive in sorted((checkout / "data").glob("transform_archive_*.sqlite")):
        with closing(sqlite3.connect(f"file:{archive}?mode=ro", uri=True)) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall():
                asked = f'SELECT DISTINCT subscripts, index_to_length, use_matrix, value_to_dtype FROM "{table}"'
                for subscripts, lengths, uses, dtypes in database.execute(asked):
                    rows = [tuple(operand) for operand in json.loads(uses)]
                    if len(rows) < 2 or any(len(values) != 1 for row in rows for values in row):
                        continue
                    named = tuple(tuple(values[0] for values in row) for row in rows)
                    given = (tuple(sorted(json.loads(text).items())) for text in (lengths, dtypes))
                    one = Batched(subscripts, next(given), named, next(given))
                    if one not in seen:
                        seen.add(one)
                        yield one


def outcome(batched: Batched, url: str) -> str:
    """``applied``, or why not."""
    device = find_device("portable")
    cascade = batched.cascade()
    schedule = default_schedule(cascade, target_of(DeviceInfo.of(device)))
    ff.record(ff.measure(ff.compile(cascade, device, by=schedule), repeats=1), url=url)
    fact = ff.retrieve(batched.kernel(), device, url=url)
    if not fact:
        return f"nothing known: {fact.detail}"
    fact.apply(batched.kernel())
    return "applied" if set(fact.instructions or ()) == {f"row{k}" for k in range(len(batched.rows))} else "applied to a part"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", metavar="feinsum=CHECKOUT")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    checkout = Path(given.checkout.partition("=")[2] or given.checkout)
    head = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    known = json.loads(given.data.read_text(encoding="utf-8")) if given.data.exists() else {}
    found: dict[str, str] = known.get("by key", {}) if known.get("commit") == commit else {}
    start = time.process_time()
    for batched in batched_in(checkout):
        key = batched.cascade().key
        if key in found:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                found[key] = outcome(batched, f"sqlite:///{folder}/facts.db")
            except ff.Error as error:
                found[key] = f"refused: {error.message}"
            except Exception as error:  # what is counted here is that nothing of the kind comes out
                found[key] = f"exception: {type(error).__name__}: {str(error)[:200]}"
        print(f"{batched.subscripts}, {len(batched.rows)} rows, {dict(batched.lengths)}: {found[key]}", flush=True)
        outcomes = dict(Counter(found.values()).most_common())
        counts = {"commit": commit, "kernels": len(found), "outcomes": outcomes, "by key": found}
        given.data.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(Counter(found.values()), indent=1), f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
