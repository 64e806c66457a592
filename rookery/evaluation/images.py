"""Writing GIFs and PNGs, and the strip of scores beneath a frame.

Frames are (height, width, 3) uint8 RGB arrays from `Game.render`. A file is always
complete: one that cannot be finished leaves the old file, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from rookery.errors import ConfigError
from rookery.storage.files import replace_whole

Frame = npt.NDArray[np.uint8]
Colour = tuple[int, int, int]
_Palette = npt.NDArray[np.uint8]  # (colours, 3)
_Packed = npt.NDArray[np.int32]  # red, green and blue in one number
_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

PAPER: Colour = (251, 248, 241)
INK: Colour = (52, 44, 58)
FAINT: Colour = (124, 114, 118)

# One of the 256 is left free for "as in the frame before", which makes files small.
_GIF_COLOURS = 255
_EXACT_COLOURS = 64
"""So many of the commonest colours are in the palette exactly; the rest is quantized."""
_SAMPLED_FRAMES = 32
"""The palette is made from at most so many frames."""
_SAMPLED_PIXELS = 50_000
"""The quantized colours are made from at most so many pixels."""
_BLOCK = 16384
"""Colours compared with the palette at a time: bounds memory for colourful frames."""
MOST_GIF_BYTES = 2**32
"""The most memory that the frames of a GIF can take."""
_WIDEST_SCORE = "-000.0"


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a matplotlib figure, in the format of the file's extension."""
    try:
        figure.savefig(path, dpi=120)
    except (ValueError, OSError) as error:
        raise ConfigError(
            f"the picture {path} cannot be written ({error}): name a file such as x.png."
        ) from error


def write_gif(path: Path, frames: Sequence[Frame], milliseconds: int = 120) -> None:
    """Write frames of one shape as a GIF that loops forever."""
    data = gif_bytes(frames, milliseconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_whole(path, data)


def gif_bytes(frames: Sequence[Frame], milliseconds: int = 120) -> bytes:
    """Return frames of one shape as a GIF that loops forever.

    All frames share one palette and are not dithered, so that nothing flickers that does
    not move. Equal frames in a row are stored once and shown for longer.

    Raises:
        ConfigError: if it would take too much memory.
    """
    if not frames:
        raise ValueError("a GIF needs frames of one shape, got none.")
    # Pillow keeps all frames in memory, one byte per pixel.
    needed = len(frames) * frames[0].size // 3
    if needed > MOST_GIF_BYTES:
        raise ConfigError(
            f"a GIF of {len(frames):,} pictures takes {needed / 2**30:.0f} GiB of memory: "
            "choose a smaller size, or write an .mp4."
        )
    palette = _shared_palette(frames)
    first, *rest = _with_palette(frames, palette)
    return _encoded(
        first,
        format="GIF",
        save_all=True,
        append_images=rest,
        duration=milliseconds,
        loop=0,
        disposal=1,
        optimize=True,
        palette=palette.tobytes(),
    )


def write_png(path: Path, frame: Frame) -> None:
    """Write one frame as a PNG."""
    data = _encoded(Image.fromarray(frame), format="PNG", optimize=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_whole(path, data)


def _encoded(image: Image.Image, **options: Any) -> bytes:
    data = BytesIO()
    image.save(data, **options)
    return data.getvalue()


def with_scores(
    frame: Frame, entries: Sequence[tuple[str, Colour, str]], note: str = ""
) -> Frame:
    """Return the frame with a strip beneath it that shows each agent's score.

    The height of the strip depends on the names but not on the scores, so that all frames
    of a game have one shape.

    Args:
        frame: the picture.
        entries: name, colour and score of each agent.
        note: shown at the right, for example the turn.
    """
    width = frame.shape[1]
    size = min(16, max(9, width // 30))
    columns = _columns(width, size, [name for name, _, _ in entries], bool(note))
    rows = -(-(len(entries) + bool(note)) // columns)
    strip = Image.new("RGB", (width, rows * 2 * size), PAPER)
    cell = (width - size) // columns
    for i, entry in enumerate(entries):
        position = (size // 2 + i % columns * cell, i // columns * 2 * size + size)
        _write_entry(strip, position, cell, size, entry)
    right = (width - size // 2, strip.height - size)
    ImageDraw.Draw(strip).text(right, note, FAINT, _font(size), anchor="rm")
    return np.concatenate([frame, np.asarray(strip)])


def _columns(width: int, size: int, names: Sequence[str], has_note: bool) -> int:
    longest = max((_font(size).getlength(name) for name in names), default=0)
    needed = longest + _font(size).getlength(_WIDEST_SCORE) + 2.5 * size
    return max(1, min(len(names) + has_note, int((width - size) // needed)))


def _write_entry(
    strip: Image.Image,
    position: tuple[int, int],
    cell: int,
    size: int,
    entry: tuple[str, Colour, str],
) -> None:
    (left, middle), (name, colour, score) = position, entry
    font, draw = _font(size), ImageDraw.Draw(strip)
    dot = _dot(round(size * 0.8))
    strip.paste(colour, (left, middle - dot.height // 2), dot)
    left += round(size * 1.2)
    name = _shortened(name, font, cell - size * 2.2 - font.getlength(score))
    draw.text((left, middle), name, FAINT, font, anchor="lm")
    after = left + font.getlength(name) + size * 0.4
    draw.text((after, middle), score, INK, font, anchor="lm")


def _shortened(text: str, font: _Font, width: float) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…" if text else ""


@lru_cache(maxsize=8)
def _font(size: int) -> _Font:
    return ImageFont.load_default(size=size)


@lru_cache(maxsize=8)
def _dot(across: int) -> Image.Image:
    large = Image.new("L", (across * 8, across * 8))
    ImageDraw.Draw(large).ellipse((0, 0, across * 8 - 1, across * 8 - 1), fill=255)
    return large.resize((across, across), Image.Resampling.LANCZOS)


def _shared_palette(frames: Sequence[Frame]) -> _Palette:
    """Return a palette for all frames, from the first and what changes in others."""
    sampled = frames[:: -(-len(frames) // _SAMPLED_FRAMES)]
    shape = sampled[0].shape
    first, *others = (_packed(_of_shape(frame, shape)) for frame in sampled)
    pixels = [first.ravel(), *(other[other != first] for other in others)]
    colours, counts = np.unique(np.concatenate(pixels), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    exact, rest = order[:_EXACT_COLOURS], order[_EXACT_COLOURS:]
    if not len(rest):
        return _unpacked(colours[exact])
    # By the root of the count: otherwise the floor leaves no colours for small things.
    weights = np.ceil(np.sqrt(counts[rest])).astype(np.int64)
    sample = np.repeat(colours[rest], weights)
    sample = sample[:: len(sample) // _SAMPLED_PIXELS + 1]
    quantized = Image.fromarray(_unpacked(sample)[None]).quantize(
        _GIF_COLOURS - _EXACT_COLOURS, Image.Quantize.MEDIANCUT, kmeans=1
    )
    approximate = np.array(quantized.getpalette(), np.uint8).reshape(-1, 3)
    return np.concatenate([_unpacked(colours[exact]), approximate])


def _with_palette(frames: Sequence[Frame], palette: _Palette) -> Iterator[Image.Image]:
    """Yield each frame with the nearest colours of the palette.

    Pillow's `quantize(palette=...)` rounds colours to six bits before it looks for the
    nearest, which washes out a floor of two similar colours.
    """
    shape = frames[0].shape
    before = np.full(shape[:2], -1, dtype=np.int32)
    indices = np.zeros(before.shape, dtype=np.uint8)
    for frame in frames:
        now = _packed(_of_shape(frame, shape))
        changed = now != before
        indices[changed] = _nearest(now[changed], palette)
        image = Image.fromarray(indices.copy())
        image.putpalette(palette.tobytes())
        yield image
        before = now


def _nearest(packed: _Packed, palette: _Palette) -> npt.NDArray[np.intp]:
    colours, where = np.unique(packed, return_inverse=True)
    centres = palette.astype(np.float32)
    halves = (centres**2).sum(axis=1) / 2
    nearest = [
        (halves - _unpacked(block).astype(np.float32) @ centres.T).argmin(axis=1)
        for block in np.array_split(colours, len(colours) // _BLOCK + 1)
    ]
    return np.concatenate(nearest)[where]


def _of_shape(frame: Frame, shape: tuple[int, ...]) -> Frame:
    if frame.shape != shape:
        raise ValueError(f"a GIF needs frames of one shape, got {shape} and {frame.shape}.")
    return frame


def _packed(frame: Frame) -> _Packed:
    red, green, blue = (frame[..., i].astype(np.int32) for i in range(3))
    return red << 16 | green << 8 | blue


def _unpacked(packed: _Packed) -> _Palette:
    levels = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=-1)
    return levels.astype(np.uint8)
