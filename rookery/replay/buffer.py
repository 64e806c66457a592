"""Replay: stage 3 of the data path, one agent's experience on its way to its learner.

The actor holds the only `ReplayWriter` of an agent, one learner the only `ReplayReader`.
They share memory and no lock: a process killed while holding a lock would block its
partner for ever. A reader looks only at rows up to the boundary it was given, which the
writer does not touch while the reader works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rookery.errors import RookeryError
from rookery.replay.nstep import Stretch, n_step_transitions
from rookery.replay.rows import PART, Rows, stack
from rookery.specs import Array


class DamagedRow(RookeryError):
    """A committed row is not what was written: memory was overwritten or damaged."""


def slots_needed(
    capacity: int, worlds: int, turns_per_round: int, frames: int, ahead: int = 1
) -> int:
    """Return how many turns a stream keeps.

    Enough that the window of a learner at a boundary, with the frames its oldest stack
    needs, and the newest round are not touched by the rounds that playing is ahead. One
    more, because a row after the commit may be half written at any time.
    """
    window = max(-(-capacity // worlds) + frames - 1, turns_per_round)
    return window + ahead * turns_per_round + 1


class ReplayWriter:
    """Writes an agent's rows, all worlds of a turn at once."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def write_observation(
        self,
        turn: int,
        parts: Mapping[str, Array],
        active: Array,
        legal: Array | None,
        age: Array,
        hidden: Array | None = None,
    ) -> None:
        """Write what the agent sees at its moment to act, and what it carries along."""
        slot, columns = turn % self.rows.slots, self.rows.columns
        for name, part in parts.items():
            columns[PART + name][slot] = part
        columns["active"][slot] = active
        columns["age"][slot] = age
        if legal is not None:
            columns["legal"][slot] = legal
        if hidden is not None:
            columns["hidden"][slot] = hidden

    def write_action(
        self, turn: int, actions: Array, probabilities: Array | float, version: int
    ) -> None:
        """Write what it did, and with which version of its weights."""
        slot, columns = turn % self.rows.slots, self.rows.columns
        columns["action"][slot] = actions
        columns["probability"][slot] = probabilities
        columns["version"][slot] = version

    def write_outcome(
        self, turn: int, rewards: Array, terminated: Array, truncated: Array
    ) -> None:
        """Write what the turn brought; the row is then whole."""
        slot, columns = turn % self.rows.slots, self.rows.columns
        columns["reward"][slot] = rewards
        columns["terminated"][slot] = terminated
        columns["truncated"][slot] = truncated
        self.rows.seal(turn)


@dataclass(frozen=True)
class Batch:
    """Steps drawn from a replay; arrays have one entry per step."""

    seen: dict[str, Array]
    """Part name to (steps, frames, *shape): where the step opened."""
    next_seen: dict[str, Array]
    """The same where it closed."""
    actions: Array
    returns: Array
    discounts: Array
    legal: Array | None
    """(steps, actions): what was legal where the step opened."""
    next_legal: Array | None

    def part(self, start: int, stop: int) -> Batch:
        """Return some of the steps, in place."""
        return Batch(
            {name: seen[start:stop] for name, seen in self.seen.items()},
            {name: seen[start:stop] for name, seen in self.next_seen.items()},
            self.actions[start:stop],
            self.returns[start:stop],
            self.discounts[start:stop],
            None if self.legal is None else self.legal[start:stop],
            None if self.next_legal is None else self.next_legal[start:stop],
        )


def check_whole(
    agent: str, rows: Rows, turns: range, beat: Callable[[], None] = lambda: None
) -> None:
    """See that an agent's rows of some turns are what was written.

    Args:
        agent: whose they are.
        rows: all of its rows.
        turns: those to look at.
        beat: called for every row, as a sign of life: there may be many.

    Raises:
        DamagedRow: naming the first that is not.
    """
    for turn in turns:
        beat()
        if not rows.is_whole(turn):
            raise DamagedRow(
                f"row {turn} of agent '{agent}' is damaged: what lies in shared memory is "
                "not what was written; start the run again."
            )


class ReplayReader:
    """Reads an agent's rows up to a boundary, and puts steps together."""

    def __init__(
        self,
        agent: str,
        rows: Rows,
        *,
        capacity: int,
        frames: int,
        n_step: int,
        discount: float,
        discount_per: str = "turn",
        first: int = 0,
        shape_rewards: Callable[[Array], Array] = lambda rewards: rewards,
    ) -> None:
        self.agent, self.rows = agent, rows
        self.frames, self._n_step = frames, n_step
        self._discount, self._per_step = discount, discount_per == "step"
        self._shape_rewards, self._first = shape_rewards, first
        self.worlds = rows.columns["age"].shape[1]
        self._window = -(-capacity // self.worlds)
        shape = (rows.slots, self.worlds)
        self._closes = np.zeros(shape, np.int64)
        self._returns = np.zeros(shape, np.float32)
        self._discounts = np.zeros(shape, np.float32)
        self.usable = np.empty(0, np.int64)
        """The steps that can be learned from, as turn * worlds + world."""
        self._pending = np.empty(0, np.int64)
        self._next = first
        """Rows before this turn have been taken in."""
        self.boundary = 0
        """The boundary up to which that is."""

    @property
    def oldest(self) -> int:
        """The first turn of the window."""
        return max(self._first, self.boundary - self._window)

    def take_in(self, boundary: int, beat: Callable[[], None] = lambda: None) -> Array:
        """Verify the rows up to a boundary, once; return the steps that closed since.

        Args:
            boundary: the first turn that is not taken in.
            beat: called for every row, as a sign of life: there may be many.

        Raises:
            DamagedRow: if one was overwritten or damaged. It must not be learned from.
        """
        first = max(self._next, boundary - self._window)
        oldest_frame = max(self._first, boundary - self._window - self.frames + 1)
        new = range(max(self._next, oldest_frame), boundary)
        check_whole(self.agent, self.rows, new, beat)
        self.boundary = self._next = boundary
        closed = self._close_steps(first)
        every = np.concatenate([self.usable, closed])
        # In order, so that a learner that starts anew draws the same steps.
        kept = every[every >= self.oldest * self.worlds]
        self.usable = np.sort(kept, kind="stable")
        return closed

    def check_untouched(self, commit: int) -> None:
        """See that no row of the window was overwritten up to now.

        Raises:
            DamagedRow: if playing went on too far. The row after the commit counts as
                overwritten: it is being written.
        """
        oldest_frame = max(self._first, self.oldest - self.frames + 1)
        if self._next > self._first and commit - self.rows.slots >= oldest_frame:
            raise DamagedRow(
                f"rows of agent '{self.agent}' were overwritten while they were learned "
                f"from (turn {commit}, {self.rows.slots} slots): this is a mistake in "
                "Rookery; nothing of it was used."
            )

    def _close_steps(self, first: int) -> Array:
        """Put together the steps that are open or new; return those that closed."""
        waiting = self._pending[self._pending >= self.oldest * self.worlds]
        start = int(waiting.min() // self.worlds) if len(waiting) else first
        turns = np.arange(start, self.boundary)
        if not len(turns):
            return np.empty(0, np.int64)
        slots = turns % self.rows.slots
        columns = self.rows.columns
        stretch = Stretch(
            columns["active"][slots],
            self._shape_rewards(columns["reward"][slots]),
            columns["terminated"][slots],
            columns["truncated"][slots],
        )
        steps = n_step_transitions(stretch, self._n_step, self._discount, self._per_step)
        numbers = turns[:, None] * self.worlds + np.arange(self.worlds)
        fresh = np.isin(numbers, waiting) | (turns >= first)[:, None]
        closed = fresh & (steps.closes < len(turns))
        rows, worlds = np.nonzero(closed)
        places = (slots[rows], worlds)
        self._closes[places] = steps.closes[closed] + start
        self._returns[places] = steps.returns[closed]
        self._discounts[places] = steps.discounts[closed]
        self._pending = numbers[fresh & stretch.active & ~closed]
        return numbers[closed]

    def closed_since(self, turn: int) -> Array:
        """Return the usable steps that closed in this turn or later."""
        return self.usable[self.closes(self.usable) >= turn]

    def left_behind(self, turns: int) -> int:
        """Return how many open steps leave the window within so many more turns.

        Then nobody learns from them, however they close. Known from the rows of the
        window alone, so that a learner that starts anew counts the same.
        """
        oldest = self.boundary + turns - self._window
        return int((self._pending < oldest * self.worlds).sum())

    def rewards_since(self, turn: int) -> Array:
        """Return the rewards of rows from this turn on, (turns, worlds)."""
        slots = np.arange(turn, self.boundary) % self.rows.slots
        return self.rows.columns["reward"][slots]

    def draw(self, numbers: Array) -> Array:
        """Turn uniform numbers in [0, 1) into usable steps, each equally likely."""
        return self.usable[(numbers * len(self.usable)).astype(np.int64)]

    def opening(self, steps: Array) -> tuple[Array, Array]:
        """Return turn and world in which steps opened."""
        return np.divmod(steps, self.worlds)

    def closes(self, steps: Array) -> Array:
        """Return the turns in which usable steps closed."""
        turns, worlds = self.opening(steps)
        return self._closes[turns % self.rows.slots, worlds]

    def look(self, turns: Array, worlds: Array) -> dict[str, Array]:
        """Return what the agent saw: part name to (n, frames, *shape)."""
        return {
            name: stack(self.rows, name, turns, worlds, self.frames)
            for name in self.rows.parts
        }

    def at(self, column: str, turns: Array, worlds: Array) -> Array:
        """Return a column's entries in some rows."""
        return self.rows.columns[column][turns % self.rows.slots, worlds]

    def outcomes(self, turns: Array, worlds: Array) -> tuple[Array, Array]:
        """Return returns and discounts of the usable steps that open in some rows."""
        places = (turns % self.rows.slots, worlds)
        return self._returns[places], self._discounts[places]

    def batch(self, steps: Array) -> Batch:
        """Return steps with all that a value learner needs."""
        turns, worlds = self.opening(steps)
        slots = turns % self.rows.slots
        closes = self._closes[slots, worlds]
        masked = "legal" in self.rows.columns
        both = self.look(np.concatenate([turns, closes]), np.concatenate([worlds, worlds]))
        return Batch(
            {name: seen[: len(steps)] for name, seen in both.items()},
            {name: seen[len(steps) :] for name, seen in both.items()},
            self.rows.columns["action"][slots, worlds],
            self._returns[slots, worlds],
            self._discounts[slots, worlds],
            self.at("legal", turns, worlds) if masked else None,
            self.at("legal", closes, worlds) if masked else None,
        )
