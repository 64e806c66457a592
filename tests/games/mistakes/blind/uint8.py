"""Hungry, with a mistake of somebody who had not seen the check."""

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid


class Hungry(grid.GridGame):
    """Agents grow hungry, and a starved agent gets nothing for a berry."""

    class Settings(grid.GridSettings):
        agents: int = Field(2, ge=1, description="Number of agents.")

    settings: Settings
    map = """
#########
#P..*..P#
#..*.*..#
#P..*..P#
#########"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries", char="*")
        self.bush = grid.PerCell(bool)
        self.energy = grid.PerAgent(np.uint8)
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(radius=2)})

    def start(self, world: grid.World) -> None:
        world.bush = world.mask(self.berry)
        for agent in world.agents:
            agent.energy += 20

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.berry, chance=0.05, mask=world.bush)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        found = world.value(me.cell)
        world.clear(me.cell, layer="berries")
        me.energy -= 1
        me.energy += 5 * (found > 0)
        me.reward += found * (me.energy > 0)
