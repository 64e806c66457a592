"""Recordings of episodes: actions, rewards, facts about the game, and frames.

They are named arrays over turns, stored in one safetensors file per episode: no pickle,
and readable from any language.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rookery.errors import ArrayFileError, ConfigError
from rookery.games.base import Game
from rookery.games.episodes import Episode
from rookery.games.loop import Turn
from rookery.shm.block import available
from rookery.specs import Array
from rookery.storage.arrays import parse_json, read_arrays, to_bytes
from rookery.storage.files import replace_whole

FRAMES = "frames"
MOST_BYTES = 2**32
"""The largest recording that is loaded."""


@dataclass
class Recording:
    """One episode, turn by turn."""

    world: int
    episode: int
    agents: tuple[str, ...]
    players: tuple[str, ...]
    arrays: dict[str, Array]
    """`actions`, `active`, `rewards`, `terminated`, `truncated` are (turns, agents);
    `facts.*` and `counts.*` as the game gives them; `frames` are (turns, height, width,
    3), rendered after each turn."""
    actions: tuple[tuple[str, ...], ...] = ()
    """The names of each agent's actions, if known."""

    @property
    def turns(self) -> int:
        """The number of turns."""
        return len(self.arrays["actions"])

    def save(self, path: str | Path) -> None:
        """Write the recording to a safetensors file."""
        metadata = {
            "world": self.world,
            "episode": self.episode,
            "agents": self.agents,
            "players": self.players,
            "actions": self.actions,
        }
        replace_whole(Path(path), to_bytes(self.arrays, {"rookery": json.dumps(metadata)}))

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a recording that `save` wrote.

        Raises:
            ConfigError: if the file is something else, in one line.
        """
        try:
            arrays, texts = read_arrays(Path(path), min(MOST_BYTES, available()))
            metadata = parse_json(texts["rookery"])
            arrays["actions"], arrays["rewards"]  # every recording has them
            world, episode = int(metadata["world"]), int(metadata["episode"])
            agents, players = tuple(metadata["agents"]), tuple(metadata["players"])
            actions = tuple(tuple(names) for names in metadata.get("actions", ()))
        except (ArrayFileError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{path} is not a recording of an episode ({error}): name a file that "
                "rookery recorded."
            ) from error
        return cls(world, episode, agents, players, arrays, actions)

    def film(self) -> list[Array]:
        """Return the frames with a strip that shows players and scores."""
        if FRAMES not in self.arrays:
            raise ConfigError("this recording has no frames: play it with film=1.")
        # Imported here: Pillow takes time to load, and most processes never draw.
        from rookery.evaluation.images import with_scores

        totals = self.arrays.get("scores", self.arrays["rewards"]).cumsum(axis=0)
        return [
            with_scores(frame, self._scores(totals[i]), f"turn {i + 1}")
            for i, frame in enumerate(self.arrays[FRAMES])
        ]

    def _scores(self, totals: Array) -> list[tuple[str, tuple[int, int, int], str]]:
        from rookery.games.gridworld.tiles import AGENT_COLOURS

        return [
            (f"{name} {player}", AGENT_COLOURS[i % len(AGENT_COLOURS)], f"{total:g}")
            for i, (name, player, total) in enumerate(
                zip(self.agents, self.players, totals, strict=True)
            )
        ]

    def write_gif(self, path: str | Path, milliseconds: int = 120) -> None:
        """Write the episode as a GIF."""
        from rookery.evaluation.images import write_gif

        write_gif(Path(path), self.film(), milliseconds)


class Recorder:
    """Records episodes while they are played."""

    def __init__(self, game: Game, players: Sequence[str], record: bool, film: int) -> None:
        self._game, self._players = game, tuple(players)
        self._record, self._film = record, film
        self._rows: list[list[dict[str, Array]]] = [[] for _ in range(game.worlds)]
        self._finished = np.zeros(game.worlds, np.int64)

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
                if world == 0 and self._is_filming:
                    row[FRAMES] = self._game.render(0)
                self._rows[world].append(row)
        return self._finish(turn.ended, wanted)

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
            if rows and wanted[world]:
                recordings.append(self._recording(world, rows))
            self._finished[world] += 1
        return recordings

    def _recording(self, world: int, rows: list[dict[str, Array]]) -> Recording:
        arrays = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        ids = tuple(spec.id for spec in self._game.agents)
        episode = int(self._finished[world])
        names = tuple(spec.action_names for spec in self._game.agents)
        return Recording(world, episode, ids, self._players, arrays, names)
