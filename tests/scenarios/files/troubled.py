"""A Gymnasium game and a PettingZoo one that go wrong after some turns, for the tests."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

BOX = spaces.Box(0, 1, (2,), np.float32)
LATE = 12


class Troubled(gymnasium.Env):
    """Two agents who speak lists, in one long episode."""

    metadata = {"render_modes": []}

    def __init__(self, trouble: str = ""):
        self.trouble = trouble
        self.action_space = spaces.Tuple([spaces.Discrete(2)] * 2)
        self.observation_space = spaces.Tuple([BOX] * 2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = 0
        return [np.zeros(2, np.float32)] * 2, {}

    def step(self, actions):
        self.turn += 1
        seen, rewards = [self.np_random.random(2, np.float32)] * 2, [0.0, 1.0]
        if self.turn >= LATE:
            if self.trouble == "raise":
                self._break_down()
            if self.trouble == "hang":
                time.sleep(10_000)
            seen = {"shape": [seen[0][:1]] * 2, "nan": [seen[0] * np.nan] * 2}.get(
                self.trouble, seen
            )
            rewards = {"reward": [0.0, "much"], "agents": [0.0, 1.0, 2.0]}.get(
                self.trouble, rewards
            )
        return seen, rewards, self.turn == 20, False, {}

    def _break_down(self):
        raise ValueError("no more sand")


class Guests(ParallelEnv):
    """Two agents, and a third who was never announced."""

    metadata = {"name": "guests"}

    def __init__(self):
        self.possible_agents = ["ann", "bob"]

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.turn, self.agents = 0, list(self.possible_agents)
        return self._seen(), {}

    def _seen(self):
        return {agent: np.zeros(2, np.float32) for agent in self.agents}

    def step(self, actions):
        self.turn += 1
        if self.turn == LATE:
            self.agents.append("carl")
        zeros = dict.fromkeys(self.agents, 0.0)
        flags = dict.fromkeys(self.agents, False)
        return self._seen(), zeros, flags, flags, {}


def guests():
    return Guests()
