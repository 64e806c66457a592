"""Sequences: consecutive rows of one world, for recurrent agents.

A sequence holds only rows in which the agent is active, and closing rows, whose values are
needed for bootstrapping. It can continue into the next episode; the hidden state does not.
It starts with the hidden state that the agent actually had in its first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.replay.buffer import ReplayReader
from rookery.specs import Array


@dataclass(frozen=True)
class Sequences:
    """Sequences of one agent; arrays are (sequences, rows, …) unless stated otherwise.

    `returns`, `discounts` and `actions` are those of the transition that opens in a row.
    """

    turns: Array
    """The turn of a row."""
    worlds: Array
    """The world of a row."""
    actions: Array
    returns: Array
    discounts: Array
    legal: Array | None
    hidden: Array
    """(sequences, units): the hidden state in the first row."""
    starts: Array
    """Whether a row is the first of its episode, so that the hidden state is reset."""
    closes: Array
    """The row of the sequence at which a transition closes."""
    trained: Array
    """Whether the transition that opens in a row is learned from."""


class Timeline:
    """The active and closing rows of an agent, world after world, in order of turns."""

    def __init__(self, reader: ReplayReader) -> None:
        self._reader = reader
        oldest, worlds = reader.oldest, reader.worlds
        window = np.arange(oldest, reader.boundary)
        is_included = reader.at("active", window[:, None], np.arange(worlds))
        opened, opened_in = reader.opening(reader.usable)
        self._closes = np.full(is_included.shape, -1, np.int64)
        self._closes[opened - oldest, opened_in] = reader.closes(reader.usable)
        is_included[reader.closes(reader.usable) - oldest, opened_in] = True
        self.worlds, rows = np.nonzero(is_included.T)
        self.turns = rows + oldest
        # The position in the timeline of each row of the window.
        self._positions = (np.cumsum(is_included.T) - 1).reshape(worlds, -1).T
        self.starts = self._are_starts()

    def _are_starts(self) -> Array:
        """Return for each row whether it is the first of its episode in the timeline."""
        began = self.turns - self._reader.at("age", self.turns, self.worlds)
        previous = np.roll(self.turns, 1)
        is_first_of_world = np.roll(self.worlds, 1) != self.worlds
        is_first_of_world[:1] = True
        # The rows before the first of a world may have been overwritten.
        return np.where(is_first_of_world, began == self.turns, previous < began)

    def _position(self, turns: Array, worlds: Array) -> Array:
        return self._positions[turns - self._reader.oldest, worlds]

    def read(self, transitions: Array, length: int, burn_in: int) -> Sequences:
        """Return the sequences that begin with some transitions.

        A transition of a sequence is learned from if it closes within the sequence, and if
        the hidden state is fresh: `burn_in` rows or the start of an episode precede it.
        """
        first = self._position(*self._reader.opening(transitions))
        positions = first[:, None] + np.arange(length)
        end = np.searchsorted(self.worlds, self.worlds[first], side="right")[:, None]
        exists = positions < end
        positions = np.minimum(positions, end - 1)
        turns, worlds = self.turns[positions], self.worlds[positions]
        closing = self._closes[turns - self._reader.oldest, worlds]
        is_usable = closing >= 0
        closes = self._position(np.where(is_usable, closing, turns), worlds)
        closes -= first[:, None]
        starts = self.starts[positions]
        fresh = np.logical_or.accumulate(starts, axis=1) | (np.arange(length) >= burn_in)
        trained = exists & fresh & is_usable & (closes < length)
        return self._sequences(turns, worlds, starts, np.where(trained, closes, 0), trained)

    def _sequences(
        self, turns: Array, worlds: Array, starts: Array, closes: Array, trained: Array
    ) -> Sequences:
        reader = self._reader
        returns, discounts = reader.outcomes(turns, worlds)
        masked = "legal" in reader.rows.columns
        return Sequences(
            turns=turns,
            worlds=worlds,
            actions=reader.at("action", turns, worlds),
            returns=np.where(trained, returns, 0),
            discounts=np.where(trained, discounts, 0),
            legal=reader.at("legal", turns, worlds) if masked else None,
            hidden=reader.at("hidden", turns[:, 0], worlds[:, 0]),
            starts=starts,
            closes=closes,
            trained=trained,
        )


@dataclass(frozen=True)
class Chain:
    """A round's transitions cut into sequences of one world each; (sequences, rows, …)."""

    indices: Array
    """The index of the transition in each row; -1 if there is none."""
    starts: Array
    """Whether a row is the first of its episode, so that the hidden state is reset."""
    hidden: Array
    """(sequences, units): the hidden state in the first row."""

    @classmethod
    def cut(
        cls, reader: ReplayReader, transitions: Array, turns: int, length: int
    ) -> Chain:
        """Cut an agent's transitions of so many turns into sequences, world by world."""
        opened, worlds = reader.opening(transitions)
        by_world = np.lexsort((opened, worlds))
        opened, worlds = opened[by_world], worlds[by_world]
        rank = np.arange(len(transitions)) - np.searchsorted(worlds, worlds)
        per_world = -(-turns // length)
        sequence, row = worlds * per_world + rank // length, rank % length
        shape = (reader.worlds * per_world, length)
        indices, starts = np.full(shape, -1, np.int64), np.zeros(shape, bool)
        indices[sequence, row] = by_world
        began = opened - reader.at("age", opened, worlds)
        starts[sequence, row] = (rank > 0) & (np.roll(opened, 1) < began)
        hidden = np.zeros((shape[0], reader.rows.columns["hidden"].shape[2]), np.float32)
        first = row == 0
        hidden[sequence[first]] = reader.at("hidden", opened[first], worlds[first])
        return cls(indices, starts, hidden)

    @classmethod
    def side_by_side(cls, chains: Sequence[Chain]) -> Chain:
        """Return the sequences of several agents, (agents, sequences, …)."""
        return cls(
            np.stack([chain.indices for chain in chains]),
            np.stack([chain.starts for chain in chains]),
            np.stack([chain.hidden for chain in chains]),
        )
