"""Statistics over seeds, against cases computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.studies.statistics import bootstrap, interquartile_mean


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


def test_interquartile_means_are_computed_along_the_last_axis() -> None:
    rows = np.array([[1.0, 2, 3, 4], [8.0, 6, 4, 2]])

    assert interquartile_mean(rows).tolist() == [2.5, 5.0]


def test_the_interval_of_equal_seeds_is_a_point() -> None:
    assert bootstrap([3.0, 3.0, 3.0]) == (3.0, 3.0)


def test_a_bootstrap_interval_of_a_mean_is_about_two_standard_errors_each_way() -> None:
    values = np.arange(100.0)
    error = values.std() / 10

    low, high = bootstrap(values, lambda drawn: drawn.mean(axis=-1))

    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.3)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.3)
