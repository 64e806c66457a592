"""Layers for acting: sums of weights, compiled.

When agents act there are few rows, and most inputs are zeros: flags on a grid, and whatever
a ReLU has cut off. So a layer goes through the inputs that are not zero, and adds their
weights. That is less work than a matrix product. And each row is summed on its own, in the
order of its inputs: its bits are the same with any other agents and worlds beside it.

Arrays are float32, contiguous, and (agents, rows, …) or (agents, inputs, outputs).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from rookery.algorithms.nets.lanes import add_rows
from rookery.kernels import kernel
from rookery.specs import Array

Weights = Mapping[str, Array]
"""Parameter name to (agents, inputs, outputs), contiguous."""


def weights_of(weights: Mapping[str, Tensor]) -> dict[str, Array]:
    """Return weights as the layers here read them."""
    return {name: tensor.contiguous().numpy() for name, tensor in weights.items()}


def linear(weights: Weights, name: str, inputs: Array, relu: bool = True) -> Array:
    """Return a layer's outputs, (agents, rows, outputs), after a ReLU or without."""
    weight = weights[f"{name}.weight"]
    outputs = np.empty((*inputs.shape[:2], weight.shape[2]), np.float32)
    _linear(inputs, weight, weights[f"{name}.bias"], relu, outputs)
    return outputs


def joined_sums(weights: Weights, encoded: Array, embedded: Array) -> Array:
    """Return the hidden layer of IQN after the product, summed over quantiles.

    Args:
        weights: with the layer, "join".
        encoded: observations, (agents, rows, width).
        embedded: fixed taus, (agents, quantiles, width).
    """
    sums = np.zeros(encoded.shape, np.float32)
    _joined_sums(encoded, embedded, weights["join.weight"], weights["join.bias"], sums)
    return sums


@kernel
def _linear(inputs: Array, weight: Array, bias: Array, relu: bool, outputs: Array) -> None:
    agents, rows, width = inputs.shape
    indices = np.empty(width + 1, np.int64)
    factors = np.empty(width + 1, np.float32)
    for agent in range(agents):
        for row in range(rows):
            sums = outputs[agent, row]
            for column in range(len(sums)):
                sums[column] = bias[agent, 0, column]
            count = _nonzero(inputs[agent, row], indices, factors)
            add_rows(sums, weight[agent], indices, factors, count)
            if relu:
                for column in range(len(sums)):
                    sums[column] = max(sums[column], np.float32(0))


@kernel
def _joined_sums(
    encoded: Array, embedded: Array, weight: Array, bias: Array, sums: Array
) -> None:
    agents, rows, width = encoded.shape
    encoded_indices = np.empty(width + 1, np.int64)
    encoded_factors = np.empty(width + 1, np.float32)
    indices = np.empty(width + 1, np.int64)
    factors = np.empty(width + 1, np.float32)
    outputs = np.empty(width, np.float32)
    for agent in range(agents):
        for row in range(rows):
            own = sums[agent, row]
            encoded_count = _nonzero(encoded[agent, row], encoded_indices, encoded_factors)
            for quantile in range(embedded.shape[1]):
                count = 0
                for i in range(encoded_count):
                    k = encoded_indices[i]
                    factor = encoded_factors[i] * embedded[agent, quantile, k]
                    indices[count], factors[count] = k, factor
                    count += factor != 0
                for column in range(width):
                    outputs[column] = bias[agent, 0, column]
                add_rows(outputs, weight[agent], indices, factors, count)
                for column in range(width):
                    own[column] += max(outputs[column], np.float32(0))


@kernel
def _nonzero(inputs: Array, indices: Array, factors: Array) -> int:
    """Write the inputs that are not zero, and where they are; return how many there are.

    The two lists need room for one more than there can be.
    """
    count = 0
    for k in range(len(inputs)):
        # Written in any case, and kept by counting on: this has no branch to predict.
        indices[count], factors[count] = k, inputs[k]
        count += inputs[k] != 0
    return count
