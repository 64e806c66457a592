"""One world as text, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator

from rookery.games.gridworld.layout import NOWHERE
from rookery.games.gridworld.render import Stamp, picture
from rookery.games.gridworld.rules import AGENTS
from rookery.games.gridworld.tiles import AGENT_COLOURS
from rookery.games.gridworld.world import World
from rookery.specs import Array

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


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


def draw(world: World, number: int, size: int) -> Array:
    """Return one world as (height * size, width * size, 3) uint8."""
    layout = world.layout
    return picture((layout.height, layout.width), _stamps(world, number), size)


def _stamps(world: World, number: int) -> Iterator[Stamp]:
    layout = world.layout
    for name, layer in zip(layout.layers, world.layers, strict=True):
        if name == AGENTS:
            yield from _agents(world, number)
            continue
        for cell in layout.inside[layer[number, layout.inside] > 0]:
            kind = layout.kinds[layer[number, cell]]
            yield Stamp(*_spot(world, cell), kind.tile, kind.colour, None)


def _agents(world: World, number: int) -> Iterator[Stamp]:
    for me in world.agents:
        if me.cell[number] != NOWHERE:
            colour = AGENT_COLOURS[me.number % len(AGENT_COLOURS)]
            facing = int(me.facing[number])
            yield Stamp(*_spot(world, me.cell[number]), me.body.tile, colour, facing)


def _spot(world: World, cell: int) -> tuple[int, int]:
    row, column = divmod(int(cell), world.layout.stride)
    return row - world.layout.margin, column - world.layout.margin
