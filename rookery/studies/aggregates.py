"""Statistics over several tasks, as rliable defines them (Agarwal et al., 2021).

A matrix of scores has a row per run and a column per task, and NaN where there is no run;
every task has at least one. Every task counts the same, however many runs it has. Intervals
are 95 % intervals of a stratified bootstrap: the runs of every task are resampled by
themselves, and the tasks are not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rookery.specs import Array
from rookery.studies.statistics import RESAMPLES, Interval, resamples

PERCENTILES = (2.5, 97.5)
FIRST, SECOND = 0, 1
"""The keys of the random numbers of the two sides of a comparison."""


class Profile(NamedTuple):
    """A performance profile with its band, (thresholds,) each."""

    thresholds: Array
    fraction: Array
    """The fraction of runs whose score is above each threshold."""
    low: Array
    high: Array


class Aggregate(NamedTuple):
    """An estimate from all tasks."""

    value: float
    interval: Interval
    """NaN if no task has several runs."""


def interquartile_mean_of_tasks(scores: Array) -> Aggregate:
    """Return the interquartile mean of all scores.

    If a quarter of them is not a whole number, those at its edge count in part. rliable
    leaves out the next smaller whole number instead; otherwise both are the same.
    """
    columns = _columns(scores)
    weights = np.concatenate([np.full(len(x), 1 / len(x)) for x in columns]) / len(columns)
    drawn = [column[resamples(len(column), i)] for i, column in enumerate(columns)]
    resampled = _middle_half(np.concatenate(drawn, axis=1), weights)
    value = float(_middle_half(np.concatenate(columns), weights))
    return Aggregate(value, _interval(resampled, columns))


def _middle_half(values: Array, weights: Array) -> Array:
    """Return the mean of the middle half along the last axis; the weights sum to one."""
    order = np.argsort(values, axis=-1)
    ends = np.cumsum(weights[order], axis=-1).clip(0.25, 0.75)
    parts = np.diff(ends, axis=-1, prepend=0.25)
    return np.asarray(2 * (np.take_along_axis(values, order, axis=-1) * parts).sum(axis=-1))


def performance_profile(scores: Array, thresholds: Array) -> Profile:
    """Return the fraction of runs whose score is above each threshold."""
    columns = _columns(scores)
    above = [column[:, None] > thresholds for column in columns]
    fraction = np.mean([x.mean(axis=0) for x in above], axis=0)
    resampled = np.zeros((RESAMPLES, len(thresholds)))
    for i, column in enumerate(columns):
        resampled += _times_drawn(len(column), i) @ above[i] / len(column) / len(columns)
    low, high = np.percentile(resampled, PERCENTILES, axis=0)
    if not _has_interval(columns):
        low = high = np.full(len(thresholds), np.nan)
    return Profile(thresholds, fraction, low, high)


def probability_of_improvement(first: Array, second: Array) -> Aggregate:
    """Return how probable it is that a run of the first scores more than one of the second.

    It is the mean over tasks of the fraction of all pairs of runs in which the first one
    scores more; pairs with equal scores count half. Both have the same tasks.
    """
    value, resampled = 0.0, np.zeros(RESAMPLES)
    pairs = list(zip(_columns(first), _columns(second), strict=True))
    for i, (x, y) in enumerate(pairs):
        wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)
        value += wins.mean() / len(pairs)
        drawn_x, drawn_y = _times_drawn(len(x), FIRST, i), _times_drawn(len(y), SECOND, i)
        resampled += (drawn_x @ wins * drawn_y).sum(axis=1) / wins.size / len(pairs)
    columns = [column for pair in pairs for column in pair]
    return Aggregate(float(value), _interval(resampled, columns))


def _columns(scores: Array) -> list[Array]:
    """Return the scores of each task that were measured."""
    return [column[~np.isnan(column)] for column in np.asarray(scores, float).T]


def _has_interval(columns: list[Array]) -> bool:
    """Whether any task has several runs; one run says nothing about others."""
    return any(len(column) > 1 for column in columns)


def _interval(resampled: Array, columns: list[Array]) -> Interval:
    if not _has_interval(columns):
        return Interval(np.nan, np.nan)
    low, high = np.percentile(resampled, PERCENTILES)
    return Interval(float(low), float(high))


def _times_drawn(runs: int, *key: int) -> Array:
    """Return how often each run is drawn in each bootstrap sample, (RESAMPLES, runs)."""
    numbered = resamples(runs, *key) + runs * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(numbered.ravel(), minlength=RESAMPLES * runs)
    return counts.reshape(RESAMPLES, runs).astype(float)
