"""Variations of one agent, for the proof that no other agent is affected.

Each takes an agent with its experience and returns it with different experience, random
numbers or settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rookery.algorithms.base import Agent
from rookery.algorithms.registry import find_algorithm
from rookery.config.agent import AgentSettings
from rookery.replay.rows import PART, Rows
from rookery.shm.block import Block
from rookery.specs import Array

OTHER_NUMBER = 1_000_000
"""Added to an agent's number, which all of its random numbers are keyed by."""
SHIFTED = ("action", "probability", "legal")


class Experience(NamedTuple):
    """An agent, and the rows that it learns from."""

    agent: Agent
    rows: Rows


@dataclass(frozen=True)
class Variation:
    """One way to change an agent."""

    name: str
    description: str
    apply: Callable[[Experience, int], Experience | None]
    """Called with the experience and its number of turns; None leaves the agent out."""


def _other_experience(experience: Experience, turns: int) -> Experience:
    """Return the agent with other observations, actions and rewards."""

    def change(columns: dict[str, Array]) -> None:
        for name, column in columns.items():
            if name.startswith(PART) or name in SHIFTED:
                column[:turns] = np.roll(column[:turns], turns // 2 + 1, axis=0)
        columns["reward"][:turns] = 1 - 2 * columns["reward"][:turns]

    return experience._replace(rows=_changed_copy(experience, turns, change))


def _nan_rewards(experience: Experience, turns: int) -> Experience:
    """Return the agent with NaN rewards, which stop its learning."""

    def change(columns: dict[str, Array]) -> None:
        columns["reward"][:turns] = np.nan

    return experience._replace(rows=_changed_copy(experience, turns, change))


def _changed_copy(
    experience: Experience, turns: int, change: Callable[[dict[str, Array]], None]
) -> Rows:
    """Return a changed copy of an agent's rows, with valid checksums."""
    rows, agent = experience.rows, experience.agent
    worlds = rows.columns["age"].shape[1]
    layout = Rows.layout(agent.spec, worlds, rows.slots, agent.hidden)
    copy = Rows(Block.private(layout))
    copy.raw(range(turns), rows.raw(range(turns)))
    change(copy.columns)
    for turn in range(turns):
        copy.seal(turn)
    return copy


def _other_seed(experience: Experience, turns: int) -> Experience:
    agent = experience.agent
    return experience._replace(agent=replace(agent, number=agent.number + OTHER_NUMBER))


def _other_settings(experience: Experience, turns: int) -> Experience:
    """Return the agent with other settings that leave it in its group."""
    old = experience.agent.settings
    changes = {
        "learning_rate": old.learning_rate / 2,
        "discount": old.discount * 0.9,
        "updates_per_round": old.updates_per_round + 1,
        "reward": old.reward.model_copy(update={"scale": old.reward.scale * 2}),
        "gradient": old.gradient.model_copy(update={"clip": old.gradient.clip / 2}),
    }
    return _with_settings(experience, old.model_copy(update=changes))


def _other_network(experience: Experience, turns: int) -> Experience:
    old = experience.agent.settings
    width = old.network.width + (16 if old.network.width < 2048 else -16)
    network = old.network.model_copy(update={"width": width})
    return _with_settings(experience, old.model_copy(update={"network": network}))


def _other_algorithm(experience: Experience, turns: int) -> Experience:
    old = experience.agent.settings
    name = "iqn" if old.algorithm == "ppo" else "ppo"
    return _with_settings(experience, old.model_copy(update={"algorithm": name}))


def _with_settings(experience: Experience, settings: AgentSettings) -> Experience:
    agent = experience.agent
    algorithm = agent.algorithm
    if settings.algorithm != agent.settings.algorithm:
        algorithm = find_algorithm(settings.algorithm)
    changed = replace(agent, settings=settings, algorithm=algorithm, learns=True)
    return experience._replace(agent=changed)


VARIATIONS: Sequence[Variation] = (
    Variation("experience", "other experience", _other_experience),
    Variation("failure", "NaN rewards", _nan_rewards),
    Variation("seed", "other random numbers", _other_seed),
    Variation("settings", "another learning rate, discount, …", _other_settings),
    Variation("network", "a network of another width", _other_network),
    Variation("algorithm", "another algorithm", _other_algorithm),
    Variation("absence", "left out", lambda experience, turns: None),
)
