"""A Gymnasium game for one agent, or several copies of it side by side, an agent in each.

Copies know nothing of each other: each has its own object and its own stream of seeds. An
agent whose copy has ended waits until all have ended, and then all start anew together;
so what a copy shows depends on its own number, seed and actions alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rookery.games.adapters.lists import Named, five, pair
from rookery.specs import Array


class Copies:
    """Games for one agent, who are called 0, 1, …."""

    def __init__(self, copies: Sequence[Any]) -> None:
        self._copies = {str(i): copy for i, copy in enumerate(copies)}
        self.possible_agents = list(self._copies)
        self.agents: list[str] = []
        self.metadata = copies[0].metadata

    def observation_space(self, agent: str) -> Any:
        """Return what an agent sees."""
        return self._copies[agent].observation_space

    def action_space(self, agent: str) -> Any:
        """Return what an agent can do."""
        return self._copies[agent].action_space

    def reset(self, seed: int) -> tuple[Named, Named]:
        """Start an episode of every copy, each with a seed of its own."""
        self.agents = list(self.possible_agents)
        seen = {}
        for i, agent in enumerate(self.agents):
            own = np.random.SeedSequence(seed, spawn_key=(i,)).generate_state(1)[0]
            seen[agent], _ = pair(self._copies[agent].reset(seed=int(own)))
        return seen, {}

    def step(self, actions: Named) -> tuple[Named, ...]:
        """Advance the copies that have not ended."""
        told: tuple[Named, ...] = ({}, {}, {}, {})
        for agent, action in actions.items():
            values = five(self._copies[agent].step(action))
            for named, value in zip(told, values, strict=False):
                named[agent] = value
        _, _, terminated, truncated = told
        self.agents = [a for a in actions if not (terminated[a] or truncated[a])]
        return *told, {}

    def render(self) -> Array:
        """Draw all copies side by side."""
        return np.concatenate([copy.render() for copy in self._copies.values()], axis=1)

    def close(self) -> None:
        """Close all copies."""
        for copy in self._copies.values():
            copy.close()
