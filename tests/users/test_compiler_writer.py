"""Somebody whose compiler makes loopy kernels and asks what is known of them: the documented path, and the mistakes on the way."""

from __future__ import annotations

from pathlib import Path

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.optimization import optimization
from feinsum_fuse.optimization.answer import How
from feinsum_fuse.optimization.race import Times


def kernel(text: str = "y[i] = sum(j, A[i, j] * x[j])", loops: str = "{[i, j]: 0 <= i < 16 and 0 <= j < 8}") -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("A", np.float64, shape=(16, 8)), lp.GlobalArg("x", np.float64, shape=(8,))]
    return lp.make_kernel(loops, text, [*arrays, lp.GlobalArg("y", np.float64, shape=(16,), is_input=False)], lang_version=(2018, 2))


def test_from_a_kernel_to_a_faster_one_by_a_fact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is faster is said here: a clock on a busy machine says anything."""
    url = str(tmp_path / "facts.sqlite3")
    found = ff.match(kernel())
    ff.record(ff.measure(ff.spec(found.cascade), repeats=1), url=url)
    new = ff.retrieve(kernel(), "pthread", url=url).apply(kernel())
    old = kernel().default_entrypoint
    assert {arg.name: arg.shape for arg in new.default_entrypoint.args} == {arg.name: arg.shape for arg in old.args}
    monkeypatch.setattr(optimization, "times", lambda _, made, *__, **___: Times(2.0, (1.0, *(9.0 for _ in made[1:]))))
    best = ff.optimize(kernel(), "pthread", url=url)
    assert (best.how, best.verified) == (How.fact, True)


def test_the_key_is_the_structure_and_not_the_names() -> None:
    renamed = lp.make_kernel(
        "{[a, b]: 0 <= a < 16 and 0 <= b < 8}",
        "out[a] = sum(b, v[b] * M[a, b])",
        [
            lp.GlobalArg("M", np.float64, shape=(16, 8)),
            lp.GlobalArg("v", np.float64, shape=(8,)),
            lp.GlobalArg("out", np.float64, shape=(16,), is_input=False),
        ],
        lang_version=(2018, 2),
    )
    assert ff.match(kernel()).cascade.key == ff.match(renamed).cascade.key


REFUSED = [
    "y[i] = sum(j, A[i, j] * x[j]) + foreign(x[0])",
    "y[A[i, 0]] = x[0]",
    "y[i] = y[15 - i] + sum(j, A[i, j] * x[j])",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_einsum_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ff.MatchError, match=r"is no Einsum|cannot be read"):
        ff.match(kernel(text))


def test_mistakes_with_kernels(tmp_path: Path) -> None:
    url = str(tmp_path / "none.sqlite3")
    for wrong in (kernel().default_entrypoint, "y[i] = x[i]", None, [kernel()]):
        with pytest.raises(ff.Error):
            ff.match(wrong)  # type: ignore[arg-type]
    with pytest.raises(ff.MatchError, match="no instruction 'nonesuch'"):
        ff.match(kernel(), instructions=["nonesuch"])
    with pytest.raises(ff.MatchError, match="a kernel 'nonesuch' cannot be told"):
        ff.match(kernel(), kernel_name="nonesuch")
    with pytest.raises(ff.ArchiveError, match="nothing is recorded"):
        ff.retrieve(kernel(), "pthread", url=url).apply(kernel())
    with pytest.raises(ff.ArchiveError, match="is no device"):
        ff.optimize(kernel(), None, url=url)  # type: ignore[arg-type]


def test_a_fact_of_another_kernel_is_not_applied(tmp_path: Path) -> None:
    url = str(tmp_path / "facts.sqlite3")
    ff.record(ff.measure(ff.spec(ff.match(kernel()).cascade), repeats=1), url=url)
    fact = ff.retrieve(kernel(), "pthread", url=url)
    with pytest.raises(ff.ArchiveError, match="another structure"):
        fact.apply(kernel("y[i] = 2*x[0] {id=w}", "{[i]: 0 <= i < 16}"))
