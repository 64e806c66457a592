"""The live table of `train`: metrics of every agent, or of many agents in a few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.text import Text

from rookery.algorithms.base import Agent
from rookery.api.text_table import TextTable
from rookery.runs.log import lineup_name

COUNT = "counts/"
"""Before the names of the game's counts among an agent's metrics."""
OTHER_LINES = 6
"""Lines of the live view besides agents: bar, rates, evaluation, header, notes, cursor."""
FEWEST_ROWS = 4
MOST_ROLES = 4
MOST_LISTED = 8
"""Agents whose returns are listed in one line."""
EXTREMES = 3
STATISTICS = {"lowest": 0, "median": 50, "highest": 100}
"""The rows of a summary, and the percentiles in them."""


class LiveTable:
    """Shows the metrics of all agents after each round."""

    def __init__(self, agents: Sequence[Agent], schedule: str) -> None:
        self._agents = agents
        learning = [agent for agent in agents if not agent.is_scripted]
        sampling = {agent.id for agent in learning if _samples(agent)}
        self._columns = {"return": "return"}
        if len(sampling) < len(learning):
            self._columns["epsilon"] = "epsilon"
        if sampling:
            self._columns["entropy"] = "entropy"
        self._columns |= {"loss": "loss", "value": "q_value"}
        if schedule == "async":
            self._columns["lag"] = "lag"
        self._hidden = {
            agent.id: "epsilon" if agent.id in sampling else "entropy" for agent in learning
        }
        """The metric of each agent that says nothing about how it explores."""

    def lines(
        self,
        metrics: Mapping[str, Mapping[str, Any]],
        counts: Sequence[str],
        width: int,
        height: int,
    ) -> list[Text]:
        """Return the table, of at most so many columns and lines.

        Args:
            metrics: of each agent, by its id; counts of the game are among them.
            counts: the names of the game's counts, as they are in `metrics`.
            width: of the terminal.
            height: of the terminal.
        """
        columns = self._columns | {name.removeprefix(COUNT): name for name in counts}
        values = np.array(
            [
                [
                    self._value(agent.id, metrics[agent.id], metric)
                    for metric in columns.values()
                ]
                for agent in self._agents
            ]
        )
        is_short = len(self._agents) <= max(FEWEST_ROWS, height - OTHER_LINES)
        key = "agent" if is_short else f"{len(self._agents)} agents"
        table = TextTable(key, list(columns))
        if is_short:
            rows = [(agent.id, values[i]) for i, agent in enumerate(self._agents)]
        else:
            rows = self._summary_rows(values)
        table.rows = [(label, [_cell(x) for x in numbers]) for label, numbers in rows]
        shown, *rest = table.fitted(width)
        header, *lines = shown.lines()
        texts = [Text(header, "bold"), *map(Text, lines)]
        if not is_short:
            texts += self._extremes(values[:, 0])
        if rest:
            hidden = ", ".join(name for part in rest for name in part.columns)
            texts.append(Text(f"not shown: {hidden}", "dim"))
        return texts

    def _value(self, agent: str, metrics: Mapping[str, Any], name: str) -> float:
        if self._hidden.get(agent) == name:
            return float("nan")
        value = metrics.get(name)
        return float("nan") if value is None else float(value)

    def _summary_rows(self, values: Any) -> list[tuple[str, Any]]:
        """Return the mean of all agents or of each role, and how far agents differ."""
        roles = Counter(agent.spec.role for agent in self._agents)
        rows = []
        if 1 < len(roles) <= MOST_ROLES:
            for role, count in roles.items():
                members = [agent.spec.role == role for agent in self._agents]
                rows.append((f"mean of {count} {role}", _known(np.mean, values[members])))
        else:
            rows.append(("mean", _known(np.mean, values)))
        for label, percentile in STATISTICS.items():
            rows.append(
                (label, _known(lambda x, p=percentile: np.percentile(x, p), values))
            )
        return rows

    def _extremes(self, returns: Any) -> list[Text]:
        """Return a line that names the agents with the best and worst returns."""
        known = np.flatnonzero(~np.isnan(returns))
        order = known[np.argsort(-returns[known], kind="stable")]
        if not len(order):
            return []
        best, worst = (
            ", ".join(self._agents[i].id for i in extremes)
            for extremes in (order[:EXTREMES], order[::-1][:EXTREMES])
        )
        return [Text(f"best: {best}   worst: {worst}", "dim")]


def evaluation_line(match: Mapping[str, Any]) -> str:
    """Return the result of an evaluation during training in one line."""
    results = ", ".join(
        f"{lineup_name(players)} {summary['mean']:.2f} (std {summary['std']:.2f})"
        for players, summary in match["evaluations"].items()
    )
    return f"evaluation after round {match['round']}: {results}"


def returns_line(returns: Mapping[str, float]) -> str:
    """Return the agents' returns in one line; of many agents, the mean and the extremes."""
    if not returns:
        return ""
    if len(returns) <= MOST_LISTED:
        listed = "  ".join(f"{agent}: {value:z.1f}" for agent, value in returns.items())
        return f"return of {listed}"
    lowest = min(returns, key=returns.__getitem__)
    highest = max(returns, key=returns.__getitem__)
    mean = sum(returns.values()) / len(returns)
    return (
        f"return of {len(returns)} agents: mean {mean:z.1f}, lowest {returns[lowest]:z.1f} "
        f"(agent {lowest}), highest {returns[highest]:z.1f} (agent {highest})"
    )


def _samples(agent: Agent) -> bool:
    """Whether an agent samples all its actions from a policy, and has no epsilon."""
    return agent.learner.exploration(agent.settings, 2**62) == 1.0


def _known(statistic: Any, values: Any) -> list[float]:
    """Return a statistic of each column, over the agents that have a value."""
    results = []
    for column in values.T:
        known = column[~np.isnan(column)]
        results.append(float(statistic(known)) if len(known) else float("nan"))
    return results


def _cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:z.2f}"
