"""Statistics over a few seeds: interquartile means and bootstrap intervals.

The unit is the seed: agents and episodes of one run come from the same training, and are
not independent samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rookery.specs import Array

RESAMPLES = 10_000
NORMAL = 1.959964
"""Standard deviations on each side of the mean that hold 95 % of a normal distribution."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def interquartile_mean(values: Array | Sequence[float]) -> Array:
    """Return the mean of the middle half, along the last axis.

    If a quarter is not a whole number of values, those at its edge count in part.
    """
    ordered = np.sort(np.asarray(values, float), axis=-1)
    count = ordered.shape[-1]
    edges = np.arange(count + 1).clip(count / 4, 3 * count / 4)
    return np.asarray(ordered @ np.diff(edges) / (count / 2))


def bootstrap(
    values: Array | Sequence[float],
    statistic: Callable[[Array], Array] = interquartile_mean,
    confidence: float = 0.95,
) -> Interval:
    """Return the bootstrap interval of a statistic.

    Args:
        values: one per seed.
        statistic: computed along the last axis.
        confidence: the probability that the interval contains the true value.
    """
    resampled = statistic(np.asarray(values, float)[resamples(len(values))])
    tail = 50 * (1 - confidence)
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(float(low), float(high))


def pair_interval(values: Array) -> tuple[float, Interval]:
    """Return a statistic of pairs of seeds and its 95 % interval, from (seeds, others).

    The statistic is the interquartile mean over the seeds of each one's mean over all
    others; with a single seed, it is over the others. Both axes are resampled.
    """
    seeds, others = (resamples(count) for count in values.shape)
    resampled = values[seeds[:, :, None], others[:, None, :]]
    axis = 2 if len(values) > 1 else 1
    low, high = np.percentile(interquartile_mean(resampled.mean(axis=axis)), [2.5, 97.5])
    estimate = interquartile_mean(values.mean(axis=axis - 1))
    return float(estimate), Interval(float(low), float(high))


def wilson(hits: int, count: int) -> Interval:
    """Return the 95 % interval of a share that was observed `hits` times in `count`."""
    share, spread = hits / count, NORMAL**2 / count
    middle = (share + spread / 2) / (1 + spread)
    reach = (spread * (share * (1 - share) + spread / 4)) ** 0.5 / (1 + spread)
    return Interval(max(0.0, middle - reach), min(1.0, middle + reach))


def gini(values: Array) -> Array:
    """Return the Gini coefficient of each row: 0 if all are equal, up to 1 if one has all.

    It is NaN for rows whose sum is not positive, where it is not defined.
    """
    rows = np.asarray(values, float)
    apart = np.abs(rows[..., :, None] - rows[..., None, :]).mean(axis=(-2, -1))
    mean = rows.mean(axis=-1)
    return np.where(mean > 0, apart / (2 * np.where(mean > 0, mean, 1)), np.nan)


def resamples(seeds: int, *key: int) -> Array:
    """Return the indices of the seeds in each bootstrap sample; the same on every call.

    Args:
        seeds: how many there are.
        key: different keys give independent samples.
    """
    sequence = np.random.SeedSequence(0, spawn_key=key)
    return np.random.default_rng(sequence).integers(seeds, size=(RESAMPLES, seeds))
