"""Facts that ship: the standard workloads, and the command that makes facts about them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.key.identity import identify
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.timing.measurement import HARNESS
from feinsum_fuse.errors import SearchError
from feinsum_fuse.standard.fact_making import FactMaking, facts_file, known_facts
from feinsum_fuse.standard.workloads import StandardWorkload, chosen, workloads
from tests.cli.conftest import Invoke, invoke

__all__ = ["invoke"]


def test_standard_workloads_are_cascades_of_both_types() -> None:
    known = workloads()
    assert len({one.name for one in known}) == len(known)
    families = {one.name.split(" ")[0] for one in known}
    wanted = {"gradient", "divergence", "curl", "face_mass", "mass", "product", "batched_product", "mttkrp", "contraction", "attention"}
    assert families >= wanted
    for name in ("gradient", "divergence", "curl", "face_mass", "mass"):
        assert sorted(one.name for one in chosen((name,))) == sorted(
            f"{name} p{order} {dtype}" for order in (1, 2, 3, 4) for dtype in ("float32", "float64")
        )
    for one in chosen(("gradient p2*", "face_mass p1*", "attention 512*")):
        tensors = one.cascade().tensors.values()
        assert {tensor.dtype for tensor in tensors} == {one.dtype}
    gradient, other = (identify(one.cascade()).structure for one in chosen(("gradient p1 float64", "gradient p4 float64")))
    assert gradient == other


def test_a_workload_that_there_is_not_is_named() -> None:
    with pytest.raises(SearchError, match=r"no standard workload is called masss\n.*mass"):
        chosen(("masss",))


def test_facts_are_made_once_and_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run finds the first one's; what it made can be imported."""
    device = find_device("pocl")
    small = StandardWorkload("tiny float32", ("Z[m] = A[m,k] * x[k]",), {"M": 24, "K": 16}, "float32")
    wrong = StandardWorkload("wrong float32", ("Z[m] = A[m,k] * * x[k]",), {"M": 24, "K": 16}, "float32")
    file = facts_file(tmp_path, DeviceInfo.of(device))
    making = FactMaking(device, file, str(tmp_path / "made.sqlite3"), seconds=1.0, measurements=1)
    first, failed = making.all([small, wrong])
    assert first.seconds > 0 and not first.message and not first.is_known
    assert failed.message and "wrong float32" in str(failed)
    (again,) = making.all([small])
    assert (again.is_known, again.seconds) == (True, pytest.approx(first.seconds))
    assert "from before" in str(again)
    assert list(dataclasses.replace(making, within=0).all([small, wrong])) == [again]
    monkeypatch.setattr("feinsum_fuse.standard.fact_making.HARNESS", HARNESS + 1)
    assert not list(dataclasses.replace(making, within=0).all([small]))
    (record,) = [record for record in known_facts(file) if record.measurement.label == small.name]
    assert record.measurement.median == pytest.approx(first.seconds)
    url = tmp_path / "other.sqlite3"
    from feinsum_fuse.archive import import_facts

    import_facts(file, url)
    assert str(ff.retrieve(small.cascade(), device, url).found) == "exact"


def test_the_command_lists_them_and_refuses_others(invoke: Invoke, tmp_path: Path) -> None:
    assert json.loads(invoke("db", "make", "mass p1*", "--list", "--json").out) == ["mass p1 float64", "mass p1 float32"]
    assert len(invoke("db", "make", "--list").out.splitlines()) == len(workloads())
    wrong = invoke("db", "make", "nothing_like_it")
    assert (wrong.code, "no standard workload is called nothing_like_it" in wrong.err) == (1, True)
    nowhere = invoke("db", "make", "mass p1*", "-o", tmp_path / "no" / "folder")
    assert (nowhere.code, "there is no folder" in nowhere.err) == (1, True)
