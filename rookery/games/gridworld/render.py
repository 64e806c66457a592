"""A picture of one world of a grid game, for recordings and for watching.

In come stamps (what stands where, in the order it is painted), out goes an RGB array.
What stands on one square is painted once and remembered, so that a frame is little more
than copying squares. The one rule: a remembered square is never written to.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rookery.games.gridworld.tiles import FLOOR_SHADES, Colour, tile

Pixels = npt.NDArray[np.uint8]


class Stamp(NamedTuple):
    """One thing on one square."""

    row: int
    column: int
    name: str
    colour: Colour | None = None
    facing: int | None = None
    alpha: float = 1.0
    """1 is as drawn, 0 is not to be seen."""


_Look = tuple[str, Colour | None, int | None, float]


def picture(shape: tuple[int, int], stamps: Iterable[Stamp], size: int = 32) -> Pixels:
    """Return a world of `shape` (height, width) as (height*size, width*size, 3) RGB.

    Stamps are painted in their order over the floor; those off the board are left out.
    """
    height, width = shape
    squares: dict[tuple[int, int], tuple[_Look, ...]] = {}
    for stamp in stamps:
        # Plain integers: a small numpy type would overflow when turned into pixels.
        row, column = int(stamp.row), int(stamp.column)
        if 0 <= row < height and 0 <= column < width:
            squares[row, column] = (*squares.get((row, column), ()), stamp[2:])
    pixels = background(shape, size).copy()
    for (row, column), looks in squares.items():
        top, left = row * size, column * size
        square = _square((row + column) % 2, looks, size)
        pixels[top : top + size, left : left + size] = square
    return pixels


@lru_cache(maxsize=16)
def background(shape: tuple[int, int], size: int) -> Pixels:
    """Return the empty floor, read-only and cached."""
    height, width = shape
    light, dark = (_square(shade, (), size) for shade in (0, 1))
    pair = np.block([[[light], [dark]], [[dark], [light]]])
    repeats = (height // 2 + 1, width // 2 + 1, 1)
    return _locked(np.tile(pair, repeats)[: height * size, : width * size])


@lru_cache(maxsize=4096)
def _square(shade: int, looks: tuple[_Look, ...], size: int) -> Pixels:
    square = tile("floor", FLOOR_SHADES[shade], None, size)[..., :3].astype(np.float32)
    for name, colour, facing, alpha in looks:
        stamp = tile(name, colour, facing, size).astype(np.float32)
        share = stamp[..., 3:] * (alpha / 255)
        square += (stamp[..., :3] - square) * share
    return _locked(np.rint(square).astype(np.uint8))


def _locked(pixels: Pixels) -> Pixels:
    pixels = np.ascontiguousarray(pixels)
    pixels.flags.writeable = False
    return pixels
