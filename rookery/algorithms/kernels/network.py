"""Networks in compiled loops, one agent at a time: outputs, and gradients by hand.

An agent's parameters are its flat vector (nets/layers.py). A network is a table with a row
for each linear layer, which says where its weight, its bias and its outputs are. Grids can
go through a 3×3 convolution first, which is a linear layer over the neighbourhoods of all
cells.

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
    rectified: int
    """How many of them are followed by a ReLU: y = max(x w + b, 0)."""
    noiseless: int
    """How many of them come before the first noisy one."""
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
    """Return a network: an encoder and other layers, of which the last is linear."""
    layers, units = list[list[int]](), 0
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
        len(layers) - (1 if names else 0),
        encoder.depth,
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
        self._no_nonzero = Nonzero.allocate(agents, 0, 0)
        self._no_inputs = np.zeros((agents, rows, 0), np.float32)
        self._patches = torch.zeros(
            agents, rows * int((network.grids[:, CELLS] * network.grids[:, INPUTS]).sum())
        )

    def read(self, inputs: Tensor | Nonzero) -> Observed:
        """Read (agents, rows, features)."""
        dense, nonzero = (
            (self._no_inputs, inputs)
            if isinstance(inputs, Nonzero)
            else (inputs.numpy(), self._no_nonzero)
        )
        if self._encoder.channels:
            self._find_neighbourhoods(dense)
        return Observed(
            dense,
            nonzero is inputs,
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
    noisy: Array,
    observed: Observed,
    agent: int,
    first: int,
    rows: int,
    scratch: Scratch,
) -> Array:
    """Return the last layer's outputs, (rows, outputs), for some rows of an agent.

    Args:
        network: its layers.
        parameters: of the agent.
        noisy: the same with noise in noisy layers; other layers do not read it.
        observed: observations of the group.
        agent: its place in the group.
        first: the first row.
        rows: how many rows; as many as the scratch is for.
        scratch: written.
    """
    x = observed.dense[agent][first : first + rows]
    if len(network.grids):
        convolve(network, parameters, x, observed.patches[agent], first, scratch)
        x = scratch.joined
    for i in range(len(network.layers)):
        layer = network.layers[i]
        own = parameters if i < network.noiseless else noisy
        y = outputs_of(layer, scratch.outputs, rows)
        if i == 0 and observed.is_sparse:
            indices = observed.indices[agent][first : first + rows]
            values = observed.values[agent][first : first + rows]
            counts = observed.counts[agent][first : first + rows]
            multiply_sparse(indices, values, counts, weight_of(layer, own), y)
            add_bias(layer, own, y, i < network.rectified)
        else:
            linear(layer, own, x, y, i < network.rectified)
        x = y
    return x


@kernel
def backward(
    network: Network,
    parameters: Array,
    noisy: Array,
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
        parameters: what `forward` was given.
        noisy: what `forward` was given.
        observed: what `forward` was given, from row 0 on.
        agent: its place in the group.
        scratch: what `forward` wrote.
        d_outputs: (rows, outputs); overwritten.
        d_scratch: for as many rows; written.
        gradient: laid out like the parameters; written.
    """
    rows, all_rows = len(d_outputs), rows_of(scratch, network)
    d_y = d_outputs
    for k in range(1, len(network.layers) + 1):
        i = len(network.layers) - k
        layer = network.layers[i]
        own = parameters if i < network.noiseless else noisy
        y = outputs_of(layer, scratch.outputs, all_rows)
        add_bias_backward(layer, y, d_y, i < network.rectified, gradient)
        if i > 0:
            before = network.layers[i - 1]
            x = outputs_of(before, scratch.outputs, all_rows)
            d_x = outputs_of(before, d_scratch.outputs, rows)
            multiply_transposed_left(x[:rows], d_y, weight_of(layer, gradient))
            multiply_transposed_right(d_y, weight_of(layer, own), d_x)
            d_y = d_x
        elif len(network.grids):
            x, d_x = scratch.joined[:rows], d_scratch.joined
            multiply_transposed_left(x, d_y, weight_of(layer, gradient))
            multiply_transposed_right(d_y, weight_of(layer, own), d_x)
            convolve_backward(
                network, observed.patches[agent], scratch, d_scratch, gradient
            )
        elif observed.is_sparse:
            indices, values = observed.indices[agent], observed.values[agent]
            counts, d_w = observed.counts[agent], weight_of(layer, gradient)
            multiply_sparse_backward(indices, values, counts, d_y, d_w)
        else:
            x = observed.dense[agent][:rows]
            multiply_transposed_left(x, d_y, weight_of(layer, gradient))


# A linear layer: y = x w + b, or y = max(x w + b, 0) if it is rectified.


@kernel
def linear(layer: Array, parameters: Array, x: Array, y: Array, rectified: bool) -> None:
    """Write a layer's outputs, (rows, units)."""
    multiply(x, weight_of(layer, parameters), y)
    add_bias(layer, parameters, y, rectified)


@kernel
def linear_backward(
    layer: Array,
    parameters: Array,
    x: Array,
    y: Array,
    d_y: Array,
    rectified: bool,
    d_x: Array,
    gradient: Array,
) -> None:
    """Write the gradients of a layer's parameters and inputs.

    `x` and `y` can have more rows than `d_y`, which is overwritten if rectified.
    """
    add_bias_backward(layer, y, d_y, rectified, gradient)
    multiply_transposed_left(x[: len(d_y)], d_y, weight_of(layer, gradient))
    multiply_transposed_right(d_y, weight_of(layer, parameters), d_x)


@kernel
def add_bias(layer: Array, parameters: Array, y: Array, rectified: bool) -> None:
    """Add the bias to every row, and set what is then negative to 0 if rectified."""
    b, zero = bias_of(layer, parameters), np.float32(0)
    for r in range(len(y)):
        row = y[r]
        if rectified:
            for u in range(len(b)):
                total = row[u] + b[u]
                row[u] = zero if total < zero else total
        else:
            for u in range(len(b)):
                row[u] += b[u]


@kernel
def add_bias_backward(
    layer: Array, y: Array, d_y: Array, rectified: bool, gradient: Array
) -> None:
    """Write the gradient of the bias; set gradients to 0 where rectified outputs are 0."""
    d_b, zero = bias_of(layer, gradient), np.float32(0)
    d_b[:] = zero
    for r in range(len(d_y)):
        row, d_row = y[r], d_y[r]
        if rectified:
            for u in range(len(d_b)):
                d = d_row[u] if row[u] > zero else zero
                d_row[u] = d
                d_b[u] += d
        else:
            for u in range(len(d_b)):
                d_b[u] += d_row[u]


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


# Grids.


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
        linear(grid, parameters, x, y, True)
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
        add_bias_backward(grid, y, d_y, True, gradient)
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
