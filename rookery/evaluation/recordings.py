"""Recordings of episodes: actions, rewards, facts about the game, and its pictures.

They are named arrays over turns, stored in one safetensors file per episode: no pickle,
and readable from any language. Pictures are stored as what they are drawn from.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import ArrayFileError, ConfigError
from rookery.evaluation.pictures import (
    STORED,
    Film,
    FrameWriter,
    Pictures,
    RawFrames,
    Scenes,
    SceneWriter,
    StoredFrames,
    check_size,
    stored_pictures,
)
from rookery.games.base import Game, GameWrapper
from rookery.games.episodes import Episode
from rookery.games.gridworld import GridEngine
from rookery.games.loop import Turn
from rookery.shm.block import available
from rookery.specs import Array
from rookery.storage.arrays import parse_json, read_arrays, to_bytes
from rookery.storage.files import replace_whole

FRAMES = "frames"
"""Pictures as one array, in recordings of earlier versions."""
MOST_BYTES = 2**32
"""The largest recording that is loaded."""
MILLISECONDS = 120
"""How long a GIF shows each turn, unless told otherwise."""
MOST_SHOWN = 6
"""Agents that a recording's line names."""


@dataclass(repr=False)
class Recording:
    """One episode, turn by turn."""

    world: int
    episode: int
    agents: tuple[str, ...]
    players: tuple[str, ...]
    arrays: dict[str, Array]
    """`actions`, `active`, `rewards`, `terminated`, `truncated` are (turns, agents);
    `facts.*` and `counts.*` as the game gives them."""
    actions: tuple[tuple[str, ...], ...] = ()
    """The names of each agent's actions, if known."""
    pictures: Scenes | StoredFrames | None = None
    """What the pictures after each turn are drawn from, if it was stored."""

    def __repr__(self) -> str:
        """Return the episode in one line."""
        players = ", ".join(
            f"{agent}: {player}"
            for agent, player in zip(self.agents[:MOST_SHOWN], self.players, strict=False)
        )
        more = ", …" if len(self.agents) > MOST_SHOWN else ""
        drawn = "" if self._stored_pictures() else ", without pictures"
        return (
            f"<Recording of world {self.world}, episode {self.episode}: {self.turns} turns"
            f"{drawn}; {players}{more}>"
        )

    def _repr_html_(self) -> str | None:
        """Show the episode in a notebook."""
        if not self._stored_pictures():
            return None
        return f'<img src="data:image/gif;base64,{b64encode(self._gif()).decode()}">'

    @property
    def turns(self) -> int:
        """The number of turns."""
        return len(self.arrays["actions"])

    def save(self, path: str | Path) -> None:
        """Write the recording to a safetensors file."""
        metadata: dict[str, Any] = {
            "world": self.world,
            "episode": self.episode,
            "agents": self.agents,
            "players": self.players,
            "actions": self.actions,
        }
        arrays = dict(self.arrays)
        if self.pictures is not None:
            stored, description = self.pictures.stored()
            arrays, metadata = arrays | stored, metadata | description
        replace_whole(Path(path), to_bytes(arrays, {"rookery": json.dumps(metadata)}))

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a recording that `save` wrote.

        Raises:
            ConfigError: if the file is something else, in one line.
        """
        try:
            arrays, texts = read_arrays(Path(path), min(MOST_BYTES, available()))
            metadata = parse_json(texts["rookery"])
            world, episode = int(metadata["world"]), int(metadata["episode"])
            agents, players = tuple(metadata["agents"]), tuple(metadata["players"])
            actions = tuple(tuple(names) for names in metadata.get("actions", ()))
            _check_shapes(arrays, len(agents), len(players))
            pictures = stored_pictures(arrays, metadata, len(arrays["actions"]))
        except (ArrayFileError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"{path} is not a recording of an episode ({error}): name a file that "
                "rookery recorded."
            ) from error
        arrays = {name: array for name, array in arrays.items() if name not in STORED}
        return cls(world, episode, agents, players, arrays, actions, pictures)

    def film(self, size: int | None = None) -> Film:
        """Return the pictures after each turn, with a strip that shows players and scores.

        They are drawn when they are asked for: `film()[9]` is the one after turn 10.

        Args:
            size: their width in pixels, about; by default 32 pixels per cell in a grid
                game, and the game's own size in others.
        """
        pictures = self._stored_pictures()
        if pictures is None:
            raise ConfigError(
                "this recording has no pictures: record the episode with film=1."
            )
        if size is not None:
            pictures = pictures.scaled(check_size(size))
        totals = self.arrays.get("scores", self.arrays["rewards"]).cumsum(axis=0)
        names = [
            f"{i} {player}" for i, player in zip(self.agents, self.players, strict=True)
        ]
        return Film(pictures, names, totals)

    def _stored_pictures(self) -> Pictures | None:
        if self.pictures is None and FRAMES in self.arrays:
            return RawFrames(self.arrays[FRAMES])
        return self.pictures

    def write(
        self, path: str | Path, fps: float | None = None, size: int | None = None
    ) -> None:
        """Write the episode to a file.

        It can be a .gif, an .mp4 (needs ffmpeg), a .png with a sheet of pictures, or a
        .safetensors with the recording itself.

        Args:
            path: the file; its extension is the format.
            fps: turns per second; 8.3 by default. A .png has none.
            size: width in pixels, as in `film`.
        """
        from rookery.evaluation.video import RECORDING, check_film, write_film

        path = Path(path)
        check_film(path, fps)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == RECORDING:
            self.save(path)
        else:
            write_film(path, self.film(size), fps)

    def write_gif(
        self, path: str | Path, milliseconds: int = MILLISECONDS, size: int | None = None
    ) -> None:
        """Write the episode as a GIF.

        Args:
            path: the file.
            milliseconds: how long each turn is shown.
            size: width in pixels, as in `film`.
        """
        from rookery.evaluation.images import write_gif

        write_gif(Path(path), self.film(size), milliseconds)

    def _gif(self) -> bytes:
        from rookery.evaluation.images import gif_bytes

        return gif_bytes(self.film())


def _check_shapes(arrays: Mapping[str, Array], agents: int, players: int) -> None:
    shape = arrays["actions"].shape
    totals = arrays.get("scores", arrays["rewards"])  # every recording has rewards
    if not len(shape) == 2 or {agents, players} != {shape[1]} or totals.shape != shape:
        raise ValueError("its actions, rewards and players are not of the same agents")
    if FRAMES in arrays:
        frames = arrays[FRAMES]
        if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
            raise ValueError("its frames are not pictures")
        if len(frames) != shape[0]:
            raise ValueError(f"it has {len(frames)} frames of {shape[0]} turns")


class Recorder:
    """Records episodes while they are played.

    Recorded episodes of the first world can be drawn later if the game has scenes, which
    take little room. Pictures of other games are drawn only for as many episodes as are
    to be filmed.
    """

    def __init__(self, game: Game, players: Sequence[str], record: bool, film: int) -> None:
        self._game, self._players = game, tuple(players)
        self._record, self._film = record, film
        self._grid = _grid_of(game)
        self._rows: list[list[dict[str, Array]]] = [[] for _ in range(game.worlds)]
        self._scenes: SceneWriter | None = None
        self._frames: FrameWriter | None = None
        self._finished = np.zeros(game.worlds, np.int64)
        if film and self._grid is None:
            # Before the first turn, because some games can only be drawn from there on.
            game.render(0)

    def add(self, turn: Turn, wanted: Array) -> list[Recording]:
        """Add one turn of all worlds; return recordings of the episodes that it ended.

        Args:
            turn: what happened.
            wanted: (worlds,) whether to return the episodes of a world.
        """
        worlds = [world for world in self._recorded() if not turn.closing[world]]
        if worlds:
            columns = self._columns(turn)
            for world in worlds:
                # Copied: a game may overwrite its arrays in the next turn.
                row = {name: column[world].copy() for name, column in columns.items()}
                self._rows[world].append(row)
            if 0 in worlds:
                self._add_picture()
        return self._finish(turn.ended, wanted)

    def _add_picture(self) -> None:
        if self._grid is not None:
            if self._scenes is None:
                self._scenes = SceneWriter(self._grid.stage)
            self._scenes.add(self._grid.scene(0))
        elif self._is_filming:
            if self._frames is None:
                self._frames = FrameWriter(type(_unwrapped(self._game)).__name__)
            self._frames.add(self._game.render(0))

    def _take_pictures(self) -> Scenes | StoredFrames | None:
        """Return the pictures of the first world's episode, which ends."""
        writer = self._scenes or self._frames
        self._scenes = self._frames = None
        return writer.pictures() if writer else None

    def _columns(self, turn: Turn) -> dict[str, Array]:
        outcome = turn.outcome
        columns = {
            "actions": turn.actions.astype(np.int32),
            "active": turn.active,
            "rewards": outcome.rewards,
            "terminated": outcome.terminated,
            "truncated": outcome.truncated,
            **{f"facts.{name}": fact for name, fact in self._game.facts().items()},
            **{f"counts.{name}": count for name, count in outcome.counts.items()},
        }
        if outcome.scores is not None:
            columns["scores"] = outcome.scores
        return columns

    @property
    def _is_filming(self) -> bool:
        return bool(self._finished[0] < self._film)

    def _recorded(self) -> Sequence[int]:
        if self._record:
            return range(self._game.worlds)
        return [0] if self._is_filming else []

    def _finish(self, ended: Sequence[Episode], wanted: Array) -> list[Recording]:
        recordings = []
        for world in [episode.world for episode in ended]:
            rows, self._rows[world] = self._rows[world], []
            pictures = self._take_pictures() if world == 0 else None
            if rows and wanted[world]:
                recordings.append(self._recording(world, rows, pictures))
            self._finished[world] += 1
        return recordings

    def _recording(
        self,
        world: int,
        rows: list[dict[str, Array]],
        pictures: Scenes | StoredFrames | None,
    ) -> Recording:
        return Recording(
            world,
            episode=int(self._finished[world]),
            agents=tuple(spec.id for spec in self._game.agents),
            players=self._players,
            arrays={name: np.stack([row[name] for row in rows]) for name in rows[0]},
            actions=tuple(spec.action_names for spec in self._game.agents),
            pictures=pictures,
        )


def _grid_of(game: Game) -> GridEngine | None:
    """Return the engine of a grid game, unless it draws itself in another way."""
    game = _unwrapped(game)
    if isinstance(game, GridEngine) and type(game).render is GridEngine.render:
        return game
    return None


def _unwrapped(game: Game) -> Game:
    while isinstance(game, GameWrapper):
        game = game.game
    return game
