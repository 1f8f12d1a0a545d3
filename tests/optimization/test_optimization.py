"""``ff.optimize``: always an answer, and never a wrong one."""

from __future__ import annotations

from pathlib import Path

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.question import Fit
from feinsum_fuse.device.catalogue import DeviceInfo, find_device
from feinsum_fuse.device.program.building import PLAIN
from feinsum_fuse.optimization import optimization
from feinsum_fuse.optimization.optimized import How
from feinsum_fuse.optimization.race import Times
from tests.archive.samples import measurement
from tests.cascades.randomness import largest_error, run


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'facts.db'}"


def product(m: int, text: str = "C[i,j] = 1.5*sum(k, A[i,k]*B[k,j])") -> lp.TranslationUnit:
    arguments = [lp.GlobalArg(name, np.float32, shape=lp.auto) for name in "AB"]
    domain = f"{{[i,j,k] : 0 <= i < {m} and 0 <= j < 131 and 0 <= k < 129}}"
    return lp.make_kernel(domain, text, [*arguments, lp.GlobalArg("C", np.float32, shape=lp.auto), ...], lang_version=(2018, 2))


def test_a_kernel_in_its_own_words_gets_faster_and_stays_right(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is faster is said here: a clock on a busy machine says anything."""
    monkeypatch.setattr(optimization, "times", lambda *_, **__: Times(2.0, (1.0,)))
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
    monkeypatch.setattr(optimization, "times", lambda *_, **__: Times(1.0, (2.0,)))
    kernel = product(16)
    found = ff.optimize(kernel, find_device("portable"), url=url)
    assert (found.kernel, found.how) == (kernel, How.unchanged)
    assert "the default mapping: takes 2 times as long as the kernel itself" in repr(found)


def test_a_fact_that_loses_to_the_default_is_not_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = product(16, "C[i,j] = sum(k, A[i,k]*B[k,j])")
    made = measurement(ff.match(kernel).cascade, PLAIN, device=DeviceInfo.of(find_device("portable")), median_ns=1e6)
    ff.record(made, url=url)
    for seconds, how in (((1.2, 1.0), How.choice), ((0.9, 1.0), How.fact)):
        monkeypatch.setattr(optimization, "times", lambda *_, given=seconds, **__: Times(2.0, given))
        found = ff.optimize(kernel, find_device("portable"), url=url)
        assert found.how == how
        assert (found.fact is not None and found.fact.found is Fit.exact) == (how is How.fact)
        assert "times as long as" in repr(found)


def test_what_is_no_cascade_stays_as_it_is(url: str) -> None:
    kernel = product(16, "C[i,j] = C[i,j] + sum(k, cosh(A[i,k])*B[k,j])")
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
