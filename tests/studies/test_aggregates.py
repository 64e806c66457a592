"""Aggregates over tasks, against cases computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.studies.aggregates import (
    interquartile_mean_of_tasks,
    performance_profile,
    probability_of_improvement,
)
from rookery.studies.statistics import interquartile_mean

NAN = float("nan")


def column(*values: float) -> np.ndarray:
    return np.array(values, float)[:, None]


def test_a_profile_is_the_fraction_of_runs_above_each_threshold() -> None:
    scores = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 30.0]])

    profile = performance_profile(scores, np.array([0.5, 1.0, 25.0, 30.0]))

    assert profile.fraction == pytest.approx([5 / 6, 4 / 6, 1 / 6, 0.0])


def test_every_task_counts_the_same_in_a_profile_however_many_runs_it_has() -> None:
    scores = np.array([[0.0, 10.0], [1.0, NAN], [2.0, 30.0]])

    profile = performance_profile(scores, np.array([1.5, 15.0]))

    assert profile.fraction == pytest.approx([(1 / 3 + 1) / 2, (0 + 1 / 2) / 2])


def test_the_band_of_a_profile_comes_from_resampling_runs() -> None:
    # Both runs are the same one in half of all samples: a quarter have none above 0.5.
    profile = performance_profile(column(0, 1), np.array([-1.0, 0.5, 2.0]))

    assert profile.low.tolist() == [1.0, 0.0, 0.0]
    assert profile.high.tolist() == [1.0, 1.0, 0.0]


def test_runs_are_resampled_within_their_task() -> None:
    scores = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])

    profile = performance_profile(scores, np.array([0.5]))
    middle = interquartile_mean_of_tasks(scores)

    assert (profile.low[0], profile.fraction[0], profile.high[0]) == (0.5, 0.5, 0.5)
    assert middle.value == pytest.approx(0.5)
    assert middle.interval == pytest.approx((0.5, 0.5))


def test_tasks_are_resampled_independently_of_each_other() -> None:
    # Resampled together, the sum of both tasks would be 1 in every run and every sample.
    scores = np.array([[0.0, 1.0], [1.0, 0.0]])

    profile = performance_profile(scores, np.array([0.5]))

    assert (profile.low[0], profile.high[0]) == (0.0, 1.0)


def test_the_interquartile_mean_over_tasks_is_that_of_all_scores() -> None:
    scores = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 100.0]])

    aggregate = interquartile_mean_of_tasks(scores)

    assert aggregate.value == pytest.approx((3 + 4 + 5 + 6) / 4)
    assert aggregate.value == pytest.approx(float(interquartile_mean(scores.ravel())))
    assert aggregate.interval.low < aggregate.value < aggregate.interval.high


def test_every_task_counts_the_same_in_the_interquartile_mean() -> None:
    scores = np.array([[0.0, 8.0], [0.0, NAN], [0.0, NAN], [0.0, NAN]])

    assert interquartile_mean_of_tasks(scores).value == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # 3 beats both, 1 loses to 2 and ties with 1.
        (column(3, 1), column(2, 1), (1 + 1 + 0 + 0.5) / 4),
        (column(1, 1), column(1), 0.5),
        (column(5), column(1, 2, 3), 1.0),
        # One task is won, one is lost; the second has a single run of the first side.
        (np.array([[2.0, 0], [2, NAN]]), np.array([[1.0, 1], [1, 1]]), 0.5),
    ],
    ids=["ties", "all tied", "always", "two tasks"],
)
def test_the_probability_of_improvement_is_over_all_pairs_and_ties_count_half(
    first: np.ndarray, second: np.ndarray, expected: float
) -> None:
    assert probability_of_improvement(first, second).value == pytest.approx(expected)
    other_way = probability_of_improvement(second, first).value
    assert other_way == pytest.approx(1 - expected)


def test_both_sides_of_a_comparison_are_resampled_independently() -> None:
    # Resampled alike, equal scores would be tied in every sample.
    aggregate = probability_of_improvement(column(0, 1), column(0, 1))

    assert aggregate.value == 0.5
    assert aggregate.interval == (0.0, 1.0)


def test_the_interval_of_a_comparison_without_any_doubt_is_a_point() -> None:
    aggregate = probability_of_improvement(column(5, 6, 7), column(1, 2, 3))

    assert aggregate.interval == pytest.approx((1.0, 1.0))


def test_a_single_run_of_each_task_has_no_interval() -> None:
    scores = np.array([[1.0, 2.0]])

    assert np.isnan(interquartile_mean_of_tasks(scores).interval).all()
    assert np.isnan(performance_profile(scores, np.array([1.5])).low).all()
    assert np.isnan(probability_of_improvement(scores, scores).interval).all()


def test_intervals_are_the_same_on_every_call() -> None:
    scores = np.random.default_rng(1).normal(size=(6, 3))

    first, second = (interquartile_mean_of_tasks(scores) for _ in range(2))

    assert first == second
