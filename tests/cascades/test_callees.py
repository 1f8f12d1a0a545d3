"""Kernels that call kernels which call kernels: loopy looks at each call by itself, again and again."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

import feinsum_fuse as ff
from feinsum_fuse.optimization.answer import How
from tests.archive.samples import HERE


def _function(name: str, called: tuple[str, ...]) -> lp.TranslationUnit:
    """``y`` is what the last of the called makes of what the first makes of ``x``; twice ``x`` if none is called."""
    arrays = [lp.GlobalArg(name, np.float32, 8) for name in "xy"]
    if not called:
        return lp.make_function("{[j]: 0<=j<8}", "y[j] = 2*x[j]", arrays, name=name)
    between = [f"t{k}" for k in range(1, len(called))]
    steps = zip(called, ["x", *between], [*between, "y"], strict=True)
    lines = [f"[i{k}]: {target}[i{k}] = {function}([j{k}]: {source}[j{k}])" for k, (function, source, target) in enumerate(steps)]
    inames = ", ".join(f"i{k}, j{k}" for k in range(len(called)))
    temporaries = [lp.TemporaryVariable(name, np.float32, (8,)) for name in between]
    return lp.make_function(f"{{[{inames}]: 0<={inames}<8}}", lines, [*arrays, *temporaries], name=name)


def calling(calls: dict[str, tuple[str, ...]]) -> lp.TranslationUnit:
    """A kernel that calls the first of some functions; function -> those that it calls."""
    arrays = [lp.GlobalArg(name, np.float32, 8) for name in "wz"]
    main = lp.make_kernel("{[i, j]: 0<=i, j<8}", f"[i]: z[i] = {next(iter(calls))}([j]: w[j])", arrays, name="main")
    return lp.merge([main, *(_function(name, called) for name, called in calls.items())])


CALLS: dict[str, tuple[dict[str, tuple[str, ...]], str]] = {
    "itself": ({"f": ("f",)}, "without end: f -> f"),
    "each other": ({"f": ("g",), "g": ("f",)}, "without end: f -> g -> f"),
    "deeply": ({**{f"f{k}": (f"f{k + 1}",) for k in range(60)}, "f60": ()}, "more than 30 deep"),
    "often": ({**{f"f{k}": (f"f{k + 1}",) * 2 for k in range(12)}, "f12": ()}, "kernel main calls kernels 8191 times"),
}


@pytest.mark.parametrize("name", CALLS)
def test_kernels_that_call_too_much_are_refused_at_once(name: str) -> None:
    calls, message = CALLS[name]
    unit = calling(calls)
    with pytest.raises(ff.MatchError, match=message):
        ff.match(unit)
    with pytest.raises(ff.MatchError, match=message):
        ff.raise_mapping(unit)
    found = ff.optimize(unit, HERE)
    assert found.how is How.unchanged and message in found.reasons[0]


def test_kernels_that_call_a_few_are_read() -> None:
    assert ff.match(calling({"f": ()})).cascade.outputs == ("z",)
