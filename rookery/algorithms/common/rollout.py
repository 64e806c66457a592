"""The experience of on-policy learners: the steps of one round, with advantages.

Laid out as (agents, places, …) with a fixed number of places, so that every round has the
same shapes; places that no step takes weigh nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.nets.layers import Features
from rookery.replay.buffer import Batch, ReplayReader
from rookery.specs import Array

LEAST = 1e-8


@dataclass
class Minibatch:
    """Some places of all agents."""

    inputs: Tensor
    actions: Tensor
    old_logs: Tensor
    advantages: Tensor
    targets: Tensor
    weights: Tensor
    legal: Tensor | None


@dataclass
class Experience:
    """The steps of a round; every array is (agents, places, …)."""

    inputs: Array
    next_inputs: Array
    actions: Array
    old_logs: Array
    returns: Array
    discounts: Array
    weights: Array
    legal: Array | None
    advantages: Array
    targets: Array

    @classmethod
    def empty(cls, features: Features, agents: Sequence[Agent], places: int) -> Experience:
        """Return experience with no steps in it."""
        shape = (len(agents), places)
        inputs, next_inputs = (
            np.zeros((*shape, features.padded), np.float32) for _ in "ab"
        )
        numbers = [np.zeros(shape, np.float32) for _ in range(6)]
        old_logs, returns, discounts, weights, advantages, targets = numbers
        spec = agents[0].spec
        legal = np.ones((*shape, spec.num_actions), bool) if spec.masked else None
        actions = np.zeros(shape, np.int64)
        return cls(
            inputs,
            next_inputs,
            actions,
            old_logs,
            returns,
            discounts,
            weights,
            legal,
            advantages,
            targets,
        )

    def lay(
        self, i: int, features: Features, reader: ReplayReader, steps: Array, batch: Batch
    ) -> None:
        """Lay out one agent's steps, in the order they opened."""
        count = len(steps)
        features.fill(self.inputs[i, :count], batch.seen)
        features.fill(self.next_inputs[i, :count], batch.next_seen)
        turns, worlds = reader.opening(steps)
        probabilities = reader.at("probability", turns, worlds)
        self.actions[i, :count] = batch.actions
        self.old_logs[i, :count] = np.log(np.maximum(probabilities, 1e-12))
        self.returns[i, :count], self.discounts[i, :count] = batch.returns, batch.discounts
        self.weights[i, :count] = 1.0
        if self.legal is not None:
            self.legal[i, :count] = reader.at("legal", turns, worlds)

    def value(
        self,
        i: int,
        reader: ReplayReader,
        steps: Array,
        values: Array,
        after: Array,
        gae: float,
    ) -> None:
        """Give one agent's steps their advantages, standardised, and value targets."""
        count = len(steps)
        if not count:
            return
        discounts = self.discounts[i, :count]
        errors = self.returns[i, :count] + discounts * after[:count] - values[:count]
        turns, worlds = reader.opening(steps)
        raw = advantages_of(turns, reader.closes(steps), worlds, errors, discounts * gae)
        self.targets[i, :count] = values[:count] + raw
        self.advantages[i, :count] = (raw - raw.mean()) / (raw.std() + LEAST)

    def part(self, chosen: Array, spare: Array) -> Minibatch:
        """Return some places, (agents, n) by number; `spare` ones weigh nothing."""
        rows = np.arange(len(chosen))[:, None]

        def taken(array: Array) -> Tensor:
            return torch.from_numpy(array[rows, chosen])

        weights = np.where(spare, 0.0, self.weights[rows, chosen]).astype(np.float32)
        return Minibatch(
            taken(self.inputs),
            taken(self.actions),
            taken(self.old_logs),
            taken(self.advantages),
            taken(self.targets),
            torch.from_numpy(weights),
            None if self.legal is None else taken(self.legal),
        )


def advantages_of(
    opens: Array, closes: Array, worlds: Array, errors: Array, decays: Array
) -> Array:
    """Return generalised advantages of steps, given in the order they opened.

    Args:
        opens: (n,) turns.
        closes: (n,) turns; where the next step of that world opens, if it goes on.
        worlds: (n,) worlds.
        errors: (n,) one-step errors.
        decays: (n,) what the next step's advantage counts for; 0 where there is none.
    """
    found = errors.astype(np.float64)
    followers = followers_of(opens, closes, worlds)
    for i in np.flatnonzero(followers >= 0)[::-1].tolist():
        found[i] += decays[i] * found[followers[i]]
    return found.astype(np.float32)


def followers_of(opens: Array, closes: Array, worlds: Array) -> Array:
    """Return which step opens where a step closes, (n,); −1 if none of these does."""
    places = {
        place: i
        for i, place in enumerate(zip(opens.tolist(), worlds.tolist(), strict=True))
    }
    after = zip(closes.tolist(), worlds.tolist(), strict=True)
    return np.array([places.get(place, -1) for place in after], np.int64)
