"""``python -m benchmarks.ceiling time|mix|report|table [NAMES]``: kernels by hand beside our programs, class by class.

``time`` takes the kernels by hand, our default mapping and what the suite's search found (``benchmarks/suite_data``) in turns in one
process, as the suite does; the outputs by hand are compared with the reference. ``mix`` reads the inner loops from the binaries. Both write
``benchmarks/ceiling_data/DEVICE.json``, which ``report`` prints beside the best peer and the floor of the suite's data. Sizes are the
suite's of seed 9. ``table`` writes ``doc/ceiling.csv`` and, of other processors, ``ceiling_zen4.csv``, ``ceiling_zen3.csv``,
``ceiling_xeon.csv`` and ``ceiling_avx2.csv``, a Xeon that is told to have no AVX-512, under the model that it is told to be. ``check``
builds all and compares what is by hand, and times nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.codegen.executable import Argument, Executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.runtime.loaded_executable import Loaded, queue_of
from feinsum_fuse.device.timing.harness import BoundProgram
from feinsum_fuse.device.timing.machine_share import Interference
from feinsum_fuse.device.timing.resident import Resident
from feinsum_fuse.device.timing.timing import Timed, time_together
from feinsum_fuse.mappings.forms.joined_axes import with_joined_axes
from feinsum_fuse.presentation import table

from ..suite.__main__ import DATA as SUITE
from ..suite.__main__ import OURS
from .cases import CASES, SEED, Kernels, Vectors
from .mixes import inner_loop

HERE = Path(__file__).parent
DATA = HERE.parent / "ceiling_data"
HAND = "hand"
Known = dict[str, dict[str, Any]]
"""Case -> what is known of it."""


def hand_written(kernels: Kernels, program: Program) -> Executable:
    """The kernels of a case; inputs and outputs are called as the program's."""
    case = kernels.on(Vectors.of(target(program.device)))
    source = (HERE / "vectors.h").read_text() + (HERE / f"{kernels.source}.cl").read_text()
    given = tuple(Argument(a.name, a.dtype, a.shape, a.role) for a in program.executable.arguments if a.role != "temporary")
    options = ("-cl-mad-enable", *(f"-D{name}={value}" for name, value in case.defines.items()))
    return Executable(source, options, (*given, *case.scratch), case.launches)


def resident(executable: Executable, program: Program) -> Resident:
    """Kernels on the program's inputs, run once, after their result was compared with the program's reference."""
    queue = queue_of(program.device)
    found = Resident(Loaded(executable, queue.context), queue, program.example.inputs)
    found.run(1)
    outputs = found.outputs()
    for tensor, expected in program.example.expected.items():
        error = np.abs(outputs[tensor] - expected).max() / np.abs(expected).max()
        assert error <= 1e-4, f"{tensor} by hand is wrong by {error:.1e} of its largest number"
    return found


def ours(case: Kernels, device: cl.Device) -> dict[str, Program]:
    """The default mapping's program and the tuned one, of which the suite's data may have none."""
    programs = {"default": ff.compile(ff.spec(with_joined_axes(case.cascade(), target(device))), device)}
    known = suite_data(case, DeviceInfo.of(device).slug)
    if known:
        programs["tuned"] = ff.compile(ff.loads(known["tuned"]["mapping"]), device)
    return programs


def suite_data(case: Kernels, slug: str) -> dict[str, Any]:
    """What the suite found of a case on a device: its tuned mapping, its floor, the peers' times."""
    file = SUITE / slug / str(SEED) / f"{case.name}.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def timed(case: Kernels, device: cl.Device, repeats: int) -> dict[str, Any]:
    """Seconds of each: medians, and the spread of the middle half. Programs of one text are one program."""
    programs = ours(case, device)
    texts = {name: program.executable.source_hash for name, program in programs.items()}
    distinct = {texts[name]: program for name, program in programs.items()}
    subjects: list[Timed] = [resident(hand_written(case, programs["default"]), programs["default"])]
    subjects += [BoundProgram(program) for program in distinct.values()]
    watch = Interference()
    samples = dict(zip((HAND, *distinct), time_together(subjects, repeats=repeats), strict=True))
    one = {}
    for name, text in {HAND: HAND, **texts}.items():
        low, middle, high = statistics.quantiles(samples[text].host_ns, n=4)
        one[name] = {"median_s": middle * 1e-9, "spread_s": (high - low) * 1e-9}
    return {"times": one, "rate": [case.operations, case.unit], "interference": watch.share() or 0.0, "load": os.getloadavg()[0]}


def mixed(case: Kernels, device: cl.Device) -> dict[str, Any]:
    """The instructions of the inner loops."""
    programs = ours(case, device)
    texts = {HAND: hand_written(case, programs["default"]), **{name: program.executable for name, program in programs.items()}}
    return {"mixes": {name: inner_loop(one.source, one.options, device) for name, one in texts.items()}}


def checked(case: Kernels, device: cl.Device) -> dict[str, Any]:
    """Nothing, where the kernels by hand compute what the reference does."""
    program = ours(case, device)["default"]
    resident(hand_written(case, program), program)
    return {}


def row(case: Kernels, found: dict[str, Any], slug: str) -> list[str]:
    """Of a case that was timed: milliseconds, what ours reaches of the kernel by hand, and both of the floor's rate."""
    times = {name: entry["median_s"] for name, entry in found["times"].items()}
    best = min((name for name in times if name != HAND), key=lambda name: times[name])
    spread = max(found["times"][name]["spread_s"] / times[name] for name in (HAND, best))
    operations, unit = found["rate"]
    known = suite_data(case, slug)
    peers = {name: entry["median_s"] for name, entry in known.get("times", {}).items() if name not in OURS}
    peer = min(peers, key=lambda name: peers[name], default="")
    cells = [case.name, f"{peer} {peers[peer] * 1e3:.3f}" if peer else ""]
    cells += [f"{times[HAND] * 1e3:.3f}", f"{times[best] * 1e3:.3f}", f"{times['default'] * 1e3:.3f}", f"{spread:.0%}"]
    cells += [f"{operations / times[HAND] * 1e-9:.0f} {unit}", f"{times[HAND] / times[best]:.2f}"]
    if not known:
        return [*cells, "", "", "", ""]
    floor, start = known.get("floor_s", known["tuned"]["floor_s"]), known.get("start_s", 0.0)
    return cells + [f"{part / times[name]:.2f}" for part in (floor, floor + start) for name in (HAND, best)]


def report(known: Known, slug: str) -> str:
    """All cases that were timed; geometric means of the parts of the floor."""
    head = ["case", "best peer", "hand", "ours", "default", "spread", "by hand", "ours/hand", *("floor: hand", "ours") * 2]
    rows = [row(case, known[case.name], slug) for case in CASES if "times" in known.get(case.name, {})]
    means = [f"{statistics.geometric_mean(float(one[column]) for one in rows if one[column]):.2f}" for column in range(7, 12)]
    lines = [table(head, [*rows, ["geometric mean", *[""] * 6, *means]], numbers=10)]
    lines.append("ours: the faster of default and tuned; milliseconds; spread: of the middle half, the larger of hand's and ours")
    lines.append("floor: parts of the calibrated floor's rate, the second pair with what starting a kernel takes")
    busy = max((one["interference"] for one in known.values() if "interference" in one), default=0.0)
    lines.append(f"others used at most {busy:.0%} of the processors while a case was timed")
    for case in CASES:
        for name, mix in known.get(case.name, {}).get("mixes", {}).items():
            lines.append(f"{case.name:16} {name:8} {mix}")
    return "\n".join(lines)


TABLES = {
    "ceiling.csv": "family-26-model-2",
    "ceiling_zen4.csv": "family-25-model-17",
    "ceiling_zen3.csv": "family-25-model-1",
    "ceiling_xeon.csv": "family-6-model-167",
    "ceiling_avx2.csv": "family-6-model-63",
}
"""File -> the processor that it shows."""


def write_table(file: str) -> None:
    """Of each runtime on a processor milliseconds by hand and ours, ours to the hand, and the parts of the floor."""
    of_processor = sorted(DATA.glob(f"*-{TABLES[file]}.json"), reverse=True)
    devices = {one.stem: json.loads(one.read_text()) for one in of_processor}
    head = ["work"]
    for slug in devices:
        name = "Intel" if slug.startswith("intel") else "PoCL"
        head += [f"{name} by hand", "ours", "to the hand", "of the floor: hand", "ours"]
    with (HERE.parents[1] / "doc" / file).open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(head)
        for case in CASES:
            if all("times" in known.get(case.name, {}) for known in devices.values()):
                rows = [row(case, known[case.name], slug) for slug, known in devices.items()]
                writer.writerow([case.name.replace("_", " "), *(one[column] for one in rows for column in (2, 3, 7, 8, 9))])


STAGES: dict[str, Callable[..., dict[str, Any]]] = {"time": timed, "mix": mixed, "check": checked}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ceiling", description=__doc__)
    parser.add_argument("stage", choices=(*STAGES, "report", "table"))
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument("--device", default=None)
    parser.add_argument("--repeats", type=int, default=15, help="samples of each")
    given = parser.parse_intermixed_args()
    if given.stage == "table":
        for name in TABLES:
            write_table(name)
        return
    device = find_device(given.device)
    file = DATA / f"{DeviceInfo.of(device).slug}.json"
    known: Known = json.loads(file.read_text()) if file.exists() else {}
    if given.stage == "report":
        print(report(known, DeviceInfo.of(device).slug))
        return
    for case in CASES:
        if given.names and case.name not in given.names:
            continue
        try:
            found = timed(case, device, given.repeats) if given.stage == "time" else STAGES[given.stage](case, device)
        except (ff.Error, AssertionError, cl.Error) as error:
            print(f"{case.name:16} {type(error).__name__}: {error}", flush=True)
            continue
        times = " ".join(f"{name} {one['median_s'] * 1e3:.3f}" for name, one in found.get("times", {}).items())
        print(f"{case.name:16}", times, flush=True)
        if found:
            known[case.name] = known.get(case.name, {}) | found
            DATA.mkdir(exist_ok=True)
            file.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
