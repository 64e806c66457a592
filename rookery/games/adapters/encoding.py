"""From a foreign game's own observations to parts, without the game.

This is what the writers in `observations.py` do, for any number of observations at once and
from plain data (`rookery.specs.Encoding`), so that a trained agent can be used where the
game's package is not installed.
"""

from __future__ import annotations

import numpy as np

from rookery.specs import Array, Part, Piece


def encode(piece: Piece, part: Part, values: Array) -> Array:
    """Return a piece of n observations as it is stored, (n, *part.shape).

    Args:
        piece: what it is in the game.
        part: how it is stored.
        values: (n, *piece.shape), already checked.
    """
    if piece.kind == "one_hot":
        rows = np.zeros((len(values), *part.shape), part.dtype)
        rows[np.arange(len(values)), values.astype(np.int64) - piece.start] = 1
        return rows
    if piece.kind == "image":
        values = downscaled(values, piece.side)
    return values.astype(part.dtype)


def downscaled(images: Array, side: int) -> Array:
    """Return images, (…, height, width, colours), downscaled and with colours in front.

    Each square of pixels is replaced by its mean; incomplete ones at the edges are dropped.
    """
    *batch, height, width, colours = images.shape
    high, wide = height // side, width // side
    cropped = np.moveaxis(images[..., : high * side, : wide * side, :], -1, -3)
    squares = cropped.reshape(*batch, colours, high, side, wide, side)
    return squares.sum(axis=(-3, -1), dtype=np.uint32) // side**2
