"""Small games for the tests of exports: agents that die, wait, and have masks."""

from __future__ import annotations

import numpy as np

from rookery.games import gridworld as grid
from rookery.specs import Array


class Mortal(grid.GridGame):
    """Agent 0 dies in turn 3 and agent 1 is away in turn 2; each is paid its action."""

    class Settings(grid.GridSettings):
        turns: int = 6
        agents: int = 3

    counts = ("waits",)
    map = "P.P.P"

    def declare(self) -> None:
        self.body = grid.Body(("stay", *grid.MOVES), {"view": grid.Window(radius=1)})

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += me.action
        me.waits += me.action == 0
        if me.number == 0:
            me.end(where=world.turn == 3)
        if me.number == 1:
            me.leave(1, where=world.turn == 1)


class Masked(grid.GridGame):
    """Only moves to the right are legal in odd turns, and only to the left in even ones."""

    class Settings(grid.GridSettings):
        turns: int = 6
        agents: int = 2

    map = "P...P"

    def declare(self) -> None:
        self.body = grid.Body(grid.MOVES, {"view": grid.Window(radius=1)})

    def legal(self, world: grid.World, me: grid.Me) -> Array:
        side = np.where(world.turn % 2 == 1, 1, 3)
        return np.arange(4) == side[:, None]

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
