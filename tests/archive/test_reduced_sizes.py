"""Shorter lengths that stand for long ones: the same rests of tiles, and everything that is computed."""

from __future__ import annotations

from pathlib import Path

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

from feinsum_fuse.archive.facts import application
from feinsum_fuse.archive.facts.proofs import Proofs
from feinsum_fuse.archive.facts.reduced_sizes import reduced, shorter_lengths
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.cascades.matching.replacement import rewritten_match
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.runtime.isolation import RunResult
from feinsum_fuse.device.timing.outcome import KernelError, Outcome
from feinsum_fuse.mappings.default_mapping import default_schedule
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from feinsum_fuse.schedule.steps.loop_steps import Bind, Split
from feinsum_fuse.schedule.tree.nest import LoopRef
from tests.cascades.randomness import largest_error, run


def product(m: int, text: str = "C[i,j] = sum(k, A[i,k]*B[k,j])", order: str = "C") -> lp.TranslationUnit:
    arrays = [lp.GlobalArg(name, np.float32, shape=shape, order=order) for name, shape in (("A", (m, 700)), ("B", (700, 1001)))]
    arrays += [lp.GlobalArg("w", np.float32, shape=(700,))] if "w[" in text else []
    result = lp.GlobalArg("C", np.float32, shape=(m, 1001))
    return lp.make_kernel(f"{{[i,j,k] : 0 <= i < {m} and 0 <= j < 1001 and 0 <= k < 700}}", [f"{text} {{id=C}}"], [*arrays, result])


def steps(tile: int = 8, inner: int = 4) -> Schedule:
    rows = LoopRef("C", "i")
    return Schedule((Explicate(("C",)), Split(rows, tile), Split(rows.outer, inner), Bind(rows.outer.outer, "group.0")))


def test_a_length_keeps_its_rest_and_two_whole_tiles() -> None:
    matched = match(product(1003))
    lengths = shorter_lengths(matched.cascade, steps())
    assert lengths == {1003: 1003 % 32 + 64, 1001: 257, 700: 257}


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_shorter_kernel_computes_the_same(order: str) -> None:
    kernel = product(1003, order=order)
    matched = match(kernel)
    short = reduced(kernel, matched, steps())
    assert short is not None
    small, again = short
    after = steps().apply(again.prepared, again.names)
    arrays = {arg.name: np.random.default_rng(2).random(arg.shape, np.float32) for arg in small.default_entrypoint.args[:2]}
    laid_out = {name: np.asarray(array, order=order) for name, array in arrays.items()}
    assert {name: array.shape for name, array in arrays.items()} == {"A": (75, 257), "B": (257, 257)}
    assert largest_error(run(after, **laid_out)["C"], arrays["A"].astype(float) @ arrays["B"]) < 1e-5


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("C[i,j] = sum(k, A[i,k]*B[k,j] if k < 500 else 0)", id="a number in a condition"),
        pytest.param("C[i,j] = sum(k, A[i,699-k]*B[k,j])", id="an index that is no bare loop"),
    ],
)
def test_what_short_lengths_cannot_show_is_run_as_it_is(text: str) -> None:
    kernel = product(1003, text)
    assert reduced(kernel, match(kernel), Schedule((Explicate(),))) is None


def test_a_kernel_that_is_short_stays_as_it_is() -> None:
    kernel = product(3)
    assert reduced(kernel, match(kernel), default_schedule(match(kernel).cascade)) is None


def test_a_wrong_schedule_is_seen_at_shorter_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the transformed kernel left out its last rows."""
    kernel, ran = product(1003), []

    def lost(programs: object, inputs: object, device: object) -> list[RunResult]:
        before, after = original(programs, inputs, device)
        ran.extend(result.outputs["C"].shape for result in (before, after))
        after.outputs["C"][-1] *= 2
        return [before, after]

    original = application._runs
    monkeypatch.setattr(application, "_runs", lost)
    with pytest.raises(KernelError) as caught:
        application.apply_schedule(steps(), kernel, match(kernel), DeviceInfo.of(find_device("portable")), {})
    assert (caught.value.outcome, ran) == (Outcome.wrong_result, [(75, 257)] * 2)


def test_a_rewritten_kernel_is_shortened_as_a_whole() -> None:
    kernel = product(1003, "C[i,j] = sum(k, A[i,k]*B[k,j]*w[k])")
    matched = match(kernel)
    after = rewritten_match(matched, matched.cascade.contract("C", [(0, 2), (0, 1)]))
    short = reduced(kernel, after, Schedule((Explicate(),)))
    assert short is not None
    _, again = short
    assert [einsum.name for einsum in again.cascade.einsums] == ["C_part1", "C"]
    assert again.names == after.names
    assert all(max(arg.shape) < 700 for arg in again.prepared.default_entrypoint.args)


def test_proofs_outlive_their_process(tmp_path: Path) -> None:
    proof = ("before", "after", "device")
    first, second = (Proofs(folder=lambda: tmp_path / "proofs") for _ in range(2))
    assert proof not in first
    first.add(proof)
    assert proof in second
    assert ("before", "after", "another device") not in second
