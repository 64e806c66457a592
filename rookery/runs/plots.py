"""Learning curves with matplotlib: the lines of one run, and bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.errors import ConfigError
from rookery.runs.overview import Overview
from rookery.specs import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 100
"""The largest number of points of a curve; each is a mean over some rounds."""
LINES = 8
"""Up to so many agents have a line each."""


def new_axes(ax: Axes | None, label: str) -> Axes:
    """Return the axes to draw in: those given, or new ones (needs matplotlib)."""
    pyplot = pyplot_or_advice()
    if ax is None:
        _, ax = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    ax.set_xlabel("round")
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def pyplot_or_advice() -> Any:
    """Return matplotlib's pyplot.

    Raises:
        ConfigError: if it is not installed, with how to install it.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ConfigError(
            "plots need matplotlib: install it with pip install 'rookery[analysis]'."
        ) from error
    return pyplot


def plot_run(overview: Overview, metric: str, ax: Axes | None) -> Axes:
    """Draw a line per agent; of many agents, their mean and a band from least to most."""
    curves = overview.curves(metric)
    ax = new_axes(ax, overview.axis_label(metric))
    edges = edges_of([overview])
    lines = {agent: binned(edges, *points) for agent, points in curves.items()}
    if len(lines) <= LINES:
        for agent, values in lines.items():
            ax.plot(edges[1:], values, label=f"agent {agent}")
    else:
        values = np.stack(list(lines.values()))
        label = f"mean of {len(lines)} agents"
        draw_band(ax, edges[1:], values.mean(0), values.min(0), values.max(0), label)
    ax.set_title(overview.game, loc="left", fontsize=10)
    ax.legend(frameon=False)
    return ax


def draw_band(ax: Axes, x: Array, y: Array, low: Any, high: Any, label: str) -> None:
    """Draw a line with a band around it."""
    (line,) = ax.plot(x, y, label=label)
    ax.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def edges_of(overviews: Sequence[Overview]) -> Array:
    """Return the rounds between which curves are averaged, from 0 to the last round."""
    last = max(overview.rounds for overview in overviews)
    return np.unique(np.linspace(0, last, min(last, POINTS) + 1).round().astype(int))


def binned(edges: Array, rounds: Sequence[int], values: Sequence[float]) -> Array:
    """Return the means between edges; where nothing was measured, in between others."""
    bins = np.digitize(np.clip(rounds, 1, edges[-1]), edges, right=True) - 1
    counts = np.bincount(bins, minlength=len(edges) - 1)
    sums = np.bincount(bins, values, minlength=len(edges) - 1)
    measured = np.flatnonzero(counts)
    means = sums[measured] / counts[measured]
    return np.interp(np.arange(len(edges) - 1), measured, means)
