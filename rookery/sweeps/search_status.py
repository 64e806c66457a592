"""How far a search is, and what is best so far, in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rookery.printing import command
from rookery.runs.folder import CONFIG, MOST_NAMED
from rookery.sweeps.plan import Plan, read_plan
from rookery.sweeps.pruned import round_of_pruning
from rookery.sweeps.search_record import Search
from rookery.sweeps.trials import COMPLETE, FAILED, PRUNED, RUNNING, Trial, Trials, best_of

NEW_SEEDS = 10
"""How many new seeds the best settings are to be trained with."""


@dataclass(frozen=True)
class Best:
    """The settings with the highest score so far."""

    trial: str
    """Its folder, relative to that of the sweep."""
    metric: str
    value: float
    settings: Mapping[str, str]
    """As on the command line."""
    next: str
    """The command that trains them with new seeds."""

    def __str__(self) -> str:
        settings = " ".join(f"{key}={value}" for key, value in self.settings.items())
        return (
            f"best: {self.trial}, {self.metric} {self.value:.4g}: {settings}; with new "
            f"seeds: {self.next}"
        )


@dataclass(frozen=True)
class SearchStatus:
    """How many trials of a search are done, pruned and running, and the best."""

    trials: int
    """How many there will be."""
    done: int
    failed: int
    running: int
    """Begun and not over, also if nobody trains them now."""
    pruned: Mapping[str, int | None]
    """The trials that were ended early, and the round in which they were behind."""
    best: Best | None

    def lines(self) -> list[str]:
        """Return what to tell about it."""
        counts = {
            "done": self.done,
            "pruned": len(self.pruned),
            "failed": self.failed,
            "running": self.running,
        }
        counts["to come"] = self.trials - sum(counts.values())
        parts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        lines = [f"{self.trials} trials: {parts}"]
        if self.pruned:
            names = [
                name if number is None else f"{name} (round {number})"
                for name, number in self.pruned.items()
            ]
            more = ", …" if len(names) > MOST_NAMED else ""
            lines.append(f"pruned: {', '.join(names[:MOST_NAMED])}{more}")
        return [*lines, *([str(self.best)] if self.best else [])]


def search_status(plan: Plan) -> SearchStatus | None:
    """Return how far a search is; None for another sweep."""
    if plan.search is None:
        return None
    content = read_plan(plan.folder)
    trials = Trials(plan.folder).read(content)
    states = [trial.state for trial in trials]
    best = best_of(trials)
    return SearchStatus(
        plan.search.trials,
        done=states.count(COMPLETE),
        failed=states.count(FAILED),
        running=states.count(RUNNING),
        pruned={
            trial.folder: round_of_pruning(plan.folder, trial.folder)
            for trial in trials
            if trial.state == PRUNED
        },
        best=_best(plan, plan.search, best) if best else None,
    )


def _best(plan: Plan, search: Search, trial: Trial) -> Best:
    following = _command(plan, search, trial)
    return Best(trial.folder, search.metric, trial.value or 0.0, trial.settings, following)


def _command(plan: Plan, search: Search, trial: Trial) -> str:
    """Return the command that trains the settings of a trial with other seeds.

    A file cannot name code, so settings that do so are on the command line, too.
    """
    first = max(plan.seeds) + 1
    code = {*plan.named.algorithms, *plan.named.probes}
    settings = [*search.fixed, *(f"{k}={v}" for k, v in trial.settings.items())]
    words = [word for word in settings if word.partition("=")[2].strip("\"'") in code]
    config = plan.folder / trial.folder / f"seed-{plan.seeds[0]}" / CONFIG
    return command(
        "train",
        search.base["game"],
        f"seeds={first}..{first + NEW_SEEDS - 1}",
        *words,
        "--config",
        config,
    )
