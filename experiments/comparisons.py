"""Comparisons between two ways of training: differences of scores and of shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.studies.statistics import RESAMPLES, Interval, resamples, wilson


def relative_difference(
    values: Sequence[float], others: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Return the mean difference to paired others over their mean, and its lower bound.

    The bound is one-sided: the true value is above it with this confidence. Seeds are
    resampled in pairs, so an effect that a seed has on both does not count.
    """
    mine, theirs = np.asarray(values, float), np.asarray(others, float)
    draws = resamples(len(mine))
    resampled = (mine - theirs)[draws].mean(axis=-1) / abs(theirs[draws].mean(axis=-1))
    mean = (mine - theirs).mean() / abs(theirs.mean())
    return float(mean), float(np.percentile(resampled, 100 * (1 - confidence)))


def unpaired_difference(
    values: Sequence[float],
    others: Sequence[float],
    scale: float | None = None,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the difference of two means as a share of a scale, and its lower bound.

    The bound is one-sided: the true value is above it with this confidence. Both samples
    are resampled on their own.

    Args:
        values: one per seed.
        others: one per seed; their number can be another.
        scale: what counts as 1, by default the size of the others' mean.
        confidence: of the bound.
    """
    rng = np.random.default_rng(0)
    means, other_means = (
        np.asarray(sample, float)[
            rng.integers(len(sample), size=(RESAMPLES, len(sample)))
        ].mean(axis=1)
        for sample in (values, others)
    )
    scales = abs(other_means) if scale is None else scale
    share = (np.mean(values) - np.mean(others)) / (
        abs(np.mean(others)) if scale is None else scale
    )
    resampled = (means - other_means) / scales
    return float(share), float(np.percentile(resampled, 100 * (1 - confidence)))


def share_difference(hits: int, count: int, others: int, of: int) -> Interval:
    """Return the 95 % interval of one share minus another (Newcombe, from Wilson's)."""
    first, second = hits / count, others / of
    a, b = wilson(hits, count), wilson(others, of)
    below = ((first - a.low) ** 2 + (b.high - second) ** 2) ** 0.5
    above = ((a.high - first) ** 2 + (second - b.low) ** 2) ** 0.5
    return Interval(first - second - below, first - second + above)
