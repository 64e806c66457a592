"""The rollout of on-policy learners: a group's transitions of one round, with advantages.

Arrays are (agents, slots, …) with a fixed number of slots, so that every round has the
same shapes; slots without a transition have weight 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.nets.layers import Features
from rookery.kernels import kernel
from rookery.replay.buffer import ReplayReader
from rookery.replay.drawing import addresses_of
from rookery.specs import Array

SMALLEST_STD = 1e-8
SMALLEST_PROBABILITY = 1e-12


@dataclass
class Minibatch:
    """Some slots of all agents, (agents, n, …)."""

    inputs: Tensor
    actions: Tensor
    old_log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    weights: Tensor
    legal: Tensor | None


class Rollout:
    """The transitions that closed in a round; every array is (agents, slots, …)."""

    def __init__(
        self,
        features: Features,
        agents: Sequence[Agent],
        readers: Sequence[ReplayReader],
        transitions: Sequence[Array],
        slots: int,
    ) -> None:
        self.readers, self.transitions = readers, transitions
        """One per agent; transitions are in the order in which they opened."""
        shape, spec = (len(agents), slots), agents[0].spec
        self.inputs, self.next_inputs = (
            np.zeros((*shape, features.padded), np.float32) for _ in range(2)
        )
        self.actions = np.zeros(shape, np.int64)
        self.legal = np.ones((*shape, spec.num_actions), bool) if spec.masked else None
        self.old_log_probs = np.zeros(shape, np.float32)
        self.rewards = np.zeros(shape, np.float32)
        """The reward of each transition, from the row it opens to the one it closes in."""
        self.discounts = np.zeros(shape, np.float32)
        """The factor of the value where it closes: 0 if the episode terminated there."""
        self.weights = np.zeros(shape, np.float32)
        """1 where there is a transition."""
        self.advantages = np.zeros(shape, np.float32)
        self.returns = np.zeros(shape, np.float32)
        """The targets of the value function."""
        self.successors: list[Array] = []
        """Per agent: the index of the transition that follows each, or −1."""
        for i in range(len(agents)):
            self._fill(i, features)

    def _fill(self, i: int, features: Features) -> None:
        """Read one agent's transitions."""
        reader, transitions = self.readers[i], self.transitions[i]
        rows, count = reader.rows, len(transitions)
        turns, worlds = reader.opening(transitions)
        closes = reader.closes(transitions)
        for inputs, at in ((self.inputs, turns), (self.next_inputs, closes)):
            features.draw(inputs[i, :count], rows, addresses_of(rows, at, worlds))
        probabilities = reader.at("probability", turns, worlds)
        self.actions[i, :count] = reader.at("action", turns, worlds)
        self.old_log_probs[i, :count] = np.log(
            np.maximum(probabilities, SMALLEST_PROBABILITY)
        )
        returns, discounts = reader.outcomes(turns, worlds)
        self.rewards[i, :count], self.discounts[i, :count] = returns, discounts
        self.weights[i, :count] = 1.0
        if self.legal is not None:
            self.legal[i, :count] = reader.at("legal", turns, worlds)
        self.successors.append(successors_of(turns, closes, worlds))

    def estimate_advantages(
        self, i: int, values: Array, next_values: Array, gae_lambda: float
    ) -> None:
        """Give one agent's transitions standardised GAE advantages, and returns."""
        count = len(self.transitions[i])
        if not count:
            return
        discounts = self.discounts[i, :count]
        deltas = self.rewards[i, :count] + discounts * next_values[:count] - values[:count]
        advantages = advantages_of(self.successors[i], deltas, discounts * gae_lambda)
        self.returns[i, :count] = values[:count] + advantages
        self.advantages[i, :count] = (advantages - advantages.mean()) / (
            advantages.std() + SMALLEST_STD
        )

    def minibatch(self, slots: Array, unused: Array) -> Minibatch:
        """Return some slots, (agents, n) by index; those `unused` get weight 0."""
        indices = slots + np.arange(len(slots))[:, None] * self.weights.shape[1]

        def take(array: Array) -> Tensor:
            flat = array.reshape(-1, *array.shape[2:])
            return torch.from_numpy(flat.take(indices, axis=0))

        weights = np.where(unused, np.float32(0.0), self.weights.take(indices))
        return Minibatch(
            take(self.inputs),
            take(self.actions),
            take(self.old_log_probs),
            take(self.advantages),
            take(self.returns),
            torch.from_numpy(weights),
            None if self.legal is None else take(self.legal),
        )


def advantages_of(successors: Array, deltas: Array, decays: Array) -> Array:
    """Return generalised advantage estimates (Schulman et al., 2016), (n,).

    Args:
        successors: (n,) from `successors_of`; transitions are in the order they opened.
        deltas: (n,) one-step temporal-difference errors.
        decays: (n,) weight of the successor's advantage.
    """
    advantages = deltas.astype(np.float64)
    _add_successors(advantages, successors, decays.astype(np.float64))
    return advantages.astype(np.float32)


@kernel
def _add_successors(advantages: Array, successors: Array, decays: Array) -> None:
    for i in range(len(advantages) - 1, -1, -1):
        if successors[i] >= 0:
            advantages[i] += decays[i] * advantages[successors[i]]


def successors_of(opens: Array, closes: Array, worlds: Array) -> Array:
    """Return the index of the transition that opens where each closes, (n,); −1: none.

    Transitions are in the order of the rows in which they open: by turn, then by world.
    """
    if not len(opens):
        return np.empty(0, np.int64)
    count = int(worlds.max()) + 1
    opening_rows, closing_rows = opens * count + worlds, closes * count + worlds
    indices = np.searchsorted(opening_rows, closing_rows)
    found = opening_rows[np.minimum(indices, len(opens) - 1)] == closing_rows
    return np.where(found, indices, -1)
