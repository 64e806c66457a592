"""The tiles of grid worlds, drawn in code rather than read from image files.

Each tile is a list of strokes on a grid of 32 × 32 units, painted at eight times its size
and scaled down, so that it is smooth at every size. A tile stays inside its square, so that
the renderer can paint squares separately.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps

Colour = tuple[int, int, int]

UNITS = 32
OVERSAMPLE = 8

AGENT_COLOURS: tuple[Colour, ...] = tuple(
    (code >> 16, code >> 8 & 255, code & 255)
    for code in (
        *(0x2456B8, 0xD8692A, 0x2FA384, 0xF0BE3E, 0x86407F, 0x28244C),
        *(0xCC78B2, 0x54CBEE, 0x8A1638, 0x7F8048, 0x9A92F0, 0x7C4A18),
    )
)
"""One per agent, then repeated; the first eight can be told apart by the colour-blind."""

FLOOR_SHADES: tuple[Colour, Colour] = ((246, 239, 225), (241, 232, 215))

TINTED = frozenset(
    {"floor", "gem", "berry", "beam", "flag", "door", "bird", "block", "deck"}
)
"""Tiles that can be drawn in any colour; all others have a fixed one."""

_PAINTS: dict[str, Colour] = {
    "ink": (52, 44, 58),
    "white": (255, 253, 247),
    "beak": (248, 222, 170),
    "leaf": (112, 162, 84),
    "wood": (140, 96, 70),
    "blush": (226, 142, 130),
}

# A name and its default colour, then its strokes: verb, paint and numbers in units. Paint
# is a name, or how much ink (below 0) or white is mixed into the colour. `|` repeats verb
# and paint; `+` paints only over what is painted already, `~` adds the mirror image.
# disc x y rx ry, slab left top right bottom radius, line x y ... width, shape and blob
# (smooth) x y ...; outline and shadow are beneath everything, shadow and glow are soft.
_DRAWINGS = """
floor 246 239 225
  slab 0: 0 0 32 32 0 ; slab -.02: 0 31.4 32 32 0 | 31.4 0 32 32 0
wall 98 106 128
  slab -.3: 0 0 32 32 0 ; slab 0: .6 .6 18.4 15.4 2 | 25.6 16.6 31.4 31.4 2
  slab .07: 19.6 .6 31.4 15.4 2 | .6 16.6 8.4 31.4 2 ; slab -.06: 9.6 16.6 24.4 31.4 2
  line .3: 2.6 1.6 16.4 1.6 1.2 | 21.6 1.6 29.4 1.6 1.2 | 2.6 17.6 6.4 17.6 1.2
  line .3: 11.6 17.6 22.4 17.6 1.2 | 27.6 17.6 29.4 17.6 1.2
gem 58 182 190
  shape 0: 9.5 6 22.5 6 28 13 16 27.5 4 13 ; shape .5: 9.5 6 16 6 11 13 4 13
  shape .75: 16 6 22.5 6 21 13 11 13
  shape .25: 22.5 6 28 13 21 13 16 6 | 4 13 11 13 16 27.5
  shape -.28: 28 13 21 13 16 27.5 ; outline -.55: 1 ; shadow ink: 16 27.8 7 2
food 244 192 74
  shape 0: 4 17 24 7.5 28.5 16.5 28.5 25 4 25 ; shape .35: 4 17 24 7.5 28.5 16.5
  disc+ -.22: 11 21 2.6 2.4 | 19.5 22.6 1.8 1.7 | 24.5 20 2.2 2 | 20 13.2 2 1.2
  outline -.5: 1 ; shadow ink: 16.5 25.8 12.5 2.6
bone 248 242 228
  line 0: 10.5 21.5 21.5 10.5 5.4
  disc 0: 8.4 19 3.8 3.8 | 13 23.6 3.8 3.8 | 19 8.4 3.8 3.8 | 23.6 13 3.8 3.8
  line+ -.2: 13 25.4 14.5 22.8 22.6 14.6 25 15.6 2 ; outline -.72: 1.2
  shadow ink: 16.5 26.4 9 2.4
apple 214 74 66
  blob 0: 16 11.5 21 9.6 26 13 26.4 19.5 22 26.3 16 25.6 10 26.3 5.6 19.5 6 13 11 9.6
  blob+ -.2: 24 8 30 16 24 30 14 30 21 24 24 17 ; disc .55: 10.6 15.4 1.9 2.8
  line wood: 16 12 16.8 6.6 1.7 ; blob leaf: 17 9.6 19.5 5.6 25 5 23 9.4
  outline -.55: 1 ; shadow ink: 16 26.8 8.5 2.4
berry 124 82 170
  line leaf: 11 16 16 6 21 16 1.6 ; blob leaf: 16 7.6 20 3.6 26 4.6 22 9
  disc 0: 10.6 18.6 5.4 5.4 ; disc -.12: 21.4 18 5.4 5.4 ; disc .1: 16 23 5.4 5.4
  disc .6: 9 16.6 1.5 1.5 | 19.8 16 1.5 1.5 | 14.4 21 1.5 1.5 ; outline -.55: 1
  shadow ink: 16 27.6 9 2
tree 104 154 92
  slab wood: 13.6 19 18.4 28.5 1.6
  blob 0: 16 3 22 5 27 10.5 27.4 17 22 22.4 16 21.6 10 22.4 4.6 17 5 10.5 10 5
  blob+ -.2: 27 6 30 18 22 25 8 24 16 20.6 23 17 ; disc .22: 12 10 4.6 3.8 | 20 13 2 1.6
  outline -.5: 1 ; shadow ink: 16 28.4 10 2.4
water 118 182 208
  slab 0: 0 0 32 32 0
  line .4: 4 9 7 7.6 10 9 13 7.6 1.5 | 18 17 21 15.6 24 17 27 15.6 1.5
  line .4: 5 26 8 24.6 11 26 14 24.6 1.5
  line .2: 20 6 23 5 26 6 1.2 | 21 27 24 26 27 27 1.2
dirt 124 116 72
  blob 0: 5 17 9 13 8 8 14 8.6 18 4.6 21 9 27 9 25 14.6 28 20 22 22 19 27.6 14 23 7 24.4
  disc 0: 5.6 8 1.9 1.7 | 26.6 26 2 1.8 | 6.4 28 1.3 1.1
  blob+ .16: 10 14 12 11 17 9.6 16 12.6 12.6 15
  disc -.3: 20 17 3 2.7 | 13 19 1.9 1.7 | 21.4 11.6 1.3 1.2
  disc .4: 19.2 16 .9 .8 | 12.6 18.4 .6 .5 ; outline -.45: .8
stag 168 112 72
  line~ wood: 12 12 7.6 8 7 3.4 1.8 | 9.2 9.2 4 7.6 3 4.6 1.6
  blob~ -.1: 11.6 13.6 6 11.6 4.6 14 10 17
  blob 0: 16 10.4 21.4 12.4 21 19 18.6 27 16 28.4 13.4 27 11 19 10.6 12.4
  blob .5: 16 20.6 18.4 23 18 27 16 28 14 27 13.6 23 ; disc ink: 16 25.4 2 1.5
  disc~ ink: 12.9 17 1.1 1.4 ; outline -.55: 1
hare 190 166 140
  blob~ 0: 11.8 14 8.6 9 9.4 3 13 4.4 14.6 12
  blob~ blush: 12 11.6 10.4 8 10.8 5 12.4 6.6 13.2 11
  blob 0: 16 11 22 12.6 24.6 19 21.6 26 16 28 10.4 26 7.4 19 10 12.6
  disc .55: 16 23 4.4 3.6 ; disc~ ink: 12 18 1.2 1.6 ; disc blush: 16 21.2 1.5 1.1
  line ink: 16 22 16 24.4 .7 ; outline -.55: 1
beam-up 250 150 44
  glow 0: 7 -16 25 48 7 | 11.4 -16 20.6 48 3 ; glow .5: 14 -16 18 48 3
beam 250 150 44
  glow 0: 6 6 26 26 9 | 9 9 23 23 6 ; glow .5: 13 13 19 19 3
flag 214 78 70
  line wood: 9 5 9 27.5 2
  blob 0: 10 6 16 5.4 21 7.6 27 6.6 26 12 27 17 21 18 16 16 10 17
  blob+ -.2: 9 14 16 13.4 21 15.4 28 14 28 20 9 20 ; disc beak: 9 4.6 1.7 1.7
  outline -.55: 1 ; shadow ink: 10 28.2 6 2
door 176 122 78
  slab -.45: 3 1 29 32 6 ; slab 0: 6 4 26 32 4
  line -.3: 12.6 5 12.6 32 1 | 19.4 5 19.4 32 1 ; slab -.55: 6 10 26 12 0 | 6 24 26 26 0
  disc beak: 22.6 18 1.7 1.7
block 150 146 152
  slab -.3: 4 5 28 28.4 6 ; slab 0: 4 4 28 26.4 6 ; line .4: 9 6.6 23 6.6 1.4
  outline -.5: .8 ; shadow ink: 16 28.4 12 2.2
deck 150 146 152
  slab -.4: 8 7 27 29 3 ; slab .8: 6.5 5 25.5 27 3 ; slab 0: 5 3 24 25 3
  shape .7: 14.5 7 20 14 14.5 21 9 14 ; outline -.55: .8 ; shadow ink: 17 29 10 2
block-up 150 146 152
  slab 0: 4 4 28 28 6 ; shape .75: 16 7.6 22 16.4 10 16.4 ; outline -.5: .8
bird-up 36 86 184
  blob -.4: 13 22 16 21 19 22 20.4 29 16 30.2 11.6 29
  blob 0: 16 9 21.6 11 25.6 17 25.2 23.4 21 27 16 28 11 27 6.8 23.4 6.4 17 10.4 11
  blob~ -.25: 7 16.4 10.4 15.6 15.4 20 15.2 27.4 10 26 6.6 22
  disc~ white: 9.9 10.8 2.5 2.7 ; disc~ ink: 9.5 10 1.1 1.3
  shape beak: 11.8 9 16 .9 20.2 9 ; disc .08: 16 12.2 5.8 5 ; outline -.6: 1.1
  shadow ink: 16 28.6 9 2.2
bird-right 36 86 184
  line beak: 14 26 14 29.4 16.4 29.4 1.4 | 19 26 19 29.4 21.4 29.4 1.4
  blob -.4: 9 17.4 2.2 19.8 2.8 23.4 10 24.4
  blob 0: 18.6 4 23.8 6 25 11 24 16 24.6 22 19.6 27 13 27 7.4 23 7.6 17.6 12 14 13.4 8
  blob -.25: 8.4 18 13.6 15 19 17 18.6 22 13.6 24.6 6.6 23.6
  shape beak: 23.2 7 31 11.6 23.6 13.8 ; disc white: 20 9.6 2.7 2.9
  disc ink: 20.8 9.8 1.4 1.6 ; outline -.6: 1.1 ; shadow ink: 16.4 28.8 9 2.2
bird 36 86 184
  line~ beak: 12.6 26 12.6 29.6 1.6
  blob 0: 16 4 22 6 24.4 12 26.4 18 24.4 25 16 28 7.6 25 5.6 18 7.6 12 10 6
  blob~ -.25: 7.6 15 10.6 17 9.6 24.6 6.6 23 5.6 19 ; disc .25: 16 22 4.8 4.4
  disc~ white: 11.8 10.2 2.8 3 ; disc~ ink: 12.4 10.6 1.4 1.6
  shape -.4: 11.2 11.8 20.8 11.8 16 22.8 ; shape beak: 12.4 12.6 19.6 12.6 16 21
  outline -.6: 1.1 ; shadow ink: 16 28.8 9 2.2
"""

_Stroke = tuple[str, str, list[float]]
_Drawing = tuple[Colour, list[_Stroke]]


def tile(
    name: str, colour: Colour | None, facing: int | None, size: int
) -> npt.NDArray[np.uint8]:
    """Return a tile as (size, size, 4) RGBA, read-only and cached.

    Facing is 0 up, 1 right, 2 down, 3 left. An unknown name is drawn as a block.
    """
    known = name if name in NAMES else "block"
    tint = colour if known in TINTED else None
    return _tile(known, tint, facing if f"{known}-up" in _STROKES else None, size)


def _parsed(text: str) -> dict[str, _Drawing]:
    drawings: dict[str, _Drawing] = {}
    strokes: list[_Stroke] = []
    for line in text.strip().splitlines():
        if line[0] == " ":
            strokes += [stroke for part in line.split(";") for stroke in _strokes(part)]
        else:
            name, *colour = line.split()
            red, green, blue = (int(level) for level in colour)
            strokes = []
            drawings[name] = (red, green, blue), strokes
    return drawings


def _strokes(text: str) -> list[_Stroke]:
    style, numbers = text.split(":")
    verb, fill = style.split()
    parts = [part.split() for part in numbers.split("|")]
    return [(verb, fill, [float(number) for number in part]) for part in parts]


_SOFT = {"shadow": 0.24, "glow": 0.55}
_STROKES = _parsed(_DRAWINGS)
NAMES = frozenset(name for name in _STROKES if "-" not in name)
"""The names of all tiles."""


@lru_cache(maxsize=1024)
def _tile(
    name: str, colour: Colour | None, facing: int | None, size: int
) -> npt.NDArray[np.uint8]:
    image = _oriented(name, colour, facing, size * OVERSAMPLE)
    small = image.resize((size, size), Image.Resampling.LANCZOS)
    pixels = np.array(small, dtype=np.uint8)
    pixels.flags.writeable = False
    return pixels


def _oriented(
    name: str, colour: Colour | None, facing: int | None, pixels: int
) -> Image.Image:
    if facing is None:
        return _painted(name, colour, pixels)
    if name == "bird":
        view = ("bird-up", "bird-right", "bird", "bird-right")[facing]
        image = _painted(view, colour, pixels)
        return ImageOps.mirror(image) if facing == 3 else image
    return _painted(f"{name}-up", colour, pixels).rotate(-90 * int(facing))


def _painted(drawing: str, colour: Colour | None, pixels: int) -> Image.Image:
    natural, strokes = _STROKES[drawing]
    image = Image.new("RGBA", (pixels, pixels))
    for verb, fill, numbers in strokes:
        paint = _PAINTS.get(fill) or _shade(colour or natural, float(fill))
        image = _laid(image, verb, paint, [number * pixels / UNITS for number in numbers])
    return image


def _shade(colour: Colour, amount: float) -> Colour:
    """Mix in white for an amount above zero, ink for one below."""
    other = _PAINTS["white" if amount > 0 else "ink"]
    red, green, blue = (
        round(a + (b - a) * abs(amount)) for a, b in zip(colour, other, strict=True)
    )
    return red, green, blue


def _laid(
    image: Image.Image, verb: str, paint: Colour, numbers: list[float]
) -> Image.Image:
    kind, alpha = verb.rstrip("+~"), image.getchannel("A")
    mask = _mask(alpha, kind, numbers)
    if "~" in verb:
        mask = ImageChops.lighter(mask, ImageOps.mirror(mask))
    if "+" in verb:
        mask = ImageChops.darker(mask, alpha)
    layer = Image.new("RGBA", image.size, paint)
    layer.putalpha(mask)
    beneath = kind in ("outline", "shadow")
    lower, upper = (layer, image) if beneath else (image, layer)
    return Image.alpha_composite(lower, upper)


def _mask(alpha: Image.Image, kind: str, numbers: list[float]) -> Image.Image:
    if kind == "outline":
        wider = alpha.filter(ImageFilter.GaussianBlur(numbers[0]))
        return wider.point([0] * 40 + [255] * 216)
    mask = Image.new("L", alpha.size)
    _draw(ImageDraw.Draw(mask), kind, numbers)
    if kind in _SOFT:
        mask = mask.filter(ImageFilter.GaussianBlur(numbers[-1] / 3))
        mask = mask.point([round(level * _SOFT[kind]) for level in range(256)])
    return mask


def _draw(draw: ImageDraw.ImageDraw, kind: str, numbers: list[float]) -> None:
    if kind in ("disc", "shadow"):
        x, y, across, down = numbers
        draw.ellipse((x - across, y - down, x + across, y + down), fill=255)
    elif kind in ("slab", "glow"):
        draw.rounded_rectangle(numbers[:4], numbers[4], fill=255)
    elif kind == "line":
        _line(draw, numbers[:-1], numbers[-1] / 2)
    else:
        draw.polygon(_smooth(numbers) if kind == "blob" else numbers, fill=255)


def _line(draw: ImageDraw.ImageDraw, points: list[float], half: float) -> None:
    draw.line(points, fill=255, width=round(2 * half))
    for x, y in zip(points[::2], points[1::2], strict=True):
        draw.ellipse((x - half, y - half, x + half, y + half), fill=255)


def _smooth(numbers: list[float]) -> list[float]:
    """Return a closed Catmull-Rom curve through the points."""
    points = np.reshape(numbers, (-1, 2))
    before, after, later = (np.roll(points, shift, axis=0) for shift in (1, -1, -2))
    t = np.linspace(0, 1, 16, endpoint=False)[None, :, None]
    p0, p1, p2, p3 = (part[:, None] for part in (before, points, after, later))
    curve = p1 + 0.5 * t * (
        p2 - p0 + t * (2 * p0 - 5 * p1 + 4 * p2 - p3 + t * (3 * (p1 - p2) + p3 - p0))
    )
    return [float(value) for value in curve.ravel()]
