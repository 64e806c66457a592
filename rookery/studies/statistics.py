"""How sure one can be of figures that come from a few seeds.

The unit is the seed: agents and episodes of one run have lived through the same training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rookery.specs import Array

RESAMPLES = 10_000
NORMAL = 1.959964
"""Standard deviations either side of the mean that hold 95 % of a normal distribution."""


class Interval(NamedTuple):
    """Where the true figure probably lies."""

    low: float
    high: float


def interquartile_mean(values: Array | Sequence[float]) -> Array:
    """Return the mean of the middle half, along the last axis.

    Where a quarter is no whole number of values, those at its edge count in part.
    """
    ordered = np.sort(np.asarray(values, float), axis=-1)
    count = ordered.shape[-1]
    edges = np.arange(count + 1).clip(count / 4, 3 * count / 4)
    return np.asarray(ordered @ np.diff(edges) / (count / 2))


def bootstrap(
    values: Array | Sequence[float],
    figure: Callable[[Array], Array] = interquartile_mean,
    confidence: float = 0.95,
) -> Interval:
    """Return an interval of a figure, from seeds drawn again and again.

    Args:
        values: one per seed.
        figure: computed along the last axis.
        confidence: how probable it is that the interval holds the true figure.
    """
    found = figure(np.asarray(values, float)[_draws(len(values))])
    rest = 50 * (1 - confidence)
    low, high = np.percentile(found, [rest, 100 - rest])
    return Interval(float(low), float(high))


def pair_interval(values: Array) -> tuple[float, Interval]:
    """Return a figure of pairs of seeds, (seeds, other seeds), and its 95 % interval.

    It is the interquartile mean over the seeds of what each gets from all others; where
    there is one seed only, over the others. Both are drawn again and again.
    """
    mine, others = (_draws(count) for count in values.shape)
    drawn = values[mine[:, :, None], others[:, None, :]]
    axis = 2 if len(values) > 1 else 1
    found = interquartile_mean(drawn.mean(axis=axis))
    low, high = np.percentile(found, [2.5, 97.5])
    figure = interquartile_mean(values.mean(axis=axis - 1))
    return float(figure), Interval(float(low), float(high))


def gini(values: Array) -> Array:
    """Return how unequally each row is shared out: 0 evenly, towards 1 all to one.

    Where a row does not add up to more than zero it means nothing, and is NaN.
    """
    rows = np.asarray(values, float)
    apart = np.abs(rows[..., :, None] - rows[..., None, :]).mean(axis=(-2, -1))
    mean = rows.mean(axis=-1)
    return np.where(mean > 0, apart / (2 * np.where(mean > 0, mean, 1)), np.nan)


def relative_difference(
    values: Sequence[float], others: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Return the mean difference to paired others over their mean, and its lower bound.

    The bound is one-sided: the true figure lies above it with this confidence. Seeds are
    drawn as pairs, so what a seed does to both does not count.
    """
    mine, theirs = np.asarray(values, float), np.asarray(others, float)
    draws = _draws(len(mine))
    found = (mine - theirs)[draws].mean(axis=-1) / abs(theirs[draws].mean(axis=-1))
    mean = (mine - theirs).mean() / abs(theirs.mean())
    return float(mean), float(np.percentile(found, 100 * (1 - confidence)))


def _draws(seeds: int) -> Array:
    """Return which seeds each resample is made of; the same ones every time."""
    return np.random.default_rng(0).integers(seeds, size=(RESAMPLES, seeds))


def wilson(hits: int, count: int) -> Interval:
    """Return the 95 % interval of a share that was seen `hits` times in `count`."""
    share, spread = hits / count, NORMAL**2 / count
    middle = (share + spread / 2) / (1 + spread)
    reach = (spread * (share * (1 - share) + spread / 4)) ** 0.5 / (1 + spread)
    return Interval(max(0.0, middle - reach), min(1.0, middle + reach))


def share_difference(hits: int, count: int, others: int, of: int) -> Interval:
    """Return the 95 % interval of one share minus another (Newcombe, from Wilson's)."""
    first, second = hits / count, others / of
    a, b = wilson(hits, count), wilson(others, of)
    below = ((first - a.low) ** 2 + (b.high - second) ** 2) ** 0.5
    above = ((a.high - first) ** 2 + (second - b.low) ** 2) ** 0.5
    return Interval(first - second - below, first - second + above)
