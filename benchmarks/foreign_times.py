"""How far predictions of kernels that nobody made with us are from their times: ``python -m benchmarks.foreign_times VERB``.

The kernels of :mod:`~benchmarks.foreign_cases`, as they are written and as people schedule them, are raised onto a calibrated processor and
predicted. Beside that stands the time of the kernel itself, loopy's own OpenCL C of it, and that of what the raised tree lowers to.

- ``prepare --work FOLDER``: generate, build and verify both in child processes; what fails is printed with its reason.
- ``slot --work FOLDER --seconds 50``: time in turns, for so many seconds, what has no times yet.
- ``predict``: predict what was timed.
- ``report``: tables of errors, one of them by schedule and one by kernel.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import loopy as lp
import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of
from feinsum_fuse.codegen.executable import Executable
from feinsum_fuse.codegen.generation import Generated
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.program.building import build, lowered
from feinsum_fuse.device.runtime.isolation import run_isolated
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from feinsum_fuse.device.timing.timing import time_together
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.kernel.interval import interval, kind_of
from feinsum_fuse.model.kernel.kernel_time import kernel_time
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.presentation import table
from feinsum_fuse.report.agreement import spearman

from .fidelity.cases import Device
from .fidelity.measuring import Runnable, noise, once, seconds
from .foreign_cases import CASES, SCHEDULES, Case

DATA = Path(__file__).with_name("foreign_data") / "times.json"
DEVICES = ("epyc_zen4.5", "epyc_zen4_intel.4")
"""Calibrations of the day: PoCL, then Intel's runtime."""
EACH_S, LEAST, MOST = 0.2, 7, 20
"""Seconds of one program's samples, and how many these are."""
AUTHOR, OURS = "author", "ours"
SMALLER = {
    "product": {512: 256},
    "product_double": {500: 250, 400: 200, 300: 150},
    "product_transposed": {384: 240},
    "scaled_product": {500: 250, 400: 200, 300: 150},
    "gram": {700: 350, 300: 150},
    "two_products": {400: 300},
    "gradient": {8000: 4000},
    "divergence": {8000: 4000},
    "three_modes": {96: 64},
    "four_modes": {24: 16, 20: 12},
    "mttkrp": {160: 80},
}
"""Lengths of kernels that would take more than 20 ms."""


def case_of(name: str) -> Case:
    """A kernel at lengths at which it takes some milliseconds."""
    return CASES[name].resized(SMALLER.get(name, {}))


def scheduled(name: str, schedules: Sequence[str]) -> Iterator[tuple[str, lp.TranslationUnit]]:
    """What is done to the kernel, and the kernel after it."""
    for schedule in schedules:
        if (kernel := SCHEDULES[schedule](case_of(name).kernel())) is not None:
            yield schedule, kernel


def calibrated(name: str) -> Spec:
    """The device's calibration, without a workload."""
    return ff.loads(Device(name).text)


def as_loopy_writes_it(kernel: lp.TranslationUnit, outputs: Sequence[str]) -> Executable:
    """The kernel in loopy's own OpenCL C, built as its executor builds it."""
    linear = lp.linearize(lp.preprocess_program(kernel.copy(target=lp.PyOpenCLTarget())))
    return Generated(linear, lp.generate_code_v2(linear).device_code(), ()).at({}, outputs)


def verified(kernel: lp.TranslationUnit, spec: Spec, device: cl.Device) -> dict[str, Executable]:
    """The author's program and ours, each compared with the reference in a child process; raises what says why not."""
    mapped, schedule = lowered(spec, device)
    ours = build(cascade_of(mapped), schedule, device, spec=mapped)
    author = as_loopy_writes_it(kernel, ours.cascade.outputs)
    judge = partial(ours.example.judged, tolerance=ours.cascade.tolerance())
    found = run_isolated(author, ours.example.inputs, device, judge=judge)
    if found.outcome is not Outcome.ok:
        raise KernelError(found.outcome, found.stage, found.message, author)
    return {AUTHOR: author, OURS: ours.executable}


def prepare(name: str, work: Path, only: Sequence[str], schedules: Sequence[str]) -> None:
    """Write verified programs of all kernels that are not there yet."""
    device, onto = find_device(Device(name).opencl_device), calibrated(name)
    for case in only:
        for schedule, kernel in scheduled(case, schedules):
            file = work / name / case / f"{schedule}.json"
            if file.exists():
                continue
            try:
                found = verified(kernel, ff.raise_mapping(kernel, onto), device)
            except (KernelError, ff.Error) as error:
                print(f"{name} {case} {schedule}: {error}", flush=True)
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({who: one.to_json() for who, one in found.items()}))


def known() -> dict[str, Any]:
    """Device -> kernel -> schedule -> what was timed and predicted; PoCL first."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    return {name: data[name] for name in dict.fromkeys((*DEVICES, *data)) if name in data}


def keep(data: dict[str, Any]) -> None:
    """Write it all."""
    DATA.write_text(json.dumps(data, indent=1) + "\n")


def slot(name: str, work: Path, limit: float, only: Sequence[str]) -> None:
    """Time kernels that have no times, all programs of one in turns, until this many seconds have passed."""
    device, end = find_device(Device(name).opencl_device), time.monotonic() + limit
    for case in only:
        data = known()
        files = [file for file in sorted((work / name / case).glob("*.json")) if file.stem not in data.get(name, {}).get(case, {})]
        if not files:
            continue
        if time.monotonic() > end:
            break
        texts = {(file.stem, who): text for file in files for who, text in json.loads(file.read_text()).items()}
        loaded = {key: Runnable(text, device) for key, text in texts.items()}
        repeats = max(LEAST, min(MOST, round(EACH_S / statistics.median(once(one) for one in loaded.values()))))
        samples = time_together(list(loaded.values()), repeats=repeats)
        rows: dict[str, Any] = data.setdefault(name, {}).setdefault(case, {})
        for (schedule, who), one in zip(loaded, samples, strict=True):
            taken = [ns * 1e-9 for ns in one.host_ns]
            rows.setdefault(schedule, {})[who] = {"seconds": float(f"{seconds(taken):.4g}"), "noise": round(noise(taken), 3)}
        keep(data)


def predict(name: str, only: Sequence[str]) -> None:
    """Predict the kernels that were timed."""
    onto, data = calibrated(name), known()
    for case in only:
        for schedule, kernel in scheduled(case, list(SCHEDULES)):
            if (row := data.get(name, {}).get(case, {}).get(schedule)) is not None:
                spec = ff.raise_mapping(kernel, onto)
                machine = Machine.of(spec)
                assert machine is not None
                found = kernel_time(spec, machine)
                within = [round(found.seconds * end, 9) for end in interval(found, machine)]
                row["predicted"] = {"seconds": float(f"{found.seconds:.4g}"), "interval": within, "kind": kind_of(found, machine)}
    keep(data)


Row = tuple[str, str, dict[str, Any]]
"""Kernel, schedule and what was timed and predicted."""


def rows_of(data: dict[str, Any], name: str) -> list[Row]:
    """All of a device that are predicted."""
    return [(case, schedule, row) for case, rows in data.get(name, {}).items() for schedule, row in rows.items() if "predicted" in row]


def error(row: dict[str, Any]) -> float:
    """Of the prediction: how far it is from the author's time."""
    return float(row["predicted"]["seconds"] / row[AUTHOR]["seconds"] - 1)


def is_inside(row: dict[str, Any]) -> bool:
    """Whether the interval holds the time, which is known as well as its runs agree."""
    low, high = row["predicted"]["interval"]
    return bool(low <= row[AUTHOR]["seconds"] and row[AUTHOR]["seconds"] / (1 + row[AUTHOR]["noise"]) <= high)


def figures(rows: Sequence[Row]) -> tuple[str, ...]:
    """Of some kernels: how many, mean and median error, bias, those within twice, inside the interval; the tree's own kernel beside it."""
    errors = [error(row) for _, _, row in rows]
    ratios = [row["predicted"]["seconds"] / row[AUTHOR]["seconds"] for _, _, row in rows]
    own = [row["predicted"]["seconds"] / row[OURS]["seconds"] - 1 for _, _, row in rows]
    shares = (sum(0.5 <= ratio <= 2 for ratio in ratios), sum(is_inside(row) for _, _, row in rows))
    return (
        str(len(rows)),
        f"{statistics.median(row[AUTHOR]['noise'] for _, _, row in rows):.0%}",
        f"{statistics.fmean(map(abs, errors)):.0%}",
        f"{statistics.median(map(abs, errors)):.0%}",
        f"{math.exp(statistics.fmean(map(math.log, ratios))):.2f}",
        *(f"{share / len(rows):.0%}" for share in shares),
        f"{statistics.median(map(abs, own)):.0%}",
    )


HEAD = ("kernels", "noise", "mean error", "median error", "predicted / measured", "within twice", "inside", "median error of ours")
"""``predicted / measured`` is the geometric mean; ``ours`` is what the raised tree lowers to, timed itself."""


def by_schedule(data: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Runtime, schedule and figures; all of a runtime last."""
    for name in data:
        rows = rows_of(data, name)
        for schedule in SCHEDULES:
            if some := [row for row in rows if row[1] == schedule]:
                yield Device(name).processor, schedule, *figures(some)
        yield Device(name).processor, "all", *figures(rows)


def orders(data: dict[str, Any], name: str) -> dict[str, float]:
    """Kernel -> how alike the predicted and the measured order of its schedules are, where there are four or more."""
    found = {}
    for case in data.get(name, {}):
        rows = [row for one, _, row in rows_of(data, name) if one == case]
        if len(rows) > 3:
            predicted, measured = ([row[who]["seconds"] for row in rows] for who in ("predicted", AUTHOR))
            found[case] = spearman(predicted, measured)
    return found


def report(data: dict[str, Any]) -> str:
    """Every kernel, then the figures by schedule, and orders."""
    lines = []
    for name in data:
        for case, schedule, row in rows_of(data, name):
            told = [f"{1e3 * row[who]['seconds']:.3g}" for who in (AUTHOR, OURS, "predicted")]
            ratios = [f"{row['predicted']['seconds'] / row[who]['seconds']:.2f}" for who in (AUTHOR, OURS)]
            lines.append((Device(name).processor, case, schedule, *told, *ratios, row["predicted"]["kind"]))
    parts = [table(("runtime", "kernel", "schedule", "author, ms", "ours", "predicted", "/ author", "/ ours", "kind"), lines)]
    parts.append(table(("runtime", "schedule", *HEAD), list(by_schedule(data)), numbers=8))
    for name in data:
        if found := orders(data, name):
            median = statistics.median(found.values())
            parts.append(f"{Device(name).processor}: Spearman of a kernel's schedules {median:.2f}, the median of {len(found)}")
    return "\n\n".join(parts)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["prepare", "slot", "predict", "report"])
    parser.add_argument("--device", nargs="+", default=list(DEVICES), help="folders of benchmarks/fidelity/data")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--schedules", nargs="+", choices=SCHEDULES, default=list(SCHEDULES))
    parser.add_argument("--work", type=Path, default=Path("foreign_times"), help="where programs are written")
    parser.add_argument("--seconds", type=float, default=50.0)
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    verbs: dict[str, Callable[[str], None]] = {
        "prepare": lambda name: prepare(name, given.work, given.only, given.schedules),
        "slot": lambda name: slot(name, given.work, given.seconds, given.only),
        "predict": lambda name: predict(name, given.only),
    }
    if given.verb in verbs:
        for name in given.device:
            verbs[given.verb](name)
    else:
        print(report(known()))


if __name__ == "__main__":
    main()
