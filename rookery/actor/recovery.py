"""A game that cannot be brought back, taken up again after whoever played it was lost.

What was committed is read from the rows. Then every episode that was open is closed as
truncated, and the game begins anew. So nothing that was committed is lost, and no step
joins what happened before with what happens after; but the run is another one than if
nothing had happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.games.base import Game, Observations, Outcome, Phases
from rookery.games.episodes import Episodes
from rookery.replay.rows import PART, Rows
from rookery.specs import Array, under

CUT_TURNS = 2
"""One in which open episodes are truncated, and one that closes them."""


def can_go_back(game: Game, arrays: Mapping[str, Array]) -> bool:
    """Whether a game can be restored from its part of a snapshot, exactly."""
    return game.can_snapshot and bool(np.all(arrays.get("exact", True)))


class InterruptedGame(Game):
    """Rows that were committed, two turns that close what was open, and a new game."""

    def __init__(
        self, game: Game, rows: Sequence[Rows], turns: range, episodes: Episodes
    ) -> None:
        """Args are what is left of the game that was lost.

        Args:
            game: a new one, in which no turn was played.
            rows: what every agent lived through.
            turns: those that were committed after the newest snapshot.
            episodes: the actor's count of them, which goes on with every turn.
        """
        super().__init__(game.settings, game.worlds, 0)
        self.game, self.agents, self.counts = game, game.agents, game.counts
        self._rows, self._episodes = rows, episodes
        self._turn, self._committed = turns.start, turns.stop
        self._phases = (tuple(range(len(game.agents))),)

    @property
    def _is_on(self) -> bool:
        """Whether the new game has begun."""
        return self._turn >= self._committed + CUT_TURNS

    @property
    def can_snapshot(self) -> bool:
        """Whether the game can."""
        return self.game.can_snapshot

    def snapshot(self) -> dict[str, Array]:
        """Return the game's; what lies before it cannot be gone back to."""
        arrays = self.game.snapshot()
        return arrays if self._is_on else {**arrays, "exact": np.zeros(self.worlds, bool)}

    def begin_round(self, number: int) -> None:
        """Prepare a round."""
        self.game.begin_round(number)

    def begin_turn(self) -> Phases:
        """Begin a turn; those that are only read have one phase."""
        return self.game.begin_turn() if self._is_on else self._phases

    def observe(self, agents: Sequence[int]) -> Observations:
        """Return what was seen; in the turns that close, the last of it once more."""
        if self._is_on:
            return self.game.observe(agents)
        turn = min(self._turn, self._committed - 1)
        is_old = self._turn < self._committed
        found = [self._row(agent, turn) for agent in agents]
        return Observations(
            [under(PART, row) for row in found],
            [row["active"] & is_old for row in found],
            [row.get("legal") for row in found],
        )

    def _row(self, agent: int, turn: int) -> dict[str, Array]:
        """Return an agent's rows of a turn by column, all worlds."""
        rows = self._rows[agent]
        return {name: column[turn % rows.slots] for name, column in rows.columns.items()}

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Act in the new game; in the old one it has been done."""
        if self._is_on:
            self.game.act(agents, actions)

    def end_turn(self) -> Outcome:
        """Return what the turn brought."""
        if self._is_on:
            return self.game.end_turn()
        self._turn += 1
        if self._turn <= self._committed:
            return self._as_it_was(self._turn - 1)
        cut = np.zeros((self.worlds, len(self.agents)), bool)
        if self._turn == self._committed + 1:
            # Where nobody has acted yet there is nothing to close.
            cut = self._episodes.live & (self._episodes.age > 0)[:, None]
        else:  # what was shown meanwhile is no frame of an episode of the new game
            self._episodes.age[~self._episodes.closing] = -1
        return Outcome(np.zeros(cut.shape, np.float32), np.zeros_like(cut), cut)

    def _as_it_was(self, turn: int) -> Outcome:
        """Return what rows say that a turn brought; the game's own metrics are lost."""
        found = [self._row(agent, turn) for agent in self._phases[0]]

        def column(name: str) -> Array:
            return np.stack([row[name] for row in found], axis=1)

        return Outcome(column("reward"), column("terminated"), column("truncated"))

    def facts(self) -> dict[str, Array]:
        """Return the game's facts."""
        return self.game.facts()

    def render(self, world: int) -> Array:
        """Return the game's picture."""
        return self.game.render(world)

    def close(self) -> None:
        """Let go of the game."""
        self.game.close()
