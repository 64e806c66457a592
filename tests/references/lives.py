"""What drawn agents live through, as plain lists of rows; and the readers they fill.

Agents join late, are out for a while, and their episodes end in every way; the world may
go on without them. The references read these lists; the code under test reads the replay.
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


def live_on(chance: np.random.Generator, spec: AgentSpec, hidden: int) -> Iterator[Row]:
    """Yield the rows of one world, for ever."""
    while True:
        carried = np.zeros(hidden, np.float32)
        length, after = int(chance.integers(1, 13)), int(chance.integers(0, 3))
        for age in range(length + 1 + after):
            alive = age < length
            row = some_row(chance, spec, age, carried, alive)
            if age == length - 1:
                row.terminated, row.truncated = ENDS[int(chance.integers(3))]
            if row.active:
                carried = chance.uniform(-1, 1, hidden).astype(np.float32)
            yield row


def some_row(
    chance: np.random.Generator, spec: AgentSpec, age: int, hidden: np.ndarray, alive: bool
) -> Row:
    legal = chance.random(spec.num_actions) < 0.6
    if not alive or chance.random() < 0.1:  # a game may say that nothing is
        legal[:] = chance.random() < 0.5
    active = alive and chance.random() < 0.8
    liked = chance.random(spec.num_actions) + (legal if spec.masked else 0)
    return Row(
        age=age,
        seen={name: some_part(chance, part) for name, part in spec.parts.items()},
        legal=legal,
        hidden=hidden,
        active=active,
        action=int(liked.argmax()),
        probability=float(np.float32(chance.uniform(0.05, 1))),
        reward=float(np.float32(chance.normal())) if alive else 0.0,
    )


def some_part(chance, part):
    if part.dtype.kind == "f":
        return chance.normal(size=part.shape).astype(part.dtype)
    return chance.integers(0, 200, size=part.shape).astype(part.dtype)


class Life:
    """One agent's rows, as lists and in a replay."""

    def __init__(self, agent: Agent, luck: int, n_step: int, hidden: int) -> None:
        self.agent, settings = agent, agent.settings
        self.worlds: list[list[Row]] = [[] for _ in range(WORLDS)]
        self._streams = [
            live_on(np.random.default_rng((luck, agent.number, world)), agent.spec, hidden)
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

    def live(self) -> None:
        """Live a round, and let the reader take it in."""
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

    # What references ask for, one row at a time.

    def seen(self, turn: int, world: int) -> list[Tensor]:
        """Return the parts of the newest frames of a row, scaled; (frames, *shape) each."""
        if (turn, world) not in self._inputs:
            frames, rows = self.agent.settings.frames, self.worlds[world]
            found = []
            for name, part in self.agent.spec.parts.items():
                stack = np.zeros((frames, *part.shape))
                for back in range(min(frames, rows[turn].age + 1)):
                    stack[frames - 1 - back] = rows[turn - back].seen[name]
                found.append(torch.tensor(stack * part.scale))
            self._inputs[turn, world] = found
        return self._inputs[turn, world]

    def legal(self, turn: int, world: int) -> list[int]:
        """Return the actions to choose from; all of them where a game says none."""
        everything = list(range(self.agent.spec.num_actions))
        if not self.agent.spec.masked:
            return everything
        mask = self.worlds[world][turn].legal
        return [action for action in everything if mask[action]] or everything

    def hidden(self, turn: int, world: int) -> Tensor:
        """Return what the agent carried into a row."""
        return torch.tensor(self.worlds[world][turn].hidden, dtype=torch.float64)
