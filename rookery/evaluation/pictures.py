"""The pictures of a recorded episode, stored as what they are drawn from.

Grid games are stored as scenes: small integers from which the same pictures are drawn
again, at any size. Pictures of other games are stored themselves, each compressed as its
difference from the one before. Both are sequences of frames, and can come from anyone:
what a file says is checked before it costs memory.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from rookery.errors import ConfigError, GameError
from rookery.games.gridworld.scene import Scene, Stage
from rookery.specs import Array

Frame = npt.NDArray[np.uint8]
"""A picture, (height, width, 3) RGB."""

SCENES, CAST = "scene.layers", "scene.agents"
PIECES, ENDS, ROWS = "frames.pieces", "frames.ends", "frames.rows"
STORED = (SCENES, CAST, PIECES, ENDS, ROWS)
"""The arrays of a recording's file that its pictures are made from."""

CELL = 32
"""Pixels per cell of a grid game, unless a width is chosen."""
LARGEST_CELL = 256
SIZES = (32, 4096)
"""The narrowest and the widest picture that can be chosen."""
MOST_PIXELS = 2**26
"""The largest picture that is drawn."""
MOST_FRAME_BYTES = 2**28
"""Pictures of an episode are stored up to this size; later ones are left out."""


class Pictures(Sequence[Frame]):
    """The pictures of an episode, drawn when they are asked for."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Height and width of every picture, in pixels."""

    @abstractmethod
    def picture(self, turn: int) -> Frame:
        """Return the picture after one turn."""

    def scaled(self, width: int) -> Pictures:
        """Return the same pictures about `width` pixels wide."""
        return Resized(self, width)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> list[Frame]: ...
    def __getitem__(self, index: int | slice) -> Frame | list[Frame]:
        if isinstance(index, slice):
            return [self.picture(turn) for turn in range(len(self))[index]]
        return self.picture(range(len(self))[index])

    def __iter__(self) -> Iterator[Frame]:
        return map(self.picture, range(len(self)))


@dataclass(frozen=True)
class Scenes(Pictures):
    """Pictures of a grid game, drawn from its scenes."""

    stage: Stage
    layers: Array
    """(turns, layers, height, width), as in `Scene`."""
    agents: Array
    """(turns, agents, 3), as in `Scene`."""
    cell: int = CELL

    def __len__(self) -> int:
        return len(self.agents)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of every picture, in pixels."""
        return self.stage.height * self.cell, self.stage.width * self.cell

    def picture(self, turn: int) -> Frame:
        """Draw the scene after one turn."""
        # Imported here: Pillow takes time to load, and most processes never draw.
        from rookery.games.gridworld.render import draw

        _check_pixels(*self.shape)
        return draw(self.stage, Scene(self.layers[turn], self.agents[turn]), self.cell)

    def scaled(self, width: int) -> Scenes:
        """Return the same scenes, drawn with the largest cells that fit."""
        cell = min(max(1, width // self.stage.width), LARGEST_CELL)
        return replace(self, cell=cell)

    def stored(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the scenes, and the stage."""
        return {SCENES: self.layers, CAST: self.agents}, {"stage": self.stage.to_json()}


class StoredFrames(Pictures):
    """Pictures that were drawn during the episode, compressed."""

    def __init__(
        self, height: int, width: int, pieces: Array, ends: Array, rows: Array
    ) -> None:
        """Take compressed pictures.

        Args:
            height: of every picture.
            width: of every picture.
            pieces: uint8, one compressed difference after the other.
            ends: int64, where each of them ends.
            rows: (turns, 2) int64, the first row of pixels that a difference covers, and
                the one after its last.
        """
        self._height, self._width = height, width
        self._pieces, self._ends, self._rows = pieces, ends, rows
        self._turn = -1
        self._frame = np.zeros((height, width, 3), np.uint8)
        """The picture of `_turn`: later ones need only the differences after it."""

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of every picture, in pixels."""
        return self._height, self._width

    def picture(self, turn: int) -> Frame:
        """Return one picture; asking for them in order is fastest."""
        if turn < self._turn:
            self._turn, self._frame = -1, np.zeros_like(self._frame)
        while self._turn < turn:
            self._turn += 1
            top, bottom = self._rows[self._turn]
            self._frame = self._frame.copy()
            self._frame[top:bottom] ^= self._difference(self._turn, bottom - top)
        return self._frame

    def _difference(self, turn: int, rows: int) -> Frame:
        start = int(self._ends[turn - 1]) if turn else 0
        piece = self._pieces[start : self._ends[turn]].tobytes()
        size, reader = int(rows) * self._width * 3, zlib.decompressobj()
        try:
            data = reader.decompress(piece, max(size, 1))
        except zlib.error:
            data = None
        if data is None or len(data) != size or reader.unconsumed_tail:
            self._turn, self._frame = -1, np.zeros_like(self._frame)
            raise ConfigError(
                f"the picture after turn {turn + 1} of this recording is damaged: record "
                "the episode again."
            )
        return np.frombuffer(data, np.uint8).reshape(rows, self._width, 3)

    def stored(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the compressed pictures, and their size."""
        arrays = {PIECES: self._pieces, ENDS: self._ends, ROWS: self._rows}
        return arrays, {"frames": {"height": self._height, "width": self._width}}


class RawFrames(Pictures):
    """Pictures as one array, which recordings of earlier versions hold."""

    def __init__(self, frames: Array) -> None:
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of every picture, in pixels."""
        return self._frames.shape[1:3]

    def picture(self, turn: int) -> Frame:
        """Return one picture."""
        return self._frames[turn]


class Resized(Pictures):
    """Pictures of another size."""

    def __init__(self, pictures: Pictures, width: int) -> None:
        self._pictures, self._width = pictures, width
        height, before = pictures.shape
        self._height = max(1, round(height * width / before))
        _check_pixels(self._height, width)

    def __len__(self) -> int:
        return len(self._pictures)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of every picture, in pixels."""
        return self._height, self._width

    def picture(self, turn: int) -> Frame:
        """Return one picture, resized."""
        from PIL import Image

        image = Image.fromarray(self._pictures.picture(turn))
        size = (self._width, self._height)
        return np.asarray(image.resize(size, Image.Resampling.LANCZOS))


class Film(Pictures):
    """The pictures of an episode, each with a strip that shows players and scores."""

    def __init__(self, pictures: Pictures, names: Sequence[str], totals: Array) -> None:
        """Take the pictures and what the strip shows.

        Args:
            pictures: after each turn.
            names: of each agent, with its player.
            totals: (turns, agents) scores so far.
        """
        self._pictures, self._names, self._totals = pictures, names, totals

    def __len__(self) -> int:
        return len(self._pictures)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of every picture, in pixels."""
        height, width, _ = self.picture(0).shape
        return height, width

    def picture(self, turn: int) -> Frame:
        """Return one picture with its strip."""
        from rookery.evaluation.images import with_scores
        from rookery.games.gridworld.tiles import AGENT_COLOURS

        entries = [
            (name, AGENT_COLOURS[i % len(AGENT_COLOURS)], f"{total:g}")
            for i, (name, total) in enumerate(
                zip(self._names, self._totals[turn], strict=True)
            )
        ]
        return with_scores(self._pictures.picture(turn), entries, f"turn {turn + 1}")


class SceneWriter:
    """Collects the scenes of an episode."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._scenes: list[Scene] = []

    def add(self, scene: Scene) -> None:
        """Add the scene after a turn."""
        self._scenes.append(scene)

    def pictures(self) -> Scenes:
        """Return the pictures of all turns."""
        layers, agents = (np.stack(arrays) for arrays in zip(*self._scenes, strict=True))
        return Scenes(self._stage, layers, agents)


class FrameWriter:
    """Compresses the pictures of an episode while it is played."""

    def __init__(self, game: str) -> None:
        self._game = game
        self._frame: Frame | None = None
        self._pieces: list[bytes] = []
        self._rows: list[tuple[int, int]] = []
        self._size = 0

    def add(self, frame: Any) -> None:
        """Add the picture after a turn, unless there is no room left."""
        self._check(frame)
        if self._size > MOST_FRAME_BYTES:
            return
        before = np.zeros_like(frame) if self._frame is None else self._frame
        difference = frame ^ before
        changed = np.flatnonzero(difference.any(axis=(1, 2)))
        top, bottom = (changed[0], changed[-1] + 1) if len(changed) else (0, 0)
        self._rows.append((top, bottom))
        self._pieces.append(zlib.compress(difference[top:bottom].tobytes()))
        self._size += len(self._pieces[-1])
        self._frame = frame.copy()  # a game may draw the next one into the same array

    def _check(self, frame: Any) -> None:
        is_array = isinstance(frame, np.ndarray)
        actual = f"{frame.shape} {frame.dtype}" if is_array else f"a {type(frame).__name__}"
        if not is_array or frame.dtype != np.uint8 or frame.shape[2:] != (3,):
            raise GameError(
                f"game '{self._game}' drew {actual} in render(), expected (height, width, "
                "3) uint8: return one RGB picture."
            )
        if self._frame is not None and frame.shape != self._frame.shape:
            raise GameError(
                f"game '{self._game}' drew {actual} in render() after "
                f"{self._frame.shape}: draw all pictures of an episode in one size."
            )

    def pictures(self) -> StoredFrames:
        """Return the pictures that were stored."""
        assert self._frame is not None
        height, width, _ = self._frame.shape
        pieces = np.frombuffer(b"".join(self._pieces), np.uint8)
        ends = np.cumsum([len(piece) for piece in self._pieces], dtype=np.int64)
        return StoredFrames(height, width, pieces, ends, np.array(self._rows, np.int64))


def stored_pictures(
    arrays: Mapping[str, Array], metadata: Mapping[str, Any], turns: int
) -> Scenes | StoredFrames | None:
    """Return the pictures in a recording's file, if it has any.

    Raises:
        KeyError, TypeError, ValueError: if they cannot be what `stored` returned.
    """
    if "stage" in metadata:
        scenes = Scenes(Stage.from_json(metadata["stage"]), arrays[SCENES], arrays[CAST])
        scenes.stage.check(scenes.layers, scenes.agents)
        if len(scenes) != turns:
            raise ValueError(f"it has {len(scenes)} scenes of {turns} turns")
        return scenes
    if "frames" in metadata:
        size = metadata["frames"]
        height, width = int(size["height"]), int(size["width"])
        pieces, ends, rows = arrays[PIECES], arrays[ENDS], arrays[ROWS]
        if min(height, width) < 1 or height * width > MOST_PIXELS:
            raise ValueError(f"its pictures have {height} × {width} pixels")
        flat = pieces.dtype == np.uint8 and ends.dtype == np.int64
        if not flat or pieces.ndim != 1 or ends.ndim != 1 or not 0 < len(ends) <= turns:
            raise ValueError("its pictures are not stored as one piece per turn")
        if (np.diff(ends, prepend=0) < 0).any() or ends[-1] != len(pieces):
            raise ValueError("the pieces of its pictures do not follow each other")
        if rows.dtype != np.int64 or rows.shape != (len(ends), 2):
            raise ValueError("the pieces of its pictures have no rows")
        if rows.min() < 0 or rows.max() > height or (rows[:, 0] > rows[:, 1]).any():
            raise ValueError("its pictures do not have the rows that their pieces cover")
        return StoredFrames(height, width, pieces, ends, rows)
    return None


def check_size(size: Any) -> int:
    """Return the width of pictures that a user chose.

    Raises:
        ConfigError: if it is not a sensible number of pixels.
    """
    least, most = SIZES
    if isinstance(size, bool) or not isinstance(size, int) or not least <= size <= most:
        raise ConfigError(
            f"size is {size!r}, expected the width in pixels: a whole number from {least} "
            f"to {most}."
        )
    return size


def _check_pixels(height: int, width: int) -> None:
    if height * width > MOST_PIXELS:
        raise ConfigError(
            f"a picture of {width:,} × {height:,} pixels is too large: choose a smaller "
            "size (in pixels across)."
        )
