"""Frame stacking: the last observations of an episode, as a network sees them.

There is a single stacking function. The actor applies it to the rows it has just written,
so an agent is trained on exactly the observations it acted on, bit for bit.
"""

from __future__ import annotations

import numpy as np

from rookery.replay.rows import Rows
from rookery.specs import Array


def stack(rows: Rows, name: str, turns: Array, worlds: Array, frames: int) -> Array:
    """Return the last `frames` rows of a part up to some turns, oldest first.

    Args:
        rows: an agent's rows.
        name: the part of the observation.
        turns: (n,) turns.
        worlds: (n,) worlds.
        frames: how many rows; those before the first row of the episode are zeros.

    Returns:
        (n, frames, *shape), in the part's own type.
    """
    back = np.arange(frames - 1, -1, -1)
    age = rows.columns["age"][turns % rows.slots, worlds]
    slots = (turns[:, None] - back) % rows.slots
    stacked = rows.parts[name][slots, worlds[:, None]]
    stacked[back > age[:, None]] = 0
    return stacked
