"""The replay buffer: stage 3 of the data path, from the actor to an agent's learner.

The actor holds the only `ReplayWriter` of an agent, one learner the only `ReplayReader`.
They share memory but no lock: a process killed while holding a lock would block the other
forever. A reader reads only rows before the boundary it was given, which the writer does
not touch in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rookery.errors import RookeryError
from rookery.replay.drawing import NEVER, OUTCOME, SLOT, WORLD, Paths, follow
from rookery.replay.frames import stack
from rookery.replay.nstep import Segment, n_step_transitions
from rookery.replay.rows import Rows
from rookery.specs import Array


class DamagedRow(RookeryError):
    """A committed row is not what was written: it was overwritten or damaged."""


def slots_needed(
    capacity: int, worlds: int, turns_per_round: int, frames: int, ahead: int = 1
) -> int:
    """Return how many slots the rows of a learning agent need.

    Enough that the rounds that playing is ahead overwrite neither a learner's window at a
    boundary, with the frames that its oldest stack needs, nor the newest round. And one
    more, because the row after the commit can be half-written at any time.
    """
    window = max(-(-capacity // worlds) + frames - 1, turns_per_round)
    return window + ahead * turns_per_round + 1


class ReplayWriter:
    """Writes an agent's rows, for all worlds of a turn at once, in three calls."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        # Looked up once: this is written to for every agent in every turn.
        columns = rows.columns
        self._parts, self._slots = rows.parts, rows.slots
        self._active, self._age = columns["active"], columns["age"]
        self._legal, self._hidden = columns.get("legal"), columns.get("hidden")
        self._action, self._probability = columns["action"], columns["probability"]
        self._version, self._reward = columns["version"], columns["reward"]
        self._terminated, self._truncated = columns["terminated"], columns["truncated"]

    def write_observation(
        self,
        turn: int,
        parts: Mapping[str, Array],
        active: Array,
        legal: Array | None,
        age: Array,
        hidden: Array | None = None,
    ) -> None:
        """Write what the agent observes before it acts, and its hidden state."""
        slot = turn % self._slots
        for name, part in parts.items():
            self._parts[name][slot] = part
        self._active[slot] = active
        self._age[slot] = age
        if legal is not None and self._legal is not None:
            self._legal[slot] = legal
        if hidden is not None and self._hidden is not None:
            self._hidden[slot] = hidden

    def write_action(
        self, turn: int, actions: Array, probabilities: Array | float, version: int
    ) -> None:
        """Write the actions, and the version of the weights that chose them."""
        slot = turn % self._slots
        self._action[slot] = actions
        self._probability[slot] = probabilities
        self._version[slot] = version

    def write_outcome(
        self,
        turn: int,
        rewards: Array,
        terminated: Array,
        truncated: Array,
        seal: bool = True,
    ) -> None:
        """Write the outcome of the turn; seal the rows if they are of all worlds."""
        slot = turn % self._slots
        self._reward[slot] = rewards
        self._terminated[slot] = terminated
        self._truncated[slot] = truncated
        if seal:
            self.rows.seal(turn)


@dataclass(frozen=True)
class Batch:
    """Transitions sampled from a replay; arrays have one entry per transition."""

    seen: dict[str, Array]
    """Observations where the transitions opened: part to (transitions, frames, *shape)."""
    next_seen: dict[str, Array]
    """Observations where they closed."""
    actions: Array
    """The actions taken where they opened."""
    returns: Array
    """Their n-step returns."""
    discounts: Array
    """The factor for the value of `next_seen`; 0 where the episode terminated."""
    legal: Array | None
    """(transitions, actions): the legal actions where they opened."""
    next_legal: Array | None
    """The legal actions where they closed."""


def check_whole(
    agent: str, rows: Rows, turns: range, beat: Callable[[], None] = lambda: None
) -> None:
    """Check that an agent's rows of some turns are what was written.

    Args:
        agent: the agent's id.
        rows: all of its rows.
        turns: the turns to check.
        beat: called for every turn, as a sign of life, since there can be many.

    Raises:
        DamagedRow: naming the first row that is not.
    """
    for turn in turns:
        beat()
        if not rows.is_whole(turn):
            raise DamagedRow(
                f"row {turn} of agent '{agent}' is damaged: shared memory does not hold "
                "what was written; start the run again."
            )


class ReplayReader:
    """Reads an agent's rows up to a boundary, and samples transitions from them.

    A transition is identified by the row it opens in, as turn * worlds + world.
    """

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
        self._outcomes = np.zeros((rows.slots, self.worlds), OUTCOME)
        self._outcomes["closes"] = NEVER
        self.usable = np.empty(0, np.int64)
        """The transitions that can be learned from, in order."""
        self._open = np.empty(0, np.int64)
        """The transitions that have not closed yet."""
        self._next = first
        """The first turn whose rows have not been verified."""
        self.boundary = 0
        """The first turn whose rows are not read."""

    @property
    def oldest(self) -> int:
        """The first turn of the window."""
        return max(self._first, self.boundary - self._window)

    def advance(self, boundary: int, beat: Callable[[], None] = lambda: None) -> Array:
        """Advance to a boundary; return the transitions that closed since the last one.

        New rows are verified, transitions are assembled from them, and those that left the
        window are pruned.

        Args:
            boundary: the first turn that is not read.
            beat: called for every turn, as a sign of life, since there can be many.

        Raises:
            DamagedRow: if a row was overwritten or damaged; it must not be learned from.
        """
        first_new = max(self._next, boundary - self._window)
        self._verify(boundary, beat)
        self.boundary = self._next = boundary
        closed = self._assemble(first_new)
        self._prune(np.concatenate([self.usable, closed]))
        return closed

    def check_untouched(self, commit: int) -> None:
        """Check that no row of the window has been overwritten until now.

        Raises:
            DamagedRow: if playing is too far ahead. The row after the commit counts as
                overwritten, since it is being written.
        """
        oldest_frame = max(self._first, self.oldest - self.frames + 1)
        if self._next > self._first and commit - self.rows.slots >= oldest_frame:
            raise DamagedRow(
                f"rows of agent '{self.agent}' were overwritten while they were learned "
                f"from (turn {commit}, {self.rows.slots} slots): this is a bug in Rookery; "
                "nothing learned from them was used."
            )

    def _verify(self, boundary: int, beat: Callable[[], None]) -> None:
        """Verify all rows before a boundary that are needed and not verified yet."""
        oldest_frame = max(self._first, boundary - self._window - self.frames + 1)
        turns = range(max(self._next, oldest_frame), boundary)
        check_whole(self.agent, self.rows, turns, beat)

    def _assemble(self, first_new: int) -> Array:
        """Assemble the transitions that are open or new; return those that closed."""
        still_open = self._open[self._open >= self.oldest * self.worlds]
        start = int(still_open.min() // self.worlds) if len(still_open) else first_new
        turns = np.arange(start, self.boundary)
        if not len(turns):
            return np.empty(0, np.int64)
        slots = turns % self.rows.slots
        columns = self.rows.columns
        segment = Segment(
            columns["active"][slots],
            self._shape_rewards(columns["reward"][slots]),
            columns["terminated"][slots],
            columns["truncated"][slots],
        )
        transitions = n_step_transitions(
            segment, self._n_step, self._discount, self._per_step
        )
        numbers = turns[:, None] * self.worlds + np.arange(self.worlds)
        is_pending = np.isin(numbers, still_open) | (turns >= first_new)[:, None]
        is_closed = is_pending & (transitions.closes < len(turns))
        opened, worlds = np.nonzero(is_closed)
        rows = (slots[opened], worlds)
        self._outcomes["closes"][rows] = transitions.closes[is_closed] + start
        self._outcomes["returns"][rows] = transitions.returns[is_closed]
        self._outcomes["discounts"][rows] = transitions.discounts[is_closed]
        for name in ("action", "age"):
            self._outcomes[name][slots] = columns[name][slots]
        self._open = numbers[is_pending & segment.active & ~is_closed]
        return numbers[is_closed]

    def _prune(self, transitions: Array) -> None:
        """Make usable those transitions that opened within the window.

        They are sorted, so that a restarted learner samples the same ones.
        """
        kept = transitions[transitions >= self.oldest * self.worlds]
        self.usable = np.sort(kept, kind="stable")

    def closed_since(self, turn: int) -> Array:
        """Return the usable transitions that closed in this turn or later."""
        return self.usable[self.closes(self.usable) >= turn]

    def left_behind(self, turns: int) -> int:
        """Return how many open transitions leave the window within so many more turns.

        They are never learned from. This depends only on the rows of the window, so a
        restarted learner counts the same.
        """
        oldest = self.boundary + turns - self._window
        return int((self._open < oldest * self.worlds).sum())

    def rewards_since(self, turn: int) -> Array:
        """Return the rewards of rows from this turn on, (turns, worlds)."""
        slots = np.arange(turn, self.boundary) % self.rows.slots
        return self.rows.columns["reward"][slots]

    def sample(self, uniforms: Array) -> Array:
        """Return a usable transition for each uniform number in [0, 1)."""
        return self.usable[(uniforms * len(self.usable)).astype(np.int64)]

    def opening(self, transitions: Array) -> tuple[Array, Array]:
        """Return the turns and the worlds in which transitions opened."""
        return np.divmod(transitions, self.worlds)

    def closes(self, transitions: Array) -> Array:
        """Return the turns in which usable transitions closed."""
        turns, worlds = self.opening(transitions)
        return self._outcomes["closes"][turns % self.rows.slots, worlds]

    def observations(self, turns: Array, worlds: Array) -> dict[str, Array]:
        """Return the stacked observations of some rows: part to (n, frames, *shape)."""
        return {
            name: stack(self.rows, name, turns, worlds, self.frames)
            for name in self.rows.parts
        }

    def at(self, column: str, turns: Array, worlds: Array) -> Array:
        """Return the entries of a column in some rows."""
        return self.rows.columns[column][turns % self.rows.slots, worlds]

    def outcomes(self, turns: Array, worlds: Array) -> tuple[Array, Array]:
        """Return returns and discounts of the usable transitions that open in some rows."""
        rows = (turns % self.rows.slots, worlds)
        return self._outcomes["returns"][rows], self._outcomes["discounts"][rows]

    def batch(self, transitions: Array) -> Batch:
        """Return transitions with everything that a value-based learner needs."""
        turns, worlds = self.opening(transitions)
        closes = self.closes(transitions)
        returns, discounts = self.outcomes(turns, worlds)
        masked = "legal" in self.rows.columns
        stacked = self.observations(
            np.concatenate([turns, closes]), np.concatenate([worlds, worlds])
        )
        count = len(transitions)
        return Batch(
            seen={name: part[:count] for name, part in stacked.items()},
            next_seen={name: part[count:] for name, part in stacked.items()},
            actions=self.at("action", turns, worlds),
            returns=returns,
            discounts=discounts,
            legal=self.at("legal", turns, worlds) if masked else None,
            next_legal=self.at("legal", closes, worlds) if masked else None,
        )

    def follow(self, transitions: Array, factor: float, paths: Paths, agent: int) -> None:
        """Fill in the paths of an agent of a group that begin with usable transitions.

        Args:
            transitions: (passes × batch).
            factor: scale of the returns.
            paths: those of the group.
            agent: the agent's place in the group.
        """
        follow(
            transitions,
            agent,
            self._outcomes,
            np.float32(factor),
            paths.addresses,
            paths.actions,
            paths.returns,
            paths.discounts,
            paths.taken,
            paths.continues,
        )
        if paths.legal is not None and paths.next_legal is not None:
            slots, worlds = (paths.addresses[:, agent, :, k] for k in (SLOT, WORLD))
            legal = self.rows.columns["legal"][slots, worlds]
            batch = paths.actions.shape[2]
            paths.legal[:, agent] = legal[:, :batch]
            paths.next_legal[:, agent] = legal[:, batch:]
