"""Agents to test algorithms with: plans of small networks, and lives full of chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from rookery.algorithms.base import Agent
from rookery.config.agent import AgentSettings
from rookery.replay.buffer import ReplayReader, ReplayWriter, slots_needed
from rookery.replay.rows import Rows
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Part

SEED = 7
TURNS = 12
"""Turns of a round."""
WORLDS = 3

PARTS = {
    "view": Part((2, 3), np.dtype(np.uint8), scale=1 / 255),
    "self": Part((3,), np.dtype(np.float32)),
}
SMALL: dict[str, Any] = {
    "frames": 2,
    "n_step": 2,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "discount": 0.97,
    "updates_per_round": 3,
    "network": {"width": 16, "quantiles": 4},
    "replay": {"capacity": 90, "warmup": 8},
    "target": {"rate": 0.1},
    "iqn": {"acting_quantiles": 4},
    "ppo": {"passes": 2, "minibatches": 2},
    "recurrent": {"width": 16, "sequence": 6, "burn_in": 2},
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def settings_of(**chosen: Any) -> AgentSettings:
    """Return small settings with some chosen otherwise; groups are given as dicts."""
    return AgentSettings.model_validate(_merged(SMALL, chosen))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for name, value in over.items():
        group = isinstance(value, Mapping) and name in base
        found[name] = _merged(base[name], value) if group else value
    return found


def spec_of(number: int = 0, parts=PARTS, actions: int = 5, masked: bool = False):
    """Return a spec with so many actions."""
    names = tuple(f"do {i}" for i in range(actions))
    return AgentSpec(str(number), "tester", parts, names, masked)


def agent_of(number: int = 0, spec: AgentSpec | None = None, **chosen: Any) -> Agent:
    """Return the plan of one agent."""
    return Agent(number, spec or spec_of(number), settings_of(**chosen))


class Life:
    """One agent's rows, filled by chance: it dies and returns, and episodes end."""

    def __init__(
        self,
        agent: Agent,
        luck: int = 0,
        *,
        worlds=WORLDS,
        turns=TURNS,
        n_step=None,
        hidden=0,
    ) -> None:
        settings = agent.settings
        self.agent, self.worlds, self.turns = agent, worlds, turns
        capacity = settings.replay.capacity
        slots = slots_needed(capacity, worlds, turns, settings.frames)
        block = Block.create(Rows.layout(agent.spec, worlds, slots, hidden))
        self.rows = Rows(block)
        block.close()  # the rows hold on to the memory
        self._writer = ReplayWriter(self.rows)
        self.reader = ReplayReader(
            agent.spec.id,
            self.rows,
            capacity=capacity,
            frames=settings.frames,
            n_step=n_step or settings.n_step,
            discount=settings.discount,
            discount_per=settings.discount_per,
        )
        self.turn = 0
        self._chance = np.random.default_rng((luck, agent.number))
        self._age = np.zeros(worlds, np.int64)
        self._closing = np.zeros(worlds, bool)
        self._hidden = np.zeros((worlds, hidden), np.float32)
        self._carried = np.random.default_rng((luck, agent.number, 1))

    def live(
        self,
        *,
        unhappy: bool = False,
        out: bool = False,
        tamper: int = 0,
        closing_legal: bool | None = None,
    ) -> None:
        """Play a round and let the reader take it in.

        Args:
            unhappy: whether all rewards are NaN.
            out: whether the agent is out all the time.
            tamper: alters what is written where the agent is out.
            closing_legal: whether all or no actions are legal in closing rows.
        """
        for _ in range(self.turns):
            self._live_turn(unhappy, out, tamper, closing_legal)
        self.reader.advance(self.turn)

    @property
    def first(self) -> int:
        """The first turn of the newest round."""
        return self.turn - self.turns

    def _live_turn(
        self, unhappy: bool, out: bool, tamper: int, closing_legal: bool | None
    ) -> None:
        chance, worlds, spec = self._chance, self.worlds, self.agent.spec
        active = (chance.random(worlds) < 0.85) & ~self._closing & (not out)
        parts = {name: _seen(chance, part, worlds) for name, part in spec.parts.items()}
        legal = chance.random((worlds, spec.num_actions)) < 0.6
        legal[np.arange(worlds), chance.integers(spec.num_actions, size=worlds)] = True
        wishes = np.where(legal | (not spec.masked), chance.random(legal.shape), -1)
        actions, chances = wishes.argmax(axis=1), chance.uniform(0.1, 1, worlds)
        rewards = chance.normal(size=worlds) * ~self._closing
        ends = (chance.random(worlds) < 0.1) & ~self._closing
        terminated = ends & (chance.random(worlds) < 0.5)
        if tamper:
            away = ~active & ~self._closing
            parts["self"][away] += tamper
            actions[away], chances[away] = 0, 1.0
            legal[away] = True
        if closing_legal is not None:
            legal[self._closing] = closing_legal
        self._hidden[self._age == 0] = 0
        mask, hidden = legal if spec.masked else None, self._hidden
        carried = hidden if hidden.size else None
        self._writer.write_observation(self.turn, parts, active, mask, self._age, carried)
        hidden[active] = self._carried.uniform(-1, 1, hidden.shape)[active]
        self._writer.write_action(self.turn, actions, chances, 0)
        rewards = np.full(worlds, np.nan) if unhappy else rewards
        self._writer.write_outcome(self.turn, rewards, terminated, ends & ~terminated)
        self._age = np.where(self._closing, 0, self._age + 1)
        self._closing = ends
        self.turn += 1


def _seen(chance: np.random.Generator, part: Part, worlds: int):
    shape = (worlds, *part.shape)
    if part.dtype.kind == "f":
        return chance.normal(size=shape).astype(part.dtype)
    return chance.integers(0, 200, size=shape).astype(part.dtype)


class Crew:
    """A group of agents with their lives, trained by one rule."""

    def __init__(self, algorithm, agents, luck=None, *, worlds=WORLDS, seed=SEED) -> None:
        luck = luck or [0] * len(agents)
        learner = algorithm.learner
        self.lives = [
            Life(
                agent,
                one,
                worlds=worlds,
                n_step=learner.n_step(agent.settings),
                hidden=learner.hidden(agent.settings),
            )
            for agent, one in zip(agents, luck, strict=True)
        ]
        self.learner = learner(agents, seed)
        self.learner.load([self.learner.initial(agent) for agent in agents])
        self.round = 0

    def train(self, rounds=1, unhappy=(), out=(), **about):
        """Live and learn some rounds; return the metrics of the last.

        Some agents, by their place, may be unhappy or out.
        """
        for _ in range(rounds):
            for i, life in enumerate(self.lives):
                life.live(unhappy=i in unhappy, out=i in out, **about)
            metrics = self.learn()
        return metrics

    def learn(self, first=None):
        """Learn a round from what was lived; rows from turn `first` on are new."""
        self.round += 1
        readers = [life.reader for life in self.lives]
        first = self.lives[0].first if first is None else first
        return self.learner.learn(readers, self.round, first)

    @property
    def states(self):
        """Copies of all agents' states."""
        return [
            {name: np.array(array) for name, array in state.items()}
            for state in self.learner.save()
        ]


def same_bits(one, other) -> bool:
    """Whether two states, or any two mappings of arrays, are the same to the last bit."""
    return one.keys() == other.keys() and all(
        np.asarray(one[name]).tobytes() == np.asarray(other[name]).tobytes() for name in one
    )
