"""What one agent sees of a foreign game, written piece by piece into rows.

Whatever a foreign game shows is checked here, before it lies in a row and looks right.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import GameError
from rookery.specs import Array, Part


class Column:
    """One piece of what one agent sees: a row per world, checked as it is written."""

    __slots__ = ("_dtype", "_first_world", "_label", "_shape", "key", "rows")

    def __init__(
        self, label: str, key: str | int | None, space: Any, rows: Array, first_world: int
    ) -> None:
        self.key = key
        self.rows = rows
        self._label = label
        self._first_world = first_world
        self._shape, self._dtype = space.shape, space.dtype

    def write(self, world: int, value: Any) -> None:
        """Put `value` into the row of `world`; numpy must raise where it overflows."""
        try:
            fits = value.dtype == self._dtype and value.shape == self._shape
        except AttributeError:  # a list or a plain number
            value, fits = np.asarray(value), False
        if not fits and not self._suits(value):
            raise self._error(
                world,
                f"is {value.shape} {value.dtype}",
                f"{self._shape} {self._dtype}",
            )
        try:
            self.rows[world] = self._stored(value)
        except FloatingPointError:  # float64 that float32 cannot hold
            worst = value.ravel()[np.abs(value).argmax()]
            raise GameError(
                f"{self._label} in world {self._first_world + world} holds {worst}, which "
                "is infinite in float32: scale it down in the game (below 3.4e38)."
            ) from None

    def _stored(self, value: Array) -> Array:
        return value

    def _suits(self, value: Array) -> bool:
        floats = value.dtype.kind == self._dtype.kind == "f"
        safe = floats or np.can_cast(value.dtype, self._dtype, "safe")
        return safe and value.shape == self._shape

    def _error(self, world: int, found: str, declared: str) -> GameError:
        return GameError(
            f"{self._label} in world {self._first_world + world} {found}, but its "
            f"space says {declared}: make the game and its space agree."
        )


class PictureColumn(Column):
    """A picture, colours first as networks read grids, and made smaller if asked for."""

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

    def _stored(self, value: Array) -> Array:
        """Return the mean of each square; what is left over at the edges is cut off."""
        colours, height, width = self.rows.shape[1:]
        side = self._side
        value = value[: height * side, : width * side].transpose(2, 0, 1)
        squares = value.reshape(colours, height, side, width, side)
        return squares.sum(axis=(2, 4), dtype=np.uint32) // side**2


class OneHotColumn(Column):
    """A Discrete observation, as a vector with a single one."""

    __slots__ = ("_start",)

    def __init__(
        self, label: str, key: str | int | None, space: Any, rows: Array, first_world: int
    ) -> None:
        super().__init__(label, key, space, rows, first_world)
        self._start = int(space.start)

    def write(self, world: int, value: Any) -> None:
        """Put a one at the place `value` names."""
        count = self.rows.shape[1]
        try:
            place = operator.index(value) - self._start
        except TypeError:
            place = -1
        if not 0 <= place < count:
            declared = f"Discrete({count}, start={self._start})"
            raise self._error(world, f"is {value!r}", declared)
        self.rows[world] = 0
        self.rows[world, place] = 1


def column_of(space: Any, shrink: int) -> Callable[..., Column]:
    """Return what makes the column for observations of `space`."""
    if isinstance(space, spaces.Discrete):
        return OneHotColumn
    return (
        partial(PictureColumn, side=side_of(space, shrink)) if is_picture(space) else Column
    )


def part_of(space: Any, shrink: int) -> Part:
    """Return how observations of `space` are stored."""
    if isinstance(space, spaces.Discrete):
        return Part((int(space.n),), np.dtype(np.uint8))
    if is_picture(space):
        height, width, colours = space.shape
        side = side_of(space, shrink)
        return Part((colours, height // side, width // side), space.dtype, scale=1 / 255)
    # Rows are stored and networks are float32: float64 would double the memory for bits
    # that no network sees.
    is_double = space.dtype == np.float64
    return Part(tuple(space.shape), np.dtype(np.float32) if is_double else space.dtype)


def is_picture(space: Any) -> bool:
    """Whether a space is (height, width, colours) of bytes."""
    is_bytes = isinstance(space, spaces.Box) and space.dtype == np.uint8
    return is_bytes and len(space.shape) == 3 and space.shape[2] in (1, 3, 4)


def side_of(space: Any, shrink: int) -> int:
    """Return how many pixels a side become one."""
    return min(shrink, *space.shape[:2])
