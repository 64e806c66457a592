"""A custom network and a custom algorithm, for runs that mix them with built-in ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    """One hidden layer over all parts of the observation."""

    def __init__(self, spec, settings):
        super().__init__()
        width = settings.network.width
        self.layers = nn.Sequential(
            nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, spec.num_actions)
        )

    def forward(self, inputs):
        """Return a value per action."""
        return self.layers(torch.cat([part.flatten(1) for part in inputs.values()], 1))


class Linear:
    """Q-learning with one weight per input and action."""

    def __init__(self, spec, settings):
        self.rate = 0.1 * settings.learning_rate
        inputs = settings.frames * sum(np.prod(part.shape) for part in spec.parts.values())
        self.table = np.zeros((int(inputs), spec.num_actions))

    def values(self, seen):
        """Return a value per action."""
        return flat(seen) @ self.table

    def update(self, batch):
        """Move the values of the actions taken towards their targets."""
        inputs, rows = flat(batch.seen), np.arange(len(batch.actions))
        bootstrap = self.values(batch.next_seen).max(axis=1)
        errors = batch.returns + batch.discounts * bootstrap
        errors -= (inputs @ self.table)[rows, batch.actions]
        np.add.at(self.table.T, batch.actions, self.rate * errors[:, None] * inputs)

    def state(self):
        """Return the learned arrays."""
        return {"table": self.table}

    def load(self, state):
        """Load what `state` returned."""
        self.table = state["table"]


def flat(seen):
    """Return each observation as one vector."""
    return np.concatenate([part.reshape(len(part), -1) for part in seen.values()], axis=1)
