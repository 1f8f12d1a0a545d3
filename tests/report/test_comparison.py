"""A comparison's text, from times that are made up."""

from __future__ import annotations

import dataclasses

from constantdict import constantdict

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import DeviceInfo
from feinsum_fuse.device.timing.measurement import Measurement, Provenance
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.model.prediction import Figures
from feinsum_fuse.report.comparison import Comparison
from feinsum_fuse.report.run_prediction import Predicted
from feinsum_fuse.report.trial import Peer, Trial, Trials
from tests.cli.files import ARCH, MAPPING, WORKLOAD

DEVICE = DeviceInfo("Some <Platform>", "Chip", 0, "", "1", "", "cpu", 2, 0, 0, 0)
PROVENANCE = Provenance(DEVICE, constantdict(), "", (), 2, "2026-01-01")


def _measurement(microseconds: float, outcome: Outcome = Outcome.ok) -> Measurement:
    samples = tuple(1e3 * microseconds * factor for factor in (0.9, 1.0, 1.1)) if outcome is Outcome.ok else ()
    return Measurement(outcome, "run", "" if samples else "it <hung>", PROVENANCE, samples)


def comparison(times: list[tuple[float, float]], label: str = "tile") -> Comparison:
    """Mappings with these predicted and measured times in microseconds, and one that failed."""
    spec = ff.loads("\n".join([WORKLOAD, ARCH, MAPPING]))
    cascade = ff.cascade(spec)
    real = Predicted.of(spec, cascade)
    trials = []
    for number, (predicted, measured) in enumerate(times):
        seconds = predicted * 1e-6
        old = real.prediction.component_latency
        scaled = Figures(old.axes, {key: figure * 0.75 * seconds / real.prediction.latency for key, figure in old.entries.items()})
        prediction = dataclasses.replace(real.prediction, component_latency=scaled, latency=0.75 * seconds)
        made = Predicted(prediction, seconds, 0.0, 1e-6, predicted_floor_by="MAC")
        trials.append(Trial(f"{label} {number}", spec, _measurement(measured), made))
    trials.append(Trial(f"{label} hung", spec, _measurement(0, Outcome.timeout), real))
    return Comparison.of(Trials(cascade, DEVICE, tuple(trials), Peer(_measurement(1), 0.0), 512))


TEXT = """\
Chip (cpu, 2 units) on Some <Platform>, driver 1, caches warm

mapping  bound by                measured  spread  predicted  predicted / measured  floor  measured / floor
tile 0   Main 75%, launches 25%     10 us    1 us      10 us                  1.00   1 us                10
tile 2   Main 75%, launches 25%     20 us    2 us      40 us                  2.00   1 us                20
tile 1   Main 75%, launches 25%    100 us   10 us      20 us                  0.20   1 us               100

without a time or a prediction
tile hung: timeout: it <hung>

3 mappings, 10.0 times between the fastest and the slowest
error: mean 60%, median 80%, bias +7% of the measured time
order: Spearman 0.50, Kendall 0.33, pairs ordered rightly 67%
regret: the model's first choice is 0% slower than the best, its first five at best 0%
noise: samples spread by 10% around their median

largest residuals
mapping  bound by                measured  spread  predicted  predicted / measured  floor  measured / floor
tile 1   Main 75%, launches 25%    100 us   10 us      20 us                  0.20   1 us               100
tile 2   Main 75%, launches 25%     20 us    2 us      40 us                  2.00   1 us                20"""


def test_the_whole_text() -> None:
    assert str(comparison([(10, 10), (20, 100), (40, 20)])) == TEXT


def test_what_was_measured_and_not_predicted_is_called_so() -> None:
    found = comparison([(10, 10), (20, 100)])
    ok, *others = found.trials.trials
    refused = dataclasses.replace(ok, predicted=None, note="Einsum Z uses 99 bits of Main.")
    lines = str(Comparison.of(dataclasses.replace(found.trials, trials=(refused, *others)))).splitlines()
    assert "tile 0: measured, not predicted: Einsum Z uses 99 bits of Main." in lines
    assert "tile hung: timeout: it <hung>" in lines
    assert not any("ok:" in line for line in lines)


def test_a_busy_machine_is_mentioned() -> None:
    found = comparison([(10, 10), (20, 100)])
    trials = tuple(
        dataclasses.replace(t, measurement=dataclasses.replace(t.measurement, interference=share))
        for t, share in zip(found.trials.trials, (0.0, 0.43, None), strict=True)
    )
    text = str(Comparison.of(dataclasses.replace(found.trials, trials=trials)))
    assert text.endswith("\n\nThis machine was busy: other processes had 43% of its processors.")


def test_missing_cores_are_mentioned() -> None:
    found = comparison([(10, 10), (20, 100)])
    trials = []
    for trial, cores in zip(found.trials.trials, (1.9, 1.1, None), strict=True):
        provenance = dataclasses.replace(trial.measurement.provenance, cores=cores)
        trials.append(dataclasses.replace(trial, measurement=dataclasses.replace(trial.measurement, provenance=provenance)))
    assert [trial.missing_cores for trial in trials] == ["", "the machine gave 1.1 of 2 cores while this was timed", ""]
    text = str(Comparison.of(dataclasses.replace(found.trials, trials=tuple(trials))))
    assert text.endswith("\n\nThe machine gave fewer cores than the device has, 1.1 at the least, while 1 of these were timed.")


def test_what_is_predicted_of_the_mapping_alone_is_said_once() -> None:
    found = comparison([(10, 10), (20, 100)])
    judged = tuple(dataclasses.replace(one, predicted=dataclasses.replace(one.predicted, uncut=("O",))) for one in found.judged)
    text = str(dataclasses.replace(found, judged=judged))
    assert text.count("what O writes, element by element: the prediction is of the mapping, not of its kernel") == 1
    assert "element by element" not in str(found)


def test_the_fast_third_is_judged_alone() -> None:
    found = comparison([(1, 1), (2, 2), (3, 3), (9, 4), (8, 5), (7, 6)])
    assert found.fast_third is not None and found.agreement is not None
    assert (found.fast_third.count, found.fast_third.kendall) == (2, 1)
    assert found.agreement.kendall < 1
    assert "fastest third alone, 2 mappings: Spearman 1.00, Kendall 1.00, pairs ordered rightly 100%" in str(found)


def test_at_most_ten_residuals_the_worst_first() -> None:
    found = comparison([(10 + number, 10) for number in range(15)])
    assert [one.label for one in found.worst] == [f"tile {number}" for number in range(14, 4, -1)]


def test_a_prediction_of_no_time_is_the_worst() -> None:
    found = comparison([(10, 10), (0, 10), (30, 10)])
    assert found.worst[0].label == "tile 1"


def test_failures_alone_are_nocomparison() -> None:
    found = comparison([])
    assert str(found).endswith("tile hung: timeout: it <hung>\n\ntoo few mappings to judge the model by")
