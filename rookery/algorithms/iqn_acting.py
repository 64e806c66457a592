"""Acting with IQN: from what a group sees to the means of its values, in one pass.

The same as `IqnNetwork.read` and `IqnNetwork.means`, for weights that serve a whole round.
Between two turns a game drives everything out of the processor's caches, so a pass is as
fast as it touches little memory: its arrays are made once, and of a layer that reads
flags only the weights of those that are set are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from rookery.algorithms.common.group import Inputs
from rookery.algorithms.iqn_network import IqnNetwork
from rookery.algorithms.nets.layers import Features, linear, padded
from rookery.algorithms.q_learning import Weights
from rookery.specs import Array

Seen = Sequence[Mapping[str, Array]]


def folded(network: IqnNetwork, weights: Weights, quantiles: int) -> dict[str, Tensor]:
    """Return weights whose last layer makes means of values from sums over quantiles.

    Means and dueling are linear: done to the layer once, they need not be done to what
    comes out of it.
    """
    spare = padded(network.actions) - network.actions
    values, bias = (
        pad(network.of_actions(weights[f"values.{name}"]), (0, spare))
        for name in ("weight", "bias")
    )
    found = {**weights, "values.weight": values / quantiles, "values.bias": bias}
    if network.sees_flags:
        layer = (weights["read.0.weight"], weights["read.0.bias"])
        found["read.0"] = torch.cat(layer, dim=1).flatten(end_dim=1)
    return found


class IqnPass:
    """The pass of a group in a number of worlds."""

    def __init__(
        self, network: IqnNetwork, agents: int, worlds: int, quantiles: int
    ) -> None:
        self._network, self.worlds = network, worlds
        features = network.features
        self._inputs = None if network.sees_flags else Inputs(features, agents, worlds)
        self._flags = _Flags(features, agents, worlds) if network.sees_flags else None
        shape = (agents, worlds, quantiles, padded(network.width))
        self._joined, self._outputs = np.zeros((2, *shape), np.float32)
        self._flat_joined, self._flat_outputs = (
            torch.from_numpy(array).view(agents, worlds * quantiles, -1)
            for array in (self._joined, self._outputs)
        )

    def values(self, weights: Weights, embedded: Array, seen: Seen) -> Array:
        """Return means of values, (agents, worlds, actions), from folded weights.

        What is not a product is left to numpy where its calls cost less.
        """
        hidden = self._read(weights, seen)
        np.multiply(hidden[:, :, None], embedded, out=self._joined)
        bias, weight = weights["join.bias"], weights["join.weight"]
        torch.baddbmm(bias, self._flat_joined, weight, out=self._flat_outputs).relu_()
        sums = torch.from_numpy(np.add.reduce(self._outputs, axis=2))
        return linear(weights, "values", sums).numpy()[..., : self._network.actions]

    def _read(self, weights: Weights, seen: Seen) -> Array:
        if self._flags is not None:
            first = self._flags.read(weights["read.0"], seen)
            return self._network.encoder.deepen(weights, torch.from_numpy(first)).numpy()
        assert self._inputs is not None
        return self._network.read(weights, self._inputs.fill(seen)).numpy()


class _Flags:
    """A layer that reads flags: it adds up the weights of those that are set."""

    def __init__(self, features: Features, agents: int, worlds: int) -> None:
        self._features = features
        self._wide = features.padded + 1
        self._array = np.zeros((agents, worlds, self._wide), np.uint8)
        self._array[..., -1] = 1  # the bias is the weight of a flag that is always set
        lines = np.arange(agents * worlds)
        self._starts = lines * self._wide
        # All worlds of an agent look their flags up in the same weights.
        self._shifts = (lines - lines // worlds) * self._wide

    def read(self, table: Tensor, seen: Seen) -> Array:
        """Return the layer's outputs, (agents, worlds, width)."""
        for flags, parts in zip(self._array, seen, strict=True):
            self._features.fill(flags[:, :-1], parts)
        there = np.flatnonzero(self._array != 0)
        places = there - self._shifts.take(there // self._wide)
        starts = np.searchsorted(there, self._starts)
        numbers = self._array.reshape(-1).take(there).astype(np.float32)
        sums, *_ = torch.embedding_bag(
            table,
            torch.from_numpy(places),
            torch.from_numpy(starts),
            per_sample_weights=torch.from_numpy(numbers),
        )
        outputs = sums.numpy()
        np.maximum(outputs, 0, out=outputs)
        return outputs.reshape(*self._array.shape[:2], -1)
