"""A Gymnasium game and a PettingZoo game that break their contract after some turns."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

BOX = spaces.Box(0, 1, (2,), np.float32)
FAULT_TURN = 12


class Faulty(gymnasium.Env):
    """Two agents with list spaces, in one long episode."""

    metadata = {"render_modes": []}

    def __init__(self, fault: str = ""):
        self.fault = fault
        self.action_space = spaces.Tuple([spaces.Discrete(2)] * 2)
        self.observation_space = spaces.Tuple([BOX] * 2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = 0
        return [np.zeros(2, np.float32)] * 2, {}

    def step(self, actions):
        self.turn += 1
        observations, rewards = [self.np_random.random(2, np.float32)] * 2, [0.0, 1.0]
        if self.turn >= FAULT_TURN:
            if self.fault == "raise":
                self._fail()
            if self.fault == "hang":
                time.sleep(10_000)
            first = observations[0]
            observations = {"shape": [first[:1]] * 2, "nan": [first * np.nan] * 2}.get(
                self.fault, observations
            )
            rewards = {"reward": [0.0, "much"], "agents": [0.0, 1.0, 2.0]}.get(
                self.fault, rewards
            )
        return observations, rewards, self.turn == 20, False, {}

    def _fail(self):
        raise ValueError("no more sand")


class LateAgent(ParallelEnv):
    """Two agents, and later a third that is not in `possible_agents`."""

    metadata = {"name": "late_agent"}

    def __init__(self):
        self.possible_agents = ["ann", "bob"]

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.turn, self.agents = 0, list(self.possible_agents)
        return self._observations(), {}

    def _observations(self):
        return {agent: np.zeros(2, np.float32) for agent in self.agents}

    def step(self, actions):
        self.turn += 1
        if self.turn == FAULT_TURN:
            self.agents.append("carl")
        zeros = dict.fromkeys(self.agents, 0.0)
        flags = dict.fromkeys(self.agents, False)
        return self._observations(), zeros, flags, flags, {}


def late_agent():
    return LateAgent()
