"""Networks of linear layers in compiled loops, one agent at a time, with gradients by hand.

An agent's parameters are its flat vector (nets/layers.py). A network is a table with a row
for each layer, which says where its weight, its bias and its outputs are. There is a ReLU
after every layer but the last: y = max(x w + b, 0).

`d_x` is the gradient of the loss with respect to x. A backward pass goes through the first
rows only: those that the loss depends on. Functions are few and take arrays, not objects,
because each one takes a part of a second to compile.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rookery.algorithms.kernels.products import (
    multiply,
    multiply_transposed_left,
    multiply_transposed_right,
)
from rookery.algorithms.kernels.sparse import multiply_sparse, multiply_sparse_backward
from rookery.algorithms.nets.layers import Parameters
from rookery.kernels import kernel
from rookery.specs import Array

WEIGHT, BIAS, INPUTS, UNITS, START, NOISY = range(6)
"""Columns of a network's table: where weight and bias start in the parameters, their sizes,
how many units the layers before have, and whether the layer is noisy."""


def layer_table(parameters: Parameters, names: Sequence[str]) -> Array:
    """Return the table of a network with these layers."""
    table, units = [], 0
    for name in names:
        place = parameters.place(name)
        table.append([*place, units, parameters.layers[name].noisy])
        units += place[3]
    return np.array(table, np.int64)


def output_buffer(layers: Array, rows: int) -> Array:
    """Allocate the outputs of all layers, layer by layer, each (rows × units)."""
    # torch's memory starts at a cache line, numpy's does not.
    return torch.zeros(rows * int(layers[:, UNITS].sum())).numpy()


@kernel
def forward(
    layers: Array,
    parameters: Array,
    noisy: Array,
    inputs: Array,
    indices: Array,
    values: Array,
    counts: Array,
    rows: int,
    outputs: Array,
) -> Array:
    """Write the outputs of all layers; return those of the last, (rows, units).

    Args:
        layers: the network's table.
        parameters: of the agent.
        noisy: the same with noise; only noisy layers read it.
        inputs: (rows, inputs), or empty if they are sparse.
        indices: of sparse inputs, see `Nonzero`; empty if they are not.
        values: of sparse inputs.
        counts: of sparse inputs.
        rows: how many rows.
        outputs: written.
    """
    x, zero = inputs, np.float32(0)
    for i in range(len(layers)):
        layer = layers[i]
        own = noisy if layer[NOISY] else parameters
        w, y = weight_of(layer, own), outputs_of(layer, outputs, rows)
        if i == 0 and indices.size:
            multiply_sparse(indices, values, counts, w, y)
        else:
            multiply(x, w, y)
        b = own[layer[BIAS] : layer[BIAS] + layer[UNITS]]
        for r in range(rows):
            row = y[r]
            if i < len(layers) - 1:
                for u in range(len(b)):
                    total = row[u] + b[u]
                    row[u] = zero if total < zero else total
            else:
                for u in range(len(b)):
                    row[u] += b[u]
        x = y
    return x


@kernel
def backward(
    layers: Array,
    parameters: Array,
    noisy: Array,
    inputs: Array,
    indices: Array,
    values: Array,
    counts: Array,
    rows: int,
    outputs: Array,
    d_outputs: Array,
    d_inputs: Array,
    gradient: Array,
) -> None:
    """Write the gradients of all parameters from that of the last layer's outputs.

    Args:
        layers: what `forward` was given, like the next six.
        parameters: …
        noisy: …
        inputs: …
        indices: …
        values: …
        counts: …
        rows: how many rows `forward` was given.
        outputs: what `forward` wrote.
        d_outputs: of all layers, in as many rows as the loss depends on; the last layer's
            are given, the others are written.
        d_inputs: (rows, inputs), written; or empty.
        gradient: laid out like the parameters; written.
    """
    zero, last = np.float32(0), len(layers) - 1
    used = len(d_outputs) // (layers[last, START] + layers[last, UNITS])
    for k in range(len(layers)):
        layer = layers[last - k]
        own = noisy if layer[NOISY] else parameters
        y, d_y = outputs_of(layer, outputs, rows), outputs_of(layer, d_outputs, used)
        d_b = gradient[layer[BIAS] : layer[BIAS] + layer[UNITS]]
        for u in range(len(d_b)):
            d_b[u] = zero
        for r in range(used):
            row, d_row = y[r], d_y[r]
            if k > 0:
                for u in range(len(d_b)):
                    d = d_row[u] if row[u] > zero else zero
                    d_row[u] = d
                    d_b[u] += d
            else:
                for u in range(len(d_b)):
                    d_b[u] += d_row[u]
        w, d_w = weight_of(layer, own), weight_of(layer, gradient)
        if k < last:
            before = layers[last - k - 1]
            x, d_x = outputs_of(before, outputs, rows), outputs_of(before, d_outputs, used)
            multiply_transposed_left(x[:used], d_y, d_w)
            multiply_transposed_right(d_y, w, d_x)
        elif indices.size:
            multiply_sparse_backward(indices, values, counts, d_y, d_w)
        else:
            multiply_transposed_left(inputs[:used], d_y, d_w)
            if d_inputs.size:
                multiply_transposed_right(d_y, w, d_inputs)


@kernel
def weight_of(layer: Array, parameters: Array) -> Array:
    """Return a layer's weight, (inputs, units)."""
    start, inputs, units = layer[WEIGHT], layer[INPUTS], layer[UNITS]
    return parameters[start : start + inputs * units].reshape((inputs, units))


@kernel
def outputs_of(layer: Array, outputs: Array, rows: int) -> Array:
    """Return a layer's outputs in those of all layers, (rows, units)."""
    start, units = rows * layer[START], layer[UNITS]
    return outputs[start : start + rows * units].reshape((rows, units))
