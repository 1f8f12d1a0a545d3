"""``python -m benchmarks.fidelity judge`` prints the model's figures on what was measured, and ``models`` those of AccelForge's formulas
with one term more at a time; ``residuals`` what intervals are made of, with each set left out, and ``processors`` with each processor
left out; ``first`` keeps for them what the model says of a set before anything of its times is looked at; ``figures`` what other values of
assumed figures would do; ``corrected`` whether a correction that is learned from other workloads ranks better; the other verbs measure.

``draw`` draws mappings; ``prepare`` writes and verifies their kernels into a folder; ``slot`` times them until so many seconds have passed.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import warnings
from pathlib import Path

from .awake import awake
from .cases import DATA, DEVELOPED, KNOWN, NOT_LOOKED_AT, Device

WORK = Path(tempfile.gettempdir()) / "feinsum_fuse_fidelity"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = ["draw", "prepare", "slot", "first", "judge", "models", "residuals", "processors", "figures", "corrected"]
    parser.add_argument("verb", choices=verbs)
    parser.add_argument("cases", nargs="*", help="workloads; default: those developed on, and for judging all")
    parser.add_argument("--device", default="", help="a processor's folder below data; default: all; for judging and measuring epyc_zen5")
    parser.add_argument("--work", type=Path, default=WORK, help="where written kernels lie until they are timed")
    parser.add_argument("--count", type=int, default=0, help="draw: draw until a workload has so many; prepare: the first so many")
    parser.add_argument("--kept", type=int, default=0, help="draw: keep so many, half of them those that are predicted to be fastest")
    parser.add_argument("--seconds", type=float, default=100.0, help="the length of a slot; figures: begin no workload after so many")
    parser.add_argument("--anew", action="store_true", help="figures: forget what is kept, which the model of another day may have said")
    parser.add_argument("--every", type=int, default=4, help="first: every so manieth mapping of a workload")
    parser.add_argument("--awake", action="store_true", help="slot: keep virtual processors from being halted; try both")
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    device = Device(given.device or "epyc_zen5")
    every = [Device(name) for name in ([given.device] if given.device else sorted(folder.name for folder in DATA.iterdir()))]
    cases = tuple(given.cases or ((*KNOWN, *NOT_LOOKED_AT) if given.verb in {"judge", "models", "corrected"} else DEVELOPED))
    if given.verb == "judge":
        from .judging import report

        print(report(device, cases))
        return
    if given.verb == "models":
        from . import models

        print(models.report([device] if given.device else every, cases))
        return
    if given.verb == "corrected":
        from . import corrected

        print(corrected.report([device] if given.device else every, cases))
        return
    if given.verb in {"residuals", "processors", "first"}:
        from . import residuals

        if given.verb == "first":
            residuals.keep(device, given.cases or NOT_LOOKED_AT, given.every)
        else:
            print(residuals.report() if given.verb == "residuals" else residuals.across())
        return
    if given.verb == "figures":
        from . import figures

        left = figures.predict(every, given.seconds, anew=given.anew)
        print(figures.report())
        print(f"{left} workloads are still to be predicted: once more" if left else "all workloads")
        return
    from .measuring import draw, prepare, slot

    if given.verb == "draw":
        for case in cases:
            draw(device, case, given.count, given.kept)
    elif given.verb == "prepare":
        for case in cases:
            prepare(device, case, given.work, given.count)
    else:
        with awake() if given.awake else contextlib.nullcontext():
            print(f"{slot(device, cases, given.work, given.seconds)} mappings are still to be timed")


main()
