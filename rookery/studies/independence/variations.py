"""Ways to alter one agent, for the proof that nobody else notices.

Each takes what an agent is and has lived through, and gives it back changed: its
experience, its random numbers, or how it learns.
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
MOVED = ("action", "probability", "legal")


class Life(NamedTuple):
    """An agent, and the rows it has lived through."""

    agent: Agent
    rows: Rows


@dataclass(frozen=True)
class Alteration:
    """One way to alter an agent."""

    name: str
    what: str
    """In words: what is different about it."""
    make: Callable[[Life, int], Life | None]
    """Called with an agent's life and its number of turns; None: it is not there."""


def _other_experience(life: Life, turns: int) -> Life:
    """Return the agent with other observations, actions and rewards."""

    def change(columns: dict[str, Array]) -> None:
        for name, column in columns.items():
            if name.startswith(PART) or name in MOVED:
                column[:turns] = np.roll(column[:turns], turns // 2 + 1, axis=0)
        columns["reward"][:turns] = 1 - 2 * columns["reward"][:turns]

    return life._replace(rows=_copied(life, turns, change))


def _breaking_experience(life: Life, turns: int) -> Life:
    """Return the agent with rewards that are no numbers, which stop its learning."""

    def change(columns: dict[str, Array]) -> None:
        columns["reward"][:turns] = np.nan

    return life._replace(rows=_copied(life, turns, change))


def _copied(life: Life, turns: int, change: Callable[[dict[str, Array]], None]) -> Rows:
    """Return a changed copy of an agent's rows, each whole by itself."""
    rows, spec = life.rows, life.agent.spec
    worlds = rows.columns["age"].shape[1]
    agent = Rows.layout(spec, worlds, rows.slots, life.agent.hidden)
    copy = Rows(Block.private(agent))
    copy.raw(range(turns), rows.raw(range(turns)))
    change(copy.columns)
    for turn in range(turns):
        copy.seal(turn)
    return copy


def _other_seed(life: Life, turns: int) -> Life:
    other = replace(life.agent, number=life.agent.number + OTHER_NUMBER)
    return life._replace(agent=other)


def _other_settings(life: Life, turns: int) -> Life:
    """Return the agent with other settings that leave it in its group."""
    old = life.agent.settings
    changes = {
        "learning_rate": old.learning_rate / 2,
        "discount": old.discount * 0.9,
        "updates_per_round": old.updates_per_round + 1,
        "reward": old.reward.model_copy(update={"scale": old.reward.scale * 2}),
        "gradient": old.gradient.model_copy(update={"clip": old.gradient.clip / 2}),
    }
    return life._replace(agent=_with(life.agent, old.model_copy(update=changes)))


def _other_network(life: Life, turns: int) -> Life:
    old = life.agent.settings
    width = old.network.width + (16 if old.network.width < 2048 else -16)
    network = old.network.model_copy(update={"width": width})
    changed = old.model_copy(update={"network": network})
    return life._replace(agent=_with(life.agent, changed))


def _other_algorithm(life: Life, turns: int) -> Life:
    old = life.agent.settings
    name = "iqn" if old.algorithm == "ppo" else "ppo"
    changed = old.model_copy(update={"algorithm": name})
    return life._replace(agent=_with(life.agent, changed))


def _with(agent: Agent, settings: AgentSettings) -> Agent:
    algorithm = agent.algorithm
    if settings.algorithm != agent.settings.algorithm:
        algorithm = find_algorithm(settings.algorithm)
    return replace(agent, settings=settings, algorithm=algorithm, learns=True)


ALTERATIONS: Sequence[Alteration] = (
    Alteration("experience", "other experience", _other_experience),
    Alteration("failure", "rewards that are no numbers", _breaking_experience),
    Alteration("seed", "other random numbers", _other_seed),
    Alteration("settings", "another learning rate, discount, …", _other_settings),
    Alteration("network", "a network of another width", _other_network),
    Alteration("algorithm", "another algorithm", _other_algorithm),
    Alteration("absence", "not there at all", lambda life, turns: None),
)
