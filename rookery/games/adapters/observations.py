"""Writing a foreign game's observations into arrays, part by part.

Every observation is checked against its space here, before it is stored.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import GameError
from rookery.games.adapters.encoding import downscaled
from rookery.specs import Array, Part


class PartWriter:
    """Checks one part of one agent's observations, and writes it into a row per world."""

    __slots__ = ("_dtype", "_first_world", "_label", "_shape", "key", "rows")

    def __init__(
        self, label: str, key: str | int | None, space: Any, rows: Array, first_world: int
    ) -> None:
        self.key = key
        """Of the part in the observation; None if it is the whole observation."""
        self.rows = rows
        self._label = label
        self._first_world = first_world
        self._shape, self._dtype = space.shape, space.dtype

    def write(self, world: int, value: Any) -> None:
        """Write `value` into the row of `world`; numpy must raise on overflow."""
        try:
            is_exact = value.dtype == self._dtype and value.shape == self._shape
        except AttributeError:  # a list or a plain number
            value, is_exact = np.asarray(value), False
        if not is_exact and not self._fits(value):
            raise self._error(
                world,
                f"is {value.shape} {value.dtype}",
                f"{self._shape} {self._dtype}",
            )
        try:
            self.rows[world] = self._convert(value)
        except FloatingPointError:  # float64 beyond the range of float32
            worst = value.ravel()[np.abs(value).argmax()]
            raise GameError(
                f"{self._label} in world {self._first_world + world} holds {worst}, which "
                "is infinite in float32: scale it down in the game (below 3.4e38)."
            ) from None

    def _convert(self, value: Array) -> Array:
        return value

    def _fits(self, value: Array) -> bool:
        are_floats = value.dtype.kind == self._dtype.kind == "f"
        is_safe = are_floats or np.can_cast(value.dtype, self._dtype, "safe")
        return is_safe and value.shape == self._shape

    def _error(self, world: int, actual: str, declared: str) -> GameError:
        return GameError(
            f"{self._label} in world {self._first_world + world} {actual}, but its space "
            f"says {declared}: make the game and its space agree."
        )


class ImageWriter(PartWriter):
    """Moves the colour channels to the front, as networks read them, and can downscale."""

    __slots__ = ("_side",)

    def __init__(
        self,
        label: str,
        key: str | int | None,
        space: Any,
        rows: Array,
        first_world: int,
        side: int = 1,
    ) -> None:
        super().__init__(label, key, space, rows, first_world)
        self._side = side

    def _convert(self, value: Array) -> Array:
        """Return the mean of each square, colours first."""
        return downscaled(value, self._side)


class OneHotWriter(PartWriter):
    """Writes a Discrete observation as a one-hot vector."""

    __slots__ = ("_start",)

    def __init__(
        self, label: str, key: str | int | None, space: Any, rows: Array, first_world: int
    ) -> None:
        super().__init__(label, key, space, rows, first_world)
        self._start = int(space.start)

    def write(self, world: int, value: Any) -> None:
        """Write a one at the index of `value`, and zeros elsewhere."""
        count = self.rows.shape[1]
        try:
            index = operator.index(value) - self._start
        except TypeError:
            index = -1
        if not 0 <= index < count:
            declared = f"Discrete({count}, start={self._start})"
            raise self._error(world, f"is {value!r}", declared)
        self.rows[world] = 0
        self.rows[world, index] = 1


def writer_for(space: Any, shrink: int) -> Callable[..., PartWriter]:
    """Return the class of writers for observations of `space`."""
    if isinstance(space, spaces.Discrete):
        return OneHotWriter
    if is_image(space):
        return partial(ImageWriter, side=square_side(space, shrink))
    return PartWriter


def part_for(space: Any, shrink: int) -> Part:
    """Return how observations of `space` are stored."""
    if isinstance(space, spaces.Discrete):
        return Part((int(space.n),), np.dtype(np.uint8))
    if is_image(space):
        height, width, colours = space.shape
        side = square_side(space, shrink)
        return Part((colours, height // side, width // side), space.dtype, scale=1 / 255)
    # Networks are float32: storing float64 would double the memory for nothing.
    is_double = space.dtype == np.float64
    return Part(tuple(space.shape), np.dtype(np.float32) if is_double else space.dtype)


def is_image(space: Any) -> bool:
    """Whether a space is (height, width, colours) of bytes."""
    is_bytes = isinstance(space, spaces.Box) and space.dtype == np.uint8
    return is_bytes and len(space.shape) == 3 and space.shape[2] in (1, 3, 4)


def square_side(space: Any, shrink: int) -> int:
    """Return the side of the squares that become one pixel, at most the image's own."""
    return min(shrink, *space.shape[:2])
