"""Walked, with a mistake of somebody who had not seen the check."""

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.players import Observation, Player


class Walker(Player):
    """Walk in a random direction."""

    def act(self, observation: Observation, turn: int) -> np.ndarray:
        names = self.spec.action_names
        draw = self.draw(turn)[:, 0]
        if not hasattr(self, "last"):
            self.last = np.zeros(len(draw), int)
        # Keep going in the same direction most of the time.
        new = ((draw - 0.8) / 0.2 * len(names)).astype(int)
        self.last = np.where(draw < 0.8, self.last, new)
        return self.last


class Walked(grid.GridGame):
    """Pick berries, with a scripted player."""

    class Settings(grid.GridSettings):
        agents: int = Field(2, ge=1, description="Number of agents.")

    settings: Settings
    players = {"walker": Walker}
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
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(radius=2)})

    def start(self, world: grid.World) -> None:
        world.bush = world.mask(self.berry)

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.berry, chance=0.05, mask=world.bush)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="berries")
