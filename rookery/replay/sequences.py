"""Sequences: rows of one world one after the other, for agents that carry something on.

A sequence holds the rows that count: those in which the agent was active, and the closing
rows, whose values are asked for. It may go on into the next episode; nothing is carried
across. It starts with the hidden state that the agent really had in its first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.replay.buffer import Batch, ReplayReader
from rookery.specs import Array


@dataclass(frozen=True)
class Sequences(Batch):
    """Sequences of one agent; arrays are (sequences, rows, …) unless they say so.

    `returns`, `discounts` and `actions` are those of the step that opens in a row. Nothing
    is next: where a step closes is a row of the sequence as well.
    """

    hidden: Array
    """(sequences, numbers): what was carried into the first row."""
    starts: Array
    """Whether nothing is carried into a row, since an episode begins."""
    closes: Array
    """The row of the sequence at which a step closes."""
    trained: Array
    """Whether the row's step is learned from."""

    def rows(self) -> dict[str, Array]:
        """Return what was seen in all rows, (sequences × rows, frames, *shape)."""
        return {k: seen.reshape(-1, *seen.shape[2:]) for k, seen in self.seen.items()}

    def part(self, start: int, stop: int) -> Sequences:
        """Return some of the sequences, in place."""
        some = slice(start, stop)
        return Sequences(
            {name: seen[some] for name, seen in self.seen.items()},
            {},
            self.actions[some],
            self.returns[some],
            self.discounts[some],
            None if self.legal is None else self.legal[some],
            None,
            self.hidden[some],
            self.starts[some],
            self.closes[some],
            self.trained[some],
        )


class Timeline:
    """The rows of an agent that count, world after world, in the order of turns."""

    def __init__(self, reader: ReplayReader) -> None:
        self._reader = reader
        oldest, worlds = reader.oldest, reader.worlds
        turns = np.arange(oldest, reader.boundary)
        counts = reader.at("active", turns[:, None], np.arange(worlds))
        opened, where = reader.opening(reader.usable)
        self._closes = np.full(counts.shape, -1, np.int64)
        self._closes[opened - oldest, where] = reader.closes(reader.usable)
        counts[reader.closes(reader.usable) - oldest, where] = True
        self.worlds, rows = np.nonzero(counts.T)
        self.turns = rows + oldest
        # Where each row of the window stands in the timeline.
        self._places = (np.cumsum(counts.T) - 1).reshape(worlds, -1).T
        self.starts = self._are_starts()

    def _are_starts(self) -> Array:
        """Return for each row whether its episode has none before it."""
        began = self.turns - self._reader.at("age", self.turns, self.worlds)
        before, other = np.roll(self.turns, 1), np.roll(self.worlds, 1) != self.worlds
        other[:1] = True
        # The first row of a world here may have had others, which are overwritten.
        return np.where(other, began == self.turns, before < began)

    def places(self, steps: Array) -> Array:
        """Return where in the timeline steps opened."""
        turns, worlds = self._reader.opening(steps)
        return self._place(turns, worlds)

    def _place(self, turns: Array, worlds: Array) -> Array:
        return self._places[turns - self._reader.oldest, worlds]

    def read(self, steps: Array, length: int, burn_in: int) -> Sequences:
        """Return the sequences that begin with some steps.

        A step is learned from if it closes within the sequence, and if what is carried
        into it is fresh: `burn_in` rows or an episode's start lie before it.
        """
        first = self.places(steps)
        places = first[:, None] + np.arange(length)
        last = np.searchsorted(self.worlds, self.worlds[first], side="right")[:, None]
        there = places < last
        places = np.minimum(places, last - 1)
        turns, worlds = self.turns[places], self.worlds[places]
        closing = self._closes[turns - self._reader.oldest, worlds]
        closes = self._place(np.where(closing < 0, turns, closing), worlds) - first[:, None]
        starts = self.starts[places]
        fresh = np.logical_or.accumulate(starts, axis=1) | (np.arange(length) >= burn_in)
        trained = there & fresh & (closing >= 0) & (closes < length)
        return self._sequences(turns, worlds, starts, np.where(trained, closes, 0), trained)

    def _sequences(
        self, turns: Array, worlds: Array, starts: Array, closes: Array, trained: Array
    ) -> Sequences:
        reader = self._reader
        returns, discounts = reader.outcomes(turns, worlds)
        seen = reader.look(turns.ravel(), worlds.ravel())
        masked = "legal" in reader.rows.columns
        return Sequences(
            {k: each.reshape(*turns.shape, *each.shape[1:]) for k, each in seen.items()},
            {},
            reader.at("action", turns, worlds),
            np.where(trained, returns, 0),
            np.where(trained, discounts, 0),
            reader.at("legal", turns, worlds) if masked else None,
            None,
            reader.at("hidden", turns[:, 0], worlds[:, 0]),
            starts,
            closes,
            trained,
        )


@dataclass(frozen=True)
class Chain:
    """Steps of a round cut into sequences, each of one world; (sequences, rows, …)."""

    places: Array
    """Which step stands in each row; -1: none."""
    starts: Array
    """Whether nothing is carried into a row, since an episode begins."""
    hidden: Array
    """(sequences, numbers): what was carried into the first row."""

    @classmethod
    def cut(cls, reader: ReplayReader, steps: Array, turns: int, length: int) -> Chain:
        """Cut an agent's steps of so many turns; in a world they follow each other."""
        opened, worlds = reader.opening(steps)
        by_world = np.lexsort((opened, worlds))
        opened, worlds = opened[by_world], worlds[by_world]
        rank = np.arange(len(steps)) - np.searchsorted(worlds, worlds)
        per_world = -(-turns // length)
        spot = (worlds * per_world + rank // length, rank % length)
        shape = (reader.worlds * per_world, length)
        places, starts = np.full(shape, -1, np.int64), np.zeros(shape, bool)
        places[spot] = by_world
        began = opened - reader.at("age", opened, worlds)
        starts[spot] = (rank > 0) & (np.roll(opened, 1) < began)
        hidden = np.zeros((shape[0], reader.rows.columns["hidden"].shape[2]), np.float32)
        first = rank % length == 0
        found = reader.at("hidden", opened[first], worlds[first])
        hidden[spot[0][first]] = found
        return cls(places, starts, hidden)

    @classmethod
    def side_by_side(cls, chains: Sequence[Chain]) -> Chain:
        """Return the sequences of several agents, (agents, sequences, …)."""
        return cls(
            np.stack([chain.places for chain in chains]),
            np.stack([chain.starts for chain in chains]),
            np.stack([chain.hidden for chain in chains]),
        )
