"""What is a gain and what is noise: equal programs are told apart as rarely as it is promised, faster ones reliably."""

from __future__ import annotations

from random import Random

import pytest

from feinsum_fuse.device.timing.noise import CHANCE, beats, least_wins


def times(random: Random, middle: float, count: int) -> list[float]:
    """Of a program on a machine on which something else runs now and then."""
    return [middle * (1 + 0.02 * random.random() + (random.expovariate(2) if random.random() < 0.3 else 0)) for _ in range(count)]


@pytest.mark.parametrize("turns", [8, 20, 100])
@pytest.mark.parametrize("rivals", [1, 4])
def test_equal_programs_beat_each_other_as_rarely_as_promised(turns: int, rivals: int) -> None:
    random = Random(turns)
    lucky = sum(
        any(beats(times(random, 1.0, turns), own, rivals) for _ in range(rivals)) for own in (times(random, 1.0, turns) for _ in range(400))
    )
    assert lucky / 400 <= 1.5 * CHANCE


@pytest.mark.parametrize(("turns", "least"), [(20, 60), (100, 99)])
def test_a_program_that_is_faster_beats_the_other(turns: int, least: int) -> None:
    random = Random(turns)
    assert sum(beats(times(random, 0.9, turns), times(random, 1.0, turns), 4) for _ in range(100)) >= least


def test_a_slow_minute_decides_nothing() -> None:
    """Both are slower for a while, of which the lower quartile of the one has seen less."""
    slow = [1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    assert not beats([0.999 * ms for ms in slow[:4]] + [0.9] + [1.01 * ms for ms in slow[5:]], slow)


def test_a_busy_core_makes_no_kernel_for_one_core_faster() -> None:
    """Where others take a core now and then, what runs on both is slowed down and what runs on one is not."""
    both = [4.0, 8.0, 8.1, 4.1, 8.0, 4.0]
    assert not beats([7.0] * 6, both) and beats([0.9 * ms for ms in both], both)


def test_what_is_faster_by_less_than_places_in_memory_make_is_no_gain() -> None:
    assert not beats([0.99] * 30, [1.0] * 30) and beats([0.97] * 30, [1.0] * 30)


@pytest.mark.parametrize(("turns", "chance", "wins"), [(3, 0.05, 3), (5, 0.05, 5), (10, 0.05, 9), (30, 0.05, 20), (30, 0.0125, 22)])
def test_so_many_turns_are_won_by_luck_at_most(turns: int, chance: float, wins: int) -> None:
    """As tables of the sign test have it."""
    assert least_wins(turns, chance) == wins
