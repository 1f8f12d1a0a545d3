"""``python -m benchmarks.replay measure|judge``: how good the search of ``ff.tune`` is, on a space whose every configuration was measured.

``measure`` times all mappings of a small product that differ in the decisions of :data:`KINDS`, in batches with the fastest so far among
them, and appends them to ``benchmarks/replay_data/NAME.jsonl``; it goes on where it stopped. ``judge`` replays the table for each seed: our
search with and without the model, random search, and Optuna's TPE if it can be imported; what counts is the best time after so many
measurements, over the best of all.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import feinsum_fuse as ff
from feinsum_fuse.device.calibration.device_file import known_device
from feinsum_fuse.device.catalogue import find_device, target
from feinsum_fuse.device.checking.example import example
from feinsum_fuse.device.timing.measuring_process import MeasuringProcesses
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.errors import Error
from feinsum_fuse.formats.reading.load import load
from feinsum_fuse.formats.writing.presentation import table
from feinsum_fuse.mappings.choices import Choice, sweep
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.helpers import Helpers
from feinsum_fuse.tuning.measuring import Measuring
from feinsum_fuse.tuning.preparation import Prepared, predict_seconds, prepare
from feinsum_fuse.tuning.search import Search
from feinsum_fuse.tuning.space import Space

T = TypeVar("T")
DATA = Path(__file__).parent / "replay_data"
KINDS = ("lane", "vectors", "down", "copied", "accumulator")
SIZES = {"M": 192, "N": 160, "K": 224}
BATCH = 12
CLOSE = 1.05
"""What counts as found: within 5 % of the best of all."""
SEEDS = 20
MEASUREMENTS = (10, 20, 30, 50)


def space_of(name: str) -> Space:
    """The space of the table of this name: on the device file beside it, which stays what it was when the table was measured."""
    device = load(DATA / f"{name}.yaml")
    assert device.arch is not None and device.opencl is not None
    cascade = ff.cascade(["Z[m, n] = A[m, k] * B[k, n]"], sizes=SIZES)
    return Space(cascade, device.arch, device.opencl, target(find_device()), KINDS)


def every(space: Space) -> list[Candidate]:
    """All configurations, each tree once."""
    found: dict[Candidate, None] = {}
    for decisions in sweep(lambda chooser: space.made("", chooser, "swept"), set(KINDS)):
        found.setdefault(decisions)
    return list(found)


def measure(name: str, seconds: float) -> None:
    """Time what the table lacks, for so long."""
    DATA.mkdir(exist_ok=True)
    file, device = DATA / f"{name}.jsonl", find_device()
    if not (DATA / f"{name}.yaml").exists():
        from feinsum_fuse.device.calibration.device_file import default_file

        known_device(device)
        (DATA / f"{name}.yaml").write_text(default_file(device).read_text())
    space = space_of(name)
    end = time.monotonic() + seconds
    done = set(read(file))
    missing = [candidate for candidate in every(space) if candidate.tree not in done]
    Random(0).shuffle(missing)
    print(f"{len(done)} measured, {len(missing)} missing", flush=True)
    cascade = space.families[""].cascade
    with Helpers(2) as helpers, MeasuringProcesses(device, example(cascade), 2) as processes, file.open("a") as out:
        measuring = Measuring(processes)
        for start in range(0, len(missing), BATCH):
            if time.monotonic() > end:
                break
            batch = missing[start : start + BATCH]
            futures = [helpers.submit(prepare, candidate.spec, target(device)) for candidate in batch]
            ready = []
            for candidate, future in zip(batch, futures, strict=True):
                result = future.result(120)
                if isinstance(result, Prepared):
                    ready.append((candidate, cascade, result))
                else:
                    out.write(json.dumps({"tree": candidate.tree, "seconds": None, "why": "rejected"}) + "\n")
            for one in measuring.batch(ready, lambda one: None):
                fine = one.verdict.outcome is Outcome.ok
                why = "" if fine else str(one.verdict.outcome)
                out.write(json.dumps({"tree": one.candidate.tree, "seconds": one.seconds if fine else None, "why": why}) + "\n")
            out.flush()
    print(f"{len(read(file))} measured", flush=True)


def read(file: Path) -> dict[str, float | None]:
    """Tree -> seconds, of those that were measured."""
    if not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return {row["tree"]: row["seconds"] for row in rows}


def ours(space: Space, times: Mapping[str, float | None], seed: int, count: int, model: Mapping[str, float | None] | None) -> list[float]:
    """Seconds in the order in which our search measures them, infinite for failures."""
    estimates = None if model is None else (lambda candidates: [model.get(candidate.tree) for candidate in candidates])
    search = Search(_Within(space, times), seed, [c for c in space.defaults()[:1] if c.tree in times], estimates)  # type: ignore[arg-type]
    found: list[float] = []
    while len(found) < count and (asked := search.ask(6)):
        for candidate in asked:
            search.tell(candidate, times[candidate.tree])
            found.append(times[candidate.tree] or math.inf)
    return found[:count]


class _Within:
    """The space, without what the table has no time for."""

    def __init__(self, space: Space, times: Mapping[str, float | None]) -> None:
        self._space, self._times = space, times

    def __getattr__(self, name: str) -> Callable[..., Candidate]:
        make = getattr(self._space, name)

        def call(*arguments: object) -> Candidate:
            made: Candidate = make(*arguments)
            if made.tree not in self._times:
                raise Error("not in the table")
            return made

        return call


def by_chance(times: Mapping[str, float | None], seed: int, count: int) -> list[float]:
    """Seconds in a random order."""
    known = list(times.values())
    return [seconds or math.inf for seconds in Random(seed).sample(known, min(count, len(known)))]


def by_tpe(space: Space, times: Mapping[str, float | None], seed: int, count: int) -> list[float]:
    """Seconds in the order of Optuna's TPE, told of the decisions as categories; what it asks again is not counted again."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, warn_independent_sampling=False)
    study = optuna.create_study(sampler=sampler)
    found: dict[str, float] = {}
    worst = 4 * max(seconds for seconds in times.values() if seconds is not None)
    for _ in range(6 * count):
        if len(found) >= count:
            break
        trial = study.ask()
        made = space.made("", _Suggested(trial), "tpe")
        if made.tree not in times:
            study.tell(trial, worst)
            continue
        seconds = times[made.tree]
        study.tell(trial, math.log(seconds or worst))
        found.setdefault(made.tree, seconds or math.inf)
    return list(found.values())[:count]


class _Suggested:
    """Takes decisions as a trial of Optuna suggests."""

    def __init__(self, trial: object) -> None:
        self._trial = trial

    def choose(self, choice: Choice[T]) -> T:
        if len(choice.options) == 1:
            return choice.usual
        name = f"{choice.name} of {len(choice.options)}"
        number = self._trial.suggest_categorical(name, list(range(len(choice.options))))  # type: ignore[attr-defined]
        return choice.options[number]


def judge(name: str) -> str:
    """A table of searchers, and after how many measurements each is close to the best."""
    space, times = space_of(name), read(DATA / f"{name}.jsonl")
    known = [seconds for seconds in times.values() if seconds is not None]
    best, count = min(known), max(MEASUREMENTS)
    candidates = [candidate for candidate in every(space) if candidate.tree in times]
    device = target(find_device())
    model = {candidate.tree: predict_seconds(candidate.spec, device) for candidate in candidates}
    searchers: dict[str, Callable[[int], list[float]]] = {
        "ours, with the model": lambda seed: ours(space, times, seed, count, model),
        "ours, without it": lambda seed: ours(space, times, seed, count, None),
        "random": lambda seed: by_chance(times, seed, count),
    }
    try:
        import optuna  # noqa: F401

        searchers["Optuna's TPE"] = lambda seed: by_tpe(space, times, seed, count)
    except ImportError:
        pass
    runs = {label: [searcher(seed) for seed in range(SEEDS)] for label, searcher in searchers.items()}
    share = sum(seconds <= CLOSE * best for seconds in known) / len(times)
    lines = [f"{len(times)} of {len(every(space))} configurations measured, {len(known)} run; {share:.1%} within 5 % of the best", ""]
    rows = [[label, *_row(found, best)] for label, found in runs.items()]
    lines.append(table(["", *(f"after {n}" for n in MEASUREMENTS), "until within 5 %"], rows, numbers=len(MEASUREMENTS) + 1))
    if "Optuna's TPE" in runs:
        pairs = zip(runs["ours, with the model"], runs["Optuna's TPE"], strict=True)
        lines += ["", f"ahead of TPE after {count}: {sum(min(a) < min(b) for a, b in pairs)} of {SEEDS} seeds, others equal or behind"]
    return "\n".join(lines)


def _row(found: Sequence[Sequence[float]], best: float) -> list[str]:
    """Medians over the seeds: the best so far over the best of all, and how many measurements that takes to be close."""
    cells = [f"{statistics.median(min(run[:n]) for run in found) / best:.3f}" for n in MEASUREMENTS]
    until = [next((k + 1 for k, seconds in enumerate(run) if seconds <= CLOSE * best), math.inf) for run in found]
    middle = statistics.median(until)
    return [*cells, f"{middle:g}" if math.isfinite(middle) else "never"]


def main() -> None:
    """One stage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__)
    parser.add_argument("stage", choices=("measure", "judge"))
    parser.add_argument("--name", default="product_192x160x224")
    parser.add_argument("--seconds", type=float, default=100.0, help="of measuring")
    options = parser.parse_args()
    if options.stage == "measure":
        measure(options.name, options.seconds)
    else:
        print(judge(options.name))


if __name__ == "__main__":
    main()
