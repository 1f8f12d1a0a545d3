"""``benchmarks.replay``: a recorded space walks as the family does that it was made by, and searchers are judged on it."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
from constantdict import constantdict

from benchmarks.replay.judging import TPE, beside, expected_bests, judge, score
from benchmarks.replay.record import Measured, Record, name_of
from benchmarks.replay.searchers import anywhere, by_chance, ours
from benchmarks.replay.tables import TABLES, fewer
from feinsum_fuse.mappings.choices import Choice, Rules

LANE = Choice[object]("lane", "Z", ("n", "m"))
COPIED = Choice[object]("copied", "Z", ((), ("A",), ("A", "B")))
DOWN = Choice[object]("down", "Z", tuple(range(1, 9)))
LINES = Choice[object]("lines", "Z", (True, False))


def taken(way: list[tuple[int, int]]) -> float:
    """Seconds that have something to do with the decisions."""
    return 1e-3 * (1 + sum((1 + choice) * abs(option - 2) for choice, option in way))


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Every way, of which those along m have one more decision; two lead to one configuration."""
    ways = [[(0, 0), (1, c), (2, d)] for c, d in product(range(3), range(8))]
    ways += [[(0, 1), (1, c), (2, d), (3, e)] for c, d, e in product(range(3), range(8), range(2))]
    every = [[way] for way in ways[:-1]]
    every[-1].append(ways[-1])
    made = Record(tmp_path / "space.jsonl.gz")
    predicted = [taken(found[0]) * (1 + 0.1 * (k % 5)) for k, found in enumerate(every)]
    about = {"einsums": ["Z[m, n] = A[m, k] * B[k, n]"], "device": "a device"}
    made.start(about, [LANE, COPIED, DOWN, LINES], every, [str(k) for k in range(len(every))], predicted)
    made.add(Measured(k, 1.0, f"text {k}") for k in range(40))
    made.add(Measured(k, taken(found[0]), f"text {k}") for k, found in enumerate(every) if k)
    made.add([Measured(0, None, "", "wrong_result")])
    return Record(made.file)


def test_a_recorded_space_takes_decisions_in_their_order(record: Record) -> None:
    default = record.space().made("", Rules(), "default")
    assert default.tree == name_of(0) and default.choices == (LANE, COPIED, DOWN)
    assert default.decisions == constantdict({"lane of Z": "n", "copied of Z": (), "down of Z": 1})
    other = record.space().decided("", {"lane of Z": "m", "copied of Z": ("A", "B"), "down of Z": 8, "lines of Z": False})
    same = record.space().decided("", {"lane of Z": "m", "copied of Z": ("A", "B"), "down of Z": 8})
    assert other == same and LINES in other.choices


def test_every_configuration_is_within_reach(record: Record) -> None:
    random, space = Random(1), record.space()
    seen = {space.drawn(random).tree for _ in range(3000)}
    assert seen == set(record.times)


def test_the_last_measurement_counts_for_equal_texts(record: Record) -> None:
    assert record.times[name_of(0)] is None and record.times[name_of(1)] == pytest.approx(taken([(0, 0), (1, 0), (2, 1)]))
    record.add([Measured(5, 0.5, "text 4")])
    again = Record(record.file)
    assert again.times[name_of(4)] == again.times[name_of(5)] == 0.5


def test_searchers_measure_nothing_twice_and_repeat_themselves(record: Record) -> None:
    times = record.times
    found = ours(record.space(), times, 3, 12, record.predicted, record.space().default)
    assert len(found) == 12 and found == ours(record.space(), times, 3, 12, record.predicted, record.space().default)
    assert found[0] == math.inf, "the default configuration failed"
    finite = [seconds for seconds in found if math.isfinite(seconds)]
    assert min(finite) == min(seconds for seconds in times.values() if seconds)
    assert sorted(by_chance(times, 0)) == sorted(seconds or math.inf for seconds in times.values())


def test_scores_are_between_random_search_and_the_best(record: Record) -> None:
    times = record.times
    ordered = sorted(seconds or math.inf for seconds in times.values())
    bests = list(expected_bests(ordered))
    assert all(b <= a + 1e-12 for a, b in pairwise(bests)) and bests[-1] == pytest.approx(ordered[0])
    assert bests[0] == pytest.approx(sum(min(s, ordered[-2]) for s in ordered) / len(ordered))
    at_once = [[ordered[0]] * 50] * 3
    assert score(at_once, times) == pytest.approx(1)
    assert abs(score([by_chance(times, seed) for seed in range(200)], times)) < 0.15
    assert "within 5 %" in judge(record, 2)


def test_seeds_with_which_nothing_could_be_faster_are_counted() -> None:
    """Of four seeds: ahead, as fast and sooner, as fast and later, behind; the other found the best with three."""
    text = beside([[2.0, 1.0], [1.0, 9.0], [3.0, 1.0], [4.0, 4.0]], [[2.0, 2.0], [3.0, 1.0], [1.0, 3.0], [9.0, 1.0]], 2, 1.0)
    assert f"ours is ahead of {TPE} with 1 of 4 seeds and behind with 1; as fast with the others, of which 1 sooner and 1 later" in text
    assert f"with 3 seeds {TPE} found the best of all, before which nothing is" in text


def test_a_record_that_is_not_complete_is_not_judged(tmp_path: Path) -> None:
    made = Record(tmp_path / "space.jsonl.gz")
    made.start({"einsums": [], "device": ""}, [DOWN], [[[(0, k)]] for k in range(8)], list("abcdefgh"), [1.0] * 8)
    Record(made.file).add([Measured(0, 1.0, "a")])
    assert "1 of 8 configurations are measured" in judge(Record(made.file), 2)


def test_fewer_options_keep_the_usual_ones() -> None:
    assert fewer(DOWN, {"down": 3}).options == (1, 2, 3) and fewer(LANE, {"down": 3}) == LANE


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.record.configurations])
def test_what_is_committed_is_whole(name: str) -> None:
    """A space of 2,000 configurations or more, of which fewer than 1 % are within 5 % of the best."""
    record = TABLES[name].record
    assert TABLES["product"].record.configurations, "at least this one is committed"
    assert len(record.times) == len(record.configurations) >= 2000
    known = [seconds for seconds in record.times.values() if seconds is not None]
    assert sum(seconds <= 1.05 * min(known) for seconds in known) < 0.01 * len(known)
    space = record.space()
    reached = [min(ours(space, record.times, seed, 50, record.predicted, anywhere(space, seed))) for seed in range(3)]
    assert statistics.median(reached) <= 1.05 * min(known)
