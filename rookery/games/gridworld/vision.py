"""The observations of agents: windows of channels, and vectors, in all worlds at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.errors import ConfigError
from rookery.games.gridworld import loops
from rookery.games.gridworld.layout import NOWHERE, Layout
from rookery.games.gridworld.rules import Body, Vector, Window
from rookery.games.gridworld.world import World
from rookery.specs import Array

NO_CHANNEL = -1


class Vision:
    """Computes the observations of the agents that have one Body."""

    def __init__(self, layout: Layout, body: Body) -> None:
        self.agents = [i for i, other in enumerate(layout.roster) if other is body]
        """The numbers of the agents that have it."""
        self._looks = dict(body.sees)
        self._offsets = {
            name: _offsets(layout, look)
            for name, look in body.sees.items()
            if isinstance(look, Window)
        }
        self._reach = {name: int(abs(own).max()) for name, own in self._offsets.items()}
        """How far the cells of a window are from the agent's, at most."""
        self._numbers = np.array(self.agents)
        self._channels = _channels(layout)
        self._shapes = {name: part.shape for name, part in layout.parts(body).items()}

    def see(self, world: World, agents: Sequence[int]) -> dict[str, Array]:
        """Return the agents' observations: part name to (agents, worlds, *shape).

        Agents that are off the map observe zeros.
        """
        numbers = self._numbers if agents is self.agents else np.array(agents)
        views = {}
        for name, look in self._looks.items():
            shape = (len(agents), world.worlds, *self._shapes[name])
            if isinstance(look, Vector):
                views[name] = self._vector(world, numbers, look).reshape(shape)
            else:
                views[name] = np.zeros(shape, np.uint8)
                self._look(world, numbers, name, look.rotated, views[name])
        return views

    def _look(
        self, world: World, agents: Array, name: str, rotated: bool, view: Array
    ) -> None:
        """Set what the agents see in a window."""
        channels, height, width = view.shape[2:]
        bad = loops.see(
            world.loop_arrays.layers,
            world.cell,
            world.facing,
            agents,
            self._offsets[name],
            self._reach[name],
            self._channels,
            rotated,
            world.layout.cells,
            view.reshape(len(agents), world.worlds, channels, height * width),
        )
        if bad != loops.OK:
            raise ConfigError(
                f"agent {agents[bad]} was placed outside the map: place agents in cells "
                "of world.layout.inside."
            )

    def _vector(self, world: World, agents: Array, look: Vector) -> Array:
        pieces = []
        for name in look.columns:
            column = world.columns.arrays[name]
            if name in world.per_agent:
                piece = column[agents]
            else:
                piece = np.broadcast_to(column, (len(agents), *column.shape))
            pieces.append(piece.reshape(len(agents), world.worlds, -1))
        vector = np.concatenate(pieces, axis=2, dtype=np.float32)
        absent = world.cell[agents] == NOWHERE
        if np.count_nonzero(absent):
            vector[absent] = 0
        return vector


def _channels(layout: Layout) -> Array:
    """Return the channel of each kind, (layers, 256)."""
    channels = np.full((len(layout.layers), 256), NO_CHANNEL, np.int16)
    for channel, kind in enumerate(layout.channels()):
        channels[layout.layer_number(kind.layer), kind.id] = channel
    return channels


def _offsets(layout: Layout, window: Window) -> Array:
    """Return the cell offsets of a window, row by row, (4 facings, window)."""
    ahead, behind, sides = window.reach
    rows, columns = np.mgrid[-ahead : behind + 1, -sides : sides + 1]
    turned = [(rows, columns), (columns, -rows), (-rows, -columns), (-columns, rows)]
    return np.stack([(r * layout.stride + c).ravel() for r, c in turned])
