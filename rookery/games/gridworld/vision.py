"""The observations of agents: windows of channels, and vectors, in all worlds at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.games.gridworld.layout import Layout
from rookery.games.gridworld.rules import Body, Vector, Window
from rookery.games.gridworld.world import World
from rookery.specs import Array


class Vision:
    """Computes the observations of the agents that have one Body."""

    def __init__(self, layout: Layout, body: Body) -> None:
        self._looks = dict(body.sees)
        self._offsets = {
            name: _offsets(layout, look)
            for name, look in body.sees.items()
            if isinstance(look, Window)
        }
        self._safe = int(layout.inside[0])
        channels = layout.channels()
        self._channels = len(channels)
        self._by_layer = [
            (
                layer,
                np.array([i for i, k in enumerate(channels) if k.layer == name]),
                np.array([[k.id] for k in channels if k.layer == name], np.uint8),
            )
            for layer, name in enumerate(layout.layers)
        ]
        self._shapes = {name: part.shape for name, part in layout.parts(body).items()}

    def see(self, world: World, agents: Sequence[int]) -> dict[str, Array]:
        """Return the agents' observations: part name to (agents, worlds, *shape).

        Agents that are off the map observe zeros.
        """
        cells = world.cell[agents]
        present = cells != 0
        all_present = bool(present.all())
        views = {}
        for name, look in self._looks.items():
            if isinstance(look, Vector):
                view = self._vector(world, agents, look)
            else:
                centres = cells if all_present else np.where(present, cells, self._safe)
                facing = world.facing[agents] if look.rotated else None
                view = self._window(world, centres, facing, self._offsets[name])
            if not all_present:
                view[~present] = 0
            views[name] = view.reshape(*cells.shape, *self._shapes[name])
        return views

    def _window(
        self, world: World, cells: Array, facing: Array | None, offsets: Array
    ) -> Array:
        window = offsets[0] if facing is None else offsets[facing]
        spots = (cells + world.base)[..., None] + window  # (agents, worlds, window)
        view = np.empty((*cells.shape, self._channels, spots.shape[-1]), np.bool_)
        for layer, channels, kinds in self._by_layer:
            if len(channels):
                content = world.layers[layer].reshape(-1).take(spots)
                if channels[-1] - channels[0] + 1 == len(channels):
                    out = view[:, :, channels[0] : channels[-1] + 1]
                    np.equal(content[:, :, None, :], kinds, out=out)
                else:
                    view[:, :, channels] = content[:, :, None, :] == kinds
        return view.view(np.uint8)

    def _vector(self, world: World, agents: Sequence[int], look: Vector) -> Array:
        pieces = []
        for name in look.columns:
            column = world.columns.arrays[name]
            if name in world.per_agent:
                piece = column[agents]
            else:
                piece = np.broadcast_to(column, (len(agents), *column.shape))
            pieces.append(piece.reshape(len(agents), world.worlds, -1))
        return np.concatenate(pieces, axis=2, dtype=np.float32)


def _offsets(layout: Layout, window: Window) -> Array:
    """Return the cell offsets of a window, row by row, (4 facings, window)."""
    ahead, behind, sides = window.reach
    rows, columns = np.mgrid[-ahead : behind + 1, -sides : sides + 1]
    turned = [(rows, columns), (columns, -rows), (-rows, -columns), (-columns, rows)]
    return np.stack([(r * layout.stride + c).ravel() for r, c in turned])
