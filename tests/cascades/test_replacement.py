"""Rewritings of a cascade inside somebody's kernel."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.cascades.matching.replacement import rewritten_match
from feinsum_fuse.cascades.rewriting.split_reduction import SplitReduction
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.steps.explicate import Explicate
from tests.cascades.randomness import largest_error, run


def gradient(extra: str = "", **arrays: tuple[int, ...]) -> lp.TranslationUnit:
    """Somebody's operator, whose volume is computed before, and whose result is used after."""
    shapes = {"J": (3, 3, 40), "S": (3, 6, 6), "u": (40, 6), "out": (3, 40, 6), "s": (40,), "v": (40,), "w": (40,), **arrays}
    return lp.make_kernel(
        ["{[d,r,e,i,j] : 0 <= d,r < 3 and 0 <= e < 40 and 0 <= i,j < 6}", "{[f] : 0 <= f < 40}", "{[g] : 0 <= g < 40}"],
        f"""
        w[f] = 1/s[f]  {{id=before}}
        out[d,e,i] = sum((r,j), J[d,r,e]*w[e]*S[r,i,j]*u[e,j])  {{id=D, dep=before}}
        v[g] = 2*out[0,g,1]  {{id=after, dep=D}}
        {extra}
        """,
        [lp.GlobalArg(name, np.float64, shape=shape) for name, shape in shapes.items()],
        lang_version=(2018, 2),
    )


def arrays(kernel: lp.TranslationUnit) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(8)
    return {arg.name: generator.uniform(0.5, 1, arg.shape) for arg in kernel.default_entrypoint.args}


def test_a_contraction_in_steps_among_other_instructions() -> None:
    kernel = gradient()
    matched = ff.match(kernel, ["D"])
    after = rewritten_match(matched, matched.cascade.contract("D"))
    assert [insn.id for insn in after.prepared.default_entrypoint.instructions] == ["before", "D_part1", "D_part2", "D", "after"]
    assert after.prepared.default_entrypoint.id_to_insn["D_part1"].depends_on >= {"before"}
    assert [arg.name for arg in after.prepared.default_entrypoint.args] == [arg.name for arg in kernel.default_entrypoint.args]
    assert str(after.rewritings[-1]).startswith("rewritten: ContractionOrder")
    given = arrays(kernel)
    expected = run(kernel, **given)
    for unit in (after.prepared, Schedule((Explicate(),)).apply(after.prepared, after.names)):
        results = run(unit, **given)
        assert max(largest_error(results[name], expected[name]) for name in ("out", "v", "w")) < 1e-13


def test_a_reduction_in_parts() -> None:
    kernel = lp.make_kernel(
        "{[z,k] : 0 <= z < 2 and 0 <= k < 64}",
        "out[z] = sum(k, a[z,k]*a[z,k])  {id=s}",
        [lp.GlobalArg("a", np.float64, shape=(2, 64)), lp.GlobalArg("out", np.float64, shape=(2,))],
    )
    matched = ff.match(kernel)
    after = rewritten_match(matched, SplitReduction("s", "k", 4).apply(matched.cascade))
    given = arrays(kernel)
    assert largest_error(run(after.prepared, **given)["out"], np.sum(given["a"] ** 2, axis=1)) < 1e-13


def test_a_cascade_that_was_not_rewritten_is_the_same_match() -> None:
    matched = ff.match(gradient(), ["D"])
    assert rewritten_match(matched, matched.cascade) is matched


def test_loops_that_others_share_are_not_rewritten() -> None:
    kernel = gradient("x[e] = 2*s[e]  {id=shared}", x=(40,))
    matched = ff.match(kernel, ["D"])
    with pytest.raises(ff.MatchError, match="D cannot be rewritten: other instructions run in the same loops"):
        rewritten_match(matched, matched.cascade.contract("D"))
