"""Fills a table: each configuration built, verified and timed in turns with the default one, in batches; goes on where it stopped."""

from __future__ import annotations

import json
import time
from random import Random

from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.timing.measuring_process import MeasuringProcesses
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import Error
from feinsum_fuse.tuning.helpers import Helpers
from feinsum_fuse.tuning.measuring import Measuring
from feinsum_fuse.tuning.preparation import Prepared, prepare

from .tables import Table

BATCH = 12


def measure(table: Table, seconds: float, processes: int) -> None:
    """Time what the table lacks for so long: first what differs from the default configuration in few decisions, so that a table that is
    not complete has neighbours in it.
    """
    device, end = find_device(), time.monotonic() + seconds
    space, done = table.space, set(table.read())
    missing = [candidate for candidate in table.every if candidate.tree not in done]
    Random(len(table.every)).shuffle(missing)
    usual = table.default.decisions
    missing.sort(key=lambda candidate: sum(option != usual.get(name, option) for name, option in candidate.decisions.items()))
    print(f"{table.name}: {len(done)} measured, {len(missing)} missing", flush=True)
    batches = [missing[k : k + BATCH] for k in range(0, len(missing), BATCH)]
    with Helpers(processes) as helpers, MeasuringProcesses(device, example(table.cascade), processes) as held, table.file.open("a") as out:
        measuring = Measuring(held)
        first = prepare(table.default.spec, target(device))
        assert isinstance(first, Prepared)
        cascade = space.families[""].cascade
        measuring.batch([(table.default, cascade, first)], lambda one: None)
        for batch in batches:
            if time.monotonic() > end:
                break
            futures = [helpers.submit(prepare, candidate.spec, target(device)) for candidate in batch]
            ready, rows = [], []
            for candidate, future in zip(batch, futures, strict=True):
                try:
                    result = future.result()
                except Error as error:  # it took the helper with it, or too long
                    rows.append((candidate.tree, None, error.message))
                    continue
                if isinstance(result, Prepared):
                    ready.append((candidate, cascade, result))
                else:
                    rows.append((candidate.tree, None, result.reason))
            for one in measuring.batch(ready, lambda one: None):
                fine = one.verdict.outcome is Outcome.ok
                rows.append((one.candidate.tree, one.seconds if fine else None, "" if fine else str(one.verdict.outcome)))
            out.writelines(json.dumps({"tree": tree, "seconds": took, "why": why}) + "\n" for tree, took, why in rows)
            out.flush()
    print(f"{table.name}: {len(table.read())} measured", flush=True)
