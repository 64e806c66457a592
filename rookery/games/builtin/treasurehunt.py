"""Treasurehunt: gems and food pay, bones and walls cost."""

from itertools import product
from typing import Any

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.players import Observation, Player, pick
from rookery.specs import Array

DEPTH = 4
DISCOUNT = 0.9
"""Discount per move within a plan."""


class Forager(Player):
    """Takes the first move of the best four-move plan; on a tie keeps its heading."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        part = self.spec.parts["view"]
        settings: Any = self.settings
        worth = {"gem": settings.gem, "food": settings.food, "bone": settings.bone}
        self._worth = np.array([worth.get(name, 0.0) for name in part.labels])
        self._bump = settings.bump
        self._wall = part.labels.index("wall")
        self._agents = part.labels.index(self.spec.role)
        radius = part.shape[1] // 2
        self._edge = max(0, DEPTH - radius)  # cells beyond the window are unknown
        self._side = 2 * (radius + self._edge) + 1
        self._plans = np.array(list(product(range(4), repeat=DEPTH)))
        self._offsets = np.array([-self._side, 1, self._side, -1])
        self.memory["heading"] = np.zeros(self.worlds, np.int8)

    def act(self, observation: Observation, turn: int) -> Array:
        """Compare all plans, keep the best first moves, prefer the present heading."""
        gains = (
            self._gains(observation.parts["view"]).reshape(self.worlds, 4, -1).max(axis=2)
        )
        best = gains >= gains.max(axis=1, keepdims=True) - 1e-9
        heading = self.memory["heading"].astype(np.int64)
        keeps_heading = np.take_along_axis(best, heading[:, None], axis=1)[:, 0]
        actions = np.where(keeps_heading, heading, pick(best, self.draw(turn)[:, 0]))
        self.memory["heading"][...] = actions
        return actions

    def _gains(self, view: Array) -> Array:
        """Return the discounted reward of each plan, (worlds, plans)."""
        worth, wall, agent = self._read(view)
        rows = np.arange(self.worlds)[:, None]
        centre = self._side**2 // 2
        agent[:, centre] = False
        spot = np.full((self.worlds, len(self._plans)), centre)
        visited: list[Array] = []
        total = np.zeros(spot.shape)
        for depth in range(DEPTH):
            target = spot + self._offsets[self._plans[:, depth]]
            bumps = wall[rows, target]
            again = np.logical_or.reduce(
                [target == cell for cell in visited] or [bumps & False]
            )
            gain = np.where(bumps, self._bump, worth[rows, target] * ~again)
            total += DISCOUNT**depth * gain
            spot = np.where(bumps | agent[rows, target], spot, target)
            visited.append(spot)
        return total

    def _read(self, view: Array) -> tuple[Array, Array, Array]:
        """Return the value of each cell, walls and other agents, as (worlds, cells)."""
        edge = self._edge
        wide = np.pad(view, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
        flat = wide.reshape(*wide.shape[:2], -1)
        worth = np.tensordot(flat, self._worth, axes=([1], [0]))
        return worth, flat[:, self._wall] > 0, flat[:, self._agents] > 0


class Treasurehunt(grid.GridGame):
    """Collect treasure that keeps appearing in a walled field."""

    class Settings(grid.GridSettings):
        height: int = Field(21, ge=3, le=200, description="Rows, walls included.")
        width: int = Field(21, ge=3, le=200, description="Columns, walls included.")
        gem: float = Field(10.0, description="Reward for a gem.")
        food: float = Field(5.0, description="Reward for food.")
        bone: float = Field(-10.0, description="Reward for a bone.")
        bump: float = Field(-1.0, description="Reward for running into a wall.")
        spawn: float = Field(
            0.005, ge=0, le=1, description="Probability per turn that an empty cell fills."
        )
        vision: int = Field(2, ge=1, le=50, description="How far an agent sees, in cells.")

    settings: Settings
    players = {"forager": Forager}
    training = {"reward.scale": 0.1, "discount": 0.97, "rate.schedule": "linear"}

    def declare(self) -> None:
        worth = self.settings
        self.wall = grid.Kind(solid=True, value=worth.bump, layer="walls", char="#")
        self.gem = grid.Kind(value=worth.gem, layer="loot")
        self.food = grid.Kind(value=worth.food, layer="loot")
        self.bone = grid.Kind(value=worth.bone, layer="loot")
        self.hunter = grid.Body(grid.MOVES, sees={"view": grid.Window(worth.vision)})

    def start(self, world: grid.World) -> None:
        world.fence(self.wall)

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.gem, self.food, self.bone, chance=self.settings.spawn)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += world.value(me.target)
        world.clear(me.target, layer="loot")
        me.move()
