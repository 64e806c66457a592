"""The compiled loops of layers: biases, activations, noise, neighbourhoods of cells.

Arrays are (agents, rows, units). Agents are computed one after the other, so that none
depends on its group. Inner loops run over contiguous rows, `y` or `d_y` for the gradient of
y, so that the compiler can vectorise them. Zeros are written by loops, too: a slice takes
several times as long to compile.
"""

from __future__ import annotations

import numpy as np

from rookery.kernels import kernel
from rookery.specs import Array


@kernel
def add_bias(outputs: Array, bias: Array) -> None:
    """Add a bias, (agents, 1, units), to outputs."""
    agents, rows, units = outputs.shape
    for a in range(agents):
        b = bias[a, 0]
        for r in range(rows):
            y = outputs[a, r]
            for u in range(units):
                y[u] += b[u]


@kernel
def add_bias_relu(outputs: Array, bias: Array) -> None:
    """Add a bias, and set what is negative to 0."""
    zero = np.float32(0)
    agents, rows, units = outputs.shape
    for a in range(agents):
        b = bias[a, 0]
        for r in range(rows):
            y = outputs[a, r]
            for u in range(units):
                total = y[u] + b[u]
                y[u] = zero if total < zero else total


@kernel
def bias_backward(d_outputs: Array, d_bias: Array) -> None:
    """Sum gradients over rows."""
    agents, rows, units = d_outputs.shape
    for a in range(agents):
        d_b = d_bias[a, 0]
        for u in range(units):
            d_b[u] = np.float32(0)
        for r in range(rows):
            d_y = d_outputs[a, r]
            for u in range(units):
                d_b[u] += d_y[u]


@kernel
def relu_backward(d_outputs: Array, outputs: Array, d_bias: Array) -> None:
    """Set gradients to 0 where outputs are 0, and sum them over rows.

    `outputs` can have more rows than `d_outputs`; only the first are used.
    """
    zero = np.float32(0)
    agents, rows, units = d_outputs.shape
    for a in range(agents):
        d_b = d_bias[a, 0]
        for u in range(units):
            d_b[u] = zero
        for r in range(rows):
            d_y, y = d_outputs[a, r], outputs[a, r]
            for u in range(units):
                gradient = d_y[u] if y[u] > zero else zero
                d_y[u] = gradient
                d_b[u] += gradient


@kernel
def tanh_backward(d_outputs: Array, outputs: Array, d_bias: Array) -> None:
    """Multiply gradients by 1 − tanh², and sum them over rows."""
    one = np.float32(1)
    agents, rows, units = d_outputs.shape
    for a in range(agents):
        d_b = d_bias[a, 0]
        for u in range(units):
            d_b[u] = np.float32(0)
        for r in range(rows):
            d_y, y = d_outputs[a, r], outputs[a, r]
            for u in range(units):
                gradient = d_y[u] * (one - y[u] * y[u])
                d_y[u] = gradient
                d_b[u] += gradient


@kernel
def noisy(
    mean: Array, scale: Array, noise_in: Array, noise_out: Array, sample: Array
) -> None:
    """Write mean + scale × (noise_in ⊗ noise_out), (agents, inputs, outputs)."""
    agents, inputs, outputs = mean.shape
    for a in range(agents):
        for i in range(inputs):
            for o in range(outputs):
                factor = noise_in[a, i, 0] * noise_out[a, 0, o]
                sample[a, i, o] = mean[a, i, o] + scale[a, i, o] * factor


@kernel
def noisy_backward(
    d_mean: Array, noise_in: Array, noise_out: Array, d_scale: Array
) -> None:
    """Write the gradient of the noise's scale from that of the mean."""
    agents, inputs, outputs = d_mean.shape
    for a in range(agents):
        for i in range(inputs):
            for o in range(outputs):
                factor = noise_in[a, i, 0] * noise_out[a, 0, o]
                d_scale[a, i, o] = d_mean[a, i, o] * factor


@kernel
def neighbourhoods(
    inputs: Array, start: int, planes: int, height: int, width: int, patches: Array
) -> None:
    """Write the 3×3 neighbourhood of every cell of a grid; cells outside it are 0.

    Args:
        inputs: (agents, rows, features); a grid is (planes, height, width) from `start` on.
        start: the first feature of the grid.
        planes: of the grid.
        height: of the grid.
        width: of the grid.
        patches: (agents, rows × cells, 9 × planes, padded).
    """
    agents, rows, _ = inputs.shape
    for a in range(agents):
        for r in range(rows):
            for y in range(height):
                for x in range(width):
                    patch = patches[a, (r * height + y) * width + x]
                    k = 0
                    for plane in range(planes):
                        first = start + plane * height * width
                        for dy in range(-1, 2):
                            for dx in range(-1, 2):
                                v, h = y + dy, x + dx
                                inside = 0 <= v < height and 0 <= h < width
                                cell = first + v * width + h
                                patch[k] = inputs[a, r, cell] if inside else np.float32(0)
                                k += 1
