"""Tag: who is it runs after the others, and whoever is touched is it."""

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.builtin.tag_players import Idler, Sprinter


class Tag(grid.GridGame):
    """Touch somebody while you are it, and keep away from who is."""

    class Settings(grid.GridSettings):
        agents: int = Field(3, ge=2, le=8, description="How many agents play.")
        touch: float = Field(1.0, description="Reward for touching somebody.")
        touched: float = Field(-1.0, description="Reward for being touched.")
        free: float = Field(0.05, description="Reward for a turn in which one is not it.")
        stumble: float = Field(
            0.3, ge=0, le=1, description="Chance that who is not it fails to move."
        )
        pause: int = Field(
            3, ge=0, le=100, description="Turns that who was touched has to stand still."
        )
        vision: int = Field(4, ge=1, le=50, description="How many cells away one sees.")

    settings: Settings
    players = {"sprinter": Sprinter, "idler": Idler}
    training = {"discount": 0.95, "rate.schedule": "linear"}
    counts = ("touches", "turns_it")
    map = """
#############
#P....P....P#
#..t.....t..#
#.....t.....#
#P.........P#
#...t...t...#
#P.........P#
#.....t.....#
#..t.....t..#
#P....P....P#
#############"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.tree = grid.Kind(solid=True, layer="walls", char="t")
        self.it = grid.PerAgent(np.bool_)
        self.rest = grid.PerAgent(np.int16)
        self.child = grid.Body(
            actions=(*grid.MOVES, "stay"),
            sees={
                "view": grid.Window(self.settings.vision),
                "self": grid.Vector("it", "rest"),
            },
        )
        self.flag = grid.Kind(layer="flags")

    def start(self, world: grid.World) -> None:
        first = world.integers(len(world.agents))
        for me in world.agents:
            me.it = first == me.number

    def before(self, world: grid.World) -> None:
        self._show(world)

    def act(self, world: grid.World, me: grid.Me) -> None:
        awake = me.rest == 0
        me.rest -= ~awake
        touching = me.it & awake
        for other in world.agents:
            if other is not me:
                self._touch(me, other, touching & (other.cell == me.target))
        stumbles = world.chance(self.settings.stumble) & ~me.it
        me.move(where=awake & ~stumbles)

    def _touch(self, me: grid.Me, other: grid.Me, where: np.ndarray) -> None:
        me.it &= ~where
        other.it |= where
        np.copyto(other.rest, self.settings.pause, where=where)
        me.touches += where
        me.reward += where * self.settings.touch
        other.reward += where * self.settings.touched

    def after(self, world: grid.World) -> None:
        for me in world.agents:
            me.reward += ~me.it * self.settings.free
            me.turns_it += me.it
        self._show(world)

    def _show(self, world: grid.World) -> None:
        """Let who is it carry the flag."""
        world.layer("flags")[...] = 0
        for me in world.agents:
            world.put(self.flag, me.cell, where=me.it)
