"""Figures over seeds, against cases that were computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.studies.statistics import (
    bootstrap,
    interquartile_mean,
    relative_difference,
    share_difference,
    wilson,
)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([100, 2, 1, -50], 1.5),
        ([1, 2, 3, 4, 5, 6, 7, 100], 4.5),
        # Half of 2 and half of 6 count beside 3 and 4: a quarter of six is one and a half.
        ([1, 2, 3, 4, 6, 9], (0.5 * 2 + 3 + 4 + 0.5 * 6) / 3),
        ([7], 7.0),
    ],
)
def test_the_interquartile_mean_is_that_of_the_middle_half(
    values: list[float], mean: float
) -> None:
    assert float(interquartile_mean(values)) == pytest.approx(mean)


def test_many_interquartile_means_are_taken_at_once() -> None:
    rows = np.array([[1.0, 2, 3, 4], [8.0, 6, 4, 2]])

    assert interquartile_mean(rows).tolist() == [2.5, 5.0]


def test_seeds_that_agree_leave_no_doubt() -> None:
    assert bootstrap([3.0, 3.0, 3.0]) == (3.0, 3.0)


def test_a_bootstrap_interval_of_a_mean_is_about_two_standard_errors_each_way() -> None:
    values = np.arange(100.0)
    error = values.std() / 10

    low, high = bootstrap(values, lambda drawn: drawn.mean(axis=-1))

    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.3)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.3)


def test_of_two_seeds_the_worse_one_alone_bounds_the_difference() -> None:
    # Resamples are (a, a), (a, b), (b, a) and (b, b): the lowest quarter is one seed twice.
    mean, bound = relative_difference([9.0, 12.0], [10.0, 10.0])

    assert mean == pytest.approx(0.05)
    assert bound == pytest.approx(-0.1)


def test_what_a_seed_does_to_both_does_not_count() -> None:
    others = [10.0, 50.0, 200.0, 1000.0]

    mean, bound = relative_difference([1.02 * x for x in others], others)

    assert mean == pytest.approx(0.02)
    assert bound == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_intervals_are_those_of_the_literature(
    hits: int, count: int, low: float, high: float
) -> None:
    assert wilson(hits, count) == pytest.approx((low, high), abs=1e-4)


def test_the_difference_of_shares_is_that_of_newcombes_first_example() -> None:
    found = share_difference(56, 70, 48, 80)

    assert found == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_equal_shares_may_differ_either_way() -> None:
    low, high = share_difference(15, 30, 15, 30)

    assert low == pytest.approx(-high)
    assert low < 0 < high
