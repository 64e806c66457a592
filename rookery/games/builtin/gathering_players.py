"""Scripted players of gathering: both go for the nearest apple, one of them zaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.games.players import Observation, Player
from rookery.specs import Array

FAR = 1_000.0


class Peaceful(Player):
    """Goes for the nearest apple it sees; without one, wanders."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        part = self.spec.parts["view"]
        _, rows, columns = part.shape
        self._apple = part.labels.index("apple")
        self._wall = part.labels.index("wall")
        self._agent = part.labels.index(self.spec.role)
        settings: Any = self.settings
        self._me = (min(8, rows - 1), columns // 2)
        self._reach = settings.length
        names = self.spec.action_names
        self._does = {name: names.index(name) for name in names}
        down, right = np.mgrid[:rows, :columns]
        self._down = (down - self._me[0]).ravel()
        self._right = (right - self._me[1]).ravel()

    def act(self, observation: Observation, turn: int) -> Array:
        """Go towards the nearest apple, along the longer way first."""
        view = observation.parts["view"]
        apples = view[:, self._apple].reshape(self.worlds, -1) > 0
        distance = np.where(apples, abs(self._down) + abs(self._right), FAR)
        nearest = distance.argmin(axis=1)
        down, right = self._down[nearest], self._right[nearest]
        upwards = abs(down) >= abs(right)
        vertical = np.where(down < 0, self._does["forward"], self._does["backward"])
        sideways = np.where(right > 0, self._does["step_right"], self._does["step_left"])
        towards = np.where(upwards, vertical, sideways)
        sees_one = distance.min(axis=1) < FAR
        return np.where(sees_one, towards, self._wander(view, turn))

    def _wander(self, view: Array, turn: int) -> Array:
        """Go on ahead; turn at walls and now and then."""
        draws = self.draw(turn)[:, 0]
        row, column = self._me
        blocked = view[:, self._wall, row - 1, column] > 0
        blocked |= view[:, self._agent, row - 1, column] > 0
        either = np.where(draws < 0.5, self._does["turn_left"], self._does["turn_right"])
        turns = blocked | (draws < 0.05) | (draws > 0.95)
        return np.where(turns, either, self._does["forward"])


class Greedy(Peaceful):
    """Zaps whoever stands in its line, and goes for apples otherwise."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Zap, or gather."""
        row, column = self._me
        ahead = observation.parts["view"][
            :, self._agent, max(0, row - self._reach) : row, column
        ]
        return np.where(
            ahead.any(axis=1), self._does["zap"], super().act(observation, turn)
        )
