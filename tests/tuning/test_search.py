"""A search on times that are known: it proposes nothing twice, starts as it is told, and finds fast candidates sooner than chance."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from feinsum_fuse.errors import Error
from feinsum_fuse.tuning.candidate import Candidate
from feinsum_fuse.tuning.learning.correction import Correction
from feinsum_fuse.tuning.learning.forest import Encoding, Forest
from feinsum_fuse.tuning.model_choice import CONVINCING, convincing
from feinsum_fuse.tuning.search import FAR, Search
from feinsum_fuse.tuning.space import Space

from .spaces import space

Time = Callable[[Candidate], float | None]


@pytest.fixture(scope="module")
def small() -> Space:
    return space()


def seconds(candidate: Candidate) -> float | None:
    """A made-up time: two decisions matter most, and some candidates fail."""
    decisions = candidate.decisions
    if decisions.get("width") == 2:
        return None
    factor = 1.0 if decisions.get("lane of Z") == "n" else 3.0
    factor *= 1 + abs(math.log2(float(str(decisions.get("down of Z", 1)))) - 2)
    return 1e-3 * factor * (2 if candidate.variant else 1) * (1.5 if decisions.get("copied of Z") else 1)


def searched(small: Space, seed: int, count: int, time: Time = seconds, *, learning: bool = True) -> list[Candidate]:
    search = Search(small, seed, small.defaults()[1:])
    order: list[Candidate] = []
    while len(order) < count:
        asked = search.ask(5)
        order += asked
        for candidate in asked:
            search.tell(candidate, time(candidate) if learning else 1.0)
    return order[:count]


def best(candidates: Sequence[Candidate], time: Time = seconds) -> float:
    return min(s for c in candidates if (s := time(c)) is not None)


def test_nothing_is_proposed_twice_and_what_is_given_comes_first(small: Space) -> None:
    order = searched(small, 0, 20)
    assert len(set(order)) == len(order)
    assert order[: len(small.defaults()) - 1] == small.defaults()[1:]


def test_one_seed_searches_alike(small: Space) -> None:
    assert searched(small, 3, 12) == searched(small, 3, 12)


def far(candidate: Candidate) -> float | None:
    """A made-up time that is best far from the default: many decisions matter, each a little."""
    decisions = candidate.decisions
    factor = 1.0
    for name, wanted, weight in (("down of Z", 1, 1.0), ("vectors of Z", 1, 1.0), ("tile of Z", 64, 0.25), ("block of Z", 32, 0.25)):
        factor *= 1 + weight * abs(math.log2(float(str(decisions.get(name) or 1024)) / wanted))
    slow = (2 if candidate.variant else 1) * (1.5 if decisions.get("copied of Z") else 1) * (1 if decisions.get("lane of Z") == "n" else 3)
    return None if decisions.get("width") == 2 else 1e-3 * factor * slow


def test_it_finds_fast_candidates_sooner_than_chance(small: Space) -> None:
    """By the median of several seeds: a search that learns nothing from times is no better than drawing."""

    random, drawn = Random(0), list[Candidate]()
    while len(drawn) < 160:
        with contextlib.suppress(Error):
            drawn.append(small.drawn(random))
    ours = [best(searched(small, seed, 40, far), far) for seed in range(7)]
    assert np.median(ours) < 0.8 * np.median([best(drawn[start : start + 40], far) for start in range(0, 160, 40)])


def test_what_the_model_refuses_is_never_proposed(small: Space) -> None:
    def estimates(candidates: Sequence[Candidate]) -> list[float | None]:
        return [None if candidate.decisions["groups"] is False else 1.0 for candidate in candidates]

    search = Search(small, 0, (), estimates)
    assert all(candidate.decisions["groups"] for _ in range(4) for candidate in search.ask(5))


def test_the_best_predictions_of_generations_come_first(small: Space) -> None:
    """Fewer are measured than are looked at: what is proposed is among the best of many, and nothing that is predicted to be far off."""

    def estimates(candidates: Sequence[Candidate]) -> list[float | None]:
        return [seconds(candidate) for candidate in candidates]

    search = Search(small, 0, small.defaults()[:1], estimates, small.defaults())
    search.ask(1)
    asked = search.ask(8)
    known = sorted(s for s in search.predicted.values() if s is not None)
    assert max(seconds(c) or math.inf for c in asked) <= FAR * known[0]
    assert statistics.median(seconds(c) or math.inf for c in asked) <= np.quantile(known, 0.2)


def test_corrections_are_learned_and_small_where_little_is_known(small: Space) -> None:
    random, found = Random(0), []
    while len(found) < 40:
        with contextlib.suppress(Error):
            found.append(small.drawn(random))
    predicted: dict[Candidate, float | None] = dict.fromkeys(found, 0.001)
    correction = Correction()
    correction.learn(dict.fromkeys(found[:5], 0.002), predicted, 0)
    assert correction.hoped(found, predicted) == pytest.approx(math.log(2e-3))
    told = {candidate: 2e-3 if candidate.decisions.get("lane of Z") == "n" else 8e-3 for candidate in found[:20]}
    correction.learn(told, predicted, 0)
    hoped = dict(zip(found, correction.hoped(found, predicted), strict=True))
    fast = [hoped[c] for c in found[20:] if c.decisions.get("lane of Z") == "n"]
    slow = [hoped[c] for c in found[20:] if c.decisions.get("lane of Z") != "n"]
    assert statistics.median(fast) < statistics.median(slow) - 0.3


def test_a_forest_learns_what_depends_on_what() -> None:
    generator = np.random.default_rng(0)
    table = generator.integers(0, 4, (200, 6)).astype(float)
    values = 2.0 * table[:, 1] + (table[:, 3] > 1)
    mean, deviation = Forest(table[:150], values[:150], 0).predict(table[150:])
    assert np.corrcoef(mean, values[150:])[0, 1] > 0.95
    assert (deviation >= 0).all()


def test_decisions_that_were_not_taken_are_values_of_their_own() -> None:
    encoding = Encoding()
    rows = [encoding.row({"a": 4, "b": "x"}), encoding.row({"a": None, "c": True}), encoding.row({"b": "y"})]
    table = encoding.table(rows)
    assert table.shape == (3, 3)
    assert len({tuple(row) for row in table}) == 3
    assert table[0, 0] == math.log2(5) != table[1, 0]


def test_unmeasured_only_what_is_convincing_replaces_the_default(small: Space) -> None:
    """The least of many predictions errs downwards: a little less than the default mapping's says nothing."""
    default, *others = dict.fromkeys([*small.defaults()[:1], *(small.drawn(Random(seed)) for seed in range(9))])
    assert convincing({}) is None and convincing({default: 1.0}) is None
    for least, expected in ((1.01 * CONVINCING, None), (CONVINCING, others[1])):
        assert convincing({default: 1.0, others[0]: 1.5, others[1]: least}) is expected
    assert convincing({default: 1.0, others[0]: 0.9}, 0.95) is others[0]
