"""Networks in compiled loops, one agent at a time: outputs, and gradients by hand.

An agent's parameters are its flat vector (nets/layers.py). A network is a table with a row
for each linear layer, which says where its weight, its bias and its outputs are; there is a
ReLU after every layer but the last. Grids can go through a 3×3 convolution first, which is
a linear layer over the neighbourhoods of all cells.

`d_x` is the gradient of the loss with respect to x. A backward pass goes through the first
rows only: those that the loss depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.kernels.loops import neighbourhoods
from rookery.algorithms.kernels.products import (
    multiply,
    multiply_transposed_left,
    multiply_transposed_right,
)
from rookery.algorithms.kernels.sparse import (
    Nonzero,
    multiply_sparse,
    multiply_sparse_backward,
)
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import Parameters, padded
from rookery.kernels import kernel
from rookery.specs import Array

WEIGHT, BIAS, INPUTS, UNITS, START = range(5)
"""Columns of a table of layers: where weight and bias are in the parameters, their sizes,
and how many units the layers before have."""
CELLS, COLUMN, PATCHES = range(5, 8)
"""More columns of a table of grids: the cells of a grid, where its outputs are in the
inputs of the first layer, and where its neighbourhoods are."""


class Network(NamedTuple):
    """The layers, as compiled loops read them."""

    layers: Array
    """(layers, 5)."""
    grids: Array
    """(grids, 8): those that go through a convolution."""
    flat: Array
    """(parts, 3): the other parts' columns in an observation and in the first layer's
    inputs, and their number; only with grids."""


class Observed(NamedTuple):
    """Observations of a group, in the form that the first layer reads."""

    dense: Array
    """(agents, rows, features)."""
    is_sparse: bool
    """Whether the next three are read instead; see `Nonzero`."""
    indices: Array
    values: Array
    counts: Array
    patches: Array
    """(agents, numbers): grid by grid, the neighbourhoods of all cells of all rows."""


class Scratch(NamedTuple):
    """What a pass of one agent writes; the next agent overwrites it."""

    outputs: Array
    """Of all layers, layer by layer, (rows × units)."""
    convolved: Array
    """Of all grids, (rows × cells × channels)."""
    joined: Array
    """(rows, inputs) of the first layer, if there are grids."""


def network_of(encoder: Encoder, parameters: Parameters, names: Sequence[str]) -> Network:
    """Return a network: an encoder, followed by other layers."""
    layers, units = [], 0
    for name in [*(f"read.{i}" for i in range(encoder.depth)), *names]:
        place = parameters.place(name)
        layers.append([*place, units])
        units += place[3]
    grids, flat, start, column, patches, convolved = [], [], 0, 0, 0, 0
    for name, part in encoder.parts.items():
        size = width = encoder.frames * prod(part.shape)
        if encoder.is_grid(part):
            place, cells = parameters.place(f"look.{name}"), prod(part.shape[1:])
            width = cells * place[3]
            grids.append([*place, convolved, cells, column, patches])
            patches += cells * place[2]
            convolved += width
        elif encoder.channels:
            flat.append([start, column, size])
        start, column = start + size, column + width
    return Network(
        np.array(layers),
        np.array(grids, np.int64).reshape(-1, 8),
        np.array(flat, np.int64).reshape(-1, 3),
    )


def scratch_of(network: Network, rows: int) -> Scratch:
    """Allocate the scratch of passes over this many rows."""
    units = int(network.layers[:, UNITS].sum())
    convolved = int((network.grids[:, CELLS] * network.grids[:, UNITS]).sum())
    inputs = int(network.layers[0, INPUTS]) if len(network.grids) else 0
    # torch's memory starts at a cache line, numpy's does not.
    return Scratch(
        torch.zeros(rows * units).numpy(),
        torch.zeros(rows * convolved).numpy(),
        torch.zeros(rows, inputs).numpy(),
    )


class ObservationReader:
    """Brings observations into the form that the first layer reads, once for all passes."""

    def __init__(self, encoder: Encoder, network: Network, agents: int, rows: int) -> None:
        self._encoder, self._rows = encoder, rows
        self._nonzero = Nonzero.allocate(
            agents,
            *((rows, encoder.features.padded) if encoder.has_sparse_inputs else (0, 0)),
        )
        self._patches = torch.zeros(
            agents, rows * int((network.grids[:, CELLS] * network.grids[:, INPUTS]).sum())
        )

    def read(self, observations: Tensor) -> Observed:
        """Read (agents, rows, features)."""
        if self._encoder.has_sparse_inputs:
            self._nonzero.find(observations)
        elif self._encoder.channels:
            self._find_neighbourhoods(observations.numpy())
        nonzero = self._nonzero
        return Observed(
            observations.numpy(),
            self._encoder.has_sparse_inputs,
            nonzero.indices,
            nonzero.values,
            nonzero.counts,
            self._patches.numpy(),
        )

    def _find_neighbourhoods(self, observations: Array) -> None:
        encoder, start, first = self._encoder, 0, 0
        for part in encoder.parts.values():
            if encoder.is_grid(part):
                planes, high, wide = encoder.frames * part.shape[0], *part.shape[1:]
                rows, width = self._rows * high * wide, padded(9 * planes)
                patches = self._patches[:, first : first + rows * width]
                neighbourhoods(
                    observations,
                    start,
                    planes,
                    high,
                    wide,
                    patches.view(len(patches), rows, width).numpy(),
                )
                first += rows * width
            start += encoder.frames * prod(part.shape)


@kernel
def forward(
    network: Network,
    parameters: Array,
    observed: Observed,
    agent: int,
    first: int,
    rows: int,
    scratch: Scratch,
) -> Array:
    """Return the last layer's outputs, (rows, outputs), for some rows of an agent."""
    x = observed.dense[agent][first : first + rows]
    if len(network.grids):
        convolve(network, parameters, x, observed.patches[agent], first, scratch)
        x = scratch.joined
    last = len(network.layers) - 1
    for i in range(last + 1):
        layer = network.layers[i]
        w, b = weight_of(layer, parameters), bias_of(layer, parameters)
        y = outputs_of(layer, scratch.outputs, rows)
        if i == 0 and observed.is_sparse:
            some = slice(first, first + rows)
            indices, values = observed.indices[agent][some], observed.values[agent][some]
            multiply_sparse(indices, values, observed.counts[agent][some], w, y)
        else:
            multiply(x, w, y)
        if i < last:
            add_bias_relu(y, b)
        else:
            add_bias(y, b)
        x = y
    return x


@kernel
def backward(
    network: Network,
    parameters: Array,
    observed: Observed,
    agent: int,
    scratch: Scratch,
    d_outputs: Array,
    d_scratch: Scratch,
    gradient: Array,
) -> None:
    """Write the gradient of all parameters from that of the last layer's outputs.

    Args:
        network: its layers.
        parameters: of the agent.
        observed: what `forward` was given, from row 0 on.
        agent: its place in the group.
        scratch: what `forward` wrote.
        d_outputs: (rows, outputs).
        d_scratch: for as many rows; written.
        gradient: laid out like the parameters; written.
    """
    rows, all_rows = len(d_outputs), rows_of(scratch, network)
    count = len(network.layers)
    d_y = d_outputs
    for k in range(count):
        i = count - 1 - k
        layer = network.layers[i]
        d_w, d_b = weight_of(layer, gradient), bias_of(layer, gradient)
        if k == 0:
            sum_rows(d_y, d_b)
        else:
            relu_backward(outputs_of(layer, scratch.outputs, all_rows), d_y, d_b)
        if i > 0:
            before = network.layers[i - 1]
            x = outputs_of(before, scratch.outputs, all_rows)
            multiply_transposed_left(x[:rows], d_y, d_w)
            d_x = outputs_of(before, d_scratch.outputs, rows)
            multiply_transposed_right(d_y, weight_of(layer, parameters), d_x)
            d_y = d_x
        elif len(network.grids):
            multiply_transposed_left(scratch.joined[:rows], d_y, d_w)
            multiply_transposed_right(d_y, weight_of(layer, parameters), d_scratch.joined)
            convolve_backward(
                network, observed.patches[agent], scratch, d_scratch, gradient
            )
        elif observed.is_sparse:
            indices, values = observed.indices[agent], observed.values[agent]
            multiply_sparse_backward(indices, values, observed.counts[agent], d_y, d_w)
        else:
            multiply_transposed_left(observed.dense[agent][:rows], d_y, d_w)


@kernel
def weight_of(layer: Array, parameters: Array) -> Array:
    """Return a layer's weight, (inputs, units)."""
    start, inputs, units = layer[WEIGHT], layer[INPUTS], layer[UNITS]
    return parameters[start : start + inputs * units].reshape((inputs, units))


@kernel
def bias_of(layer: Array, parameters: Array) -> Array:
    """Return a layer's bias, (units,)."""
    return parameters[layer[BIAS] : layer[BIAS] + layer[UNITS]]


@kernel
def outputs_of(layer: Array, outputs: Array, rows: int) -> Array:
    """Return a layer's outputs in those of all layers, (rows, units)."""
    start, units = rows * layer[START], layer[UNITS]
    return outputs[start : start + rows * units].reshape((rows, units))


@kernel
def rows_of(scratch: Scratch, network: Network) -> int:
    """Return how many rows a scratch is for."""
    last = network.layers[len(network.layers) - 1]
    return len(scratch.outputs) // (last[START] + last[UNITS])


@kernel
def add_bias(y: Array, b: Array) -> None:
    """Add a bias to every row."""
    for r in range(len(y)):
        row = y[r]
        for u in range(len(b)):
            row[u] += b[u]


@kernel
def add_bias_relu(y: Array, b: Array) -> None:
    """Add a bias, and set what is negative to 0."""
    zero = np.float32(0)
    for r in range(len(y)):
        row = y[r]
        for u in range(len(b)):
            total = row[u] + b[u]
            row[u] = zero if total < zero else total


@kernel
def sum_rows(d_y: Array, d_b: Array) -> None:
    """Write the gradient of a bias."""
    d_b[:] = np.float32(0)
    for r in range(len(d_y)):
        row = d_y[r]
        for u in range(len(d_b)):
            d_b[u] += row[u]


@kernel
def relu_backward(y: Array, d_y: Array, d_b: Array) -> None:
    """Set gradients to 0 where outputs are 0, and write the gradient of the bias.

    `y` can have more rows than `d_y`; only the first are used.
    """
    zero = np.float32(0)
    d_b[:] = zero
    for r in range(len(d_y)):
        row, d_row = y[r], d_y[r]
        for u in range(len(d_b)):
            d = d_row[u] if row[u] > zero else zero
            d_row[u] = d
            d_b[u] += d


@kernel
def convolve(
    network: Network,
    parameters: Array,
    observations: Array,
    patches: Array,
    first: int,
    scratch: Scratch,
) -> None:
    """Write the first layer's inputs: grids convolved, other parts as they are."""
    rows = len(scratch.joined)
    for k in range(len(network.flat)):
        start, column, size = network.flat[k]
        for r in range(rows):
            scratch.joined[r, column : column + size] = observations[
                r, start : start + size
            ]
    for k in range(len(network.grids)):
        grid = network.grids[k]
        cells, column = grid[CELLS], grid[COLUMN]
        x = patches_of(grid, patches, network)[first * cells : (first + rows) * cells]
        y = convolved_of(grid, scratch.convolved, rows)
        multiply(x, weight_of(grid, parameters), y)
        add_bias_relu(y, bias_of(grid, parameters))
        flat = y.reshape((rows, cells * grid[UNITS]))
        for r in range(rows):
            scratch.joined[r, column : column + flat.shape[1]] = flat[r]


@kernel
def convolve_backward(
    network: Network, patches: Array, scratch: Scratch, d_scratch: Scratch, gradient: Array
) -> None:
    """Write the gradients of convolutions from that of the first layer's inputs."""
    rows = len(d_scratch.joined)
    for k in range(len(network.grids)):
        grid = network.grids[k]
        cells, column = grid[CELLS], grid[COLUMN]
        d_y = convolved_of(grid, d_scratch.convolved, rows)
        flat = d_y.reshape((rows, cells * grid[UNITS]))
        for r in range(rows):
            flat[r] = d_scratch.joined[r, column : column + flat.shape[1]]
        y = convolved_of(grid, scratch.convolved, len(scratch.joined))
        relu_backward(y, d_y, bias_of(grid, gradient))
        x = patches_of(grid, patches, network)[: rows * cells]
        multiply_transposed_left(x, d_y, weight_of(grid, gradient))


@kernel
def convolved_of(grid: Array, convolved: Array, rows: int) -> Array:
    """Return a grid's outputs in those of all grids, (rows × cells, channels)."""
    start, channels = rows * grid[START], grid[UNITS]
    count = rows * grid[CELLS]
    return convolved[start : start + count * channels].reshape((count, channels))


@kernel
def patches_of(grid: Array, patches: Array, network: Network) -> Array:
    """Return the neighbourhoods of a grid's cells, (rows × cells, inputs)."""
    last = network.grids[len(network.grids) - 1]
    rows = len(patches) // (last[PATCHES] + last[CELLS] * last[INPUTS])
    start, count, inputs = rows * grid[PATCHES], rows * grid[CELLS], grid[INPUTS]
    return patches[start : start + count * inputs].reshape((count, inputs))
