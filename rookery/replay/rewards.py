"""How rewards are scaled, clipped and standardised before they are learned from."""

from __future__ import annotations

from math import sqrt

import numpy as np

from rookery.config.agent import RewardConfig
from rookery.replay.buffer import ReplayReader
from rookery.specs import Array

COUNT, MEAN, SQUARES = range(3)


def shaped(rewards: Array, settings: RewardConfig) -> Array:
    """Return rewards scaled and clipped, as set."""
    scaled = rewards * np.float32(settings.scale)
    if settings.clip is None:
        return scaled
    return np.clip(scaled, -settings.clip, settings.clip)


class RewardSpread:
    """The running standard deviation of an agent's rewards, if they are standardised."""

    def __init__(self, settings: RewardConfig) -> None:
        self._settings = settings
        self.state = np.zeros(3)

    def load(self, state: Array) -> None:
        """Set count, mean and sum of squared deviations, from a state."""
        self.state = np.array(state)

    def update(self, reader: ReplayReader, first: int) -> None:
        """Add the rewards of all rows from turn `first` on."""
        if not self._settings.standardise:
            return
        rewards = shaped(reader.rewards_since(first), self._settings).astype(np.float64)
        if not rewards.size:
            return  # in `pipelined`, the first round is learned from no rows
        count, mean, squares = self.state
        total = count + rewards.size
        shift = rewards.mean() - mean
        squares += ((rewards - rewards.mean()) ** 2).sum()
        squares += shift**2 * count * rewards.size / total
        self.state = np.array([total, mean + shift * rewards.size / total, squares])

    @property
    def factor(self) -> float:
        """The factor for returns: 1 / standard deviation, or 1 if not standardised."""
        if not self._settings.standardise or self.state[COUNT] < 2:
            return 1.0
        return 1.0 / max(sqrt(self.state[SQUARES] / self.state[COUNT]), 1e-6)
