"""Searchers on a table: each gives seconds in the order in which it measures, infinite for failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeVar

from feinsum_fuse.errors import Error
from feinsum_fuse.mappings.choices import Choice
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.search import Search

from .tables import Model, Table

T = TypeVar("T")
Times = Mapping[str, float | None]
BATCH = 6
"""Candidates that ours proposes at once, as it does on two cores."""


def ours(table: Table, times: Times, seed: int, count: int, model: Model | None) -> list[float]:
    """The search of ``ff.tune``, from the default configuration; told of a batch after the last."""
    estimates = None if model is None else (lambda candidates: [model(candidate) for candidate in candidates])
    default = [table.default] if table.default.tree in times else []
    search = Search(_Within(table, times), seed, default, estimates, default)
    found: list[float] = []
    while len(found) < count and (asked := search.ask(BATCH)):
        for candidate in asked:
            search.tell(candidate, times[candidate.tree])
            found.append(times[candidate.tree] or math.inf)
    return found[:count]


class _Within:
    """The space, without what the table has no time for."""

    def __init__(self, table: Table, times: Times) -> None:
        self._space, self._times = table.space, times

    def _checked(self, made: Candidate) -> Candidate:
        if made.tree not in self._times:
            raise Error("not in the table")
        return made

    def drawn(self, random: Random) -> Candidate:
        return self._checked(self._space.drawn(random))

    def mutated(self, candidate: Candidate, random: Random) -> Candidate:
        return self._checked(self._space.mutated(candidate, random))

    def crossed(self, first: Candidate, second: Candidate, random: Random) -> Candidate:
        return self._checked(self._space.crossed(first, second, random))

    def moved(self, candidate: Candidate, random: Random) -> Candidate:
        return self._checked(self._space.moved(candidate, random))


def by_chance(times: Times, seed: int, count: int) -> list[float]:
    """A random order."""
    known = list(times.values())
    return [seconds or math.inf for seconds in Random(seed).sample(known, min(count, len(known)))]


def by_tpe(table: Table, times: Times, seed: int, count: int) -> list[float]:
    """Optuna's TPE, told of the decisions as categories; what it asks again, and what the table lacks, is not counted."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, warn_independent_sampling=False)
    study = optuna.create_study(sampler=sampler)
    found: dict[str, float] = {}
    worst = 4 * max(seconds for seconds in times.values() if seconds is not None)
    if table.default.tree in times:
        found[table.default.tree] = times[table.default.tree] or math.inf
    for _ in range(6 * count):
        if len(found) >= count:
            break
        trial = study.ask()
        made = table.space.made("", _Suggested(trial), "tpe")
        seconds = times.get(made.tree)
        study.tell(trial, math.log(seconds or worst))
        if made.tree in times:
            found.setdefault(made.tree, seconds or math.inf)
    return list(found.values())[:count]


class _Suggested:
    """Takes decisions as a trial of Optuna suggests."""

    def __init__(self, trial: object) -> None:
        self._suggest: Callable[[str, list[int]], int] = trial.suggest_categorical  # type: ignore[attr-defined]

    def choose(self, choice: Choice[T]) -> T:
        if len(choice.options) == 1:
            return choice.usual
        return choice.options[self._suggest(f"{choice.name} of {len(choice.options)}", list(range(len(choice.options))))]
