"""What is measured of a trained run: one number per seed, from greedy play."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rookery.evaluation.play import TRAINED, Match


@dataclass(frozen=True)
class Measure:
    """A number that says how well the agents of a run play."""

    text: str
    """What it is, in words."""
    of: Callable[[Mapping[str, Match]], float]
    """Takes matches by who played."""
    players: tuple[str, ...] = (TRAINED,)
    """Who plays: the trained agents, and scripted players to compare with."""


def mean_return(episodes_text: str = "episode") -> Measure:
    """Return the mean return over episodes and agents."""
    return Measure(
        f"mean return per {episodes_text}",
        lambda matches: float(matches[TRAINED].returns.mean()),
    )


def mean_reward(turns: int) -> Measure:
    """Return the mean reward per turn, in episodes of so many turns."""
    return Measure(
        "mean reward per turn",
        lambda matches: float(matches[TRAINED].returns.mean() / turns),
    )


def mean_sum() -> Measure:
    """Return the mean over episodes of the sum of all agents' returns."""
    return Measure(
        "mean return of all agents together",
        lambda matches: float(matches[TRAINED].returns.sum(axis=1).mean()),
    )


def share_at(best: float) -> Measure:
    """Return the share of seeds in which every return is the best one."""
    return Measure(
        f"share of seeds in which both agents always get {best:g}",
        lambda matches: float((matches[TRAINED].returns >= best - 1e-6).all()),
    )


def share_that_takes(count: str, turns: int) -> Measure:
    """Return the share of seeds in which agents mostly take an action that is counted."""
    return Measure(
        f"share of seeds that end in {count}",
        lambda matches: float(matches[TRAINED].counts[count].mean() / turns > 0.5),
    )


def share_of_agents(solved: float) -> Measure:
    """Return the share of agents with at least this mean return."""
    return Measure(
        f"share of agents with a mean return of at least {solved:g}",
        lambda matches: float((matches[TRAINED].returns.mean(axis=0) >= solved).mean()),
    )


def share_of_player(player: str) -> Measure:
    """Return the mean return as a share of a scripted player's, in the same games."""
    return Measure(
        f"mean return, as a share of the scripted {player}'s",
        lambda matches: float(
            matches[TRAINED].returns.mean() / matches[player].returns.mean()
        ),
        (TRAINED, player),
    )
