"""A game whose settings say that it fails, dies or crashes.

While the file that SLOW names exists, every round takes at least `pause` seconds. While the
one that DEADLY names exists, no process survives building it.
"""

import ctypes
import os
import signal
import time
from pathlib import Path

from rookery.games import gridworld as grid

SLOW, DEADLY = (Path(os.environ.get(x, "/nonexistent")) for x in ("SLOW", "DEADLY"))


class Field(grid.GridGame):
    """Pick berries that grow back."""

    map = "PP......"

    class Settings(grid.GridSettings):
        agents: int = 1
        turns: int = 8
        fails: bool = False
        dies: bool = False
        crashes: bool = False
        pause: float = 0.05
        worth: float = 1.0

    def declare(self):
        if DEADLY.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        self.berry = grid.Kind(value=self.settings.worth, layer="berries")
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})

    def begin_round(self, number):
        if self.settings.fails and number == 3:
            raise ValueError("requested by a test")
        if self.settings.dies and number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.settings.crashes and number == 3:
            ctypes.string_at(0)
        if SLOW.exists():
            time.sleep(self.settings.pause)

    def before(self, world):
        world.sprinkle(self.berry, chance=0.2)

    def act(self, world, me):
        me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="berries")
