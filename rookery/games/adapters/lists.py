"""Gymnasium games of several agents that speak lists or tuples, one entry per agent.

Spaces, observations and actions have an entry for each agent. Rewards may be one number,
which everybody gets, and ends one flag, which is everybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rookery.games.adapters.world import Unfit
from rookery.specs import Array

Named = dict[str, Any]


class Lists:
    """A game of several agents, called 0, 1, …, by name."""

    def __init__(self, copy: Any) -> None:
        self._copy = copy
        self._actions, self._observations = entries(copy.action_space), []
        self.possible_agents = [str(i) for i in range(len(self._actions))]
        self._observations = entries(copy.observation_space)
        if len(self._observations) != len(self._actions):
            raise Unfit(
                f"{len(self._actions)} agents act and {len(self._observations)} see",
                "give both spaces one entry per agent",
            )
        self.agents: list[str] = []
        self.metadata = copy.metadata

    def observation_space(self, agent: str) -> Any:
        """Return what an agent sees."""
        return self._observations[int(agent)]

    def action_space(self, agent: str) -> Any:
        """Return what an agent can do."""
        return self._actions[int(agent)]

    def reset(self, seed: int) -> tuple[Named, Named]:
        """Start an episode."""
        seen, _ = pair(self._copy.reset(seed=seed))
        self.agents = list(self.possible_agents)
        return self._named("observations", seen), {}

    def step(self, actions: Named) -> tuple[Named, ...]:
        """Let everybody act; who has ended is said to do nothing (its first action)."""
        idle = [int(space.start) for space in self._actions]
        chosen = [
            actions.get(agent, idle[i]) for i, agent in enumerate(self.possible_agents)
        ]
        seen, rewards, terminated, truncated, _ = five(self._copy.step(chosen))
        named = (
            self._named("observations", seen),
            self._named("rewards", shared(rewards, len(chosen))),
            self._named("terminated", shared(terminated, len(chosen))),
            self._named("truncated", shared(truncated, len(chosen))),
        )
        over = {agent for flags in named[2:] for agent, flag in flags.items() if flag}
        self.agents = [agent for agent in self.agents if agent not in over]
        return *named, {}

    def render(self) -> Array:
        """Draw."""
        return self._copy.render()

    def close(self) -> None:
        """Close the game."""
        self._copy.close()

    def _named(self, what: str, values: Any) -> Named:
        is_list = isinstance(values, Sequence | np.ndarray)
        if not is_list or len(values) != len(self.possible_agents):
            found = f"{len(values)}" if is_list else f"a {type(values).__name__} for"
            raise Unfit(
                f"the game gave {found} {what} for {len(self.possible_agents)} agents",
                "give a list or a tuple with one entry per agent",
            )
        return dict(zip(self.possible_agents, values, strict=True))


def entries(space: Any) -> list[Any]:
    """Return each agent's space."""
    return list(getattr(space, "spaces", space))


def shared(value: Any, agents: int) -> Any:
    """Return one entry per agent, where a single one is everybody's."""
    return [value] * agents if np.ndim(value) == 0 else value


def pair(result: Any) -> tuple[Any, Any]:
    """Return what a Gymnasium game's reset gave."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise Unfit("reset() gave no pair", "return observation, info")
    return result


def five(result: Any) -> tuple[Any, ...]:
    """Return what a Gymnasium game's step gave."""
    if not isinstance(result, tuple) or len(result) != 5:
        raise Unfit(
            "step() gave no five values",
            "return observation, reward, terminated, truncated, info",
        )
    return result
