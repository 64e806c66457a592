"""A game whose agents are called what the terminal could take for orders."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Two(ParallelEnv):
    """Two agents see nothing and get nothing, four turns long."""

    metadata = {"name": "two [/]"}
    possible_agents = ["[/x]", "[red]:smile:"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.turn, self.agents = 0, list(self.possible_agents)
        return self._each(np.zeros(1, np.float32)), self._each({})

    def step(self, actions):
        self.turn += 1
        seen, got, none = (self._each(x) for x in (np.zeros(1, np.float32), 0.0, {}))
        ends = self._each(self.turn == 4)
        self.agents = [] if self.turn == 4 else self.agents
        return seen, got, dict.fromkeys(ends, False), ends, none

    def _each(self, value):
        return dict.fromkeys(self.possible_agents, value)
