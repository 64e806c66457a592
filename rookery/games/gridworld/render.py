"""One world of a grid game as text, and as a picture.

A picture is painted from stamps: tiles on squares, in order. Squares with the same stamps
are painted once and cached, so that a frame is little more than copying squares. Cached
squares are never written to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rookery.games.gridworld.layout import NOWHERE
from rookery.games.gridworld.names import AGENTS
from rookery.games.gridworld.tiles import AGENT_COLOURS, FLOOR_SHADES, Colour, tile
from rookery.games.gridworld.world import World

Pixels = npt.NDArray[np.uint8]

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Stamp(NamedTuple):
    """A tile on a square."""

    row: int
    column: int
    name: str
    colour: Colour | None = None
    facing: int | None = None
    alpha: float = 1.0
    """1 is opaque, 0 is invisible."""


_Style = tuple[str, Colour | None, int | None, float]


def text(world: World, number: int) -> str:
    """Return one world as lines of chars: the topmost thing of each cell."""
    layout = world.layout
    chars = ["."] * layout.cells
    for layer in world.layers:
        for cell in layout.inside[layer[number, layout.inside] > 1]:
            chars[cell] = layout.kinds[layer[number, cell]].char
    for me in world.agents:
        chars[me.cell[number]] = DIGITS[me.number % len(DIGITS)]
    rows = layout.inside.reshape(layout.height, layout.width)
    return "\n".join("".join(chars[cell] for cell in row) for row in rows)


def draw(world: World, number: int, size: int) -> Pixels:
    """Return one world as (height * size, width * size, 3) uint8."""
    layout = world.layout
    return picture((layout.height, layout.width), _stamps(world, number), size)


def _stamps(world: World, number: int) -> Iterator[Stamp]:
    layout = world.layout
    for name, layer in zip(layout.layers, world.layers, strict=True):
        if name == AGENTS:
            yield from _agent_stamps(world, number)
            continue
        for cell in layout.inside[layer[number, layout.inside] > 0]:
            kind = layout.kinds[layer[number, cell]]
            yield Stamp(*_position(world, cell), kind.tile, kind.colour, None)


def _agent_stamps(world: World, number: int) -> Iterator[Stamp]:
    for me in world.agents:
        if me.cell[number] != NOWHERE:
            colour = AGENT_COLOURS[me.number % len(AGENT_COLOURS)]
            facing = int(me.facing[number])
            yield Stamp(*_position(world, me.cell[number]), me.body.tile, colour, facing)


def _position(world: World, cell: int) -> tuple[int, int]:
    row, column = divmod(int(cell), world.layout.stride)
    return row - world.layout.margin, column - world.layout.margin


def picture(shape: tuple[int, int], stamps: Iterable[Stamp], size: int = 32) -> Pixels:
    """Return a world of `shape` (height, width) as (height*size, width*size, 3) RGB.

    Stamps are painted in order over the floor; stamps outside the map are left out.
    """
    height, width = shape
    squares: dict[tuple[int, int], tuple[_Style, ...]] = {}
    for stamp in stamps:
        # Python integers, since small numpy types would overflow when scaled to pixels.
        row, column = int(stamp.row), int(stamp.column)
        if 0 <= row < height and 0 <= column < width:
            squares[row, column] = (*squares.get((row, column), ()), stamp[2:])
    pixels = background(shape, size).copy()
    for (row, column), styles in squares.items():
        top, left = row * size, column * size
        square = _square((row + column) % 2, styles, size)
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
def _square(shade: int, styles: tuple[_Style, ...], size: int) -> Pixels:
    square = tile("floor", FLOOR_SHADES[shade], None, size)[..., :3].astype(np.float32)
    for name, colour, facing, alpha in styles:
        stamp = tile(name, colour, facing, size).astype(np.float32)
        share = stamp[..., 3:] * (alpha / 255)
        square += (stamp[..., :3] - square) * share
    return _locked(np.rint(square).astype(np.uint8))


def _locked(pixels: Pixels) -> Pixels:
    pixels = np.ascontiguousarray(pixels)
    pixels.flags.writeable = False
    return pixels
