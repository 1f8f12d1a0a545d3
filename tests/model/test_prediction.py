"""Predictions as values: names, sums, text and plain data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from constantdict import constantdict

from feinsum_fuse import Error, ModelError, loads, predict
from feinsum_fuse.model import Prediction, bounds
from feinsum_fuse.report.sweep import SweptPoint
from tests.model.specs import arch, chain


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return predict(chain(2))


def test_combinations_that_do_not_occur_are_zero(prediction: Prediction) -> None:
    assert prediction.actions["T1", "Main", "W1", "read"] == 0.0
    assert prediction.actions["T1", "MAC", None, "read"] == 0.0
    assert prediction.occupancy["T2", "Main", "T0"] == 0.0
    assert prediction.peak["MAC"] == 0.0


@pytest.mark.parametrize("key", [("T9", "Main", "T0", "read"), ("T1", "Mian", "T0", "read"), ("T1", "Main", "T0", "reed"), ("T1", "Main")])
def test_unknown_names_are_errors(prediction: Prediction, key: tuple[str, ...]) -> None:
    with pytest.raises(ModelError):
        prediction.actions[key]


def test_errors_name_the_nearest(prediction: Prediction) -> None:
    with pytest.raises(ModelError, match="Did you mean Main"):
        prediction.peak["Mian"]


def test_sums_over_axes(prediction: Prediction) -> None:
    operations = prediction.actions.total(component="MAC", action="compute")
    assert operations == prediction.computes["T1"] + prediction.computes["T2"] == 2 * 16 * 8 * 8
    with pytest.raises(ModelError):
        prediction.actions.total(place="MAC")
    with pytest.raises(ModelError):
        prediction.actions.total(component="CPU")


def test_totals_add_up(prediction: Prediction) -> None:
    assert prediction.energy == pytest.approx(prediction.action_energy.total() + prediction.leak_energy.total())
    assert prediction.latency == pytest.approx(sum(prediction.einsum_latency.values()))
    assert prediction.energy_delay_product == prediction.energy * prediction.latency
    assert set(prediction.bottleneck) == {"T1", "T2"}


def test_prints_a_table(prediction: Prediction) -> None:
    text = str(prediction)
    assert "T1      MAC" in text
    assert "Buffer" in text.split("peak/bits")[1]


def test_prints_the_floor(prediction: Prediction) -> None:
    floor = bounds(chain(2))
    assert prediction.least_latency == floor.latency > 0
    assert str(prediction).splitlines()[1].startswith(f"Floor: at least {floor.latency:.6g} s; the prediction is")


def test_predictions_that_were_stored_without_a_floor(prediction: Prediction) -> None:
    data = json.loads(prediction.to_json())
    del data["least_latency"]
    found = Prediction.from_json(json.dumps(data))
    assert found.latency == prediction.latency and "Floor" not in str(found)


def test_json(prediction: Prediction) -> None:
    assert Prediction.from_json(prediction.to_json()) == prediction
    for text in ("", "[]", "{}", '{"tables": 3}'):
        with pytest.raises(ModelError):
            Prediction.from_json(text)


def test_parts_that_lack() -> None:
    spec = chain(1)
    for lacking in (spec.replace(arch=None), spec.replace(mapping=None)):
        with pytest.raises(ModelError):
            predict(lacking)
    with pytest.raises(ModelError):
        bounds(spec.replace(arch=None))


def test_bounds_are_compute_and_compulsory_traffic() -> None:
    floor = bounds(chain(2, m=16, n=8))
    assert floor.seconds["MAC"] == 2 * 16 * 8 * 8 / 4
    assert floor.actions["Main", "read"] == (16 * 8 + 2 * 8 * 8) * 8
    assert floor.actions["Main", "write"] == 16 * 8 * 8
    assert floor.bottleneck == "MAC"
    assert "Main" in str(floor)


def test_bounds_without_a_mapping() -> None:
    spec = chain(2, m=16, n=8)
    assert bounds(spec.replace(mapping=None)).seconds["Main"] == bounds(spec).seconds["Main"]


def test_everything_is_computed_once() -> None:
    text = """
workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ["Y[m] = X[m]", "Z[m] = Y[m]"]}
mapping:
  nodes:
  - !Storage {tensors: [X, Y, Z], component: Main}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Compute {einsum: Y, component: MAC}
"""
    with pytest.raises(Error, match="Z"):
        predict(loads(text + arch()))


def test_assumed_energies_are_marked_wherever_they_are_printed() -> None:
    """A calibration measures times and assumes energies: what it predicts says so, and so does what was stored of it."""
    spec = chain(2)
    assert spec.arch is not None
    assumed = replace(spec, arch=replace(spec.arch, variables=constantdict({"assumed_energies": 1.0})))
    found = predict(assumed)
    for marked, plain in ((found, predict(spec)), (bounds(assumed), bounds(spec))):
        assert "by assumed energies" in str(marked) and "assumed" not in str(plain)
    assert all("by assumed energies" in str(part) for part in (found.per_component, found.per_einsum, found.per_tensor, found.per_compute))
    assert Prediction.from_json(found.to_json()).energies_assumed
    assert "energies_assumed" not in predict(spec).to_json()
    assert "assumed" in SweptPoint.of("fused", {}, found, bounds(assumed)).row()[-2]
