"""Frame stacking: the last observations of an episode, as a network sees them.

`stack` reads observations from rows, and `scale_into` writes them into the inputs of
networks. `fill` (drawing.py) does both in one compiled loop, and is tested against these
two. Actors apply it to the rows they have just written, and learners to those they have
sampled: an agent is trained on exactly the observations it acted on, bit for bit.
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


def scale_into(inputs: Array, observations: Array, scale: float) -> None:
    """Write the numbers of a part, times its scale, into network inputs."""
    if scale == 1.0:
        inputs[...] = observations
    else:
        np.multiply(observations, scale, out=inputs, casting="unsafe")
