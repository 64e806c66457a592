"""An agent's experience as plain lists, and replays written from it.

Everything here is slow and plain on purpose: the fast code is compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from rookery.replay.buffer import ReplayReader, ReplayWriter, slots_needed
from rookery.replay.rows import Rows
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Part

SPEC = AgentSpec(
    id="magpie",
    role="bird",
    parts={
        "view": Part((2, 2), np.dtype(np.uint16)),
        "self": Part((1,), np.dtype(np.float32)),
    },
    actions=("left", "stay", "right"),
    masked=True,
)
ENDS = [(True, False), (False, True), (True, True)]  # terminated, truncated


class Row(NamedTuple):
    age: int
    active: bool = False
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False

    @property
    def ends(self) -> bool:
        return self.terminated or self.truncated


class Transition(NamedTuple):
    closes: int
    returns: float
    discount: float


def episode(turns: list[tuple[bool, float]], end: tuple[bool, bool], after: int = 0):
    """Return an agent's rows of one episode.

    Args:
        turns: whether it is active, and its reward, turn by turn.
        end: terminated and truncated, in the last of these turns.
        after: turns that its world continues without it.
    """
    rows = [Row(age, active, reward) for age, (active, reward) in enumerate(turns)]
    rows[-1] = rows[-1]._replace(terminated=end[0], truncated=end[1])
    return rows + [Row(len(rows) + i) for i in range(after + 1)]  # the last one closes


def decoded(data: bytes) -> list[Row]:
    """Return a row for each byte: agents are out, join late, end while out, end early.

    About one byte in five ends an episode, and up to two rows follow before the next.
    """
    rows: list[Row] = []
    age = idle = 0
    for byte in data:
        if idle:
            rows.append(Row(age))
            age, idle = (age + 1, idle - 1) if idle > 1 else (0, 0)
            continue
        row = Row(age, byte % 4 != 0, float(byte // 4 % 8 - 3))
        age += 1
        if byte >= 208:
            terminated, truncated = ENDS[byte % 3]
            row = row._replace(terminated=terminated, truncated=truncated)
            idle = byte // 16 - 12
        rows.append(row)
    return rows


@st.composite
def histories(draw, max_turns: int = 40, max_worlds: int = 3) -> list[list[Row]]:
    """Return the rows of some worlds; the last episode is cut off anywhere."""
    turns = draw(st.integers(1, max_turns))
    worlds = draw(st.integers(1, max_worlds))
    data = draw(st.binary(min_size=turns * worlds, max_size=turns * worlds))
    return [decoded(data[world::worlds]) for world in range(worlds)]


def repeat(episodes: list[list[Row]], turns: int) -> list[Row]:
    """Return so many rows of episodes that are repeated."""
    once = [row for rows in episodes for row in rows]
    return (once * (turns // len(once) + 1))[:turns]


def transition_at(
    rows: list[Row], opens: int, n_step: int, discount: float, per_step: bool = False
) -> Transition | None:
    """Return the transition that opens in a row, computed row by row.

    None if none opens there, or if it has not closed by the last row.
    """
    if not rows[opens].active:
        return None
    total, own_steps = 0.0, 0
    for row in range(opens, len(rows)):
        elapsed = own_steps if per_step else row - opens
        total += discount**elapsed * rows[row].reward
        after = row + 1
        if after == len(rows):
            return None
        own_steps += rows[after].active or rows[row].ends
        bootstrap = discount ** (own_steps if per_step else after - opens)
        if rows[row].ends:
            return Transition(after, total, 0.0 if rows[row].terminated else bootstrap)
        if own_steps == n_step:
            return Transition(after, total, bootstrap)
    raise AssertionError("the loop returns")


def observation(turn: int, world: int, worlds: int) -> dict[str, np.ndarray]:
    """Return the observation in a row: different in every row, and never zero."""
    number = 1 + turn * worlds + world
    view = np.full((2, 2), number, np.uint16)
    return {"view": view, "self": np.full((1,), number / 8, np.float32)}


def stacked(rows: list[Row], turn: int, world: int, worlds: int, frames: int):
    """Return the observations of the last rows, oldest first, computed one by one."""
    observations = []
    for back in reversed(range(frames)):
        if back <= rows[turn].age:
            observations.append(observation(turn - back, world, worlds))
        else:
            parts = observation(turn, world, worlds)
            zeros = {name: np.zeros_like(part) for name, part in parts.items()}
            observations.append(zeros)
    return {name: np.stack([o[name] for o in observations]) for name in SPEC.parts}


def legal_in(turn: int, world: int) -> list[bool]:
    return [(turn + world) % 2 == 0, True, turn % 3 == 0]


@dataclass
class Replay:
    """A history that is written to rows in a block."""

    worlds: list[list[Row]]
    capacity: int = 1000
    frames: int = 3
    n_step: int = 1
    discount: float = 0.5
    discount_per: str = "turn"
    turns_per_round: int = 5
    slots: int = 0
    shape_rewards: Callable[[np.ndarray], np.ndarray] = lambda rewards: rewards

    def __post_init__(self) -> None:
        self.slots = self.slots or slots_needed(
            self.capacity, len(self.worlds), self.turns_per_round, self.frames
        )
        self.rows = Rows(Block.create(Rows.layout(SPEC, len(self.worlds), self.slots)))
        self.writer = ReplayWriter(self.rows)
        self.written = 0

    @property
    def turns(self) -> int:
        return len(self.worlds[0])

    @property
    def window(self) -> int:
        return -(-self.capacity // len(self.worlds))

    def write(self, boundary: int) -> None:
        """Write the rows of all turns before a boundary that are not written yet."""
        for turn in range(self.written, boundary):
            self.write_turn(turn)
        self.written = max(self.written, boundary)

    def write_turn(self, turn: int) -> None:
        count = len(self.worlds)
        rows = [world[turn] for world in self.worlds]
        observations = [observation(turn, world, count) for world in range(count)]
        parts = {name: np.stack([o[name] for o in observations]) for name in SPEC.parts}
        active, rewards, terminated, truncated, age = (
            np.array([getattr(row, name) for row in rows])
            for name in ("active", "reward", "terminated", "truncated", "age")
        )
        legal = np.array([legal_in(turn, world) for world in range(count)])
        self.writer.write_observation(turn, parts, active, legal, age)
        self.writer.write_action(
            turn, np.arange(count) % 3, 0.25, turn // self.turns_per_round
        )
        self.writer.write_outcome(turn, rewards, terminated, truncated)

    def reader(self, boundary: int | None = None) -> ReplayReader:
        """Return a new reader; with a boundary, one that has advanced to it."""
        reader = ReplayReader(
            SPEC.id,
            self.rows,
            capacity=self.capacity,
            frames=self.frames,
            n_step=self.n_step,
            discount=self.discount,
            discount_per=self.discount_per,
            shape_rewards=self.shape_rewards,
        )
        if boundary is not None:
            reader.advance(boundary)
        return reader

    def transition(self, turn: int, world: int, boundary: int) -> Transition | None:
        """Return the transition that opened there, as known at a boundary."""
        rows, per_step = self.worlds[world][:boundary], self.discount_per == "step"
        return transition_at(rows, turn, self.n_step, self.discount, per_step)

    def usable(self, boundary: int) -> list[int]:
        """Return the transitions that can be learned from at a boundary, one by one."""
        count = len(self.worlds)
        return [
            turn * count + world
            for turn in range(max(0, boundary - self.window), boundary)
            for world in range(count)
            if self.transition(turn, world, boundary) is not None
        ]


def endless(turns: int, worlds: int = 1, reward: float = 1.0) -> list[list[Row]]:
    """Return worlds in which the agent is active in every turn of one long episode."""
    return [[Row(age, True, reward) for age in range(turns)] for _ in range(worlds)]


def many_episodes(turns: int, worlds: int = 2) -> list[list[Row]]:
    """Return worlds with short episodes, absences, and ends of every kind."""
    episodes = [
        episode([(True, 1.0), (False, 2.0), (True, -1.0), (True, 3.0)], (False, True)),
        episode([(True, 2.0)], (True, False), after=2),
        episode([(False, 0.0), (True, 1.0), (True, 1.0), (False, -2.0)], (True, False)),
        episode([(True, float(i % 3)) for i in range(9)], (False, True), after=1),
    ]
    return [
        repeat(episodes[world % 4 :] + episodes[: world % 4], turns)
        for world in range(worlds)
    ]
