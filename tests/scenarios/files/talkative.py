"""A game that prints in every turn, in every way that a program can print."""

import ctypes
import os
import sys
from contextlib import suppress

from rookery.games import gridworld as grid

C = ctypes.CDLL(None)


class Rooms(grid.GridGame):
    """Pick berries that grow back; every agent has its own room."""

    map = """
#############
#P..#####..P#
#...#####...#
#############"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries")
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(2)})

    def before(self, world: grid.World) -> None:
        print("zzzzzzzz ✓", flush=True)
        sys.stderr.write("zzzzzzzz ✓\n")
        C.puts(b"zzzzzzzz")
        C.fflush(None)
        for descriptor in (1, 2):
            with suppress(OSError):  # a direct write fails as the descriptor does
                os.write(descriptor, b"zzzzzzzz\n")
        world.sprinkle(self.berry, chance=0.1)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="berries")
