"""``python -m benchmarks.suite tune|time|report``: what ``ff.tune`` reaches beside NumPy, PyTorch and XLA.

``tune`` searches each case from nothing (an empty archive, no recorded facts), writes what it found, and skips cases that it has; ``time``
takes the programs and their peers in turns in one process, once more with ``--again``; ``report`` prints what was written, medians of the
times taken. ``--seed`` draws the sizes. Results lie in ``benchmarks/suite_data/DEVICE/SEED``, one JSON file for each case. Peers are those
that can be imported.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import feinsum_fuse as ff
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.reading.reader import cascade as cascade_of_spec
from feinsum_fuse.cascades.rewriting.rewriting import rewritings_to_json
from feinsum_fuse.device.calibration.device_file import known_device
from feinsum_fuse.device.catalogue import DeviceInfo, find_device, target
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.program.building import build, lowered
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.harness import HostFunction, measure_together
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.lowering.lowering import lower
from feinsum_fuse.lowering.starting_point import unscheduled
from feinsum_fuse.mappings.default_mapping import default_space
from feinsum_fuse.mappings.forms.joined_axes import with_joined_axes
from feinsum_fuse.model.kernel.kernel_time import nest_time, waking_seconds
from feinsum_fuse.model.kernel.machine import Machine
from feinsum_fuse.model.processor import starting_seconds
from feinsum_fuse.presentation import table, yaml
from feinsum_fuse.tuning.model_choice import model_choice
from feinsum_fuse.tuning.space import Space
from feinsum_fuse.tuning.task import floor_of
from feinsum_fuse.tuning.tuned import Tried, Tuned

from .cases import CASES, Case

DATA = Path(__file__).resolve().parents[1] / "suite_data"
COUNTS = (20, 60, 200)
"""Measurements after which a long search is looked at."""
OURS = ("default", "model's choice", "tuned", "tuned, NumPy arrays")
FLOOR, STARTED, LOSSY = "floor", "floor and start", "floor, lossy cache"
"""The calibrated one; with what starting a kernel takes; with what the last cache was found to lose between runs, and a start."""


def cascade_of(case: Case, seed: int) -> Cascade:
    """The case at its sizes."""
    sizes = case.sizes(seed)
    return ff.cascade(case.einsums(sizes), sizes=sizes)


def tuned_case(case: Case, seed: int, device: cl.Device, seconds: float, measurements: int) -> dict[str, Any]:
    """What a search from nothing finds, and the model's choice."""
    cascade = with_joined_axes(cascade_of(case, seed), target(device))
    start = time.monotonic()
    choice = model_choice(cascade, device, 1.0, seed)
    chosen = time.monotonic() - start
    with tempfile.TemporaryDirectory() as folder:
        found = ff.tune(
            cascade, device, seconds=seconds, measurements=measurements, seed=seed, url=str(Path(folder) / "facts.sqlite3"), known=False
        )
    return {
        "case": case.name,
        "seed": seed,
        "sizes": case.sizes(seed),
        "device": str(DeviceInfo.of(device)),
        "model_choice": {"mapping": _yaml(choice.spec), "variant": choice.variant, "seconds": chosen},
        "tuned": _found(found, device),
    }


def _found(found: Tuned, device: cl.Device) -> dict[str, Any]:
    failed = [str(tried.outcome) for tried in found.history if tried.measured is None]
    return {
        "mapping": _yaml(found.spec) if found.spec is not None else None,
        "rewritings": json.loads(rewritings_to_json(found.program.cascade.rewritings)),
        "median_s": found.measurement.median,
        "default_s": found.default.median,
        "floor_s": found.floor,
        "seconds": found.seconds,
        "measured": found.measured,
        "failed": {kind: failed.count(kind) for kind in sorted(set(failed))},
        "bound": bound_of(found.spec, device) if found.spec is not None and found.spec.mapping is not None else {},
        "history": [_tried(tried) for tried in found.history],
    }


def _tried(tried: Tried) -> dict[str, Any]:
    """One candidate of a search: times in seconds."""
    one = {"from": tried.origin, "variant": tried.variant, "predicted_s": tried.predicted, "measured_s": tried.measured}
    return one if tried.measured is not None else {**one, "outcome": str(tried.outcome)}


def bound_of(spec: Spec, device: cl.Device) -> dict[str, float]:
    """What the kernel model says that a mapping's time is: Einsum and what its blocks wait for -> part of the time; launches, too."""
    machine = Machine.of(spec)
    if machine is None:
        return {}
    time = nest_time(lower(spec, target=target(device)).nest(unscheduled(spec).kernel), machine)
    found: dict[str, float] = {"launches": time.launches / time.seconds}
    for part in time.parts:
        name = f"{part.einsum} {part.bound}"
        found[name] = found.get(name, 0.0) + part.seconds / time.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def start_of(device: cl.Device, seconds: float) -> float:
    """Seconds that one kernel with a group for each core needs besides so many seconds of work: its start, and the other cores' waking.

    By the device's calibration; 0 for a device whose starts it does not know.
    """
    machine = Machine.of(known_device(device))
    if machine is None:
        return 0.0
    waking = waking_seconds(machine, machine.cores, seconds)
    return waking + starting_seconds(machine.arch, 1, machine.cores, seconds + waking)


def floors(cascade: Cascade, device: cl.Device) -> tuple[float, float]:
    """The floor under all rewritings of the cascade, by the device's calibration; and with what its cache loses between runs."""
    arch = known_device(device)
    assert arch.arch is not None and arch.opencl is not None  # a device's file has both
    families = Space(cascade, arch.arch, arch.opencl, target(device)).families.values()
    floor, lossy = (min(floor_of(family.spec, lossy=is_lossy) for family in families) for is_lossy in (False, True))
    return floor, lossy


def _yaml(spec: Spec) -> str:
    return yaml(spec.replace(arch=None))


def timed_case(case: Case, data: Mapping[str, Any], device: cl.Device, repeats: int | None) -> dict[str, Any]:
    """Seconds of each, in turns, arrays on the device for ours but where it says otherwise; medians and interquartile ranges.

    Programs of one text are one program: timed beside itself it would be up to 9 % faster or slower, by where its arrays lie.
    """
    cascade = cascade_of(case, data["seed"])
    inputs = dict(example(cascade).inputs)
    programs = {"default": _default(with_joined_axes(cascade, target(device)), device)}
    programs["model's choice"] = ff.compile(ff.loads(data["model_choice"]["mapping"]), device)
    programs["tuned"] = ff.compile(ff.loads(data["tuned"]["mapping"]), device)
    tuned = programs["tuned"]
    held = {name: array.reshape(tuned.input_shapes[name]) for name, array in inputs.items()}  # a mapping on file may be of joined axes
    hosts: dict[str, Callable[[], object]] = {"tuned, NumPy arrays": lambda: tuned(held), **peers(case, inputs)}
    for call in hosts.values():
        call()
    texts = {name: program.executable.source_hash for name, program in programs.items()}
    distinct = {texts[name]: program for name, program in programs.items()}
    items = [*distinct.values(), *(HostFunction(name, call) for name, call in hosts.items())]
    found = measure_together(items, device=device, labels=[*distinct, *hosts], repeats=repeats)
    one = {m.label: {"median_s": m.median, "spread_s": m.spread, "minimum_s": m.minimum} for m in found}
    times = {name: one[text] for name, text in texts.items()} | {name: one[name] for name in hosts}
    floor, lossy = floors(cascade, device)
    taken: dict[str, Any] = {"times": times, "interference": max(m.interference or 0.0 for m in found), "load": os.getloadavg()[0]}
    taken |= {"floor_s": floor, "lossy_floor_s": lossy}
    earlier = [*data.get("earlier", []), {name: data[name] for name in taken if name in data}] if "times" in data else []
    return taken | {"earlier": earlier, "start_s": start_of(device, floor)}


def _default(cascade: Cascade, device: cl.Device) -> Program:
    """What ``ff.compile`` takes."""
    mapped, schedule = lowered(default_space(cascade), device)
    return build(cascade_of_spec(mapped), schedule, device, spec=mapped)


def peers(case: Case, inputs: Mapping[str, np.ndarray], wanted: Collection[str] = ()) -> dict[str, Callable[[], object]]:
    """The same computation by each library that is there, or by those that are wanted, on its own arrays; each was called once."""
    arrays = [inputs[name] for name in case.inputs]
    found: dict[str, Callable[[], object]] = {"NumPy": lambda: case.function(np, *arrays)}
    threads = len(os.sched_getaffinity(0))
    try:
        import torch

        torch.set_num_threads(threads)
        tensors = [torch.from_numpy(np.array(array)) for array in arrays]

        def eager() -> object:
            with torch.inference_mode():
                return case.function(torch, *tensors)

        found["PyTorch"] = eager
        if hasattr(torch, "compile"):
            torch._dynamo.reset()  # it compiles one function for eight cases, and then takes the next as it is
            compiled = torch.compile(lambda *given: case.function(torch, *given))

            def inductor() -> object:
                with torch.inference_mode():
                    return compiled(*tensors)

            found["torch.compile"] = inductor
    except ImportError:
        pass
    try:
        import jax
        import jax.numpy as jnp

        given = [jnp.asarray(array) for array in arrays]
        jitted = jax.jit(lambda *given: case.function(jnp, *given))
        found["jax.jit"] = lambda: jax.block_until_ready(jitted(*given))
    except ImportError:
        pass
    return {name: call for name, call in found.items() if (not wanted or name in wanted) and _works(name, call)}


def _works(name: str, call: Callable[[], object]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except Exception as error:  # a peer that cannot do it is left out, and said to be
        print(f"  {name} is left out: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
        return False
    return True


def each_run(data: Mapping[str, Any]) -> list[dict[str, float]]:
    """Of each time that a case was timed: ours to the best peer, how many times as fast; and the tuned program's part of the floor's rate,
    without and with what starting a kernel takes.
    """
    found = []
    for run in (*data.get("earlier", []), data):
        floor = run.get("floor_s", data["tuned"]["floor_s"])  # by the calibration of its day
        times = {name: entry["median_s"] for name, entry in run["times"].items()}
        best = min(seconds for name, seconds in times.items() if name not in OURS)
        parts = {FLOOR: floor / times["tuned"]}
        if "start_s" in data:
            parts[STARTED] = (floor + data["start_s"]) / times["tuned"]
        if "lossy_floor_s" in run:
            parts[LOSSY] = (run["lossy_floor_s"] + data["start_s"]) / times["tuned"]
        found.append({name: best / times[name] for name in OURS if name in times} | parts)
    return found


def ratios(data: Mapping[str, Any]) -> dict[str, float]:
    """The medians of these, of the runs that have each."""
    runs = each_run(data)
    return {name: statistics.median(run[name] for run in runs if name in run) for name in dict.fromkeys(itertools.chain(*runs))}


def report(folder: Path) -> str:
    """All cases that were timed, and geometric means."""
    known = {case: json.loads(file.read_text()) for case in CASES if (file := folder / f"{case.name}.json").exists()}
    timed = {case: data for case, data in known.items() if "times" in data}
    ratio_names = ["default", "model", "tuned", "NumPy arrays", FLOOR, STARTED, "lossy"]
    head = ["case", "sizes", "best peer", "tuned", "spread", *ratio_names, "goal", "runs", "measured", "others", "bound by (model)"]
    remark = "lossy: the floor, a start, and what the last cache lost between runs when the device was calibrated\n"
    remark += "others: what other processes had of the processors meanwhile; above a tenth no ratio is a figure"
    lines = [table(head, [_row(case, data) for case, data in timed.items()], numbers=13), "", remark]
    if timed:
        lines.append("")
        count = min(len(each_run(data)) for data in timed.values())
        for name in (*OURS, FLOOR, STARTED, LOSSY):
            if any(name not in ratios(data) for data in timed.values()):
                continue  # timed before there was such a figure
            mean = statistics.geometric_mean(ratios(data)[name] for data in timed.values())
            together = [[each_run(data)[run] for data in timed.values()] for run in range(count)]
            each = [statistics.geometric_mean(one[name] for one in runs) for runs in together if all(name in one for one in runs)]
            parts = f" ({', '.join(f'{one:.3f}' for one in each)})" if len(each) > 1 else ""
            lines.append(f"{name}: {mean:.3f} in the geometric mean of {len(timed)} cases{parts}")
    return "\n".join(lines)


def _row(case: Case, data: Mapping[str, Any]) -> list[str]:
    """Of a case that was timed; peers and spread as they were the last time."""
    found = ratios(data)
    others = {name: entry["median_s"] for name, entry in data["times"].items() if name not in OURS}
    best = min(others, key=lambda name: others[name])
    seconds = statistics.median(run["times"]["tuned"]["median_s"] for run in (*data.get("earlier", []), data))
    spread = data["times"]["tuned"]["spread_s"] / data["times"]["tuned"]["median_s"]
    sizes = " ".join(f"{rank}{size}" for rank, size in data["sizes"].items())
    row = [case.name, sizes, f"{best} {others[best] * 1e3:.3g} ms", f"{seconds * 1e3:.3g} ms", f"{spread:.0%}"]
    bound = " + ".join(f"{name} {part:.0%}" for name, part in list(data["tuned"].get("bound", {}).items())[:2])
    runs = " ".join(f"{run['tuned']:.2f}" for run in each_run(data))
    interference = max(run["interference"] for run in (*data.get("earlier", []), data))
    end = [f"{case.goal:g}", runs, str(data["tuned"]["measured"]), f"{interference:.0%}", bound]
    return [*row, *(f"{found[name]:.2f}" if name in found else "" for name in (*OURS, FLOOR, STARTED, LOSSY)), *end]


def learnt(folder: Path) -> str:
    """What the searches had found after so many measurements, of cases that took more than a search does by default: milliseconds."""
    rows = []
    for case in CASES:
        file = folder / f"{case.name}.json"
        tuned = json.loads(file.read_text())["tuned"] if file.exists() else {"measured": 0}
        if tuned["measured"] <= max(COUNTS[:-1]):
            continue
        # Candidates of one text are measured once and have one time.
        times = list(dict.fromkeys(tried["measured_s"] for tried in tuned["history"] if tried["measured_s"] is not None))
        found = [min(times[:count]) * 1e3 for count in COUNTS]
        row = [tuned["default_s"] * 1e3, *found, tuned["measured"], tuned["seconds"]]
        rows.append([case.name, *(f"{number:.3g}" for number in row)])
    return table(["case", "default", *(f"after {count}" for count in COUNTS), "measured", "seconds"], rows, numbers=6) if rows else ""


def folder_of(device: cl.Device, seed: int) -> Path:
    """Where results of a device lie."""
    return DATA / DeviceInfo.of(device).slug / str(seed)


def main() -> None:
    """Do one stage for the cases that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__)
    parser.add_argument("stage", choices=("tune", "time", "report"))
    parser.add_argument("names", nargs="*", help="cases; all of them by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=None)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--measurements", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=None, help="samples of each program and peer")
    parser.add_argument("--again", action="store_true", help="also the cases that are done")
    options = parser.parse_intermixed_args()
    device = find_device(options.device)
    folder = folder_of(device, options.seed)
    folder.mkdir(parents=True, exist_ok=True)
    if options.stage == "report":
        print("\n\n".join(part for part in (report(folder), learnt(folder)) if part))
        return
    for case in CASES:
        file = folder / f"{case.name}.json"
        if options.names and case.name not in options.names:
            continue
        data = json.loads(file.read_text()) if file.exists() else {}
        if (options.stage == "tune" and data and not options.again) or (options.stage == "time" and not data):
            continue
        if options.stage == "time" and "times" in data and not options.again:
            continue
        print(f"{case.name} ...", flush=True)
        try:
            if options.stage == "tune":
                data = tuned_case(case, options.seed, device, options.seconds, options.measurements)
            else:
                data |= timed_case(case, data, device, options.repeats)
        except ff.Error as error:
            print(f"  {type(error).__name__}: {error}", flush=True)
            continue
        file.write_text(json.dumps(data, indent=1) + "\n")
        tuned = data["tuned"]
        text = f"tuned {tuned['median_s'] * 1e3:.4g} ms, default {tuned['default_s'] * 1e3:.4g} ms, {tuned['measured']} measured"
        print(f"  {text} in {tuned['seconds']:.0f} s" if options.stage == "tune" else f"  {_line(ratios(data))}", flush=True)


def _line(found: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in found.items() if not math.isnan(value))


if __name__ == "__main__":
    main()
