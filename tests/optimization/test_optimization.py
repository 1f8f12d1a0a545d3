"""``ff.optimize``: always an answer, and never a wrong one."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.question import Fit
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.codegen.generation import executable
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.program.building import PLAIN
from feinsum_fuse.mappings.default_mapping import default_schedule
from feinsum_fuse.mappings.forms.variants import variants
from feinsum_fuse.optimization import contenders, optimization
from feinsum_fuse.optimization.answer import How
from feinsum_fuse.optimization.race import Times
from feinsum_fuse.optimization.spread import spread_kernel
from tests.archive.samples import measurement
from tests.cascades.randomness import largest_error, run


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'facts.db'}"


def product(m: int, text: str = "C[i,j] = 1.5*sum(k, A[i,k]*B[k,j])") -> lp.TranslationUnit:
    arguments = [lp.GlobalArg(name, np.float32, shape=lp.auto) for name in ("A", "B", *(["w"] if "w[" in text else []))]
    domain = f"{{[i,j,k] : 0 <= i < {m} and 0 <= j < 131 and 0 <= k < 129}}"
    return lp.make_kernel(domain, text, [*arguments, lp.GlobalArg("C", np.float32, shape=lp.auto), ...], lang_version=(2018, 2))


def taken(given: float, *known: float) -> Callable[..., Times]:
    """As if the given kernel and the first candidates took so many seconds, and all others a long time."""
    return lambda _, made, *__, **___: Times(given, (*known, *(9.0 for _ in made[len(known) :])))


def test_a_kernel_in_its_own_words_gets_faster_and_stays_right(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is faster is said here: a clock on a busy machine says anything."""
    monkeypatch.setattr(optimization, "times", taken(2.0, 1.0))
    kernel = product(127)
    found = ff.optimize(kernel, find_device("portable"), url=url)
    assert found.how in {How.choice, How.fact}
    assert found.verified
    assert [arg.name for arg in found.kernel.default_entrypoint.args] == [arg.name for arg in kernel.default_entrypoint.args]
    generator = np.random.default_rng(3)
    arrays = {"A": generator.random((127, 129), np.float32), "B": generator.random((129, 131), np.float32)}
    assert largest_error(run(found.kernel, **arrays)["C"], 1.5 * (arrays["A"].astype(float) @ arrays["B"])) < 1e-5
    assert "verified" in repr(found)


def test_what_is_slower_is_not_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimization, "times", taken(1.0, 2.0))
    kernel = product(16)
    found = ff.optimize(kernel, find_device("portable"), url=url)
    assert (found.kernel, found.how) == (kernel, How.unchanged)
    assert "the default mapping: takes 2 times as long as the kernel itself" in repr(found)


def test_a_fact_that_loses_to_the_default_is_not_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = product(16, "C[i,j] = sum(k, A[i,k]*B[k,j])")
    made = measurement(ff.match(kernel).cascade, PLAIN, device=DeviceInfo.of(find_device("portable")), median_ns=1e6)
    ff.record(made, url=url)
    for seconds, how in (((1.2, 1.0), How.choice), ((0.9, 1.0), How.fact)):
        monkeypatch.setattr(optimization, "times", taken(2.0, *seconds))
        found = ff.optimize(kernel, find_device("portable"), url=url)
        assert found.how == how
        assert (found.fact is not None and found.fact.found is Fit.exact) == (how is How.fact)
        assert "times as long as" in repr(found)


def test_what_is_no_cascade_stays_as_it_is(url: str) -> None:
    kernel = product(16, "C[i,j] = C[i,0] + sum(k, cosh(A[i,k])*B[k,j])")
    found = ff.optimize(kernel, find_device("portable"), url=url)
    assert (found.kernel, found.how, found.verified) == (kernel, How.unchanged, False)
    assert any("reads C, which it writes" in reason for reason in found.reasons)
    with pytest.raises(ff.MatchError, match="cannot be matched"):
        ff.optimize("text", find_device("portable"), url=url)  # type: ignore[arg-type]


def test_a_kernel_compiles_to_a_program_of_its_arrays() -> None:
    program = ff.compile(product(31), "portable")
    arrays = {name: np.random.default_rng(5).random(shape, np.float32) for name, shape in program.input_shapes.items()}
    assert largest_error(program(**arrays)["C"], 1.5 * (arrays["A"].astype(float) @ arrays["B"])) < 1e-5
    with pytest.raises(ff.MatchError, match=r"computes .* on the way in"):
        ff.compile(product(31, "C[i,j] = sum(k, cosh(A[i,k])*B[k,j])"), "portable")


def test_its_own_loops_on_groups_where_that_is_fastest(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimization, "times", lambda _, made, *__, **___: Times(2.0, (*(3.0 for _ in made[1:]), 1.0)))
    kernel = lp.make_kernel(
        ["{[i,j] : 0 <= j <= i < 90}", "{[k] : 0 <= k < 90}"],
        "C[i,j] = 2*A[i,j] {id=C}\nd[k] = C[k,0] + 1 {id=d, dep=C}",
        [lp.GlobalArg("A,C", np.float32, shape=(90, 90)), lp.GlobalArg("d", np.float32, shape=(90,))],
        lang_version=(2018, 2),
    )
    found = ff.optimize(kernel, find_device("portable"), url=url)
    assert found.how in {How.spread, How.choice}
    bound = spread_kernel(kernel, ff.match(kernel), DeviceInfo.of(find_device("portable")))
    assert [math.prod(launch.global_size) > 1 for launch in executable(bound).launches] == [True, False]
    given = {name: np.random.default_rng(3).random((90, 90), np.float32) for name in "AC"}
    expected = np.where(np.tri(90, dtype=bool), 2 * given["A"], given["C"])
    assert largest_error(run(bound, **given)["C"], expected) < 1e-6
    with pytest.raises(ff.LoweringError, match="bound to the device already"):
        spread_kernel(bound, ff.match(kernel), DeviceInfo.of(find_device("portable")))


def test_tuning_is_one_more_candidate(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search finds is applied to the kernel, as it is or with the cascade rewritten. (The search itself has its own tests.)"""
    kernel, asked = product(16, "C[i,j] = sum(k, A[i,k]*B[k,j]*w[k])"), []

    def tune(cascade: Cascade, device: object, **options: object) -> SimpleNamespace:
        asked.append(options["seconds"])
        found = next(one for one in variants(cascade) if one.rewritings)
        return SimpleNamespace(program=SimpleNamespace(cascade=found, schedule=default_schedule(found)), measured=3, seconds=1.0)

    monkeypatch.setattr(contenders, "tune", tune)
    monkeypatch.setattr(optimization, "times", lambda _, made, *__, **___: Times(2.0, (*(3.0 for _ in made[1:]), 1.0)))
    found = ff.optimize(kernel, find_device("portable"), tune=True, seconds=7.0, url=url)
    assert (found.how, found.verified, asked) == (How.tuned, True, [7.0])
    assert "tuned here: 3 candidates measured in 1 s" in repr(found)
    with pytest.raises(ff.MatchError, match="seconds"):
        ff.optimize(kernel, find_device("portable"), tune=True, seconds=0.0, url=url)


def test_a_fact_about_a_rewritten_kernel_is_found_and_applied(url: str) -> None:
    kernel = product(16, "C[i,j] = sum(k, A[i,k]*B[k,j]*w[k])")
    cascade = ff.match(kernel).cascade
    after = next(one for one in variants(cascade) if one.rewritings and len(one.einsums) == 2)
    ff.record(measurement(after, PLAIN, device=DeviceInfo.of(find_device("portable")), median_ns=1e6), url=url)
    fact = ff.retrieve(kernel, find_device("portable"), url=url)
    assert fact.found is Fit.exact
    assert fact.detail.startswith("rewritten by ")
    applied = fact.apply(kernel)
    assert len(applied.default_entrypoint.temporary_variables) > 0
    generator = np.random.default_rng(3)
    shapes = {"A": (16, 129), "B": (129, 131), "w": (129,)}
    arrays = {name: generator.random(shape, np.float32) for name, shape in shapes.items()}
    expected = np.einsum("ik,kj,k->ij", *(array.astype(float) for array in arrays.values()))
    assert largest_error(run(applied, **arrays)["C"], expected) < 1e-5
    with pytest.raises(ff.ArchiveError, match="rewritten first"):
        fact.apply(kernel, ["unknown"])
