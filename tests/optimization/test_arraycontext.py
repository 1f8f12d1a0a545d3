"""Programs as pytato generates them, through the hook by which array contexts transform them."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse
from feinsum_fuse.arraycontext import transform_loopy_program, transformed
from feinsum_fuse.errors import MatchError
from feinsum_fuse.optimization import optimization
from feinsum_fuse.optimization.answer import How
from feinsum_fuse.optimization.race import Times
from tests.cascades.randomness import largest_error, run


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'facts.db'}"


def gradient() -> lp.TranslationUnit:
    """A gradient on elements and what its user goes on to do with it, in the names and with the options of a generated program."""
    return lp.make_kernel(
        "{[_0, _1, _2, _r0, _r1] : 0 <= _0 < 3 and 0 <= _1 < 21 and 0 <= _2 < 10 and 0 <= _r0 < 3 and 0 <= _r1 < 10}",
        "out[_0, _1, _2] = 1 + 2*sin(sum([_r0, _r1], _in0[_0, _r0, _1]*_in1[_r0, _2, _r1]*_in2[_1, _r1])) {id=_pt_out_store}",
        [
            lp.GlobalArg("out", np.float64, shape=(3, 21, 10), is_input=False),
            lp.GlobalArg("_in0", np.float64, shape=(3, 3, 21)),
            lp.GlobalArg("_in1", np.float64, shape=(3, 10, 10)),
            lp.GlobalArg("_in2", np.float64, shape=(21, 10)),
        ],
        name="rhs",
        options=lp.Options(return_dict=True, no_numpy=True),
    )


class Context:
    """What an array context does with a program: it transforms it, once, and calls it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.own_calls = 0

    def own(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        self.own_calls += 1
        return lp.tag_inames(t_unit, {"_1": "g.0"})

    def transform_loopy_program(self, t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
        return transform_loopy_program(t_unit, "portable", own=self.own, url=self.url)


@pytest.mark.parametrize(("seconds", "ours"), [((1.0, 2.0), True), ((2.0, 1.0), False)])
def test_a_program_runs_through_a_context(url: str, monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, float], ours: bool) -> None:
    taken, own = seconds
    monkeypatch.setattr(optimization, "times", lambda _, made, *__, **___: Times(4.0, (*(taken for _ in made[1:]), own)))
    program, context = gradient(), Context(url)
    faster = context.transform_loopy_program(program)
    before, after = program.default_entrypoint, faster.default_entrypoint
    assert ([arg.name for arg in after.args], after.name) == ([arg.name for arg in before.args], before.name)
    assert (after.options.return_dict, after.options.no_numpy) == (True, True)
    assert (len(after.instructions) > 1) == ours
    generator = np.random.default_rng(4)
    arrays = {arg.name: generator.random(arg.shape) for arg in before.args if arg.name != "out"}
    expected = 1 + 2 * np.sin(np.einsum("xre,rij,ej->xei", *arrays.values()))
    assert largest_error(run(lp.set_options(faster, no_numpy=False), **arrays)["out"], expected) < 1e-12


def test_a_program_that_is_no_cascade_is_left_to_the_context(url: str, caplog: pytest.LogCaptureFixture) -> None:
    scatter = lp.make_kernel(
        "{[_0] : 0 <= _0 < 21}",
        "out[index[_0]] = a[_0]",
        [lp.GlobalArg("a,out", np.float64, shape=(21,)), lp.GlobalArg("index", np.int32, shape=(21,))],
    )
    assert transform_loopy_program(scatter, "portable", url=url) == scatter
    with caplog.at_level(logging.INFO, "feinsum_fuse.arraycontext"):
        found = transformed(scatter, "portable", own=lambda unit: lp.tag_inames(unit, {"_0": "g.0"}), url=url)
    assert (found.how, found.verified) == (How.own, False)
    assert "index" in caplog.text
    with pytest.raises(MatchError, match="the program"):
        transform_loopy_program("text")  # type: ignore[arg-type]


def test_neither_package_is_imported() -> None:
    source = Path(feinsum_fuse.__file__).with_name("arraycontext.py").read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom | ast.Import)]
    names = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports if not getattr(node, "level", 0)}
    assert not {str(name).partition(".")[0] for name in names} & {"pytato", "arraycontext"}
