"""Agents with small networks, and random experience to train them with."""

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


def settings_of(**settings: Any) -> AgentSettings:
    """Return small settings with some overridden; groups of settings are dicts."""
    return AgentSettings.model_validate(_merge(SMALL, settings))


def _merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in overrides.items():
        group = isinstance(value, Mapping) and name in base
        merged[name] = _merge(base[name], value) if group else value
    return merged


def spec_of(number: int = 0, parts=PARTS, actions: int = 5, masked: bool = False):
    """Return a spec with so many actions."""
    names = tuple(f"do {i}" for i in range(actions))
    return AgentSpec(str(number), "tester", parts, names, masked)


def agent_of(number: int = 0, spec: AgentSpec | None = None, **settings: Any) -> Agent:
    """Return an agent with small settings, some overridden."""
    return Agent(number, spec or spec_of(number), settings_of(**settings))


class Experience:
    """One agent's rows, filled at random: it is out now and then, and episodes end."""

    def __init__(
        self,
        agent: Agent,
        data_seed: int = 0,
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
        self._rng = np.random.default_rng((data_seed, agent.number))
        self._age = np.zeros(worlds, np.int64)
        self._closing = np.zeros(worlds, bool)
        self._hidden = np.zeros((worlds, hidden), np.float32)
        self._hidden_rng = np.random.default_rng((data_seed, agent.number, 1))

    def play_round(
        self,
        *,
        nan_rewards: bool = False,
        absent: bool = False,
        tamper: int = 0,
        closing_legal: bool | None = None,
    ) -> None:
        """Write a round at random and let the reader take it in.

        Args:
            nan_rewards: whether all rewards are NaN.
            absent: whether the agent is out all the time.
            tamper: alters what is written where the agent is out.
            closing_legal: whether all or no actions are legal in closing rows.
        """
        for _ in range(self.turns):
            self._play_turn(nan_rewards, absent, tamper, closing_legal)
        self.reader.advance(self.turn)

    @property
    def first(self) -> int:
        """The first turn of the newest round."""
        return self.turn - self.turns

    def _play_turn(
        self, nan_rewards: bool, absent: bool, tamper: int, closing_legal: bool | None
    ) -> None:
        rng, worlds, spec = self._rng, self.worlds, self.agent.spec
        active = (rng.random(worlds) < 0.85) & ~self._closing & (not absent)
        parts = {name: _random_part(rng, part, worlds) for name, part in spec.parts.items()}
        legal = rng.random((worlds, spec.num_actions)) < 0.6
        legal[np.arange(worlds), rng.integers(spec.num_actions, size=worlds)] = True
        scores = np.where(legal | (not spec.masked), rng.random(legal.shape), -1)
        actions, probabilities = scores.argmax(axis=1), rng.uniform(0.1, 1, worlds)
        rewards = rng.normal(size=worlds) * ~self._closing
        ends = (rng.random(worlds) < 0.1) & ~self._closing
        terminated = ends & (rng.random(worlds) < 0.5)
        if tamper:
            away = ~active & ~self._closing
            parts["self"][away] += tamper
            actions[away], probabilities[away] = 0, 1.0
            legal[away] = True
        if closing_legal is not None:
            legal[self._closing] = closing_legal
        self._hidden[self._age == 0] = 0
        mask, hidden = legal if spec.masked else None, self._hidden
        stored = hidden if hidden.size else None
        self._writer.write_observation(self.turn, parts, active, mask, self._age, stored)
        hidden[active] = self._hidden_rng.uniform(-1, 1, hidden.shape)[active]
        self._writer.write_action(self.turn, actions, probabilities, 0)
        rewards = np.full(worlds, np.nan) if nan_rewards else rewards
        self._writer.write_outcome(self.turn, rewards, terminated, ends & ~terminated)
        self._age = np.where(self._closing, 0, self._age + 1)
        self._closing = ends
        self.turn += 1


def _random_part(rng: np.random.Generator, part: Part, worlds: int):
    shape = (worlds, *part.shape)
    if part.dtype.kind == "f":
        return rng.normal(size=shape).astype(part.dtype)
    return rng.integers(0, 200, size=shape).astype(part.dtype)


class GroupTrainer:
    """A group of agents with random experience, trained by one learner."""

    def __init__(
        self, algorithm, agents, data_seeds=None, *, worlds=WORLDS, seed=SEED
    ) -> None:
        data_seeds = data_seeds or [0] * len(agents)
        learner = algorithm.learner
        self.experiences = [
            Experience(
                agent,
                data_seed,
                worlds=worlds,
                n_step=learner.n_step(agent.settings),
                hidden=learner.hidden(agent.settings),
            )
            for agent, data_seed in zip(agents, data_seeds, strict=True)
        ]
        self.learner = learner(agents, seed)
        self.learner.load([self.learner.initial(agent) for agent in agents])
        self.round = 0

    def train(self, rounds=1, nan_rewards=(), absent=(), **play):
        """Play and learn some rounds; return the metrics of the last.

        `nan_rewards` and `absent` are indices of agents.
        """
        for _ in range(rounds):
            for i, experience in enumerate(self.experiences):
                experience.play_round(
                    nan_rewards=i in nan_rewards, absent=i in absent, **play
                )
            metrics = self.learn()
        return metrics

    def learn(self, first=None):
        """Learn a round from what was played; rows from turn `first` on are new."""
        self.round += 1
        readers = [experience.reader for experience in self.experiences]
        first = self.experiences[0].first if first is None else first
        return self.learner.learn(readers, self.round, first)

    @property
    def states(self):
        """Copies of all agents' states."""
        return [
            {name: np.array(array) for name, array in state.items()}
            for state in self.learner.save()
        ]


def same_bits(a, b) -> bool:
    """Whether two states, or any two mappings of arrays, are the same to the last bit."""
    return a.keys() == b.keys() and all(
        np.asarray(a[name]).tobytes() == np.asarray(b[name]).tobytes() for name in a
    )
