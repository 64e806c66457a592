"""Staghunt: hares are safe, a stag is worth more but takes two hunters at once."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.gridworld.walker import Walker
from rookery.games.players import Observation
from rookery.specs import Array


class HareHunter(Walker):
    """Goes to the nearest visible hare; if there is none, wanders."""

    blocks: tuple[str, ...] = ("wall", "stag")
    prey: ClassVar[str] = "hare"

    def act(self, observation: Observation, turn: int) -> Array:
        """Hunt, or wander."""
        draws = self.draw(turn)[:, 0]
        to_prey, any_prey = self.towards(
            observation, self.sees(observation, self.prey), draws
        )
        return np.where(any_prey, to_prey, self.wander(observation, draws))


class StagHunter(HareHunter):
    """Goes to the nearest visible stag, whether or not another hunter follows."""

    blocks = ("wall",)
    prey = "stag"


class Staghunt(grid.GridGame):
    """Hunt hares alone or a stag together; hunting a stag alone costs."""

    class Settings(grid.GridSettings):
        agents: int = Field(2, ge=1, le=4, description="Number of agents.")
        stag: float = Field(5.0, description="Reward of each hunter for a stag.")
        hare: float = Field(1.0, description="Reward for a hare.")
        risk: float = Field(0.5, ge=0, description="Cost of hunting a stag alone.")
        regrow: float = Field(
            0.1,
            ge=0,
            le=1,
            description="Probability per turn that a killed animal is replaced.",
        )
        vision: int = Field(4, ge=1, le=50, description="How far an agent sees, in cells.")

    settings: Settings
    players = {"stag_hunter": StagHunter, "hare_hunter": HareHunter}
    training = {"reward.scale": 0.3, "discount": 0.95, "rate.schedule": "linear"}
    counts = ("stags", "hares", "alone")
    map = """
###########
#P...h...P#
#.........#
#..h...h..#
#.........#
#h...s...h#
#.........#
#..h...h..#
#.........#
#P...h...P#
###########"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.stag = grid.Kind(solid=True, layer="game")
        self.hare = grid.Kind(value=self.settings.hare, layer="game")
        self.stags_live = grid.PerCell(np.bool_)
        self.hares_live = grid.PerCell(np.bool_)
        self.hunts = grid.PerAgent(np.int64)
        view = grid.Window(self.settings.vision)
        self.hunter = grid.Body((*grid.MOVES, "stay"), sees={"view": view})

    def start(self, world: grid.World) -> None:
        world.stags_live = world.mask(self.stag)
        world.hares_live = world.mask(self.hare)

    def before(self, world: grid.World) -> None:
        chance = self.settings.regrow
        world.sprinkle(self.stag, chance=chance, mask=world.stags_live)
        world.sprinkle(self.hare, chance=chance, mask=world.hares_live)
        for me in world.agents:
            me.hunts = 0

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.hunts = np.where(world.has(self.stag, me.target), me.target, 0)
        me.move()
        me.hares += world.has(self.hare, me.cell)
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="game")

    def after(self, world: grid.World) -> None:
        caught = [self._caught(world, me) for me in world.agents]
        for me, together in zip(world.agents, caught, strict=True):
            alone = (me.hunts > 0) & ~together
            me.stags += together
            me.alone += alone
            me.reward += together * self.settings.stag - alone * self.settings.risk
            world.clear(me.hunts, layer="game", where=together)

    def _caught(self, world: grid.World, me: grid.Me) -> np.ndarray:
        """Return in which worlds another agent hunts the same stag."""
        others = (world.hunts == me.hunts).sum(axis=0) > 1
        return np.asarray(others & (me.hunts > 0))
