"""Differences of scores and shares, against cases computed by hand or published."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def script(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("comparisons")


def test_with_two_seeds_the_worse_one_bounds_the_difference(script: ModuleType) -> None:
    # Resamples are (a, a), (a, b), (b, a) and (b, b): the lowest quarter is one seed twice.
    mean, bound = script.relative_difference([9.0, 12.0], [10.0, 10.0])

    assert mean == pytest.approx(0.05)
    assert bound == pytest.approx(-0.1)


def test_an_effect_of_a_seed_on_both_does_not_count(script: ModuleType) -> None:
    others = [10.0, 50.0, 200.0, 1000.0]

    mean, bound = script.relative_difference([1.02 * x for x in others], others)

    assert mean == pytest.approx(0.02)
    assert bound == pytest.approx(0.02)


def test_unpaired_samples_are_resampled_on_their_own(script: ModuleType) -> None:
    values = [10.0, 50.0, 200.0, 1000.0]

    same, bound = script.unpaired_difference(values, values)

    assert same == 0.0
    assert bound < -0.3  # paired, it would be 0


def test_the_bound_of_unpaired_samples_is_that_of_the_normal_distribution(
    script: ModuleType,
) -> None:
    rng = np.random.default_rng(1)
    values, others = rng.normal(9.8, 1.0, 400), rng.normal(10.0, 1.0, 100)

    difference, bound = script.unpaired_difference(values, others, scale=5.0)

    error = (values.var() / 400 + others.var() / 100) ** 0.5 / 5.0
    assert difference == pytest.approx((values.mean() - others.mean()) / 5.0)
    assert bound == pytest.approx(difference - 1.645 * error, abs=0.002)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_intervals_are_those_of_the_literature(
    script: ModuleType, hits: int, count: int, low: float, high: float
) -> None:
    assert script.wilson(hits, count) == pytest.approx((low, high), abs=1e-4)


def test_the_difference_of_shares_is_that_of_newcombes_first_example(
    script: ModuleType,
) -> None:
    interval = script.share_difference(56, 70, 48, 80)

    assert interval == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_the_interval_of_equal_shares_is_symmetric(script: ModuleType) -> None:
    low, high = script.share_difference(15, 30, 15, 30)

    assert low == pytest.approx(-high)
    assert low < 0 < high
