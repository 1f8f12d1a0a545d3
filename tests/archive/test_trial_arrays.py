"""Arrays on which foreign kernels are tried hold every element that the kernels may touch."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

from feinsum_fuse.archive.facts import application
from feinsum_fuse.archive.facts.application import apply_schedule
from feinsum_fuse.archive.facts.proofs import Proofs
from feinsum_fuse.archive.facts.trial_arrays import TrialData
from feinsum_fuse.cascades.matching.match import match
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.checking.verification import LARGEST_INTEGER
from feinsum_fuse.device.runtime import first_run
from feinsum_fuse.device.runtime.isolation import RunResult
from feinsum_fuse.optimization import race
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate


def shifted(text: str = "C[i,j] = sum(k, A[i,k]*B[k,j])", **others: object) -> lp.TranslationUnit:
    """Somebody's product of arrays that begin anywhere in their buffers."""
    arrays = [lp.GlobalArg(name, np.float32, shape=(6, 6), offset=lp.auto) for name in "ABC"]
    domain = "{[i,j,k] : 0 <= i,j,k < 6}"
    return lp.make_kernel(domain, f"{text} {{id=C}}", [*arrays, *others.values(), ...], lang_version=(2018, 2))


def trial(unit: lp.TranslationUnit) -> TrialData:
    return TrialData.of(unit, executable(unit), 5)


def test_offsets_are_not_zero_and_buffers_are_longer_by_them() -> None:
    found = trial(shifted())
    assert found.places.keys() == set("ABC")
    for name, place in found.places.items():
        (offset,) = (value for key, value in found.inputs.items() if key.startswith(f"{name}_") or key == f"_offset_{name}")
        assert 1 <= int(offset) == place.offset <= LARGEST_INTEGER
        assert found.inputs[name].shape == (36 + place.offset,)
        np.testing.assert_array_equal(found.arrays[name].ravel(), found.inputs[name][place.offset :])


def test_a_number_as_offset() -> None:
    unit = lp.make_kernel("{[i] : 0 <= i < 5}", "B[i] = 2*A[i]", [lp.GlobalArg("A", np.float64, shape=(5,), offset=7), ...])
    found = trial(lp.add_dtypes(unit, {"B": np.float64}))
    assert found.places.keys() == {"A"}
    assert found.inputs["A"].shape == (12,)


@pytest.mark.parametrize(
    ("index", "length", "is_bounded"),
    [
        ("i", 6, True),
        ("rows[i]", 6, True),
        ("2*rows[i]", 7, True),
        ("i + rows[i]", 9, True),
        ("i + 3*rows[i]", 15, True),
        ("i - rows[i]", 6, False),
        ("rows[i]*rows[i]", 6, False),
        ("i // (1 + rows[i])", 6, False),
    ],
)
def test_indices_that_hold_integers_find_room(index: str, length: int, is_bounded: bool) -> None:
    arguments = [lp.GlobalArg("A,B", np.float32, shape=(6,)), lp.GlobalArg("rows", np.int32, shape=(6,)), lp.ValueArg("s", np.int32)]
    found = trial(lp.make_kernel("{[i] : 0 <= i < 6}", f"B[i] = A[{index}] + rows[i]*s", arguments, lang_version=(2018, 2)))
    assert found.inputs["A"].size == length
    assert found.is_bounded == is_bounded


def test_rows_of_a_matrix_that_an_integer_chooses() -> None:
    arguments = [lp.GlobalArg("A", np.float32, shape=(2, 9)), lp.GlobalArg("B", np.float32, shape=(6, 9)), lp.GlobalArg("rows", "int32")]
    arguments[2] = arguments[2].copy(shape=(6,))
    unit = lp.make_kernel("{[i,j] : 0 <= i < 6 and 0 <= j < 9}", "B[i,j] = A[rows[i],j]", arguments, lang_version=(2018, 2))
    assert trial(unit).inputs["A"].size == 4 * 9


def test_loops_that_an_argument_ends() -> None:
    """As long as the argument: a sum over a row of a sparse matrix."""
    arguments = [lp.GlobalArg("A", np.float32, shape=(2,)), lp.GlobalArg("B", np.float32, shape=(6,)), lp.ValueArg("n", np.int32)]
    domains = ["{[i] : 0 <= i < 6}", "[n] -> {[j] : 0 <= j < n}"]
    found = trial(lp.make_kernel(domains, "B[i] = sum(j, A[j])", arguments, assumptions="n <= 2", lang_version=(2018, 2)))
    assert found.inputs["A"].size == LARGEST_INTEGER
    assert found.is_bounded


def test_loops_whose_bounds_are_known_values_stay_inside() -> None:
    """As in every sum that pytato writes, in arrays at an offset that is an argument, as arraycontext has them."""
    shapes = {"A": (3, 5), "B": (5, 4), "C": (3, 4)}
    arrays = [lp.GlobalArg(name, np.float64, shape=shape, offset=lp.auto) for name, shape in shapes.items()]
    domains = ["{[i, j] : 0 <= i < 3 and 0 <= j < 4}", "[lower, upper] -> {[k] : lower <= k < upper}"]
    texts = ["<int64> lower = 0 {id=low}", "<int64> upper = 5 {id=up}", "C[i,j] = sum(k, A[i,k]*B[k,j]) {dep=low:up}"]
    found = trial(lp.make_kernel(domains, texts, [*arrays, ...], lang_version=(2018, 2)))
    assert found.is_bounded


def run_poisoned(monkeypatch: pytest.MonkeyPatch) -> lp.TranslationUnit:
    """Verified in memory that holds NaN from an array's end on, where nobody may write."""
    monkeypatch.setattr(application, "_verified", Proofs())
    unit = shifted()
    matched = match(unit)
    return apply_schedule(Schedule((Explicate(("C",)),)), unit, matched, DeviceInfo.of(find_device("portable")), {})


def test_kernels_with_offsets_are_verified_on_poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    verify = application.verify
    monkeypatch.setattr(application, "verify", lambda *given: seen.append(given) or verify(*given))
    run_poisoned(monkeypatch)
    ((outputs, expected, *_),) = seen
    assert first_run.BEHIND > LARGEST_INTEGER  # such reads would be seen as NaN
    assert np.isfinite(expected["C"]).all()
    assert outputs["C"].size > 36


def test_what_writes_beside_an_array_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    run = application._runs

    def beside(programs: object, inputs: object, device: object) -> list[RunResult]:
        before, after = run(programs, inputs, device)  # type: ignore[arg-type]
        after.outputs["C"][0] += 1  # lies before the array
        return [before, after]

    monkeypatch.setattr(application, "_runs", beside)
    with pytest.raises(application.KernelError, match="computes something else"):
        run_poisoned(monkeypatch)


def test_what_may_leave_its_array_is_not_timed_in_this_process() -> None:
    arguments = [lp.GlobalArg("A,B", np.float32, shape=(6,)), lp.GlobalArg("rows", np.int32, shape=(6,))]
    unit = lp.make_kernel("{[i] : 0 <= i < 6}", "B[i] = A[i - rows[i]]", arguments, lang_version=(2018, 2))
    with pytest.raises(race.LoweringError, match="lead out of its array"):
        race.times(unit, [unit], DeviceInfo.of(find_device("portable")), {}, is_long=False)
    inside = lp.make_kernel("{[i] : 0 <= i < 6}", "B[i] = A[i + rows[i]]", arguments, lang_version=(2018, 2))
    assert len(race.times(inside, [inside], DeviceInfo.of(find_device("portable")), {}, is_long=False).candidates) == 1
