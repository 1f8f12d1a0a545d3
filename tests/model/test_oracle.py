"""Conformance: every case of AccelForge's own numbers agrees, counts and occupancy exactly, the rest to 1e-6.

``accelforge_cases.jsonl`` holds 34 random inputs with the figures that AccelForge 1.0.467 gives for them: tiles that do not divide, arrays
with multicast and reduction, tolls, scales, persistent tensors, instances, windows, nested branches. More cases are read where they are at
hand. Counts that are not whole are single precision in either.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from feinsum_fuse import Error, loads, predict
from feinsum_fuse.model import Prediction

FOLDER = Path(os.environ.get("FEINSUM_FUSE_ORACLE", Path(__file__).resolve().parents[3] / "shared" / "oracle"))
FILE = FOLDER / "model_cases.json"
OWN = [json.loads(line) for line in Path(__file__).with_name("accelforge_cases.jsonl").read_text().splitlines()]
CASES: list[dict[str, Any]] = OWN + (json.loads(FILE.read_text())["cases"] if FILE.is_file() else [])


def name_of(part: str) -> str | None:
    return None if part == "None" else part


def wrong(prediction: Prediction, expected: dict[str, Any]) -> list[str]:
    """What disagrees with a case's expected values."""
    pairs = [
        (f"actions {key}", prediction.actions[_names(key)], figure, 0.0 if figure == round(figure) else 1e-6)
        for key, figure in expected["actions"].items()
    ]
    for key, figure in expected["energy"].items():
        names = _names(key)
        said = prediction.leak_energy[names[:2]] if names[-1] == "leak" else prediction.action_energy[names]
        pairs.append((f"energy {key}", said, figure, 1e-6))
    pairs += [(f"latency {key}", prediction.component_latency[_names(key)], figure, 1e-6) for key, figure in expected["latency"].items()]
    pairs += [(f"occupancy {key}", prediction.occupancy[_names(key)], figure, 0.0) for key, figure in expected["occupancy_bits"].items()]
    pairs += [(f"peak {key}", prediction.peak[key], figure, 0.0) for key, figure in expected["peak_bits"].items()]
    pairs += [(f"computes {key}", prediction.computes[key], figure, 0.0) for key, figure in expected["n_computes"].items()]
    totals = expected["total"]
    pairs += [
        ("energy", prediction.energy, totals["energy"], 1e-6),
        ("latency", prediction.latency, totals["latency"], 1e-6),
        ("leakage", prediction.total_leak_energy, totals["leak_energy"], 1e-6),
        ("energy delay product", prediction.energy_delay_product, totals["energy_delay_product"], 1e-6),
    ]
    return [f"{what}: {said} instead of {right}" for what, said, right, tolerance in pairs if abs(said - right) > tolerance * abs(right)]


def _names(key: str) -> tuple[str | None, ...]:
    return tuple(name_of(part) for part in key.split("|"))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case_agrees(case: dict[str, Any]) -> None:
    text = "\n".join(case["inputs_rendered"].values())
    if "expected_error" in case:
        with pytest.raises(Error):
            predict(loads(text))
    else:
        assert not wrong(predict(loads(text)), case["expected"])
