"""Scripted players of harvest: one picks every apple, the other leaves some to grow."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.games.gridworld.walker import Walker
from rookery.games.players import Observation
from rookery.specs import Array

LEFT = 5
"""So many apples must be left nearby, or a sharer does not pick."""


class Eater(Walker):
    """Goes for the nearest apple it sees; without one, wanders."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Pick, or wander."""
        draws = self.draw(turn)[:, 0]
        to_apple, any_apple = self.towards(observation, self.wanted(observation), draws)
        return np.where(any_apple, to_apple, self.wander(observation, draws))

    def wanted(self, observation: Observation) -> Array:
        """Return the apples it would pick, (worlds, rows, columns) bool."""
        return self.sees(observation, "apple")


class Sharer(Eater):
    """Picks only apples with many others around, and walks past the rest."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        settings: Any = self.settings
        self._nearby = settings.reach

    def blocked(self, observation: Observation) -> Array:
        """Return which moves lead into something; apples to be left are in the way."""
        left = self.sees(observation, "apple") & ~self.wanted(observation)
        ahead = [left[self.ahead(way, 1)] for way in range(4)]
        return super().blocked(observation) | np.stack(ahead, axis=1)

    def wanted(self, observation: Observation) -> Array:
        """Leave apples that few others are near to."""
        apples = self.sees(observation, "apple")
        return apples & (self._neighbours(apples) >= LEFT)

    def _neighbours(self, apples: Array) -> Array:
        """Count the apples nearby, for each cell; none are known beyond the window."""
        reach, side = self._nearby, apples.shape[1]
        wide = np.pad(apples.astype(np.int8), ((0, 0), (reach, reach), (reach, reach)))
        found = -apples.astype(np.int8)
        for down in range(2 * reach + 1):
            slack = abs(down - reach)
            for right in range(slack, 2 * reach + 1 - slack):
                found += wide[:, down : down + side, right : right + side]
        return found
