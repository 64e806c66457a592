"""A PettingZoo game with observations of every space that can be stored."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

SPACES = {
    "picture": spaces.Box(0, 255, (7, 9, 3), np.uint8),
    "flags": spaces.MultiBinary(5),
    "dice": spaces.MultiDiscrete([6, 6]),
    "floor": spaces.Discrete(5, start=-2),
    "speed": spaces.Box(-1, 1, (2,), np.float64),
    "height": spaces.Box(-1, 1, (), np.float16),
    "grid": spaces.Box(-9, 9, (2, 3), np.int16),
    "action_mask": spaces.Box(0, 1, (3,), np.int8),
}


class EverySpace(ParallelEnv):
    """Everything is drawn at random; the first action is always legal."""

    metadata = {"name": "every_space"}
    possible_agents = ["0"]

    def observation_space(self, agent):
        return spaces.Dict(SPACES)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        for number, space in enumerate(SPACES.values()):
            space.seed(seed + number)
        self.agents, self.turn = ["0"], 0
        return self._seen(), {"0": {}}

    def _seen(self):
        seen = {name: space.sample() for name, space in SPACES.items()}
        seen["action_mask"][0] = 1
        return {"0": seen}

    def step(self, actions):
        self.turn += 1
        ends = {"0": self.turn == 5}
        self.agents = [] if ends["0"] else ["0"]
        return self._seen(), {"0": 1.0}, ends, {"0": False}, {"0": {}}


def every_space():
    return EverySpace()
