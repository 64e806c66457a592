"""What becomes of rewards before they are learned from."""

from __future__ import annotations

from math import sqrt

import numpy as np

from rookery.config.agent import RewardConfig
from rookery.replay.buffer import ReplayReader
from rookery.specs import Array

COUNT, MEAN, SQUARES = range(3)


def shaped(rewards: Array, settings: RewardConfig) -> Array:
    """Return rewards scaled and kept within bounds, as the settings say."""
    scaled = rewards * np.float32(settings.scale)
    if settings.clip is None:
        return scaled
    return np.clip(scaled, -settings.clip, settings.clip)


class RewardSpread:
    """The running spread of an agent's rewards, if it standardises them."""

    def __init__(self, settings: RewardConfig) -> None:
        self._settings = settings
        self.state = np.zeros(3)

    def load(self, state: Array) -> None:
        """Take a state."""
        self.state = np.array(state)

    def take_in(self, reader: ReplayReader, first: int) -> None:
        """Take in the rewards of rows from turn `first` on."""
        if not self._settings.standardise:
            return
        rewards = shaped(reader.rewards_since(first), self._settings).astype(np.float64)
        if not rewards.size:
            return  # `pipelined` learns its first round from nothing
        count, mean, squares = self.state
        total = count + rewards.size
        shift = rewards.mean() - mean
        squares += ((rewards - rewards.mean()) ** 2).sum()
        squares += shift**2 * count * rewards.size / total
        self.state = np.array([total, mean + shift * rewards.size / total, squares])

    @property
    def factor(self) -> float:
        """What to multiply returns by."""
        if not self._settings.standardise or self.state[COUNT] < 2:
            return 1.0
        return 1.0 / max(sqrt(self.state[SQUARES] / self.state[COUNT]), 1e-6)
