"""Gathering: apples for everyone, and a beam that sends others away for a while."""

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.builtin.gathering_players import Greedy, Peaceful


class Gathering(grid.GridGame):
    """Pick apples that grow back in one orchard, and zap whoever is in the way."""

    class Settings(grid.GridSettings):
        regrow: float = Field(0.05, ge=0, le=1, description="Chance an apple is back.")
        hits: int = Field(2, ge=1, le=100, description="Hits that send an agent out.")
        out: int = Field(25, ge=1, le=10_000, description="Turns an agent is out for.")
        length: int = Field(8, ge=1, le=100, description="Cells a beam flies.")

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
