"""What is written down of a round: figures, episodes, evaluations and probes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rookery.algorithms.agents import capacity_of
from rookery.algorithms.base import LEFT_OUT, Agent
from rookery.runs.log import (
    EPISODES,
    EVALUATIONS,
    METRICS,
    PROBES,
    RunLog,
    finite,
)
from rookery.training.training import Round


def write_figures(log: RunLog, ids: Sequence[str], one: Round) -> None:
    """Write down every agent's figures of a round."""
    played, learned = one.played.metrics, one.learned.metrics
    agents = {i: finite({**played[i], **learned.get(i, {})}) for i in ids}
    times = {"play": one.played.seconds, "learn": one.learned.seconds}
    line = {"round": one.number, "seconds": one.seconds, **times, "agents": agents}
    log.line(METRICS, line)
    for agent, figures in agents.items():
        shown = {f"{agent}/{k}": v for k, v in figures.items() if v is not None}
        log.scalars(one.number, shown)


def left_out_line(agents: Sequence[Agent], turns: int, one: Round) -> str:
    """Return what to say of steps that are too long to be learned from; '' if none is."""
    learned = one.learned.metrics
    longer = [agent for agent in agents if learned.get(agent.id, {}).get(LEFT_OUT)]
    if not longer:
        return ""
    names = ", ".join(agent.id for agent in longer)
    return (
        f"steps that last longer than {capacity_of(longer[0], turns, 1)} turns are not "
        f"learned from (agents: {names}; left_out in the metrics): raise turns_per_round."
    )


def write_episodes(log: RunLog, ids: Sequence[str], one: Round) -> None:
    """Write down the episodes that ended in a round."""
    for episode in one.played.episodes:
        counts = {
            name: dict(zip(ids, count.tolist(), strict=True))
            for name, count in episode.counts.items()
        }
        returns = dict(zip(ids, episode.returns.tolist(), strict=True))
        about = {"round": one.number, "world": episode.world, "episode": episode.number}
        line = {**about, "turns": episode.turns, "returns": returns, "counts": counts}
        log.line(EPISODES, line)
    if one.played.episodes:
        mean = np.mean([episode.returns for episode in one.played.episodes], axis=0)
        log.scalars(one.number, {f"{i}/return": x for i, x in zip(ids, mean, strict=True)})


def write_evaluations(
    log: RunLog, match: Mapping[str, Any], written: Collection[tuple[int, str]]
) -> None:
    """Write down the evaluations of a boundary, but those that have been."""
    for players, found in match["evaluations"].items():
        if (match["round"], players) in written:
            continue
        line = {"round": match["round"], "players": players, **found}
        log.line(EVALUATIONS, line)
        log.scalars(match["round"], {f"evaluation/{players}": found["mean"]})


def write_probe(log: RunLog, number: int, found: Mapping[str, float]) -> None:
    """Write down what a probe found at a boundary."""
    figures = finite(found)
    log.line(PROBES, {"round": number, "figures": figures})
    shown = {f"probe/{k}": v for k, v in figures.items() if v is not None}
    log.scalars(number, shown)
