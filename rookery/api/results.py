"""Results of many runs: a table, estimates with intervals, and learning curves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.config.messages import shown
from rookery.errors import ConfigError, checked, nearest
from rookery.evaluation.tables import pandas_or_advice
from rookery.runs.folder import CONFIG
from rookery.runs.overview import Overview
from rookery.runs.plots import binned, draw_band, edges_of, new_axes
from rookery.runs.run import Run
from rookery.specs import Array
from rookery.storage.access import is_file
from rookery.studies.statistics import bootstrap, interquartile_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

Source = str | Path | Run | Iterable[str | Path | Run]
"""A folder with runs anywhere below it, a run, or several of them."""


class Runs(list[Run]):
    """The runs of several seeds, in one folder."""

    def __init__(self, path: Path, runs: Iterable[Run]) -> None:
        super().__init__(runs)
        self.path = path

    def table(self) -> DataFrame:
        """Return one row per run, like `rookery.table` (needs pandas)."""
        return table(self)

    def plot(self, metric: str = "return", ax: Axes | None = None) -> Axes:
        """Draw one learning curve with its interval, like `rookery.plot`."""
        return plot(self, metric, ax=ax)

    def __repr__(self) -> str:
        return f"<Runs {self.path}: {len(self)} seeds>"


def table(source: Source) -> DataFrame:
    """Return a table with one row per run (needs pandas).

    Its columns are the run's folder and game; every setting that differs between runs, by
    its dotted name; the seed; the rounds that were trained, and the run's state; `trained`,
    the mean return in the last evaluation; and means over the episodes of the last quarter
    of the rounds: `return`, `turns` and the game's counts, per agent and episode.

    Args:
        source: a folder, in which runs are found at any depth; a run; or several of these.
    """
    overviews = [Overview(folder) for folder in folders_of(source)]
    differing = _differing(overviews)
    return pandas_or_advice().DataFrame([_row(run, differing) for run in overviews])


def _row(overview: Overview, differing: Sequence[str]) -> dict[str, Any]:
    settings = overview.settings
    row = {
        "run": str(overview.path),
        "game": overview.game,
        **{name: settings.get(name) for name in differing},
        "seed": settings.get("seed"),
        "rounds": overview.rounds,
        "state": overview.state,
    }
    for name, value in overview.last_scores().items():
        row[f"counts.{name}" if name in row else name] = value
    return row


def _differing(overviews: Sequence[Overview]) -> list[str]:
    """Return the settings that have several values, without those with a column anyway."""
    names = dict.fromkeys(name for run in overviews for name in run.settings)
    return [
        name
        for name in names
        if name not in ("game.name", "seed", "rounds")
        and len({repr(run.settings.get(name)) for run in overviews}) > 1
    ]


def folders_of(source: Source) -> list[Path]:
    """Return the folders of all runs in a folder or a list.

    Raises:
        ConfigError: if there is none.
    """
    if isinstance(source, Run):
        return [source.path]
    if not isinstance(source, str | Path):
        listed = checked("source", source, Iterable)
        return [folder for part in listed for folder in folders_of(part)]
    folders = sorted(_found(Path(source)), key=_natural)
    if not folders:
        raise ConfigError(f"there is no run in {source}: name a folder that contains runs.")
    return folders


def _found(folder: Path) -> Iterator[Path]:
    for path, folders, _ in os.walk(folder):
        if is_file(Path(path) / CONFIG):
            folders.clear()  # a run contains no other runs
            yield Path(path)


def _natural(path: Path) -> list[Any]:
    """Return a key with which seed-10 comes after seed-9."""
    parts = [part.rpartition("-") for part in path.parts]
    return [(a, int(b) if b.isdecimal() else -1, b) for a, _, b in parts]


@dataclass(frozen=True)
class Estimate:
    """An estimate with its 95 % bootstrap interval."""

    value: float
    low: float
    """NaN if there is a single value."""
    high: float
    count: int
    """How many values it is an estimate from."""

    def __repr__(self) -> str:
        if isnan(self.low):
            return f"{self.value:.4g} [one value: no interval]"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def __float__(self) -> float:
        return self.value


def _mean(values: Array) -> Array:
    return np.asarray(values.mean(axis=-1))


def _median(values: Array) -> Array:
    return np.asarray(np.median(values, axis=-1))


STATISTICS = {
    "interquartile mean": interquartile_mean,
    "mean": _mean,
    "median": _median,
}


def interval(values: Iterable[float], statistic: str = "interquartile mean") -> Estimate:
    """Return an estimate with its 95 % bootstrap interval.

    Args:
        values: one per seed: agents and episodes of one run are not independent.
        statistic: `interquartile mean`, `mean` or `median`.
    """
    if statistic not in STATISTICS:
        raise ConfigError(
            f"statistic is {shown(statistic)}: {nearest(str(statistic), STATISTICS)}"
        )
    try:
        numbers = np.asarray(list(values), float)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"values is {shown(repr(values))}, expected numbers.") from error
    if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
        raise ConfigError(
            f"values is {shown(repr(numbers.tolist()))}, expected a list of finite "
            "numbers, one per seed: leave out what was not measured."
        )
    compute = STATISTICS[statistic]
    if len(numbers) == 1:
        return Estimate(float(numbers[0]), nan, nan, 1)
    low, high = bootstrap(numbers, compute)
    return Estimate(float(compute(numbers)), low, high, len(numbers))


def plot(
    source: Source, metric: str = "return", by: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw learning curves over seeds, and return the axes (needs matplotlib).

    A line is the interquartile mean over runs of the mean over agents; the band is its 95 %
    bootstrap interval.

    Args:
        source: a folder, in which runs are found at any depth; a run; or several of these.
        metric: `return`, a count of the game, `trained` (evaluations during training), or a
            metric such as `loss`.
        by: a setting: one line for each of its values.
        ax: the axes to draw in; by default new ones.
    """
    overviews = [Overview(folder) for folder in folders_of(source)]
    groups: dict[str, list[Overview]] = {}
    for overview in overviews:
        groups.setdefault(_label(overview, by), []).append(overview)
    edges = edges_of(overviews)
    curves = {
        label: np.stack([mean_curve(run, metric, edges) for run in runs])
        for label, runs in groups.items()
    }
    ax = new_axes(ax, overviews[0].axis_label(metric))
    for label, values in curves.items():
        if len(values) == 1:
            ax.plot(edges[1:], values[0], label=label)
            continue
        bounds = np.array([bootstrap(column) for column in values.T])
        middle = interquartile_mean(values.T)
        draw_band(ax, edges[1:], middle, bounds[:, 0], bounds[:, 1], label)
    games = dict.fromkeys(overview.game for overview in overviews)
    ax.set_title(", ".join(games), loc="left", fontsize=10)
    ax.legend(frameon=False)
    return ax


def _label(overview: Overview, by: str | None) -> str:
    if by is None:
        return "interquartile mean"
    if by not in overview.settings:
        raise ConfigError(
            f"{overview.path} has no setting '{by}': {nearest(by, overview.settings)}"
        )
    return f"{by}={overview.settings[by]}"


def mean_curve(overview: Overview, metric: str, edges: Array) -> Array:
    """Return the mean over agents of a metric, between edges."""
    curves = overview.curves(metric).values()
    return np.mean([binned(edges, *points) for points in curves], axis=0)
