"""Figures of a sweep: learning curves, final scores seed by seed, performance profiles.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart; more
variants than these are drawn in steps of viridis, in the order of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.api.results import mean_curve
from rookery.errors import ConfigError
from rookery.runs.overview import Overview
from rookery.runs.plots import edges_of, pyplot_or_advice
from rookery.specs import Array
from rookery.studies.aggregates import Profile
from rookery.studies.statistics import bootstrap, interquartile_mean
from rookery.sweeps.scores import RETURN, TRAINED, CellScores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "0.35"
TITLE, LABEL, TICK = 13, 12, 11
"""Sizes of text, to be read from the last row."""
LINE = 2.2
WIDTH, HEIGHT, ROW = 11.0, 4.2, 0.42
"""Of a figure with curves and scores, in inches; ROW is the height of one variant."""


@dataclass(frozen=True)
class Line:
    """One line of a figure: the cells of a variant, or of a value of a setting."""

    label: str
    cells: Sequence[CellScores]
    planned: int
    """How many cells there will be."""


def draw_sweep(
    panels: Mapping[str, Sequence[Line]], metric: str, title: str, ax: Axes | None = None
) -> Axes:
    """Draw the learning curves of each game, and beside them the scores at the end.

    Args:
        panels: the lines of every game, by its name.
        metric: what to draw.
        title: of the setting that lines differ in.
        ax: draw only curves, in these axes, which is for one game.
    """
    if ax is not None:
        (game, lines), *others = panels.items()
        if others:
            raise ConfigError(
                f"ax is for one game, and the sweep has {len(panels)}: choose with game=…"
            )
        _draw_curves(ax, game, lines, metric)
        _add_legend(ax, title)
        return ax
    most = max(len(lines) for lines in panels.values())
    height = max(HEIGHT, 1.4 + ROW * most)
    _, axes = pyplot_or_advice().subplots(
        len(panels),
        2,
        figsize=(WIDTH, height * len(panels)),
        layout="constrained",
        squeeze=False,
        width_ratios=(1.7, 1),
    )
    for (curves, scores), (game, lines) in zip(axes, panels.items(), strict=True):
        _draw_curves(curves, game, lines, metric)
        if not _draw_scores(scores, lines, metric, title):
            scores.set_visible(False)
            _add_legend(curves, title)
    first: Axes = axes[0, 0]
    return first


def colours(count: int) -> list[Any]:
    """Return so many colours that can be told apart."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0, 0.93, count)))


def _draw_curves(ax: Axes, game: str, lines: Sequence[Line], metric: str) -> None:
    """Draw a line for each variant: the interquartile mean over seeds, and its interval."""
    trained = [x.overview for line in lines for x in line.cells if x.overview.rounds]
    measured = [overview for overview in trained if _has(overview, metric)]
    if not measured:
        if not trained:
            raise ConfigError(f"no cell of {game} has trained yet: nothing to draw.")
        trained[0].curves(metric)  # says what there is
    edges = edges_of(measured)
    chosen = {id(overview) for overview in measured}
    for line, colour in zip(lines, colours(len(lines)), strict=True):
        own = [x.overview for x in line.cells if id(x.overview) in chosen]
        if own:
            curves = np.stack([_curve(overview, metric, edges) for overview in own])
            middle, low, high = _estimates(curves)
            label = _label(line, len(own))
            _draw_band(ax, edges[1:], middle, (low, high), label, colour)
    label = measured[0].axis_label(metric).replace(", ", ",\n")
    _dress(ax, "round", label, game)
    ax.set_xlim(left=0)


def _draw_band(
    ax: Axes, x: Array, y: Array, bounds: tuple[Array, Array], label: str, colour: Any
) -> None:
    """Draw a line, and a band whose edges show where it lies over other bands."""
    ax.plot(x, y, label=label, color=colour, linewidth=LINE, zorder=3)
    faces, edges = (colour, 0.14), (colour, 0.55)
    ax.fill_between(x, *bounds, facecolor=faces, edgecolor=edges, linewidth=0.8)


def _has(overview: Overview, metric: str) -> bool:
    try:
        overview.curves(metric)
    except ConfigError:
        return False
    return True


def _curve(overview: Overview, metric: str, edges: Array) -> Array:
    """Return the mean over agents; NaN after the last round that was trained."""
    values = mean_curve(overview, metric, edges)
    return np.where(edges[:-1] < overview.rounds, values, np.nan)


def _estimates(curves: Array) -> tuple[Array, Array, Array]:
    """Return estimates over the seeds that have got so far, and their intervals."""
    middle, low, high = np.full((3, curves.shape[1]), np.nan)
    for i, column in enumerate(curves.T):
        values = column[np.isfinite(column)]
        if len(values):
            middle[i] = interquartile_mean(values)
        if len(values) > 1:
            low[i], high[i] = bootstrap(values)
    return middle, low, high


def _label(line: Line, measured: int) -> str:
    missing = f" ({measured} of {line.planned} seeds)" if measured < line.planned else ""
    return f"{line.label}{missing}"


def _draw_scores(ax: Axes, lines: Sequence[Line], metric: str, title: str) -> bool:
    """Draw a dot for every seed, and the interquartile mean with its interval.

    Returns:
        Whether there are any: a metric such as the loss is no score.
    """
    is_score = False
    for place, (line, colour) in enumerate(zip(lines, colours(len(lines)), strict=True)):
        values = np.array([x.scores[metric] for x in line.cells if metric in x.scores])
        if not len(values):
            continue
        is_score = True
        middle = float(interquartile_mean(values))
        low, high = bootstrap(values) if len(values) > 1 else (middle, middle)
        ax.barh(place, high - low, 0.46, left=low, color=colour, alpha=0.3, linewidth=0)
        ax.plot([middle, middle], [place - 0.3, place + 0.3], color=colour, linewidth=3)
        dots = place + np.linspace(-0.22, 0.22, len(values) + 2)[1:-1]  # none on another
        ax.plot(values, dots, "o", color=colour, markersize=6, markeredgecolor="white")
    if not is_score:
        return False
    labels = [_label(line, sum(metric in x.scores for x in line.cells)) for line in lines]
    ax.set_yticks(range(len(lines)), labels)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    when = "last evaluation" if metric == TRAINED else "last quarter of the rounds"
    name = RETURN if metric == TRAINED else metric
    _dress(ax, f"{name}, {when}", "", title)
    ax.tick_params(axis="y", length=0)
    for text, colour in zip(ax.get_yticklabels(), colours(len(lines)), strict=True):
        text.set(color=colour, fontweight="bold")  # they are the legend of the curves
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    return True


def draw_profiles(
    profiles: Mapping[str, Profile], seeds: Mapping[str, str], label: str, ax: Axes | None
) -> Axes:
    """Draw the fraction of runs above every score, with bands.

    Args:
        profiles: by variant.
        seeds: how many there are, as text, by variant.
        label: of the scores.
        ax: the axes to draw in; by default new ones.
    """
    if ax is None:
        subplots = pyplot_or_advice().subplots
        _, ax = subplots(figsize=(7.5, HEIGHT), layout="constrained")
    for (variant, x), colour in zip(profiles.items(), colours(len(profiles)), strict=True):
        text = f"{variant} ({seeds[variant]})"
        _draw_band(ax, x.thresholds, x.fraction, (x.low, x.high), text, colour)
    _dress(ax, f"{label} τ", "fraction of runs with a score above τ", "")
    ax.set_ylim(-0.02, 1.02)
    ax.axhline(0.5, color="0.85", linewidth=1, zorder=0)
    ax.legend(frameon=False, fontsize=TICK)
    return ax


def _add_legend(ax: Axes, title: str) -> None:
    ax.legend(frameon=False, fontsize=TICK, title=title, title_fontsize=TICK)


def _dress(ax: Axes, x: str, y: str, title: str) -> None:
    ax.set_xlabel(x, fontsize=LABEL)
    ax.set_ylabel(y, fontsize=LABEL)
    ax.set_title(title, loc="left", fontsize=TITLE, color=GREY)
    ax.tick_params(labelsize=TICK)
    ax.spines[["top", "right"]].set_visible(False)
