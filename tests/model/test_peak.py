"""What is alive at once over a tree."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from feinsum_fuse.model.accelforge.einsum_model import Reserved
from feinsum_fuse.model.accelforge.estimate import EinsumReservations, peaks


def branch(tensors: str, depths: dict[str, int], *reserved: tuple[str, int, int]) -> EinsumReservations:
    """An Einsum that touches these tensors, in one memory; ``reserved``: (tensor, loops above, bits), backing where ``depths`` says so."""
    items = (Reserved("M", t, depth, bits, frozenset({t}) if depths.get(t) == depth else frozenset()) for t, depth, bits in reserved)
    return EinsumReservations(tuple(items), frozenset(tensors), depths)


def peak(*branches: EinsumReservations) -> float:
    return float(peaks(branches)["M"])


def test_one_einsum_adds_up() -> None:
    assert peak(branch("AB", {"A": 0}, ("A", 0, 10), ("B", 2, 5))) == 15


def test_separate_einsums_reuse_space() -> None:
    assert peak(branch("AT", {"T": 0}, ("A", 0, 10), ("T", 0, 1)), branch("TZ", {"T": 0}, ("T", 0, 1), ("Z", 0, 7))) == 11


def test_what_lies_above_shared_loops_is_alive_together_and_shared_tensors_count_once() -> None:
    first = branch("AT", {"T": 1}, ("A", 0, 10), ("T", 1, 1), ("B", 2, 100))
    second = branch("TZ", {"T": 1}, ("T", 1, 1), ("Z", 0, 7), ("C", 1, 20))
    assert peak(first, second) == 10 + 7 + 1 + 100


def test_holders_that_are_not_backing_are_each_einsums_own() -> None:
    first = branch("AT", {"T": 1}, ("A", 0, 10), ("T", 1, 1))
    second = branch("AT", {"T": 1}, ("A", 0, 10), ("T", 1, 1))
    assert peak(first, second) == 21


def test_an_intermediate_outlives_einsums_that_do_not_touch_it() -> None:
    first = branch("AT", {"T": 0}, ("T", 0, 30))
    between = branch("BU", {"U": 0}, ("B", 0, 50), ("U", 0, 1))
    last = branch("TU", {"T": 0, "U": 0}, ("T", 0, 30), ("U", 0, 1))
    assert peak(first, between, last) == 30 + 50 + 1


def test_persistent_tensors_are_always_alive() -> None:
    first = branch("AT", {"T": 0}, ("T", 0, 30))
    last = branch("TW", {"T": 0}, ("T", 0, 30), ("W", -1, 5))
    assert peak(first, last) == 35
    assert peak(last, first) == 35


def test_nested_branches_close_their_own_loops() -> None:
    """Two Einsums share three loops, a third only one: what the two hold between those is freed before the third."""
    outer = branch("AT", {"T": 1}, ("A", 0, 1), ("T", 1, 2), ("X", 2, 100))
    inner = branch("TU", {"T": 1, "U": 3}, ("T", 1, 2), ("Y", 2, 10), ("U", 3, 4))
    innermost = branch("UZ", {"U": 3}, ("U", 3, 4), ("V", 2, 20))
    assert peak(outer, inner, innermost) == 1 + 2 + 100
    assert peak(inner, innermost) == 2 + 10 + 20 + 4


def test_a_copy_within_one_memory_takes_no_second_space() -> None:
    copy = EinsumReservations((Reserved("M", "S", 0, 30, frozenset("SD")),), frozenset("SD"), {"S": 0, "D": 0})
    use = branch("DZ", {"D": 0, "Z": 0}, ("D", 0, 30), ("Z", 0, 4))
    assert peak(copy, use) == 34
    before = branch("AS", {"A": 0, "S": 0}, ("A", 0, 7), ("S", 0, 30))
    assert peak(before, copy, use) == 37


def by_definition(branches: Sequence[EinsumReservations]) -> dict[str, float]:
    """The same, moment by moment and Einsum by Einsum, for reservations in which copies tie no tensors."""

    def live(boundary: int) -> frozenset[str]:
        before = frozenset().union(*(branch.tensors for branch in branches[: boundary + 1]))
        return before & frozenset().union(*(branch.tensors for branch in branches[boundary + 1 :]))

    def stay_open(boundary: int) -> int:
        return max((depth for b in branches for t, depth in b.backing_depth.items() if t in live(boundary)), default=0)

    peaks: dict[str, float] = {}
    for moment in range(len(branches)):
        alive: dict[tuple[str, str], float] = {}
        for number, branch in enumerate(branches):
            between = range(min(number, moment), max(number, moment))
            across = frozenset.intersection(*map(live, between)) if between else frozenset()
            for item in branch.reserved:
                key = (item.component, min(item.backs) if item.backs else f"{item.tensor} of {number}")
                if not between or item.depth < min(map(stay_open, between)):
                    alive[key] = float(item.bits)
                elif item.backs & across:
                    alive.setdefault(key, float(item.bits))
        for memory in {memory for memory, _ in alive}:
            peaks[memory] = max(peaks.get(memory, 0.0), sum(bits for (at, _), bits in alive.items() if at == memory))
    return peaks


@pytest.mark.parametrize("seed", range(40))
def test_peaks_are_what_their_definition_says(seed: int) -> None:
    """Random rows of Einsums, with loops that stay open, persistent tensors and tensors that others outlive."""
    random = Random(seed)
    backing = {tensor: random.choice([0, 0, 0, 1, 2]) for tensor in "ABCDEFGH"}
    branches = []
    for _ in range(random.randint(1, 9)):
        tensors = random.sample("ABCDEFGH", random.randint(1, 4))
        reserved = [Reserved("M", t, backing[t], random.randint(1, 99), frozenset(t)) for t in tensors]
        depths = [random.randint(-1, 3) for _ in tensors]
        reserved += [Reserved("N", t, d, random.randint(1, 99)) for t, d in zip(tensors, depths, strict=True)]
        branches.append(EinsumReservations(tuple(reserved), frozenset(tensors), {t: backing[t] for t in tensors}))
    assert peaks(branches) == by_definition(branches)
