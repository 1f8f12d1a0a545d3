"""Agreement of predictions and measurements, against hand-worked figures and SciPy-style definitions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feinsum_fuse.report.agreement import Agreement, kendall, pairwise_accuracy, ranks, regret, spearman, spearman_beyond

TIMES = st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=12, unique=True)


def test_equal_values_share_their_rank() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [3.5, 1.0, 3.5, 2.0]


def test_hand_worked_figures() -> None:
    predicted, measured = [1.0, 2.0, 3.0, 4.0], [1.0, 4.0, 2.0, 5.0]
    found = Agreement.of(predicted, measured)
    assert found.mean_error == pytest.approx((0 + 0.5 + 0.5 + 0.2) / 4)
    assert found.median_error == pytest.approx(0.35)
    assert found.bias == pytest.approx((0 - 0.5 + 0.5 - 0.2) / 4)
    assert found.spearman == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert found.kendall == pytest.approx((5 - 1) / 6)
    assert found.pairwise_accuracy == pytest.approx(5 / 6)
    assert (found.regret_1, found.regret_5) == (0, 0)
    assert str(found).splitlines()[1] == "order: Spearman 0.80, Kendall 0.67, pairs ordered rightly 83%"


def test_regret_is_against_the_best() -> None:
    assert regret([1.0, 2.0, 3.0], [4.0, 3.0, 2.0], 1) == pytest.approx(1.0)
    assert regret([1.0, 2.0, 3.0], [4.0, 3.0, 2.0], 2) == pytest.approx(0.5)


def test_ties() -> None:
    assert kendall([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]) == pytest.approx(2 / math.sqrt(2 * 3))
    assert pairwise_accuracy([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]) == pytest.approx(2.5 / 3)
    assert math.isnan(spearman([1.0, 1.0], [1.0, 2.0]))


@given(TIMES)
def test_a_model_that_is_a_constant_factor_off_orders_rightly(times: list[float]) -> None:
    found = Agreement.of([2 * time for time in times], times)
    assert found.spearman == pytest.approx(1)
    assert found.kendall == pytest.approx(1)
    assert found.pairwise_accuracy == 1
    assert found.mean_error == pytest.approx(1)
    assert found.bias == pytest.approx(1)
    assert found.regret_1 == 0


@given(TIMES)
def test_a_model_that_orders_backwards(times: list[float]) -> None:
    found = Agreement.of([1 / time for time in times], times)
    assert found.kendall == pytest.approx(-1)
    assert found.pairwise_accuracy == 0
    assert found.regret_1 == pytest.approx(max(times) / min(times) - 1)


def test_one_measurement_is_no_agreement() -> None:
    with pytest.raises(ValueError, match="at least two"):
        Agreement.of([1.0], [1.0])


def test_pairs_that_noise_leaves_without_an_order_are_not_ranked() -> None:
    """Of four times two are 4 % apart, and predicted the other way round: beyond 5 % all that is left is in order."""
    predicted, measured = [1.0, 2.1, 2.0, 3.0], [1.0, 2.0, 2.08, 4.0]
    assert spearman(predicted, measured) == spearman_beyond(predicted, measured, 0.0) == pytest.approx(0.8)
    assert spearman_beyond(predicted, measured, 0.05) == pytest.approx(1.0)
    assert spearman_beyond([1.0, 3.0, 2.0, 2.1], measured, 0.05) == pytest.approx(12 / math.sqrt(14 * 18))
    assert math.isnan(spearman_beyond(predicted, measured, 3.0))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=9, unique_by=lambda p: p[1]))
def test_without_noise_all_pairs_are_ranked(pairs: list[tuple[int, int]]) -> None:
    """That is Spearman's correlation, equal predictions and all; no two times are equal."""
    first, second = zip(*pairs, strict=True)
    assert spearman_beyond(first, second, 0.0) == pytest.approx(spearman(first, second), nan_ok=True)
