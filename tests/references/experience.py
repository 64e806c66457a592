"""Random experience of agents, as plain lists of rows and as the readers they fill.

Agents join late, are out for a while, and their episodes end in every way; the world can
continue without them. The references read the lists; the code under test reads the replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.replay.buffer import ReplayReader, ReplayWriter, slots_needed
from rookery.replay.rewards import shaped
from rookery.replay.rows import Rows
from rookery.shm.block import Block
from rookery.specs import AgentSpec

WORLDS = 2
TURNS = 12
"""Turns of a round."""
ENDS = [(True, False), (False, True), (True, True)]


@dataclass
class Row:
    """One turn of one agent in one world."""

    age: int
    seen: dict[str, np.ndarray]
    legal: np.ndarray
    hidden: np.ndarray
    active: bool
    action: int
    probability: float
    reward: float
    terminated: bool = False
    truncated: bool = False

    @property
    def ends(self) -> bool:
        return self.terminated or self.truncated


def play(rng: np.random.Generator, spec: AgentSpec, hidden: int) -> Iterator[Row]:
    """Yield the rows of one world, for ever."""
    while True:
        state = np.zeros(hidden, np.float32)
        length, after = int(rng.integers(1, 13)), int(rng.integers(0, 3))
        for age in range(length + 1 + after):
            alive = age < length
            row = random_row(rng, spec, age, state, alive)
            if age == length - 1:
                row.terminated, row.truncated = ENDS[int(rng.integers(3))]
            if row.active:
                state = rng.uniform(-1, 1, hidden).astype(np.float32)
            yield row


def random_row(
    rng: np.random.Generator, spec: AgentSpec, age: int, hidden: np.ndarray, alive: bool
) -> Row:
    legal = rng.random(spec.num_actions) < 0.6
    if not alive or rng.random() < 0.1:  # a game can say that nothing is
        legal[:] = rng.random() < 0.5
    active = alive and rng.random() < 0.8
    scores = rng.random(spec.num_actions) + (legal if spec.masked else 0)
    return Row(
        age=age,
        seen={name: random_part(rng, part) for name, part in spec.parts.items()},
        legal=legal,
        hidden=hidden,
        active=active,
        action=int(scores.argmax()),
        probability=float(np.float32(rng.uniform(0.05, 1))),
        reward=float(np.float32(rng.normal())) if alive else 0.0,
    )


def random_part(rng, part):
    if part.dtype.kind == "f":
        return rng.normal(size=part.shape).astype(part.dtype)
    return rng.integers(0, 200, size=part.shape).astype(part.dtype)


class Experience:
    """One agent's rows, as lists and in a replay."""

    def __init__(self, agent: Agent, data_seed: int, n_step: int, hidden: int) -> None:
        self.agent, settings = agent, agent.settings
        self.worlds: list[list[Row]] = [[] for _ in range(WORLDS)]
        self._streams = [
            play(
                np.random.default_rng((data_seed, agent.number, world)), agent.spec, hidden
            )
            for world in range(WORLDS)
        ]
        capacity = settings.replay.capacity
        self.slots = slots_needed(capacity, WORLDS, TURNS, settings.frames)
        self.window = -(-capacity // WORLDS)
        block = Block.create(Rows.layout(agent.spec, WORLDS, self.slots, hidden))
        rows = Rows(block)
        block.close()  # the rows hold on to the memory
        self._writer = ReplayWriter(rows)
        self.reader = ReplayReader(
            agent.spec.id,
            rows,
            capacity=capacity,
            frames=settings.frames,
            n_step=n_step,
            discount=settings.discount,
            discount_per=settings.discount_per,
            shape_rewards=partial(shaped, settings=settings.reward),
        )
        self._inputs: dict[tuple[int, int], list[Tensor]] = {}

    @property
    def boundary(self) -> int:
        return len(self.worlds[0])

    def play_round(self) -> None:
        """Play a round, and let the reader take it in."""
        for rows, stream in zip(self.worlds, self._streams, strict=True):
            rows += islice(stream, TURNS)
        for turn in range(self.boundary - TURNS, self.boundary):
            self._write(turn, [rows[turn] for rows in self.worlds])
        self.reader.advance(self.boundary)

    def _write(self, turn: int, rows: list[Row]) -> None:
        def column(name):
            return np.array([getattr(row, name) for row in rows])

        parts = {name: np.stack([row.seen[name] for row in rows]) for name in rows[0].seen}
        masked, recurrent = self.agent.spec.masked, rows[0].hidden.size > 0
        self._writer.write_observation(
            turn,
            parts,
            column("active"),
            column("legal") if masked else None,
            column("age"),
            column("hidden") if recurrent else None,
        )
        self._writer.write_action(turn, column("action"), column("probability"), 0)
        self._writer.write_outcome(
            turn, column("reward"), column("terminated"), column("truncated")
        )

    # For the references, one row at a time.

    def obs(self, turn: int, world: int) -> list[Tensor]:
        """Return the parts of a row's observation, scaled; (frames, *shape) each."""
        if (turn, world) not in self._inputs:
            frames, rows = self.agent.settings.frames, self.worlds[world]
            parts = []
            for name, part in self.agent.spec.parts.items():
                stack = np.zeros((frames, *part.shape))
                for back in range(min(frames, rows[turn].age + 1)):
                    stack[frames - 1 - back] = rows[turn - back].seen[name]
                parts.append(torch.tensor(stack * part.scale))
            self._inputs[turn, world] = parts
        return self._inputs[turn, world]

    def legal(self, turn: int, world: int) -> list[int]:
        """Return the legal actions; all of them where a game says none."""
        actions = list(range(self.agent.spec.num_actions))
        if not self.agent.spec.masked:
            return actions
        mask = self.worlds[world][turn].legal
        return [action for action in actions if mask[action]] or actions

    def hidden(self, turn: int, world: int) -> Tensor:
        """Return the hidden state before a row."""
        return torch.tensor(self.worlds[world][turn].hidden, dtype=torch.float64)
