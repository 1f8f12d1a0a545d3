"""``run``: the main job, for one mapping or several side by side."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from .console import emit, emit_json, fail, progress
from .inputs import specs
from .options import (
    DeviceOption,
    DtypeOption,
    FilesArgument,
    IncludeDirOption,
    JsonOption,
    ReferenceOption,
    SetOption,
    UrlOption,
    dtypes,
    variables,
)

if TYPE_CHECKING:
    from ..report.trial import Trial, Trials


def command(
    files: FilesArgument,
    set_: SetOption = None,
    include_dir: IncludeDirOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the device now (some 5 s) for the prediction, where FILES have no arch.")
    ] = False,
    cold: Annotated[bool, typer.Option("--cold", help="Empty the caches before each sample.")] = False,
    repeats: Annotated[int | None, typer.Option("--repeats", metavar="N", min=1, help="Samples of each. Default: 7 to 50 in 2 s.")] = None,
    record: Annotated[bool, typer.Option("--record/--no-record", help="Remember what was measured.")] = True,
    reference_bytes: ReferenceOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lower, verify, measure, predict and record, and print them side by side, with NumPy's own time.

    If several of FILES have a mapping, each is a column: they are measured in turns, in one run. Without an arch in FILES, the
    prediction uses a device file: measured before (see `calibrate`), or now. Of an arch in FILES memories hold values of bits_per_value,
    whatever the types that ran. Of several mappings one that does not fit it is measured all the same, and the exit code is 1.
    Without a mapping, the default one runs, by the choice of `ff.compile`: a workload that it suits is rewritten first, and NumPy's time is
    that of the workload as it was given.
    """
    from ..device.catalogue import find_device
    from ..report.trial import run, side_by_side

    chosen = find_device(device)
    given, types = variables(set_), dtypes(dtype)
    inputs = specs(files, given, device=chosen, dtypes=types, measure_now=calibrate, include_dirs=include_dir)
    must = inputs.have_arch and all(spec.mapping is not None for spec in inputs.specs.values())
    trials = run(
        inputs.specs,
        chosen,
        written=inputs.written,
        repeats=repeats,
        cold=cold,
        url=url,
        recording=record,
        must_predict=must,
        reference_bytes=reference_bytes,
        progress=progress,
    )
    if as_json:
        emit_json(to_data(trials))
    elif len(trials.rejected) < len(trials.trials):
        emit(side_by_side(trials))
    for trial in (*trials.failed, *trials.rejected):
        fail(f"{trial.label}: {trial.measurement.outcome}: {trial.measurement.message}")
    troubled = tell_trouble(trials)
    unpredicted = [trial for trial in trials.trials if trial.note] if must else []
    for trial in unpredicted:
        fail(f"{trial.label}: no prediction: {trial.note}" if as_json else f"{trial.label}: measured, not predicted")
    if trials.failed or trials.rejected or troubled or unpredicted:
        raise typer.Exit(3 if trials.failed else 1)


def tell_trouble(trials: Trials) -> bool:
    """Say on stderr what failed after measuring; whether anything did."""
    found = [f"{trial.label}: {text}" for trial in trials.trials for text in trial.trouble]
    for text in found:
        fail(text)
    return bool(found)


def to_data(trials: Trials) -> dict[str, object]:
    """Plain data for ``--json``; times in seconds."""
    peer = trials.peer
    return {
        "device": str(trials.device),
        "operations": trials.operations,
        "mappings": {trial.label: _trial_data(trial, trials.operations) for trial in trials.trials},
        "numpy": {
            "median_s": peer.measurement.median,
            "spread_s": peer.measurement.spread,
            "gflops": trials.operations / peer.measurement.median / 1e9,
            "error": peer.error,
            "note": peer.note,
        },
        "database": trials.database,
    }


def _trial_data(trial: Trial, operations: int) -> dict[str, object]:
    found, predicted, before = trial.measurement, trial.predicted, trial.earlier
    return {
        "outcome": str(found.outcome),
        "stage": found.stage,
        "message": found.message,
        "error": found.error,
        "tolerance": found.tolerance,
        "median_s": found.median,
        "minimum_s": found.minimum,
        "spread_s": found.spread,
        "samples_ns": found.samples_ns,
        "cache_state": found.cache_state,
        "gflops": operations / found.median / 1e9,
        "intermediate_bytes": trial.intermediate_bytes,
        "predicted_time_s": predicted.predicted_time if predicted else None,
        "predicted_interval_s": list(predicted.interval) if predicted and predicted.interval[1] else None,
        "predicted_intermediate_bytes": predicted.predicted_intermediate_bytes if predicted else None,
        "predicted_floor_s": predicted.predicted_floor if predicted else None,
        "beaten_floor": trial.beaten_floor,
        "predicted_over_measured": predicted.predicted_time / found.median if predicted else None,
        "n_instances": predicted.n_instances if predicted else 1,
        "prediction_note": trial.note,
        "prediction_reservation": predicted.reservation if predicted else "",
        "earlier": None if before is None else asdict(before),
        "fact": trial.fact,
        "trouble": list(trial.trouble),
    }
