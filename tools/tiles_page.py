"""docs/tiles.md and its picture: every tile that a Kind or a Body can name."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rookery.games.gridworld.tiles import AGENT_COLOURS, FLOOR_SHADES, NAMES, TINTED, tile

SIZE, LABEL, GAP, COLUMNS = 64, 22, 14, 6
COLOUR_NAMES = (
    *("blue", "orange", "green", "yellow", "purple", "navy"),
    *("pink", "sky blue", "dark red", "olive", "lilac", "brown"),
)
"""What people call the colours of agents, in order."""

PAGE = """\
# Tiles

A thing in a grid game is drawn with the tile in `Kind(tile="gem")`, or with the one of its
name; agents are drawn with `Body(tile="bird")`. Any other name is drawn as a block.

![All tiles with their names](pictures/tiles.png)

| tile | `colour=` |
| --- | --- |
{rows}

Tiles that take a colour are drawn in the one of `Kind(colour=(red, green, blue))`; all
others have a fixed colour. `beam`, `bird` and `block` show the way an agent faces.

Each agent has its own colour, by its number; after agent {last}, they repeat.

| agent | colour |
| --- | --- |
{colours}
"""


def write_tiles() -> str:
    """Return the page."""
    rows = (
        f"| `{name}` | {'any' if name in TINTED else 'fixed'} |" for name in sorted(NAMES)
    )
    colours = (
        f"| {i} | {name}, `#{red:02x}{green:02x}{blue:02x}` |"
        for i, (name, (red, green, blue)) in enumerate(
            zip(COLOUR_NAMES, AGENT_COLOURS, strict=True)
        )
    )
    return PAGE.format(
        rows="\n".join(rows), colours="\n".join(colours), last=len(AGENT_COLOURS) - 1
    )


def draw_tiles() -> bytes:
    """Return the picture of all tiles with their names, as PNG."""
    names = sorted(NAMES)
    rows = -(-len(names) // COLUMNS)
    width, height = COLUMNS * (SIZE + 3 * GAP) + GAP, rows * (SIZE + LABEL + GAP) + GAP
    sheet = Image.new("RGB", (width, height), (255, 255, 255))
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    for i, name in enumerate(names):
        left = GAP + GAP + (i % COLUMNS) * (SIZE + 3 * GAP)
        top = GAP + i // COLUMNS * (SIZE + LABEL + GAP)
        floor = Image.fromarray(np.full((SIZE, SIZE, 3), FLOOR_SHADES[0], np.uint8))
        picture = Image.fromarray(tile(name, None, None, SIZE).copy(), "RGBA")
        floor.paste(picture, (0, 0), picture)
        sheet.paste(floor, (left, top))
        at = (left + SIZE / 2, top + SIZE + LABEL / 2)
        draw.text(at, name, fill=(52, 44, 58), font=font, anchor="mm")
    file = io.BytesIO()
    sheet.save(file, "PNG", optimize=True)
    return file.getvalue()
