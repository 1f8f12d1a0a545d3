"""The sweep: whatever is given to a public function or a verb, what escapes is one of our errors, or a documented exit code."""

from __future__ import annotations

import inspect
import random
import types
from pathlib import Path

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive.facts.fact import Fact
from feinsum_fuse.archive.facts.forgetting import Forgotten
from feinsum_fuse.cascades.cascade import Cascade
from feinsum_fuse.cascades.matching.match import Match
from feinsum_fuse.cascades.reading.batched import BatchedEinsum
from feinsum_fuse.cli.__main__ import VERBS
from feinsum_fuse.cli.db import command as db
from feinsum_fuse.device.program.program import Program
from feinsum_fuse.device.timing.measurement import Measurement
from feinsum_fuse.formats.spec import Spec
from feinsum_fuse.mapper.curves import Curve
from feinsum_fuse.mapper.exploration import Exploration
from feinsum_fuse.mapper.result import Result
from feinsum_fuse.model.evaluation import Predictions
from feinsum_fuse.model.floor import Bounds
from feinsum_fuse.model.prediction import Figures, Prediction
from feinsum_fuse.optimization.answer import Optimized
from feinsum_fuse.optimization.ranges import RangedProgram
from feinsum_fuse.patterns.transform import Transform
from feinsum_fuse.report.explanation import Explanation
from feinsum_fuse.schedule.intrinsics.tensorizations import Tensorization
from feinsum_fuse.schedule.schedule import Schedule
from feinsum_fuse.schedule.tree.blocks import Blocks
from feinsum_fuse.tuning.tuned import Tuned
from tests.attack.calls import Ending, function_call, verb_call
from tests.attack.functions import functions
from tests.attack.verbs import LINES as VERB_LINES
from tests.sweeps import SEED, SLOW, sweep_size

CHUNKS = 20 if SLOW else 1
CALLS, LINES = 17_000, 3_000
LEAST_PASSED = 0.3
"""The part of the calls that has to come further than the first check of arguments; else the sweep would show little."""


def judge(endings: list[Ending]) -> None:
    """Nothing foreign escaped, and enough calls came far enough for that to mean something."""
    foreign = [ending for ending in endings if ending.foreign]
    shown = "\n\n".join(f"{ending.call}\n{ending.foreign}" for ending in foreign[:20])
    assert not foreign, f"{len(foreign)} of {len(endings)} calls, seed {SEED}:\n{shown}"
    assert sum(ending.passed for ending in endings) >= LEAST_PASSED * len(endings)


RETURNED = (
    *(BatchedEinsum, Blocks, Bounds, Cascade, Curve, Exploration, Explanation, Fact, Figures, Forgotten, Match, Measurement, Optimized),
    *(Prediction, Predictions, Program, RangedProgram, Result, Schedule, Spec, Tensorization, Transform, Tuned),
)
"""Classes of what public functions return, whose methods take something."""
MADE_INSIDE = ("of", "leading_to", "changed")
"""Methods by which this package makes its own values."""


def takes(what: object, name: str) -> bool:
    """Whether a member of a class is a public method to which something is given."""
    function = getattr(what, "__func__", what)
    if name.startswith("_") or name in MADE_INSIDE or not isinstance(function, types.FunctionType):
        return False
    return len(inspect.signature(function).parameters) > 1


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_functions(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    choose = random.Random(f"functions {SEED} {chunk}")
    given = functions(Path())
    judge([function_call(given, choose) for _ in range(sweep_size(CALLS) // CHUNKS)])


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_verbs(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    choose = random.Random(f"verbs {SEED} {chunk}")
    functions(Path())
    judge([verb_call(tmp_path, choose) for _ in range(sweep_size(LINES) // CHUNKS)])


def test_every_verb_is_called() -> None:
    """But for ``db serve``, which listens until it is interrupted."""
    called = {" ".join(words[: 1 + (words[0] == "db")]) for words in (line.split() for _, line in VERB_LINES)}
    own = {f"db {found.name or found.callback.__name__}" for found in db.registered_commands if found.callback is not None}
    assert called >= {*VERBS, *own} - {"db", "db serve"}


def test_every_public_function_is_called(tmp_path: Path) -> None:
    called = {function.name.split()[0] for function in functions(tmp_path)}
    public = {name for name in ff.__all__ if not isinstance(getattr(ff, name), type)}
    public |= {f"{kind.__name__}.{name}" for kind in RETURNED for name, what in vars(kind).items() if takes(what, name)}
    assert not public - called, "a public function is missing in tests/attack/functions.py"
