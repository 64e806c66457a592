"""Scripted players of staghunt: one goes for stags only, the other for hares only."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rookery.games.gridworld.walker import Walker
from rookery.games.players import Observation
from rookery.specs import Array


class HareHunter(Walker):
    """Goes for the nearest hare it sees; without one, wanders."""

    blocks: tuple[str, ...] = ("wall", "stag")
    prey: ClassVar[str] = "hare"

    def act(self, observation: Observation, turn: int) -> Array:
        """Hunt, or wander."""
        draws = self.draw(turn)[:, 0]
        to_prey, any_prey = self.towards(
            observation, self.sees(observation, self.prey), draws
        )
        return np.where(any_prey, to_prey, self.wander(observation, draws))


class StagHunter(HareHunter):
    """Goes for the nearest stag it sees, whether or not somebody comes along."""

    blocks = ("wall",)
    prey = "stag"
