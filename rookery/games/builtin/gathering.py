"""Gathering: apples for all, and a beam that takes other agents off the map."""

from typing import Any

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.players import Observation, Player
from rookery.specs import Array

FAR = 1_000.0


class Peaceful(Player):
    """Goes to the nearest visible apple; if there is none, wanders."""

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
        """Move towards the nearest apple, along the longer axis first."""
        view = observation.parts["view"]
        apples = view[:, self._apple].reshape(self.worlds, -1) > 0
        distance = np.where(apples, abs(self._down) + abs(self._right), FAR)
        nearest = distance.argmin(axis=1)
        down, right = self._down[nearest], self._right[nearest]
        upwards = abs(down) >= abs(right)
        vertical = np.where(down < 0, self._does["forward"], self._does["backward"])
        sideways = np.where(right > 0, self._does["step_right"], self._does["step_left"])
        towards = np.where(upwards, vertical, sideways)
        any_apple = distance.min(axis=1) < FAR
        return np.where(any_apple, towards, self._wander(view, turn))

    def _wander(self, view: Array, turn: int) -> Array:
        """Return `forward`, or a random turn at walls and occasionally elsewhere."""
        draws = self.draw(turn)[:, 0]
        row, column = self._me
        blocked = view[:, self._wall, row - 1, column] > 0
        blocked |= view[:, self._agent, row - 1, column] > 0
        turn_action = np.where(
            draws < 0.5, self._does["turn_left"], self._does["turn_right"]
        )
        turns = blocked | (draws < 0.05) | (draws > 0.95)
        return np.where(turns, turn_action, self._does["forward"])


class Greedy(Peaceful):
    """Zaps agents straight ahead, and otherwise goes for apples."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Zap, or gather."""
        row, column = self._me
        ahead = observation.parts["view"][
            :, self._agent, max(0, row - self._reach) : row, column
        ]
        return np.where(
            ahead.any(axis=1), self._does["zap"], super().act(observation, turn)
        )


class Gathering(grid.GridGame):
    """Pick apples in a shared orchard, and zap rivals off the map."""

    class Settings(grid.GridSettings):
        regrow: float = Field(
            0.05, ge=0, le=1, description="Probability per turn that an apple grows back."
        )
        hits: int = Field(
            2, ge=1, le=100, description="Hits that take an agent off the map."
        )
        out: int = Field(
            25, ge=1, le=10_000, description="Turns for which it stays off the map."
        )
        length: int = Field(8, ge=1, le=100, description="Length of a beam, in cells.")

    settings: Settings
    players = {"greedy": Greedy, "peaceful": Peaceful}
    counts = ("apples", "zaps", "hits")
    map = """
#########################
#P.....................P#
#..........aaa..........#
#.........aaaaa.........#
#P.......aaaaaaa.......P#
#.........aaaaa.........#
#..........aaa..........#
#P.....................P#
#########################"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.apple = grid.Kind(value=1.0, layer="apples")
        self.orchard = grid.PerCell(np.bool_)
        self.marks = grid.PerAgent(np.int8)
        view = grid.Window(ahead=8, behind=2, sides=5, rotated=True)
        self.gatherer = grid.Body(
            actions=(*grid.STEPS, *grid.TURNS, "zap", "stay"),
            sees={"view": view, "self": grid.Vector("marks")},
        )
        self.beam = grid.Kind(layer="beams", lifetime=1, char="*")

    def start(self, world: grid.World) -> None:
        world.orchard = world.mask(self.apple)

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.apple, chance=self.settings.regrow, mask=world.orchard)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.apples += world.has(self.apple, me.cell)
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="apples")
        zaps = me.does("zap")
        me.zaps += zaps
        for other, hit in me.beam(self.beam, self.settings.length, where=zaps):
            me.hits += hit
            other.marks += hit
            out = other.marks >= self.settings.hits
            other.leave(self.settings.out, where=out)
            other.marks *= ~out
