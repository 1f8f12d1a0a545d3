"""A mapping's time in the models from AccelForge's formulas to the kernel model, one term more at a time, beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...cascades.reading.reader import expanded
from ...device.timing.joules import Joules
from ...device.timing.measurement import time_text
from ...errors import ModelError
from ...formats.spec import Spec
from ...model.accelforge.estimate import estimate
from ...model.evaluation import predicted_seconds
from ...model.hardware.incore import core_term
from ...model.hardware.launches import launch_seconds
from ...model.hardware.placement import place_caches
from ...presentation import table
from ..run_prediction import as_run
from ..trial import Trials

PLAIN, CACHES, CORE, STARTS, KERNEL = "AccelForge", "with caches", "with a core", "with launches", "kernel model"
MODELS = (PLAIN, CACHES, CORE, STARTS, KERNEL)
"""Each has what those before it have; the last one times the kernel instead of the tree."""


def by_model(spec: Spec, *, cold: bool = False) -> dict[str, float]:
    """Model -> seconds of one instance of a mapping.

    ``AccelForge``: its formulas alone, on the memories that the mapping names. ``with caches``: those that hardware fills by itself, too.
    ``with a core``: chains, loads and spills of the innermost loops. ``with launches``: starting kernels and groups. ``kernel model``: the
    lowered kernel. The last three add what a calibration measured, and are like the second where there is none. Raises
    :class:`~feinsum_fuse.errors.ModelError` for a mapping that the model refuses.
    """
    plain = expanded(spec)
    placed = place_caches(plain, cold=cold)
    count = spec.workload.n_instances
    latencies = [estimate(plain), estimate(placed), estimate(placed, core=core_term(placed))]
    formulas = [float(one.latency) / count for one in latencies]
    started = formulas[-1] + launch_seconds(spec, formulas[-1], cold=cold)
    return dict(zip(MODELS, (*formulas, started, predicted_seconds(spec, cold=cold)), strict=True))


@dataclass(frozen=True)
class ModelledTimes:
    """One mapping: seconds measured, and by model; joules by the formulas."""

    label: str
    measured: float
    models: Mapping[str, float]
    joules: float
    """As the architecture says of each action."""
    assumed: bool
    """Whether the architecture's energies are assumed, as those of a calibration are."""


@dataclass(frozen=True, repr=False)
class ModelsCompared:
    """Mappings of one workload, measured and by model; it prints itself."""

    rows: tuple[ModelledTimes, ...]
    counters: Sequence[Joules] = ()
    """What the machine itself counted while the mappings were measured."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Mappings that were measured and that AccelForge's formulas do not take, with the reason."""

    @classmethod
    def of(cls, trials: Trials, counters: Sequence[Joules] = ()) -> ModelsCompared:
        """The mappings that were both measured and predicted."""
        rows, refused = [], {}
        for trial in trials.trials:
            if trial.predicted is None or not trial.measurement.samples_ns or trial.spec.arch is None:
                continue
            try:
                models = by_model(as_run(trial.spec, trials.cascade), cold=trial.measurement.cache_state == "cold")
            except ModelError as error:
                refused[trial.label] = error.message
                continue
            joules = trial.predicted.prediction.energy / trial.predicted.n_instances
            assumed = trial.spec.arch.energies_assumed
            rows.append(ModelledTimes(trial.label, trial.measurement.median, models, joules, assumed))
        return cls(tuple(rows), tuple(counters), refused)

    def error(self, model: str) -> float:
        """The mean of the errors' magnitudes, relative to what was measured."""
        return statistics.fmean(abs(row.models[model] / row.measured - 1) for row in self.rows)

    def to_json(self) -> dict[str, object]:
        """Plain data: seconds and joules."""
        rows = [
            {"mapping": r.label, "measured_s": r.measured, **{f"{name}_s": s for name, s in r.models.items()}, "energy_J": r.joules}
            for r in self.rows
        ]
        counters = [{"counter": one.name, "joules": one.joules, "seconds": one.seconds} for one in self.counters]
        assumed = any(row.assumed for row in self.rows)
        return {"mappings": rows, "refused": dict(self.refused), "energies_assumed": assumed, "counters": counters}

    def __repr__(self) -> str:
        refused = [f"{label}: {reason}" for label, reason in self.refused.items()]
        if not self.rows:
            return "\n".join(["nothing was both predicted and measured", *refused])
        cells = [
            (row.label, time_text(row.measured), *(f"{row.models[name] / row.measured:.2f}" for name in MODELS), f"{row.joules:.3g} J")
            for row in self.rows
        ]
        cells.append(("mean error", "", *(f"{self.error(name):.0%}" for name in MODELS), ""))
        lines = [table(("mapping", "measured", *MODELS, "energy"), cells, numbers=len(MODELS) + 2), ""]
        lines.append("Columns of models are predicted over measured times. " + self._energy)
        return "\n".join([*lines, *refused])

    @property
    def _energy(self) -> str:
        assumed = any(row.assumed for row in self.rows)
        text = "Energies are assumed, not measured" if assumed else "Energies are what the architecture says of its actions"
        if not self.counters:
            return f"{text}; this machine has no counter of energy that can be read."
        counted = ", ".join(f"{one.name} {one.joules:.3g} J in {one.seconds:.3g} s" for one in self.counters)
        return f"{text}. The machine counted, all its work together: {counted}."
