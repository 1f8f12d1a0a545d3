"""Schedules of every example mapping in canonical names: they compute on the canonical cascade what they do on the named one."""

from __future__ import annotations

from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive import record, retrieve
from feinsum_fuse.archive.facts.question import Fit
from feinsum_fuse.archive.facts.recording import canonical_names
from feinsum_fuse.archive.key.identity import identify, renamed_cascade, renamed_schedule
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.program.building import build
from feinsum_fuse.device.timing.harness import measure
from feinsum_fuse.device.timing.outcome import Outcome
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.schedule.steps.rolling_steps import RollingUpdate
from tests.sweeps import SLOW

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = {
    "attention": {"H": 2, "M": 13, "E": 9},
    "dg_divergence": {"E": 29, "N": 5},
    "matmul": {"M": 13, "K": 7, "N": 19},
    "matvecs": {"N": 16},
    "mttkrp": {"N": 11, "R": 9},
    "perceptron": {"M": 13, "A": 5, "F": 11, "B": 9},
    "three_matmuls": {"M": 21, "N": 11},
}
MAPPINGS = sorted(EXAMPLES.glob("*/mapping*.yaml"))
FUSED = [path for path in MAPPINGS if path.stem in ("mapping_fused", "mapping_one_pass", "mapping_a_above", "mapping_packed")]
"""One of each example: those whose steps add most of their own."""


def spec_of(mapping: Path) -> Spec:
    """The example at a small size."""
    own = mapping.parent / "arch.yaml"
    arch = own if own.exists() and mapping.stem != "mapping_packed" else EXAMPLES / "cpu.yaml"
    sizes = SMALL[mapping.parent.name] | ({"ONLINE": 1} if "one_pass" in mapping.name else {})
    return ff.load(mapping.parent / "workload.yaml", mapping, arch, variables=sizes)


@pytest.mark.parametrize("mapping", MAPPINGS if SLOW else FUSED, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_schedules_in_canonical_names_compute_the_same(mapping: Path) -> None:
    """What steps add of their own (rescaled sums, partial results) is renamed with the Einsum that it belongs to."""
    spec = spec_of(mapping)
    cascade, schedule = ff.cascade(spec), ff.lower(spec)
    renaming = canonical_names(identify(cascade), schedule)
    canonical = renamed_schedule(schedule, renaming)
    assert build(renamed_cascade(cascade, renaming), canonical, find_device("portable")).first_run.outcome is Outcome.ok


def test_one_pass_is_recorded_and_found_under_other_names(tmp_path: Path) -> None:
    """A one-pass schedule recorded on one attention is found for, and applied to, another whose tensors and ranks are called otherwise."""
    program = ff.compile(spec_of(EXAMPLES / "attention" / "mapping_one_pass.yaml"), "portable")
    record(measure(program, repeats=2), url=tmp_path / "facts.sqlite3")
    other = renamed_cascade(program.cascade, identify(program.cascade).renaming)
    fact = retrieve(other, DeviceInfo.of(program.device), tmp_path / "facts.sqlite3")
    assert fact.found is Fit.exact
    assert any(isinstance(step, RollingUpdate) for step in fact.schedule.steps)
    fact.apply(other.kernel())
