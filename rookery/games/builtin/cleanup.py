"""Cleanup: apples grow only while somebody keeps the river clean, for nothing."""

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.builtin.cleanup_players import Cleaner, Eater

COMPASS = np.eye(4, dtype=np.float32)


class Cleanup(grid.GridGame):
    """Eat apples that need a clean river; cleaning it feeds everybody, and costs time."""

    class Settings(grid.GridSettings):
        agents: int = Field(4, ge=1, le=12, description="How many agents play.")
        turns: int = Field(
            200, ge=1, le=1_000_000, description="Turns until an episode is truncated."
        )
        growth: float = Field(
            0.05, ge=0, le=1, description="Chance an apple grows, with a clean river."
        )
        pollution: float = Field(
            0.02, ge=0, le=1, description="Chance that a cell of the river gets dirty."
        )
        threshold: float = Field(
            0.5, gt=0, le=1, description="Dirty share of the river that stops all growth."
        )
        dirt: float = Field(
            0.0, ge=0, le=1, description="Dirty share of the river at the start."
        )
        length: int = Field(3, ge=1, le=100, description="Cells that one beam cleans.")
        vision: int = Field(4, ge=1, le=50, description="How many cells away one sees.")

    settings: Settings
    players = {"cleaner": Cleaner, "eater": Eater}
    training = {"discount": 0.97, "rate.schedule": "linear"}
    counts = ("apples", "cleaned")
    map = """
##############
#~~~.P.P.aaaa#
#~~~.....aaaa#
#~~~.P.P.aaaa#
#~~~.....aaaa#
#~~~.P.P.aaaa#
#~~~.....aaaa#
#~~~.P.P.aaaa#
#~~~.P.P.aaaa#
##############"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.water = grid.Kind(layer="river", char="~")
        self.dirt = grid.Kind(layer="dirt")
        self.apple = grid.Kind(value=1.0, layer="apples")
        self.orchard = grid.PerCell(np.bool_)
        self.compass = grid.PerAgent(shape=(4,))
        view = grid.Window(self.settings.vision)
        self.villager = grid.Body(
            actions=(*grid.MOVES, "clean", "stay"),
            sees={"view": view, "self": grid.Vector("compass")},
        )
        self.beam = grid.Kind(layer="beams", lifetime=1, char="*")

    def start(self, world: grid.World) -> None:
        world.orchard = world.mask(self.apple)
        world.remove(self.apple, world.orchard)
        world.fill(self.dirt, world.lucky(self.settings.dirt) & world.mask(self.water))

    def before(self, world: grid.World) -> None:
        river = world.mask(self.water)
        world.fill(self.dirt, world.lucky(self.settings.pollution) & river)
        dirty = world.count(self.dirt) / river.sum(axis=1)
        clean = np.clip(1 - dirty / self.settings.threshold, 0, 1)
        growth = self.settings.growth * clean[:, None]
        world.sprinkle(self.apple, chance=growth, mask=world.orchard)
        for me in world.agents:
            me.compass = COMPASS[me.facing]

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move(where=~world.has(self.water, me.target))  # nobody swims
        me.apples += world.has(self.apple, me.cell)
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="apples")
        dirt = world.count(self.dirt)
        me.beam(self.beam, self.settings.length, where=me.does("clean"))
        world.remove(self.dirt, world.mask(self.beam))
        me.cleaned += dirt - world.count(self.dirt)
