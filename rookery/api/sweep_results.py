"""`rookery.Sweep`: the results of a sweep on disk, also while it is still running."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.api.profiles import Profiles
from rookery.api.results import Estimate, table
from rookery.api.sweep_plots import Line, draw_sweep
from rookery.api.sweep_text import sweep_tables, sweep_text
from rookery.config.messages import shown
from rookery.errors import ConfigError, checked, nearest, warn
from rookery.evaluation.tables import pandas_or_advice
from rookery.games.registry import find
from rookery.runs.log import METRICS, read_lines
from rookery.studies.aggregates import performance_profile, probability_of_improvement
from rookery.sweeps.export import RLIABLE, export_scores
from rookery.sweeps.references import references_of
from rookery.sweeps.scores import GAME, CellScores, SweepScores, label_of, value_of
from rookery.sweeps.tables import NORMALISED, Comparison, combination_rows, results_of
from rookery.sweeps.trials import best_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

THRESHOLDS = 101


class Sweep:
    """A sweep on disk: its runs, and what they measured. Print it to see its tables.

    A *variant* is a combination of settings, such as 'learning_rate=0.001'. A *task* is a
    game, or one of several settings of it. Variants are compared over tasks and seeds. With
    several tasks, returns are normalised: 0 is the return of random players, 1 that of the
    best of the game's scripted players.

    Everything can be called while the sweep is running: what has been measured so far is
    used, and tables have the number of seeds and of those that are finished.

    Args:
        folder: of the sweep.
        game: the games that are not built in, as they were named to train the sweep. Only
            random and scripted players need them, and play once in each sweep.
    """

    def __init__(
        self, folder: str | Path, game: str | type | Iterable[str | type] | None = None
    ) -> None:
        self.path = Path(checked("folder", folder, str, Path))
        games = [game] if isinstance(game, str | type) else list(game or ())
        self._named = [x if isinstance(x, str) else find(x).name for x in games]
        self._scores()  # an error now, if it is no sweep

    def _scores(self) -> SweepScores:
        return SweepScores(self.path)

    def __repr__(self) -> str:
        scores = self._scores()
        cells = len(scores.groups) * len(scores.seeds)
        return f"<Sweep {self.path}: {cells} cells, {len(scores.cells)} begun>"

    def __str__(self) -> str:
        scores = self._scores()
        results = results_of(scores, references_of(scores, self._named))
        return sweep_text(*sweep_tables(results))

    def runs(self) -> DataFrame:
        """Return one row per cell that has begun, like `rookery.table` (needs pandas)."""
        return table([cell.overview.path for cell in self._begun(self._scores())])

    def _begun(self, scores: SweepScores) -> list[CellScores]:
        if not scores.cells:
            raise ConfigError(f"no cell of {self.path} has begun yet: let it train.")
        return scores.cells

    def table(self) -> DataFrame:
        """Return one row per combination: its settings, and scores over its seeds.

        Of a search, the rows are its trials, best first: `value` is what it maximises.

        Scores are interquartile means over seeds, with the bounds of 95 % bootstrap
        intervals in the columns `…_low` and `…_high`: `return` and the game's counts over
        the last quarter of the rounds, and `trained`, of the last evaluation, if there is
        one. With several tasks, `normalised` is `trained` or `return` from random (0) to
        scripted (1), if the game has scripted players. `seeds` is how many have scores, and
        `finished` how many are finished. Needs pandas.
        """
        scores = self._scores()
        rows = combination_rows(scores, references_of(scores, self._named))
        return pandas_or_advice().DataFrame(rows)

    def best(self) -> dict[str, Any]:
        """Return what the best trial of a search so far was given, by setting.

        With the settings that all trials have in common, it can be trained with other
        seeds: `rookery.train(game, seeds=range(10, 20), **common, **sweep.best())`.
        """
        scores = self._scores()
        trial = best_of(scores.trials)
        if scores.search is None:
            raise ConfigError(f"{self.path} is no search: compare its settings in a table.")
        if trial is None:
            raise ConfigError(f"no trial of {self.path} is complete yet: let it train.")
        return {key: value_of(text) for key, text in trial.settings.items()}

    def aggregate(self, metric: str | None = None) -> DataFrame:
        """Return one row per variant: the interquartile mean over all tasks and seeds.

        The interval is that of a stratified bootstrap, as in rliable: runs are resampled
        within each task. Needs pandas.

        Args:
            metric: the score; by default `trained`, or `return` without evaluations.
        """
        return pandas_or_advice().DataFrame(self._compare(metric).aggregate_rows())

    def metrics(self) -> DataFrame:
        """Return the metrics of every agent in every round of every cell (needs pandas).

        The settings that distinguish cells are columns.
        """
        scores = self._scores()
        several = len(scores.games) > 1
        rows = [
            {
                **({GAME: cell.group.game} if several else {}),
                **cell.group.settings,
                "seed": cell.seed,
                "round": line["round"],
                "agent": agent,
                **metrics,
            }
            for cell in scores.cells
            for line in read_lines(cell.overview.path / METRICS)
            for agent, metrics in line["agents"].items()
        ]
        return pandas_or_advice().DataFrame(rows)

    def plot(
        self,
        metric: str = "return",
        by: str | None = None,
        game: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw learning curves, and the scores of all seeds at the end (needs matplotlib).

        Lines are interquartile means over seeds with 95 % bootstrap intervals, one for each
        combination of settings; cells that are still running end where they are. Each game
        has a row. `sweep.plot("stag").figure.savefig("stag.png")` saves the figure.

        Args:
            metric: `return`, a count of the game, `trained` (evaluations during training),
                or a metric such as `loss`.
            by: one of the settings that the sweep varies: one line for each of its values.
            game: only this game; by default all.
            ax: draw the curves of one game in these axes, and nothing else.

        Returns:
            The axes of the first learning curves.
        """
        scores = self._scores()
        self._begun(scores)
        varied = {name.replace('"', ""): name for name in scores.varied}
        if by is not None and by.replace('"', "") not in varied:
            raise ConfigError(f"the sweep does not vary '{by}': {nearest(by, varied)}")
        if game is not None and game not in scores.games:
            raise ConfigError(
                f"the sweep has no game '{game}': {nearest(game, scores.games)}"
            )
        names = scores.varied if by is None else [varied[by.replace('"', "")]]
        panels = {x: _lines(scores, x, names) for x in scores.games if game in (None, x)}
        return draw_sweep(panels, metric, _title(names), ax)

    def profiles(
        self, metric: str | None = None, thresholds: Sequence[float] | None = None
    ) -> Profiles:
        """Return the performance profile of every variant, over all tasks and seeds.

        Args:
            metric: the score; by default `trained`, or `return` without evaluations.
            thresholds: the scores at which profiles are computed; by default from the
                lowest to the highest.
        """
        comparison = self._compare(metric)
        matrices = comparison.matrices
        if thresholds is None:
            every = np.concatenate([matrix.ravel() for matrix in matrices.values()])
            edges = np.nanmin(every), np.nanmax(every)
            taus = np.linspace(*edges, THRESHOLDS)
        else:
            taus = np.asarray(thresholds, float)
        return Profiles(
            NORMALISED if comparison.is_normalised else comparison.metric,
            {x: performance_profile(matrix, taus) for x, matrix in matrices.items()},
            {x: comparison.seeds(x) for x in matrices},
            tuple(comparison.tasks),
        )

    def improvement(self, first: Any, second: Any, metric: str | None = None) -> Estimate:
        """Return how probable it is that a run of one variant is better than of another.

        It is the mean over tasks of the fraction of all pairs of runs in which the first
        one scores more; equal scores count half. The interval is that of a stratified
        bootstrap over the seeds of every task, as in rliable.

        Args:
            first: a variant, such as 'discount=0.9'; if the sweep varies a single setting,
                also its value.
            second: the variant to compare with.
            metric: the score; by default `trained`, or `return` without evaluations.
        """
        comparison = self._compare(metric, normalise=False)
        names = [_variant(comparison, name) for name in (first, second)]
        x, y = (comparison.matrices[name] for name in names)
        value, (low, high) = probability_of_improvement(x, y)
        return Estimate(value, low, high, min(map(comparison.seeds, names)))

    def improvements(self, metric: str | None = None) -> DataFrame:
        """Return `improvement` for every two variants, one row each (needs pandas)."""
        comparison = self._compare(metric, normalise=False)
        return pandas_or_advice().DataFrame(comparison.improvement_rows())

    def export(
        self, path: str | Path, format: str = RLIABLE, metric: str | None = None
    ) -> Path:
        """Write the scores of all finished cells to a file for another package.

        Args:
            path: `x.npz` or `x.json` for rliable, `x.json` for marl-eval.
            format: 'rliable': an array (runs, tasks) for every variant, normalised if there
                are several tasks; or 'marl-eval': every step of every run, with `return`,
                and `normalised` if there are several tasks.
            metric: the score; by default `trained`, or `return` without evaluations.
        """
        scores = self._scores()
        references = references_of(scores, self._named)
        for note in export_scores(scores, Path(path), format, metric, references):
            warn(note)
        return Path(path)

    def _compare(self, metric: str | None, normalise: bool = True) -> Comparison:
        scores = self._scores()
        references = references_of(scores, self._named) if normalise else {}
        comparison = Comparison(scores, metric, references)
        for note in comparison.notes:
            warn(note)
        return comparison


def _lines(scores: SweepScores, game: str, names: Sequence[str]) -> list[Line]:
    """Return the lines of a game, in the order of the plan."""
    cells: dict[str, list[CellScores]] = {}
    planned: dict[str, int] = {}
    for group in scores.groups:
        if group.game == game:
            own = {name: group.settings[name] for name in names if name in group.settings}
            label = str(*own.values()) if len(names) == 1 else label_of(own, scores.varied)
            label = label or group.variant
            cells.setdefault(label, []).extend(scores.of(group))
            planned[label] = planned.get(label, 0) + len(scores.seeds)
    return [Line(label, own, planned[label]) for label, own in cells.items()]


def _title(names: Sequence[str]) -> str:
    """Return the title of a legend: the setting, if lines differ in only one."""
    return names[0].rpartition(".")[2] if len(names) == 1 else ""


def _variant(comparison: Comparison, name: Any) -> str:
    """Return a variant by its label, or by the value of the only setting."""
    known = list(comparison.matrices)
    if str(name) in known:
        return str(name)
    matching = [x for x in known if ", " not in x and x.partition("=")[2] == str(name)]
    if len(matching) == 1:
        return matching[0]
    raise ConfigError(f"there is no variant {shown(name)}: {nearest(str(name), known)}")
