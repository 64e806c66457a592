"""Harvest: apples grow back only near other apples, so a patch picked bare is lost."""

from typing import Any

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.gridworld.walker import Walker
from rookery.games.players import Observation
from rookery.specs import Array

MIN_NEIGHBOURS = 5
"""A sharer picks an apple only if at least this many others are nearby."""


class Eater(Walker):
    """Goes to the nearest visible apple; if there is none, wanders."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Pick, or wander."""
        draws = self.draw(turn)[:, 0]
        to_apple, any_apple = self.towards(observation, self.wanted(observation), draws)
        return np.where(any_apple, to_apple, self.wander(observation, draws))

    def wanted(self, observation: Observation) -> Array:
        """Return the apples that it would pick, (worlds, rows, columns) bool."""
        return self.sees(observation, "apple")


class Sharer(Eater):
    """Picks only apples with enough others nearby, and walks around the rest."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        settings: Any = self.settings
        self._nearby = settings.reach

    def blocked(self, observation: Observation) -> Array:
        """Return which moves are blocked; apples that are not to be picked block, too."""
        spared = self.sees(observation, "apple") & ~self.wanted(observation)
        ahead = [spared[self.ahead(way, 1)] for way in range(4)]
        return super().blocked(observation) | np.stack(ahead, axis=1)

    def wanted(self, observation: Observation) -> Array:
        """Return the apples that have enough others nearby."""
        apples = self.sees(observation, "apple")
        return apples & (self._neighbours(apples) >= MIN_NEIGHBOURS)

    def _neighbours(self, apples: Array) -> Array:
        """Return the number of apples near each cell, counting none beyond the window."""
        reach, side = self._nearby, apples.shape[1]
        wide = np.pad(apples.astype(np.int8), ((0, 0), (reach, reach), (reach, reach)))
        counts = -apples.astype(np.int8)
        for down in range(2 * reach + 1):
            slack = abs(down - reach)
            for right in range(slack, 2 * reach + 1 - slack):
                counts += wide[:, down : down + side, right : right + side]
        return counts


class Harvest(grid.GridGame):
    """Pick apples that grow back faster the more apples are left nearby."""

    class Settings(grid.GridSettings):
        agents: int = Field(4, ge=1, le=12, description="Number of agents.")
        turns: int = Field(
            200, ge=1, le=1_000_000, description="Turns until an episode is truncated."
        )
        regrow: float = Field(
            0.004,
            ge=0,
            le=1,
            description="Probability per turn and nearby apple that an apple grows back.",
        )
        reach: int = Field(
            2, ge=1, le=10, description="Distance that counts as nearby, in steps."
        )
        vision: int = Field(4, ge=1, le=50, description="How far an agent sees, in cells.")

    settings: Settings
    players = {"sharer": Sharer, "eater": Eater}
    training = {"discount": 0.97, "rate.schedule": "linear"}
    counts = ("apples",)
    map = """
###################
#P..a....P....a..P#
#..aaa.......aaa..#
#.aaaaa.....aaaaa.#
#..aaa...a...aaa..#
#...a...aaa...a...#
#P.....aaaaa.....P#
#...a...aaa...a...#
#..aaa...a...aaa..#
#.aaaaa.....aaaaa.#
#..aaa.......aaa..#
#P..a....P....a..P#
###################"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.apple = grid.Kind(value=1.0, layer="apples")
        self.orchard = grid.PerCell(np.bool_)
        view = grid.Window(self.settings.vision)
        self.picker = grid.Body((*grid.MOVES, "stay"), sees={"view": view})

    def start(self, world: grid.World) -> None:
        world.orchard = world.mask(self.apple)

    def before(self, world: grid.World) -> None:
        nearby = world.near(self.apple, self.settings.reach)
        chance = np.minimum(self.settings.regrow * nearby, 1.0)
        world.sprinkle(self.apple, chance=chance, mask=world.orchard)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.apples += world.has(self.apple, me.cell)
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="apples")
