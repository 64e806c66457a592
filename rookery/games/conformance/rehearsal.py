"""The first playing of a game under check: what it did is recorded, and errors traced.

Besides the contract, which the guard checks, this finds out what no comparison can: which
global random generators were used, which attributes changed, and which line made a number
that is not finite.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from rookery.errors import GameError
from rookery.games.base import are_finite
from rookery.games.conformance.causes import Watch
from rookery.games.conformance.playback import Playback, PlayedTurn
from rookery.games.gridworld import GridEngine, Kind
from rookery.games.guard import GuardedGame
from rookery.games.locate import is_users, is_users_class, place
from rookery.games.sources import Sources
from rookery.specs import Array


class ThingRecord:
    """What happened to the things of one kind."""

    def __init__(self) -> None:
        self.visits = 0
        """Turns that an agent ended where such a thing was."""
        self.paid = 0
        """Those of them in which the agent got a reward."""
        self.vanished = 0
        """Things that were gone after a turn."""


class Rehearsal:
    """Plays a game with random actions, and records what it does."""

    def __init__(self, build: Callable[[], GuardedGame], seed: int) -> None:
        self._build, self._seed = build, seed
        self.game = build()
        self.turns = 0
        engine = self.game.game
        self.engine = engine if isinstance(engine, GridEngine) else None
        owner = engine if self.engine is None else self.engine.rules
        self.is_users = is_users_class(type(owner))
        self.sources = Sources(type(owner))
        self.rewards = 0
        """Rewards other than 0, of all agents and worlds."""
        self.visits_elsewhere = self.paid_elsewhere = 0
        """Turns that agents ended where there was no thing, and those with a reward."""
        self.moves = 0
        self.counted: set[str] = set()
        """Counts of the game that were not always 0."""
        self.wrapped: set[str] = set()
        """Columns that went below the least or above the largest number they hold."""
        self.warnings: dict[str, str] = {}
        """Warnings of numpy by the user's line."""
        self.episodes = self.ends = 0
        """Episodes, and how many of them ended after their first turn."""
        self.things: dict[str, ThingRecord] = {}
        self.drew: list[str] = []
        self.changed: list[str] = []
        self._watch = Watch(owner, self.sources, attributes=self.engine is not None)

    def play(self, turns: int) -> None:
        """Play some turns; an error about a number names the line that made it."""
        playback = Playback(self.game, self._seed)
        for turn in range(turns):
            before = self._position()
            try:
                played = self._noticing(lambda: playback.turn(turn))  # noqa: B023
            except GameError as error:
                raise self._traced(error, turn) from error
            self.turns += 1
            self._record(played, before)
        self.changed = self._watch.changed()
        self.drew = self._watch.drew() if self.is_users else []

    def _noticing(self, play: Callable[[], PlayedTurn]) -> PlayedTurn:
        """Play a turn, and keep the warnings that lines of the user caused."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            played = play()
        for warning in caught:
            if is_users(warning.filename):
                where = place(warning.filename, warning.lineno)
                self.warnings[where] = str(warning.message)
        return played

    # What agents and things did.

    def _kinds(self) -> list[Kind]:
        """Return the kinds that an agent can be in the same cell with."""
        if self.engine is None:
            return []
        return [kind for kind in self.engine.layout.things if kind.lifetime is None]

    def _position(self) -> dict[str, Array]:
        if self.engine is None:
            return {}
        world = self.engine.world
        masks = {f"kind {kind.name}": world.mask(kind) for kind in self._kinds()}
        columns = {f"column {n}": world.columns.by_world[n].copy() for n in self._narrow()}
        return {
            "cell": world.cell.copy(),
            "episode": world.episode.copy(),
            **masks,
            **columns,
        }

    def _narrow(self) -> list[str]:
        """Return the columns of small integers, which can wrap around."""
        columns = self.engine.layout.columns if self.engine is not None else {}
        dtypes = {name: np.dtype(column.dtype) for name, column in columns.items()}
        return [
            n for n, dtype in dtypes.items() if dtype.kind in "iu" and dtype.itemsize < 4
        ]

    def _record(self, played: PlayedTurn, before: dict[str, Array]) -> None:
        rewards = played.arrays["rewards"]
        self.rewards += int(np.count_nonzero(rewards))
        for name in self.game.counts:
            if played.arrays[f"count '{name}'"].any():
                self.counted.add(name)
        if self.engine is None:
            return
        after, world = self._position(), self.engine.world
        same = before["episode"] == after["episode"]
        ended = (played.arrays["terminated"] | played.arrays["truncated"]).any(axis=1)
        self.episodes += int(ended.sum())
        self.ends += int((ended & (world.turn == 1)).sum())
        self.moves += int(((before["cell"] != after["cell"]) & same).sum())
        for name in self._narrow():
            old, new = before[f"column {name}"][same], after[f"column {name}"][same]
            jump = abs(new.astype(np.int64) - old.astype(np.int64))
            if (jump > 2 ** (8 * new.dtype.itemsize - 1)).any():
                self.wrapped.add(name)
        paid, elsewhere = rewards.T != 0, same & (world.cell != 0)
        rows = np.arange(world.worlds)
        for kind in self._kinds():
            record = self.things.setdefault(kind.name, ThingRecord())
            mask = after[f"kind {kind.name}"]
            here = mask[rows, world.cell] & same & (world.cell != 0)
            record.visits += int(here.sum())
            record.paid += int((here & paid).sum())
            gone = before[f"kind {kind.name}"] & ~mask
            record.vanished += int(gone[same].sum())
            elsewhere = elsewhere & ~here
        self.visits_elsewhere += int(elsewhere.sum())
        self.paid_elsewhere += int((elsewhere & paid).sum())

    # The line that made a number which is not finite.

    def _traced(self, error: GameError, turn: int) -> GameError:
        if self.engine is None or "finite" not in str(error):
            return error
        game = self._build()
        playback = Playback(game, self._seed)
        playback.turns(0, turn)
        engine: Any = game.game
        names = ("reward", "score", *engine.rules.counts)
        columns = [engine.world.columns.arrays[name] for name in names]
        line = _first_line(
            lambda: playback.turn(turn),
            lambda: any(not are_finite(column).all() for column in columns),
        )
        return GameError(f"{line}: {error}") if line else error


def _first_line(run: Callable[[], object], is_wrong: Callable[[], bool]) -> str:
    """Return the user's line after which something is wrong for the first time."""
    lines: list[str] = []
    last = [""]

    def trace_lines(frame: FrameType, event: str, argument: object) -> Any:
        if not lines and is_wrong():
            lines.append(last[0])
        last[0] = place(frame.f_code.co_filename, frame.f_lineno)
        return trace_lines

    def trace_calls(frame: FrameType, event: str, argument: object) -> Any:
        return trace_lines if is_users(frame.f_code.co_filename) else None

    previous = sys.gettrace()
    sys.settrace(trace_calls)
    try:
        run()
    except GameError:
        pass
    finally:
        sys.settrace(previous)
    return lines[0] if lines else ""
