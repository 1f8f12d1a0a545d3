"""``python -m benchmarks.replay measure|judge [NAME ...]``: how good the search of ``ff.tune`` is, on spaces measured whole.

``measure`` times all mappings of a cheap workload that differ in some decisions, for so many ``--seconds``, and goes on where it stopped;
with ``--seconds 0`` it lists them, with what the model predicts. ``judge`` replays what was measured, for each seed and without a device:
our search with and without the model, random search, and Optuna's TPE if it can be imported; what counts is the best time after so many
measurements over the best of all.
"""

from __future__ import annotations

import argparse
import time
import warnings

from .tables import TABLES


def main() -> None:
    """One stage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__)
    parser.add_argument("stage", choices=("measure", "judge"))
    parser.add_argument("names", nargs="*", choices=[*TABLES, []], help="tables; all by default")
    parser.add_argument("--seconds", type=float, default=100.0, help="of measuring, in all")
    parser.add_argument("--processes", type=int, default=2, help="that write and build kernels")
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    end = time.monotonic() + given.seconds
    for name in given.names or TABLES:
        if given.stage == "measure":
            from .measuring import measure

            measure(TABLES[name], end - time.monotonic(), given.processes)
        else:
            from .judging import judge

            print(judge(TABLES[name].record, given.seeds), flush=True)


if __name__ == "__main__":
    main()
