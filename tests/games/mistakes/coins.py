"""The coin game, without a mistake: tests plant one at a time in its text."""

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.players import Observation, Player


class Honest(Player):
    """Walks at random, and stays where it sees no wall."""

    def act(self, observation: Observation, turn: int) -> np.ndarray:
        labels = self.spec.parts["view"].labels
        walls = observation.parts["view"][:, labels.index("wall"), 0, 1] > 0
        draws = (self.draw(turn)[:, 0] * 5).astype(int)
        return np.where(walls, self.spec.action_names.index("down"), draws)


class Coins(grid.GridGame):
    """Two agents pick coins; taking the other's coin hurts the other."""

    class Settings(grid.GridSettings):
        agents: int = Field(2, ge=2, le=2, description="Number of agents.")
        turns: int = Field(20, ge=1, description="Turns of an episode.")
        appear: float = Field(0.1, ge=0, le=1, description="Chance of a coin.")

    settings: Settings
    players = {"honest": Honest}
    counts = ("own", "stolen")
    training = {"discount": 0.95}
    map = """
######
#P...#
#...P#
######"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.red = grid.Kind(value=1.0, layer="coins", char="r", tile="gem")
        self.blue = grid.Kind(value=1.0, layer="coins", char="b", tile="gem")
        self.streak = grid.PerAgent(np.float32)
        self.picker = grid.Body(
            actions=(*grid.MOVES, "stay"),
            sees={"view": grid.Window(radius=1), "self": grid.Vector("streak")},
        )

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.red, self.blue, chance=self.settings.appear)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        red, blue = world.has(self.red, me.cell), world.has(self.blue, me.cell)
        own, stolen = (red, blue) if me.number == 0 else (blue, red)
        me.own += own
        me.stolen += stolen
        me.streak = np.where(own, me.streak + 1, 0)
        me.reward += own | stolen
        world.agents[1 - me.number].reward -= 2.0 * stolen
        world.clear(me.cell, layer="coins")
