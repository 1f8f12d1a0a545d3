"""From AccelForge's formulas to the kernel model, one term at a time."""

from __future__ import annotations

import json

import pytest

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.device.timing.joules import Joules
from feinsum_fuse.errors import ModelError
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.model.accelforge.estimate import estimate
from feinsum_fuse.report.components.model_terms import MODELS, ModelledTimes, ModelsCompared, by_model
from feinsum_fuse.report.trial import run
from tests.model.test_kernel_time import product


def test_each_model_has_one_term_more() -> None:
    spec = product(4, 2, size=256)
    found = by_model(spec)
    assert tuple(found) == MODELS
    plain, cached, core, launched, kernel = found.values()
    assert plain == float(estimate(spec).latency)
    assert plain > cached, "without caches every access reaches main memory"
    assert cached <= core < launched
    assert kernel == ff.model.predicted_seconds(spec)


def test_what_was_not_measured_is_the_formulas_alone() -> None:
    spec = product(4, 2, size=64)
    assert spec.arch is not None
    found = by_model(spec.replace(arch=spec.arch.__class__(spec.arch.nodes)))
    assert found["with caches"] == found["with a core"] == found["with launches"] == found["kernel model"]


def test_the_whole_text() -> None:
    models = dict(zip(MODELS, (4e-3, 2e-3, 1e-3, 1.1e-3, 0.9e-3), strict=True))
    found = ModelsCompared((ModelledTimes("tiled", 1e-3, models, 0.25, True),))
    assert (
        str(found)
        == """\
mapping     measured  AccelForge  with caches  with a core  with launches  kernel model  energy
tiled           1 ms        4.00         2.00         1.00           1.10          0.90  0.25 J
mean error                  300%         100%           0%            10%           10%

Columns of models are predicted over measured times. Energies are assumed, not measured; this machine has no counter of energy that can be \
read."""
    )
    counted = ModelsCompared(found.rows, (Joules("package-0", 3.2, 0.5),))
    assert str(counted).endswith("are assumed, not measured. The machine counted, all its work together: package-0 3.2 J in 0.5 s.")
    assert json.loads(json.dumps(counted.to_json()))["counters"] == [{"counter": "package-0", "joules": 3.2, "seconds": 0.5}]
    assert found.error("AccelForge") == pytest.approx(3)
    assert str(ModelsCompared(())) == "nothing was both predicted and measured"


def test_a_mapping_that_the_formulas_refuse_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(spec: Spec, *, cold: bool = False) -> dict[str, float]:
        if spec is bad:
            raise ModelError("Einsum Z holds Z in Scratchpad twice on its path.")
        return by_model(spec, cold=cold)

    good, bad = product(4, 2, size=64), product(2, 4, size=64)
    monkeypatch.setattr("feinsum_fuse.report.components.model_terms.by_model", refused)
    monkeypatch.setattr("feinsum_fuse.report.components.model_terms.as_run", lambda spec, cascade: spec)
    trials = run({"good": good, "bad": bad}, find_device(None), repeats=1, recording=False)
    found = ModelsCompared.of(trials)
    assert [row.label for row in found.rows] == ["good"] and list(found.refused) == ["bad"]
    assert str(found).splitlines()[-1] == "bad: Einsum Z holds Z in Scratchpad twice on its path."
    assert found.to_json()["refused"] == dict(found.refused)
