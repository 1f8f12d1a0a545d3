"""Figures by component, Einsum, tensor and computed point: they add up to the prediction's own."""

from __future__ import annotations

import math

import pytest

import feinsum_fuse as ff
from feinsum_fuse.model.accelforge.component import area
from feinsum_fuse.model.prediction import Prediction
from tests.formats.cases import WHOLE


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return ff.predict(ff.loads(WHOLE))


def test_energies_add_up(prediction: Prediction) -> None:
    for table in (prediction.per_component, prediction.per_einsum):
        assert math.fsum(row["energy"] for row in table.values()) == pytest.approx(prediction.energy)
    moved = math.fsum(row["energy"] for row in prediction.per_tensor.values())
    computed = prediction.action_energy.totals("tensor").get(None, 0.0)
    assert moved + computed == pytest.approx(prediction.dynamic_energy)


def test_a_computed_point_costs_its_share(prediction: Prediction) -> None:
    points = sum(prediction.computes.values()) * prediction.n_instances
    assert prediction.per_compute["all"]["energy"] * points == pytest.approx(prediction.energy)
    assert prediction.per_compute["all"]["latency"] * points == pytest.approx(prediction.latency)


def test_usage_and_sizes_are_fractions(prediction: Prediction) -> None:
    rows = prediction.per_component
    assert all(0 <= row["usage"] <= 1 and 0 <= row["of its size"] <= 1 for row in rows.values())
    for (_, component, _), fraction in prediction.usage.items():
        assert rows[component]["usage"] <= fraction or len({key[2] for key in prediction.usage if key[1] == component}) > 1


def test_unknown_names_are_refused(prediction: Prediction) -> None:
    with pytest.raises(ff.ModelError, match="There is no component 'Nowhere'"):
        prediction.per_component["Nowhere"]


def test_areas_are_those_of_all_instances() -> None:
    text = WHOLE.replace("area: 0", "area: 2.0e-6")
    spec = ff.loads(text)
    assert spec.arch is not None
    found = ff.predict(spec).area
    assert all(found[leaf.name] >= area(leaf) for leaf in spec.arch.components if leaf.area)


def test_it_prints_itself(prediction: Prediction) -> None:
    head = repr(prediction.per_component).splitlines()[0].split()
    assert head[:4] == ["component", "energy/J", "leaked/J", "busy/s"]
