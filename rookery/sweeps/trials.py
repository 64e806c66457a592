"""How far the trials of a search are, and what they scored, according to their folders.

Only files of plain data are read. What a trial scored does not change once it is complete,
also if its runs are trained longer: evaluations after the planned rounds do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from rookery.runs.folder import CHECKPOINTS, CONFIG
from rookery.runs.log import EVALUATIONS, read_lines
from rookery.runs.overview import Overview
from rookery.storage.access import is_file
from rookery.storage.checkpoints import checkpoints_in, number_of
from rookery.sweeps.cells import FAILURES, file_about, has_last_evaluation
from rookery.sweeps.pruned import is_pruned
from rookery.sweeps.search_record import TRAINED, Search, recorded_search

COMPLETE, PRUNED, FAILED, RUNNING = "done", "pruned", "failed", "running"
"""States of a trial; one that was stopped counts as running, since it goes on."""
OVER = (COMPLETE, PRUNED, FAILED)


@dataclass(frozen=True)
class Trial:
    """One combination of settings that a search tries."""

    folder: str
    """Relative to that of the sweep."""
    settings: Mapping[str, str]
    """What distinguishes it, as on the command line."""
    state: str = RUNNING
    value: float | None = None
    """The mean score of its seeds, once it is complete."""
    at_rounds: Mapping[int, float] = field(default_factory=dict)
    """For each round with evaluations, the mean over the seeds that got there."""

    def until(self, number: int) -> Trial:
        """Return the trial as far as it had been evaluated in a round."""
        return replace(
            self, at_rounds={k: v for k, v in self.at_rounds.items() if k <= number}
        )

    @property
    def last_value(self) -> float | None:
        """The mean score, or that of the last evaluation."""
        if self.value is not None or not self.at_rounds:
            return self.value
        return self.at_rounds[max(self.at_rounds)]


class Trials:
    """Reads the trials of a search, those that are over only once.

    Args:
        folder: of the sweep.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._complete: dict[str, Trial] = {}

    def read(self, content: Mapping[str, Any]) -> list[Trial]:
        """Return all trials that are planned, in order.

        Args:
            content: of the plan, from `read_plan`; its search is there.
        """
        search = recorded_search(content)
        trials = []
        for group in content["groups"]:
            name = group["folder"]
            trial = self._complete.get(name) or self._read(search, group, content["seeds"])
            if trial.state == COMPLETE:
                self._complete[name] = trial
            trials.append(trial)
        return trials

    def _read(
        self, search: Search, group: Mapping[str, Any], seeds: Sequence[int]
    ) -> Trial:
        rounds = search.rounds
        cells = [self._folder / group["folder"] / f"seed-{seed}" for seed in seeds]
        at_rounds: dict[int, list[float]] = {}
        for cell in cells if search.is_evaluated else ():
            for number, score in evaluations(cell, search.metric, rounds).items():
                at_rounds.setdefault(number, []).append(score)
        means = {number: fmean(at_rounds[number]) for number in sorted(at_rounds)}
        trial = Trial(group["folder"], group["settings"], at_rounds=means)
        complete = [is_complete(cell, search) for cell in cells]
        if all(complete):
            scores = [final_score(cell, search, rounds) for cell in cells]
            if None in scores:  # such as no episode that has ended
                return replace(trial, state=FAILED)
            mean = fmean(score for score in scores if score is not None)
            return replace(trial, state=COMPLETE, value=mean)
        if is_pruned(self._folder, trial.folder):
            return replace(trial, state=PRUNED)
        names = [f"{trial.folder}/{cell.name}" for cell in cells]
        failed = [file_about(self._folder, FAILURES, name).exists() for name in names]
        is_over = all(a or b for a, b in zip(complete, failed, strict=True))
        return replace(trial, state=FAILED) if is_over else trial


def is_complete(cell: Path, search: Search) -> bool:
    """Whether all planned rounds of a run are trained, saved and evaluated."""
    checkpoints = checkpoints_in(cell / CHECKPOINTS)
    saved = number_of(checkpoints[0]) if checkpoints else 0
    if saved < search.rounds or not is_file(cell / CONFIG):
        return False
    return has_last_evaluation(cell, search.rounds, search.every_rounds)


def evaluations(cell: Path, metric: str, rounds: int) -> dict[int, float]:
    """Return a score of trained agents in every evaluation up to a round, by round.

    Args:
        cell: the folder of a run.
        metric: a count of the game, or TRAINED for the mean return.
        rounds: up to which evaluations count.
    """
    scores = {}
    for line in read_lines(cell / EVALUATIONS):
        means = line if metric == TRAINED else line.get("counts", {}).get(metric, {})
        score: Any = means.get("mean")
        if line.get("players") == "greedy" and line["round"] <= rounds and _is_score(score):
            scores[int(line["round"])] = float(score)
    return scores


def final_score(cell: Path, search: Search, rounds: int) -> float | None:
    """Return what a run that is complete has scored; None if it has no such score."""
    if search.is_evaluated:
        scores = evaluations(cell, search.metric, rounds)
        return scores[max(scores)] if scores else None
    score = Overview(cell).last_scores().get(search.metric)
    return score if _is_score(score) else None


def _is_score(score: Any) -> bool:
    return isinstance(score, int | float) and isfinite(score)


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the complete trial with the highest score; of equal ones, the first."""
    complete = [trial for trial in trials if trial.state == COMPLETE]
    return max(complete, key=lambda trial: trial.value or 0.0, default=None)
