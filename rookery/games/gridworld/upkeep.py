"""What the engine does in every world by itself: maps, lifetimes, coming back."""

from __future__ import annotations

import numpy as np

from rookery.games.gridworld.chance import PLACING
from rookery.games.gridworld.layout import NOWHERE
from rookery.games.gridworld.world import World
from rookery.specs import Array

QUARTERS = 4


def draw_map(world: World) -> None:
    """Fill worlds as the game's map says."""
    for kind, cells in world.layout.charted():
        mask = np.zeros(world.layout.cells, bool)
        mask[cells] = True
        world.fill(kind, mask)


def expire(world: World) -> None:
    """Take away things whose lifetime is over."""
    for number in world.layout.mortal_layers:
        expired = world.columns.arrays[f"expiry_{number}"] <= world.turn[:, None]
        world.layers[number][expired] = 0


def place_waiting(world: World) -> None:
    """Put agents that are due back, or not placed yet, on free start spots at random.

    Where there is none, they go on waiting.
    """
    out = world.cell == NOWHERE
    if not out.any():
        return
    waiting = out & (world.back <= world.turn) & ~world.ended
    if not waiting.any():
        return
    draws = world.random.bits_at(PLACING, len(world.agents))
    for me in world.agents:
        due = waiting[me.number]
        if due.any():
            cells, found = _free_spots(world, draws[:, me.number])
            me.place(cells, where=due & found)
            np.copyto(me.facing, draws[:, me.number] % QUARTERS, where=due & found)


def _free_spots(world: World, draws: Array) -> tuple[Array, Array]:
    """Return a start spot per world, and whether there was a free one."""
    starts = world.layout.starts
    there = world.layers[:, :, starts]
    free = ~np.any(there, axis=0)
    crowded = ~np.any(free, axis=1)  # then a spot that is merely not blocked must do
    free[crowded] = ~np.any(world.layout.solids[there], axis=0)[crowded]
    counts = free.sum(axis=1)
    wanted = (draws * 2.0**-32 * counts).astype(np.int64)
    chosen = (free.cumsum(axis=1) > wanted[:, None]).argmax(axis=1)
    return starts[chosen], counts > 0
