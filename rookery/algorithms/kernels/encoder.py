"""The encoder's layers, from an observation to a hidden vector, with gradients by hand."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from rookery.algorithms.kernels import loops
from rookery.algorithms.kernels.layers import Gradients, Linear
from rookery.algorithms.kernels.sparse import Nonzero
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import Weights, padded


class EncoderPass:
    """A pass through convolution and hidden layers; `nets.encoder.Encoder` defines them."""

    def __init__(
        self,
        encoder: Encoder,
        layer: type[Linear],
        weights: Weights,
        rows: int,
        gradients: Gradients | None = None,
        gradient_rows: int = 0,
    ) -> None:
        """Allocate the buffers; `layer` is the kind of layer, by its activation."""
        self._grids = (
            GridPass(encoder, layer, weights, rows, gradients, gradient_rows)
            if encoder.channels
            else None
        )
        self._layers = [
            layer(
                f"read.{i}",
                weights,
                rows,
                gradients,
                gradient_rows,
                is_first=i == 0 and not encoder.channels,
            )
            for i in range(encoder.depth)
        ]
        self._has_sparse_inputs = encoder.has_sparse_inputs
        self._nonzero: Nonzero | None = None

    def forward(self, observations: Tensor | Nonzero) -> Tensor:
        """Return (agents, rows, width) for observations (agents, rows, features)."""
        first, *others = self._layers
        hidden = first.forward(self._first_inputs(observations))
        for layer in others:
            hidden = layer.forward(hidden)
        return hidden

    def _first_inputs(self, observations: Tensor | Nonzero) -> Tensor | Nonzero:
        if isinstance(observations, Nonzero):
            return observations
        if self._grids is not None:
            return self._grids.forward(observations)
        if not self._has_sparse_inputs:
            return observations
        if self._nonzero is None:
            self._nonzero = Nonzero.allocate(*observations.shape)
        return self._nonzero.find(observations)

    def backward(self, d_hidden: Tensor) -> None:
        """Write the gradients of all layers from that of the outputs."""
        for layer in reversed(self._layers):
            d_hidden = layer.backward(d_hidden)
        if self._grids is not None:
            self._grids.backward(d_hidden)


class GridPass:
    """A 3×3 convolution of each grid in an observation; other parts pass through.

    A convolution is a linear layer over the neighbourhoods of all cells.
    """

    def __init__(
        self,
        encoder: Encoder,
        layer: type[Linear],
        weights: Weights,
        rows: int,
        gradients: Gradients | None,
        gradient_rows: int,
    ) -> None:
        agents = len(weights["read.0.weight"])
        self._joined = torch.zeros(agents, rows, weights["read.0.weight"].shape[1])
        self._flat: list[tuple[slice, slice]] = []
        """Where each part that is not a grid is, in the observations and joined."""
        self._convolutions: list[tuple[_Convolution, slice]] = []
        """Each grid's convolution, and where its outputs are joined."""
        start = joined = 0
        for name, part in encoder.parts.items():
            size = width = encoder.frames * prod(part.shape)
            if encoder.is_grid(part):
                planes, cells = encoder.frames * part.shape[0], part.shape[1:]
                width = encoder.channels * prod(cells)
                patches = torch.zeros(agents, rows * prod(cells), padded(9 * planes))
                convolution = layer(
                    f"look.{name}",
                    weights,
                    rows * prod(cells),
                    gradients,
                    gradient_rows * prod(cells),
                    is_first=True,
                )
                grid = (start, planes, cells[0], cells[1])
                columns = slice(joined, joined + width)
                self._convolutions.append(
                    (_Convolution(convolution, patches, grid), columns)
                )
            else:
                self._flat.append(
                    (slice(start, start + size), slice(joined, joined + width))
                )
            start, joined = start + size, joined + width

    def forward(self, observations: Tensor) -> Tensor:
        """Return the inputs of the first hidden layer: grids convolved, the rest as is."""
        for source, target in self._flat:
            self._joined[..., target] = observations[..., source]
        for convolution, target in self._convolutions:
            outputs = convolution.forward(observations)
            self._joined[..., target] = outputs.view(self._joined[..., target].shape)
        return self._joined

    def backward(self, d_joined: Tensor) -> None:
        """Write the gradients of the convolutions from that of `forward`'s result."""
        for convolution, columns in self._convolutions:
            convolution.backward(d_joined[..., columns])


class _Convolution:
    """The convolution of one grid."""

    def __init__(
        self, layer: Linear, patches: Tensor, grid: tuple[int, int, int, int]
    ) -> None:
        self._layer, self._patches, self._grid = layer, patches, grid

    def forward(self, observations: Tensor) -> Tensor:
        """Return (agents, rows × cells, channels)."""
        loops.neighbourhoods(observations.numpy(), *self._grid, self._patches.numpy())
        return self._layer.forward(self._patches)

    def backward(self, d_outputs: Tensor) -> None:
        """Write the gradients of the layer."""
        agents, _, channels = self._layer.outputs.shape
        self._layer.backward(d_outputs.reshape(agents, -1, channels))
