"""Continuing a game that cannot be restored, after the actor process was lost.

The committed turns are read from the rows. Then every open episode is closed as truncated,
and a new game starts. No committed turn is lost, and no transition joins what happened
before with what happens after, but the run is no longer exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.games.base import Game, GameWrapper, Observations, Outcome, Phases
from rookery.games.episodes import Episodes
from rookery.replay.rows import PART, Rows
from rookery.specs import Array, under

CUT_TURNS = 2
"""One turn in which open episodes are truncated, and one that closes them."""


def can_restore(game: Game, arrays: Mapping[str, Array]) -> bool:
    """Whether a game can be restored exactly from its part of a snapshot."""
    return game.can_snapshot and bool(np.all(arrays.get("exact", True)))


class InterruptedGame(GameWrapper):
    """Replays committed rows, closes open episodes in two turns, then plays a new game."""

    def __init__(
        self, game: Game, rows: Sequence[Rows], turns: range, episodes: Episodes
    ) -> None:
        """Combine a new game with what is left of the lost one.

        Args:
            game: a new game, in which no turn was played.
            rows: the rows of every agent.
            turns: the turns that were committed after the newest snapshot.
            episodes: the actor's own, which are updated with every turn.
        """
        super().__init__(game)
        self._rows, self._episodes = rows, episodes
        self._turn, self._committed = turns.start, turns.stop
        self._phases = (tuple(range(len(game.agents))),)

    @property
    def _has_begun(self) -> bool:
        """Whether the new game has begun."""
        return self._turn >= self._committed + CUT_TURNS

    def snapshot(self) -> dict[str, Array]:
        """Return the new game's snapshot, marked as not exact until that has begun."""
        arrays = super().snapshot()
        if self._has_begun:
            return arrays
        return {**arrays, "exact": np.zeros(self.worlds, bool)}

    def begin_turn(self) -> Phases:
        """Begin a turn; turns that are read from rows have one phase."""
        return super().begin_turn() if self._has_begun else self._phases

    def observe(self, agents: Sequence[int]) -> Observations:
        """Return the stored observations; in the closing turns, the last one again."""
        if self._has_begun:
            return super().observe(agents)
        turn = min(self._turn, self._committed - 1)
        is_committed = self._turn < self._committed
        rows = [self._row(agent, turn) for agent in agents]
        return Observations(
            [under(PART, row) for row in rows],
            [row["active"] & is_committed for row in rows],
            [row.get("legal") for row in rows],
        )

    def _row(self, agent: int, turn: int) -> dict[str, Array]:
        """Return an agent's columns of a turn, in all worlds."""
        rows = self._rows[agent]
        return {name: column[turn % rows.slots] for name, column in rows.columns.items()}

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Act in the new game; stored actions have already been taken."""
        if self._has_begun:
            super().act(agents, actions)

    def end_turn(self) -> Outcome:
        """Return the stored outcome, then the truncation of open episodes."""
        if self._has_begun:
            return super().end_turn()
        self._turn += 1
        if self._turn <= self._committed:
            return self._stored_outcome(self._turn - 1)
        cut = np.zeros((self.worlds, len(self.agents)), bool)
        if self._turn == self._committed + 1:
            # An episode in which no agent has acted yet need not be closed.
            cut = self._episodes.live & (self._episodes.age > 0)[:, None]
        else:  # rows of the closing turns are not frames of the new game's episodes
            self._episodes.age[~self._episodes.closing] = -1
        return Outcome(np.zeros(cut.shape, np.float32), np.zeros_like(cut), cut)

    def _stored_outcome(self, turn: int) -> Outcome:
        """Return the outcome of a turn from its rows; the game's own metrics are lost."""
        rows = [self._row(agent, turn) for agent in self._phases[0]]

        def column(name: str) -> Array:
            return np.stack([row[name] for row in rows], axis=1)

        return Outcome(column("reward"), column("terminated"), column("truncated"))
