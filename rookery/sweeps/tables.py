"""The results of a sweep as rows: for every combination, and for every variant over tasks.

The unit is the seed. Estimates are interquartile means with 95 % bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf, isnan, nan
from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.specs import Array
from rookery.studies.aggregates import (
    interquartile_mean_of_tasks,
    probability_of_improvement,
)
from rookery.studies.statistics import bootstrap, interquartile_mean
from rookery.sweeps.references import Reference
from rookery.sweeps.scores import GAME, RETURN, TRAINED, Group, SweepScores
from rookery.sweeps.trials import COMPLETE, FAILED, PRUNED, RUNNING, Trial

NORMALISED = "normalised"
TRIAL, STATE, VALUE = "trial", "state", "value"
"""Columns of a search; `value` is what is maximised."""
References = Mapping[str, Reference]

Row = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """All that a sweep has measured so far."""

    rows: list[Row]
    """One per combination."""
    aggregates: list[Row]
    """One per variant, over several tasks; empty with a single one."""
    seeds: int
    """How many are planned."""
    scale: list[str]
    """Lines about the scores of random and scripted players; none with a single task."""
    notes: list[str]
    """Lines about what is missing."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data, with null for what is not known."""
        return {
            "table": [_plain(row) for row in self.rows],
            **(
                {"aggregate": list(map(_plain, self.aggregates))} if self.aggregates else {}
            ),
            "notes": [*self.scale, *self.notes],
        }


def _plain(row: Row) -> Row:
    return {k: None if isinstance(v, float) and isnan(v) else v for k, v in row.items()}


def results_of(scores: SweepScores, references: References) -> Results:
    """Return all rows of a sweep, and what is missing."""
    rows, seeds = combination_rows(scores, references), len(scores.seeds)
    if len(scores.tasks) <= 1 or not any(cell.scores for cell in scores.cells):
        return Results(rows, [], seeds, [], [*search_notes(scores), *scores.notes()])
    scale = [
        f"{NORMALISED}: {scores.metric(None)}, from random (0) to scripted (1)",
        *(
            f"{k}: random {x.random:.4g}, {x.player} {x.scripted:.4g}"
            for k, x in references.items()
            if not x.why
        ),
    ]
    try:
        comparison = Comparison(scores, None, references)
    except ConfigError as error:
        return Results(rows, [], seeds, scale, [str(error)])
    return Results(rows, comparison.aggregate_rows(), seeds, scale, comparison.notes)


def search_notes(scores: SweepScores) -> list[str]:
    """Return what `value` is, and how many trials there are; nothing for another sweep."""
    search = scores.search
    if search is None:
        return []
    when = "in the last evaluation" if search.is_evaluated else "as in its column"
    notes = [f"{VALUE}: mean of {search.metric} over seeds, {when}"]
    if len(scores.trials) < search.trials:
        notes.append(f"{len(scores.trials)} of {search.trials} trials have begun")
    return notes


def combination_rows(scores: SweepScores, references: References) -> list[Row]:
    """Return one row per combination: settings, seeds, and every score with its interval.

    Those of a search are its trials, the best first.

    Args:
        scores: of the sweep.
        references: of every task, to normalise by; empty to leave this out.
    """
    names = list(dict.fromkeys(name for cell in scores.cells for name in cell.scores))
    rows = []
    trials = {trial.folder: trial for trial in scores.trials}
    for group in ranked(scores):
        cells = scores.of(group)
        scored = [cell for cell in cells if cell.scores]
        row: Row = {GAME: group.game} if len(scores.games) > 1 else {}
        trial = trials.get(group.folder)
        row |= {TRIAL: trial.folder} if trial else {}
        row |= group.settings
        row["seeds"] = len(scored)
        row["finished"] = sum(cell.is_finished for cell in cells)
        if trial:
            value = trial.last_value
            row |= {STATE: trial.state, VALUE: nan if value is None else value}
        columns = {name: [x.scores.get(name, nan) for x in scored] for name in names}
        if references:
            reference = references[group.task]
            raw = columns[scores.metric(None)] if scored else []
            columns[NORMALISED] = list(reference.normalise(np.asarray(raw, float)))
        for name, values in columns.items():
            # A count of the game can have the name of a setting.
            row |= estimate(f"counts.{name}" if name in row else name, values)
        rows.append(row)
    return rows


def ranked(scores: SweepScores) -> list[Group]:
    """Return the combinations of a sweep in their order; those of a search best first."""
    if not scores.trials:
        return scores.groups
    pairs = list(zip(scores.trials, scores.groups, strict=True))
    pairs.sort(key=lambda pair: _rank(pair[0]))  # of equal ones, the first stays first
    return [group for _, group in pairs]


def _rank(trial: Trial) -> tuple[int, float]:
    """Return what trials are sorted by: those that are complete, by their value, first."""
    order = (COMPLETE, RUNNING, PRUNED, FAILED)
    value = trial.last_value
    return order.index(trial.state), inf if value is None else -value


def estimate(name: str, values: Sequence[float]) -> Row:
    """Return an estimate over seeds and its interval, as columns; NaN if there is none."""
    numbers = np.asarray(values, float)
    numbers = numbers[np.isfinite(numbers)]
    value = float(interquartile_mean(numbers)) if len(numbers) else nan
    low, high = bootstrap(numbers) if len(numbers) > 1 else (nan, nan)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


class Comparison:
    """The scores of all variants on the tasks on which they can be compared.

    Args:
        scores: of the sweep.
        metric: the name of the score; by default `trained` or `return`.
        references: of every task, to normalise returns by; empty to compare raw scores.

    Raises:
        ConfigError: if the metric is unknown, or there is nothing to compare yet.
    """

    def __init__(
        self, scores: SweepScores, metric: str | None, references: References
    ) -> None:
        self.metric = scores.metric(metric)
        if self.metric not in (TRAINED, RETURN):
            references = {}
        self.is_normalised = bool(references)
        why = {task: references[task].why for task in scores.tasks if references}
        usable = [task for task in scores.tasks if not why.get(task)]
        matrices = {x: scores.matrix(x, self.metric, usable) for x in scores.variants}
        scored = {x: matrix for x, matrix in matrices.items() if _measured(matrix).any()}
        common = np.all([_measured(matrix) for matrix in scored.values()], axis=0)
        self.tasks = [task for i, task in enumerate(usable) if scored and common[i]]
        self.notes = [
            *scores.notes(),
            *filter(None, why.values()),
            *(f"{x}: no scores yet" for x in matrices if x not in scored),
            *(f"{x}: left out: not all have scores" for x in usable if x not in self.tasks),
        ]
        """Lines about what is missing."""
        if not self.tasks:
            lines = "; ".join(self.notes)
            raise ConfigError(f"{scores.folder} has nothing to compare yet: {lines}.")
        self.matrices = {
            variant: self._normalised(matrix[:, common], references)
            for variant, matrix in scored.items()
        }
        """Of every variant, (seeds, tasks)."""

    def _normalised(self, matrix: Array, references: References) -> Array:
        for i, task in enumerate(self.tasks):
            if references:
                matrix[:, i] = references[task].normalise(matrix[:, i])
        return matrix

    def seeds(self, variant: str) -> int:
        """Return the smallest number of seeds of a variant on any task."""
        return int(np.isfinite(self.matrices[variant]).sum(axis=0).min())

    def aggregate_rows(self) -> list[Row]:
        """Return the interquartile mean over tasks of every variant."""
        rows = []
        for variant, matrix in self.matrices.items():
            value, (low, high) = interquartile_mean_of_tasks(matrix)
            name = NORMALISED if self.is_normalised else self.metric
            counts = {"tasks": len(self.tasks), "seeds": self.seeds(variant)}
            estimates = {name: value, f"{name}_low": low, f"{name}_high": high}
            rows.append({"variant": variant, **counts, **estimates})
        return rows

    def improvement_rows(self) -> list[Row]:
        """Return the probability of improvement of every variant over every other."""
        rows = []
        for first, second in permutations(self.matrices, 2):
            value, (low, high) = probability_of_improvement(
                self.matrices[first], self.matrices[second]
            )
            row = {"first": first, "second": second, "probability": value}
            rows.append({**row, "low": low, "high": high})
        return rows


def _measured(matrix: Array) -> Array:
    """Return which tasks have any score, (tasks,)."""
    return np.asarray(np.isfinite(matrix).any(axis=0))
