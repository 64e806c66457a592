"""Harvest: apples grow back from apples nearby, so a patch picked bare is gone."""

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.builtin.harvest_players import Eater, Sharer


class Harvest(grid.GridGame):
    """Pick apples that grow back the faster the more are left around them."""

    class Settings(grid.GridSettings):
        agents: int = Field(4, ge=1, le=12, description="How many agents play.")
        turns: int = Field(
            200, ge=1, le=1_000_000, description="Turns until an episode is truncated."
        )
        regrow: float = Field(
            0.004, ge=0, le=1, description="Chance an apple is back, for each one nearby."
        )
        reach: int = Field(2, ge=1, le=10, description="How many steps away is nearby.")
        vision: int = Field(4, ge=1, le=50, description="How many cells away one sees.")

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
