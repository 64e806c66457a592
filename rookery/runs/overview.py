"""What a run folder says about itself, without its game: settings, state and scores.

Only files of plain data are read, so that a folder from elsewhere can be looked at before
any of its code is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config.messages import dotted
from rookery.config.toml import read_toml
from rookery.errors import ConfigError
from rookery.runs.folder import CONFIG
from rookery.runs.listing import state_after
from rookery.runs.log import EPISODES, EVALUATIONS, EVENTS, METRICS, read_lines

LAST_PART = 0.25
"""The part of the rounds that a final score is the mean of."""


@dataclass(frozen=True)
class Overview:
    """The settings and results of one run."""

    path: Path

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings, by dotted name; those of single agents only if they were set."""
        return dict(_flat(read_toml(self.path / CONFIG)))

    @property
    def game(self) -> str:
        """The name of the game."""
        return str(self.settings.get("game.name"))

    @cached_property
    def rounds(self) -> int:
        """The last round that was logged."""
        lines = read_lines(self.path / METRICS)
        return int(lines[-1]["round"]) if lines else 0

    @property
    def state(self) -> str:
        """`running`, `finished`, `stopped`, `failed`, `killed`, or `new`."""
        events = read_lines(self.path / EVENTS)
        return state_after(events, self.rounds, self.settings.get("rounds", 1))

    @cached_property
    def episodes(self) -> list[dict[str, Any]]:
        """The finished episodes, as they were logged."""
        return read_lines(self.path / EPISODES)

    def last_scores(self) -> dict[str, float]:
        """Return means over the last quarter of the rounds, per agent and episode.

        `return`, `turns`, and every count of the game; `trained` is the mean return in the
        last evaluation. What was not measured is left out.
        """
        scores: dict[str, float] = {}
        evaluations = [x for x in read_lines(self.path / EVALUATIONS) if "mean" in x]
        greedy = [line for line in evaluations if line.get("players") == "greedy"]
        if greedy:
            scores["trained"] = float(greedy[-1]["mean"])
        first = (1 - LAST_PART) * self.rounds
        last = [episode for episode in self.episodes if episode["round"] > first]
        if last:
            scores["return"] = _mean([list(x["returns"].values()) for x in last])
            scores["turns"] = _mean([[x["turns"]] for x in last])
        for name in last[0]["counts"] if last else ():
            scores[name] = _mean([list(x["counts"][name].values()) for x in last])
        return scores

    def curves(self, metric: str) -> dict[str, tuple[list[int], list[float]]]:
        """Return the rounds and values of a metric, by agent.

        Args:
            metric: `return` or a count of the game, per episode; `trained`, per evaluation;
                or one of the metrics of every round, such as `loss`.

        Raises:
            ConfigError: if the run has no such metric.
        """
        points: dict[str, tuple[list[int], list[float]]] = {}
        known = {"return", "trained"}
        for number, agent, values in self._points():
            known |= values.keys()
            if values.get(metric) is not None:
                rounds, numbers = points.setdefault(agent, ([], []))
                rounds.append(number)
                numbers.append(values[metric])
        if not points:
            raise ConfigError(
                f"{self.path} has no '{metric}' to plot; it has {', '.join(sorted(known))}."
            )
        return points

    def axis_label(self, metric: str) -> str:
        """Return the name of a metric with its unit, for the axis of a plot."""
        per_episode = {"return", *(self.episodes[0]["counts"] if self.episodes else ())}
        if metric == "trained":
            return "return of trained agents, per agent and episode"
        return f"{metric} per agent and episode" if metric in per_episode else metric

    def _points(self) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
        for line in self.episodes:
            for agent, value in line["returns"].items():
                counts = {name: count[agent] for name, count in line["counts"].items()}
                yield line["round"], agent, {"return": value, **counts}
        for line in read_lines(self.path / METRICS):
            for agent, metrics in line["agents"].items():
                yield line["round"], agent, metrics
        for line in read_lines(self.path / EVALUATIONS):
            if line.get("players") == "greedy":
                for agent, mean in line["agents"].items():
                    yield line["round"], agent, {"trained": mean}

    def __str__(self) -> str:
        total = self.settings.get("rounds")
        return f"{self.game}, round {self.rounds} of {total}, {self.state}"


def _flat(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*path, key))
        else:
            yield dotted((*path, key)), value


def _mean(rows: list[list[float]]) -> float:
    """Return the mean of the means of all rows."""
    return float(np.mean([np.mean(row) for row in rows]))
