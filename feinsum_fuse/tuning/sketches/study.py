"""The parameters of transforms, tuned by Optuna: its sampler proposes, the tuner measures, and its study lies in the archive's database."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ...archive.tables.address import Address, Url, locate
from ...archive.tables.schema import tell
from ...errors import Error, SearchError
from ...patterns.parameters import ParameterValue
from ..candidate import Candidate
from .sketching import Sketching

if TYPE_CHECKING:
    import optuna

ATTEMPTS = 8
"""Trials for each candidate that is asked for, before the transforms are said to have no more."""

STORAGE_ATTEMPTS = 20
"""How often Optuna's tables are asked for while other processes make them: some ten seconds."""


class Proposing(Protocol):
    """What proposes candidates and is told what became of them."""

    predicted: dict[Candidate, float | None]

    def ask(self, count: int) -> list[Candidate]: ...

    def tell(self, candidate: Candidate, seconds: float | None) -> None: ...

    @property
    def ranking(self) -> list[Candidate]: ...


class ParameterSearch:
    """Optuna's proposals: a transform, and values of its parameters; each candidate is proposed once."""

    def __init__(self, sketching: Sketching, device: str, url: Url | None, seed: int) -> None:
        """Raises :class:`~feinsum_fuse.errors.SearchError` where Optuna is not installed."""
        self.sketching = sketching
        self.domains = {one.name: one.values(sketching.cascade) for one in sketching.transforms}
        self.predicted: dict[Candidate, float | None] = {}
        self.told: dict[Candidate, float | None] = {}
        self._trials: dict[Candidate, optuna.Trial] = {}
        self._seen: set[Candidate] = set()
        self._study = open_study(f"{sketching.cascade.key} on {device}, {_digest(self.domains)}", url, seed)

    def ask(self, count: int) -> list[Candidate]:
        """Up to so many candidates that were never proposed."""
        import optuna

        found: list[Candidate] = []
        for _ in range(ATTEMPTS * count):
            if len(found) >= count:
                break
            trial = self._study.ask()
            candidate = self._candidate(trial)
            if candidate is not None and candidate not in self._seen:
                self._seen.add(candidate)
                self._trials[candidate] = trial
                found.append(candidate)
            elif candidate is not None and self.told.get(candidate) is not None:
                self._study.tell(trial, self.told[candidate])
            else:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return found

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """What was measured; ``None`` for a failure. Candidates of others are noted, so that they are not proposed again."""
        import optuna

        self._seen.add(candidate)
        self.told[candidate] = seconds
        trial = self._trials.pop(candidate, None)
        if trial is not None and seconds is not None:
            self._study.tell(trial, seconds)
        elif trial is not None:
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)

    @property
    def ranking(self) -> list[Candidate]:
        """What was measured, the fastest first."""
        return sorted((c for c, s in self.told.items() if s is not None), key=lambda c: self.told[c] or math.inf)

    def _candidate(self, trial: optuna.Trial) -> Candidate | None:
        """The sampler's next point; ``None`` if it breaks a condition, or makes no mapping."""
        name = str(trial.suggest_categorical("transform", list(self.domains)))
        transform = next(one for one in self.sketching.transforms if one.name == name)
        point: dict[str, ParameterValue] = {}
        for key, options in self.domains[name].items():
            # As texts: Optuna takes True for 1.
            taken = trial.suggest_categorical(f"{name}.{key}", list(map(str, options)))
            point[key] = next(option for option in options if str(option) == taken)
        try:
            return self.sketching.candidate(transform, point)
        except Error:
            return None


class Beside:
    """Two searches side by side: each proposes its share of a batch and is told of everything."""

    def __init__(self, own: Proposing, parameters: Proposing) -> None:
        self.own, self.parameters = own, parameters
        self.predicted = own.predicted

    def ask(self, count: int) -> list[Candidate]:
        """Half from each; more from one where the other has no more."""
        mine = self.own.ask(-(-count // 2))
        others = [candidate for candidate in self.parameters.ask(count - len(mine)) if candidate not in mine]
        rest = count - len(mine) - len(others)
        return [*mine, *others, *(c for c in (self.own.ask(rest) if rest else []) if c not in others)]

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """Both learn of it."""
        self.own.tell(candidate, seconds)
        self.parameters.tell(candidate, seconds)

    @property
    def ranking(self) -> list[Candidate]:
        """What was measured, the fastest first."""
        return self.own.ranking


class Waiting:
    """Candidates that are proposed before another search is asked."""

    def __init__(self, first: Sequence[Candidate], then: Proposing) -> None:
        self.then = then
        self.predicted = self.then.predicted
        self._waiting = list(dict.fromkeys(first))

    def ask(self, count: int) -> list[Candidate]:
        """What waits, then what the search proposes."""
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken or self.then.ask(count)

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """What was measured."""
        self.then.tell(candidate, seconds)

    @property
    def ranking(self) -> list[Candidate]:
        """What was measured, the fastest first."""
        return self.then.ranking


def open_study(name: str, url: Url | None, seed: int) -> optuna.Study:
    """The study of this name in the archive's database, made with the first trial.

    Raises :class:`~feinsum_fuse.errors.SearchError` where Optuna is not installed, or its tables are of another release.
    """
    try:
        import optuna
    except ImportError as error:
        raise SearchError("the parameters of transforms are tuned by Optuna, which is not installed", hint="pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    address = locate(url)
    tell(address, lambda _: None)  # an archive whose version is still where Optuna keeps its own is migrated first
    storage = _storage(address)
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True, multivariate=False)
    return optuna.create_study(study_name=name, storage=storage, sampler=sampler, load_if_exists=True)


def _storage(address: Address) -> optuna.storages.RDBStorage:
    """Optuna's tables in a database, made where they are not there yet.

    Optuna makes them one by one: of several processes that begin together all but one fail, and find them at the next attempt.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    for attempt in itertools.count(1):
        try:
            return optuna.storages.RDBStorage(address.url.render_as_string(hide_password=False))
        except RuntimeError as error:
            hint = f"run optuna storage upgrade --storage {address.url}, or install another release of Optuna"
            raise SearchError(f"Optuna's tables in {address} are not those of Optuna {optuna.__version__}", hint=hint) from error
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            if attempt == STORAGE_ATTEMPTS:
                reason, hint = str(error).splitlines()[0], "try again, or choose another place with FEINSUM_FUSE_DATABASE"
                raise SearchError(f"Optuna cannot make its tables in {address}: {reason}", hint=hint) from error
        time.sleep(0.05 * attempt)
    raise AssertionError("unreachable")


def _digest(domains: dict[str, dict[str, tuple[ParameterValue, ...]]]) -> str:
    """What tells studies with other parameters apart: Optuna's parameters keep their values."""
    return hashlib.sha256(json.dumps(domains, sort_keys=True).encode()).hexdigest()[:12]
