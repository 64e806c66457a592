"""The first layers of a network: grids flat or through a convolution, vectors flat.

Everything is a matrix product: a convolution is one over the 3×3 neighbourhoods of all
cells, so that stacked agents get the bits they get on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, unfold

from rookery.algorithms.nets.layers import (
    Features,
    Linear,
    Parameters,
    Weights,
    linear,
    padded,
)
from rookery.specs import AgentSpec, Part

Activation = Callable[[Tensor], Tensor]


class Encoder:
    """The layers from an observation to a vector of `width`."""

    def __init__(
        self,
        spec: AgentSpec,
        frames: int,
        width: int,
        depth: int,
        channels: int,
        activation: Activation,
    ) -> None:
        self.features = Features(spec, frames)
        self.frames, self.depth, self.channels = frames, depth, channels
        self._width = padded(width)
        self._activation = activation
        self.parts = dict(spec.parts)
        self.layers = [*self._convolutions(), Linear("read.0", self._input_width(), width)]
        self.layers += [Linear(f"read.{i}", width, width) for i in range(1, depth)]

    def parameters(self, layers: Sequence[Linear]) -> Parameters:
        """Return the layout of the encoder's parameters and of other layers."""
        return Parameters([*self.layers, *layers])

    def is_grid(self, part: Part) -> bool:
        """Whether a part goes through the convolution."""
        return self.channels > 0 and len(part.shape) == 3

    def _convolutions(self) -> list[Linear]:
        return [
            Linear(f"look.{name}", 9 * self.frames * part.shape[0], self.channels)
            for name, part in self.parts.items()
            if self.is_grid(part)
        ]

    def _input_width(self) -> int:
        return sum(
            self.channels * part.shape[1] * part.shape[2]
            if self.is_grid(part)
            else self.frames * prod(part.shape)
            for part in self.parts.values()
        )

    @property
    def floats_per_row(self) -> int:
        """How many numbers a row takes in a forward and backward pass."""
        convolved = sum(
            part.shape[1]
            * part.shape[2]
            * (3 * padded(9 * self.frames * part.shape[0]) + 2 * self.channels)
            for part in self.parts.values()
            if self.is_grid(part)
        )
        joined = 2 * padded(self._input_width()) if convolved else 0
        return convolved + joined + (self.depth + 1) * self._width

    def __call__(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return (agents, rows, width) for observations (agents, rows, features)."""
        if self.channels:
            inputs = self._convolve_grids(weights, inputs)
        for i in range(self.depth):
            inputs = self._activation(linear(weights, f"read.{i}", inputs))
        return inputs

    @property
    def has_sparse_inputs(self) -> bool:
        """Whether the first layer gets small unscaled integers, which are mostly zeros."""
        parts = self.parts.values()
        integers = all(part.dtype == np.uint8 and part.scale == 1.0 for part in parts)
        return integers and not self.channels

    @property
    def linear_layers(self) -> list[str]:
        """The names of its layers, in order, if all are linear; else none."""
        return [] if self.channels else [layer.name for layer in self.layers]

    def _convolve_grids(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return inputs in which each grid is replaced by its convolution."""
        pieces, start = [], 0
        for name, part in self.parts.items():
            stop = start + self.frames * prod(part.shape)
            piece = inputs[:, :, start:stop]
            pieces.append(
                self._convolve(weights, name, part, piece) if self.is_grid(part) else piece
            )
            start = stop
        joined = torch.cat(pieces, dim=2)
        return pad(joined, (0, padded(joined.shape[2]) - joined.shape[2]))

    def _convolve(self, weights: Weights, name: str, part: Part, piece: Tensor) -> Tensor:
        agents, rows, _ = piece.shape
        planes, height, width = part.shape
        images = piece.reshape(agents * rows, self.frames * planes, height, width)
        patches = unfold(images, kernel_size=3, padding=1).transpose(1, 2)
        patches = pad(patches, (0, padded(patches.shape[2]) - patches.shape[2]))
        flat = patches.reshape(agents, rows * height * width, -1)
        outputs = self._activation(linear(weights, f"look.{name}", flat))
        return outputs.reshape(agents, rows, height * width * self.channels)
