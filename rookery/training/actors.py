"""How many actors play a run."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.algorithms.base import Agent
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.learner.exactness import acts_in_shares
from rookery.protocol.shares import LEAST_WORLDS, most_shares, shares_of
from rookery.training.autoscale import cores


def resolve_actors(config: Config, groups: Sequence[Sequence[Agent]]) -> tuple[int, str]:
    """Return how many actors play a run, and a warning if that is fewer than set.

    Args:
        config: of the run.
        groups: the agents that are computed together.

    Raises:
        ConfigError: if the run can have only one actor, and more are set.
    """
    wanted = 1 if config.actors == "auto" else config.actors
    if wanted == 1:
        return 1, ""
    if config.schedule == "async":
        raise ConfigError(
            f"actors is {wanted}, but schedule is async, in which learners take rows turn "
            "by turn from a single actor: set actors=1, or another schedule."
        )
    most = most_shares(config.worlds)
    actors, warning = min(wanted, most), ""
    if actors < wanted:
        warning = (
            f"actors is {wanted}, but there are {config.worlds} worlds, and each actor "
            f"plays at least {LEAST_WORLDS}: {_actors_text(actors)}."
        )
    if inexact := inexact_in_shares(config, groups, actors):
        agents = f"agent {inexact[0]} does"
        if len(inexact) > 1:
            agents = f"agents {', '.join(inexact)} do"
        return 1, (
            f"actors is {wanted}, but {agents} not act with the same bits in a share of "
            "the worlds as in all of them: one actor plays."
        )
    return actors, warning


def possible_actors(
    config: Config, groups: Sequence[Sequence[Agent]], resolved: int
) -> Sequence[int]:
    """Return the numbers of actors that a run can have, ascending.

    Args:
        config: of the run.
        groups: the agents that are computed together.
        resolved: from `resolve_actors`; the only number if `actors` is set.
    """
    if config.actors != "auto":
        return [resolved]
    most = 1 if config.schedule == "async" else min(most_shares(config.worlds), cores())
    doubled = [2**i for i in range(1, most.bit_length()) if 2**i < most]
    candidates = [*doubled, most] if most > 1 else []
    return [1, *(n for n in candidates if not inexact_in_shares(config, groups, n))]


def inexact_in_shares(
    config: Config, groups: Sequence[Sequence[Agent]], actors: int
) -> list[str]:
    """Return the ids of agents that act with other bits in the shares of so many actors."""
    if actors == 1:
        return []
    shares = [share.slice for share in shares_of(config.worlds, actors)]
    sizes = (config.seed, config.worlds, config.turns_per_round)
    return [
        agent.id
        for group in groups
        if not acts_in_shares(group, *sizes, shares)
        for agent in group
    ]


def _actors_text(actors: int) -> str:
    return "one actor plays" if actors == 1 else f"{actors} actors play"
