"""Searchers on a table: each gives seconds in the order in which it measures, infinite for failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeVar

from feinsum_fuse.mappings.choices import Choice, Drawn
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.search import Search

from .record import RecordedSpace

T = TypeVar("T")
Times = Mapping[str, float | None]
BATCH = 6
"""Candidates that ours proposes at once, as it does on two cores."""


def anywhere(space: RecordedSpace, seed: int) -> Candidate:
    """A configuration of which every decision is drawn."""
    return space.made("", Drawn(Random(seed), 1), "drawn")


def ours(space: RecordedSpace, times: Times, seed: int, count: int, predicted: Times | None, start: Candidate) -> list[float]:
    """The search of ``ff.tune``, from a configuration; told of a batch after the last."""
    estimates = None if predicted is None else (lambda candidates: [predicted[candidate.tree] for candidate in candidates])
    search = Search(space, seed, [start], estimates, [start])
    found: list[float] = []
    while len(found) < count and (asked := search.ask(BATCH)):
        for candidate in asked:
            search.tell(candidate, times[candidate.tree])
            found.append(times[candidate.tree] or math.inf)
    return found[:count]


def by_chance(times: Times, seed: int) -> list[float]:
    """A random order of all."""
    known = list(times.values())
    return [seconds or math.inf for seconds in Random(seed).sample(known, len(known))]


def by_tpe(space: RecordedSpace, times: Times, seed: int, count: int, start: Candidate) -> list[float]:
    """Optuna's TPE, told of the decisions as categories, from the same configuration; what it asks again is not counted."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, warn_independent_sampling=False)
    study = optuna.create_study(sampler=sampler)
    worst = 4 * max(seconds for seconds in times.values() if seconds is not None)
    study.enqueue_trial(
        {_Suggested.name(choice): choice.options.index(start.decisions[choice.name]) for choice in start.choices if _is_open(choice)}
    )
    found: dict[str, float] = {}
    for _ in range(6 * count):
        if len(found) >= count:
            break
        trial = study.ask()
        made = space.made("", _Suggested(trial), "tpe")
        seconds = times[made.tree]
        study.tell(trial, math.log(seconds or worst))
        found.setdefault(made.tree, seconds or math.inf)
    return list(found.values())[:count]


class _Suggested:
    """Takes decisions as a trial of Optuna suggests."""

    def __init__(self, trial: object) -> None:
        self._suggest: Callable[[str, list[int]], int] = trial.suggest_categorical  # type: ignore[attr-defined]

    def choose(self, choice: Choice[T]) -> T:
        if not _is_open(choice):
            return choice.usual
        return choice.options[self._suggest(self.name(choice), list(range(len(choice.options))))]

    @staticmethod
    def name(choice: Choice[T]) -> str:
        """A parameter's: a decision with as many options, since Optuna's categories never change."""
        return f"{choice.name} of {len(choice.options)}"


def _is_open(choice: Choice[T]) -> bool:
    return len(choice.options) > 1
