"""What a picture of a grid world is drawn from: a few small numbers.

A scene is one world after one turn; the stage is what all scenes of a game share. Both can
be stored, and drawn later without the game.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rookery.games.gridworld.layout import NOWHERE, Layout
from rookery.games.gridworld.names import AGENTS
from rookery.games.gridworld.world import World
from rookery.specs import Array

Colour = tuple[int, int, int]
OFF_MAP = -1
"""The row of agents that are off the map."""
MOST_TILES = 256
"""Kinds are numbered in one byte."""


class Scene(NamedTuple):
    """One world: the things in its cells, and its agents."""

    layers: Array
    """(layers, height, width) uint8: numbers of kinds, lowest layer first, without the
    layer of agents; 0 is nothing."""
    agents: Array
    """(agents, 3) int16: row, column and facing; the row is -1 off the map."""


@dataclass(frozen=True)
class Stage:
    """What all scenes of a game share."""

    height: int
    width: int
    beneath: int
    """The number of layers that are drawn beneath the agents."""
    kinds: tuple[tuple[str, Colour | None], ...]
    """Tile and colour of every kind, by number."""
    bodies: tuple[str, ...]
    """The tile of every agent."""

    @classmethod
    def of(cls, layout: Layout) -> Stage:
        """Return the stage of a game."""
        return cls(
            layout.height,
            layout.width,
            layout.layers.index(AGENTS),
            tuple((kind.tile, kind.colour) for kind in layout.kinds),
            tuple(body.tile for body in layout.roster),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the stage as plain data."""
        return {
            "height": self.height,
            "width": self.width,
            "beneath": self.beneath,
            "kinds": self.kinds,
            "bodies": self.bodies,
        }

    @classmethod
    def from_json(cls, data: Any) -> Stage:
        """Return the stage that `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: if the data is something else.
        """
        height, width, beneath = (
            int(data[name]) for name in ("height", "width", "beneath")
        )
        kinds = tuple((_name(tile), _colour(colour)) for tile, colour in data["kinds"])
        bodies = tuple(_name(tile) for tile in data["bodies"])
        if min(height, width) < 1 or beneath < 0 or len(kinds) > MOST_TILES:
            raise ValueError("the size of its map or the number of its kinds is impossible")
        return cls(height, width, beneath, kinds, bodies)

    def check(self, layers: Array, agents: Array) -> None:
        """Check the scenes of some turns, (turns, …), which can come from a file.

        Raises:
            ValueError: if they do not fit the stage.
        """
        turns, shape = len(agents), (self.height, self.width)
        fits = (
            layers.dtype == np.uint8
            and layers.ndim == 4
            and (len(layers), *layers.shape[2:]) == (turns, *shape)
            and agents.dtype == np.int16
            and agents.shape == (turns, len(self.bodies), 3)
        )
        if not fits:
            raise ValueError("its scenes do not have the shape of its map")
        rows, columns, facings = np.moveaxis(agents, -1, 0)
        if (
            layers.max(initial=0) >= len(self.kinds)
            or not _within(rows, OFF_MAP, self.height)
            or not _within(columns, OFF_MAP, self.width)
            or not _within(facings, 0, 4)
        ):
            raise ValueError("its scenes show kinds or places that its map does not have")


def scene_of(world: World, number: int) -> Scene:
    """Return the scene of one world as it is now."""
    layout = world.layout
    shown = [i for i, name in enumerate(layout.layers) if name != AGENTS]
    layers = world.layers[shown, number][:, layout.inside]
    cells = world.cell[:, number]
    rows, columns = np.divmod(cells, layout.stride)
    agents = np.stack(
        [rows - layout.margin, columns - layout.margin, world.facing[:, number]], axis=-1
    ).astype(np.int16)
    agents[cells == NOWHERE, :2] = OFF_MAP
    return Scene(layers.reshape(len(shown), layout.height, layout.width), agents)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("the name of a tile is not text")
    return value


def _colour(value: Any) -> Colour | None:
    if value is None:
        return None
    red, green, blue = (int(level) for level in value)
    if not all(0 <= level <= 255 for level in (red, green, blue)):
        raise ValueError("a colour is not three numbers from 0 to 255")
    return red, green, blue


def _within(numbers: Array, least: int, end: int) -> bool:
    return not numbers.size or bool(numbers.min() >= least and numbers.max() < end)
