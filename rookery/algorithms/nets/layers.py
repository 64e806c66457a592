"""Parameters and layers of many agents as one computation.

The parameters of an agent are one flat vector; those of a group are the rows of a matrix
(agents, parameters). A layer is a slice of it, viewed as (agents, inputs, outputs), and a
product over all agents is one `baddbmm`. Widths are padded to multiples of 16: only then
does an agent get the same bits in any group. Padding is zero in parameters, features and
gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
import torch
from torch import Tensor

from rookery.errors import ConfigError
from rookery.replay.drawing import add_nonzero, fill
from rookery.replay.frames import scale_into
from rookery.replay.rows import Rows
from rookery.rng import Stream
from rookery.specs import AgentSpec, Array

LANES = 16
MODULE = "module."
"""What the names of parameters of a user's module start with."""
MAX_DRAWS = 1 << 22
"""The most numbers that one draw of a stream is asked for."""

Weights = Mapping[str, Tensor]
"""Parameter name to (agents, inputs, outputs)."""


def padded(width: int) -> int:
    """Return the next multiple of 16."""
    return -(-width // LANES) * LANES


@dataclass(frozen=True)
class Linear:
    """A linear layer; a noisy one has a second pair of parameters that scale its noise."""

    name: str
    inputs: int
    outputs: int
    noisy: bool = False

    @property
    def tensors(self) -> dict[str, tuple[int, int]]:
        """Parameter name to its shape without padding; a bias is a matrix of one row."""
        shapes = {".weight": (self.inputs, self.outputs), ".bias": (1, self.outputs)}
        if self.noisy:
            shapes |= {f"{name}_noise": shape for name, shape in list(shapes.items())}
        return {self.name + name: shape for name, shape in shapes.items()}


@dataclass(frozen=True)
class Row:
    """A parameter of a user's module, stored as a single row whatever its shape."""

    name: str
    size: int

    @property
    def tensors(self) -> dict[str, tuple[int, int]]:
        """The parameter's name and its shape without padding."""
        return {self.name: (1, self.size)}


class Parameters:
    """The layout of an agent's flat parameter vector."""

    def __init__(self, layers: Sequence[Linear | Row]) -> None:
        self.layers = {layer.name: layer for layer in layers if isinstance(layer, Linear)}
        self.shapes: dict[str, tuple[int, int]] = {}
        """Parameter name to its shape without padding."""
        self._layout: dict[str, tuple[int, int, int]] = {}
        """Parameter name to its offset, rows and columns, with padding."""
        offset = 0
        for layer in layers:
            for name, (rows, columns) in layer.tensors.items():
                is_bias = ".bias" in name.removeprefix(layer.name)
                high = 1 if is_bias or isinstance(layer, Row) else padded(rows)
                wide = padded(columns)
                self.shapes[name] = (rows, columns)
                self._layout[name] = (offset, high, wide)
                offset += high * wide
        self.size = offset

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return views of each parameter of all agents, (agents, rows, columns)."""
        return {
            name: flat[:, offset : offset + high * wide].view(len(flat), high, wide)
            for name, (offset, high, wide) in self._layout.items()
        }

    def place(self, name: str) -> tuple[int, int, int, int]:
        """Return where a linear layer's weight and bias start, its inputs and its units.

        Inputs and units include padding.
        """
        weight, inputs, units = self._layout[f"{name}.weight"]
        bias, _, _ = self._layout[f"{name}.bias"]
        return weight, bias, inputs, units

    def stacked(self, flats: Sequence[Array]) -> dict[str, Tensor]:
        """Return copies of each parameter of some agents, (agents, rows, columns)."""
        stacked = {}
        for name, (offset, high, wide) in self._layout.items():
            # torch's memory starts at a cache line, numpy's does not.
            stacked[name] = torch.empty(len(flats), high, wide)
            for own, flat in zip(stacked[name].numpy(), flats, strict=True):
                own[...] = flat[offset : offset + high * wide].reshape(high, wide)
        return stacked

    def unpadded(self, flat: Array) -> dict[str, Array]:
        """Return views of one agent's parameters without padding."""
        views = {}
        for name, (offset, high, wide) in self._layout.items():
            rows, columns = self.shapes[name]
            matrix = flat[offset : offset + high * wide].reshape(high, wide)
            views[name] = matrix[:rows, :columns]
        return views

    def flat(self, named: Mapping[str, Array]) -> Array:
        """Return one agent's flat vector from parameters without padding.

        Raises:
            ConfigError: if one is missing or has another shape.
        """
        flat = np.zeros(self.size, np.float32)
        for name, view in self.unpadded(flat).items():
            if name not in named or named[name].shape != view.shape:
                shape = named[name].shape if name in named else "missing"
                raise ConfigError(
                    f"weights '{name}' are {shape}, expected {view.shape}: the network "
                    "they were trained with has another shape; use the same settings."
                )
            view[...] = named[name]
        return flat

    def gradients(self, loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients of a loss with respect to all parameters."""
        return list(torch.autograd.grad(loss, list(leaves)))

    def padding_is_zero(self, flat: Array) -> bool:
        """Whether all padding of one agent's vector is zero."""
        padding = flat.copy()
        for view in self.unpadded(padding).values():
            view[...] = 0
        return not padding.any()

    def initial(self, stream: Stream, agent: int) -> Array:
        """Return an agent's initial parameters: uniform within ±1 / sqrt(inputs)."""
        flat = np.zeros(self.size, np.float32)
        for number, (name, view) in enumerate(self.unpadded(flat).items()):
            if name.startswith(MODULE):
                continue
            layer = self.layers[name.rsplit(".", 1)[0]]
            bound = 1.0 / sqrt(layer.inputs)
            if name.endswith("_noise"):
                view[...] = 0.5 * bound
                continue
            draws = _many_uniform(stream, agent, number, view.size)
            view[...] = ((2.0 * draws - 1.0) * bound).reshape(view.shape)
        return flat


def _many_uniform(stream: Stream, agent: int, number: int, count: int) -> Array:
    """Return any number of draws, at most `MAX_DRAWS` at a time."""
    chunks = [
        stream.uniform((agent, k), number, min(MAX_DRAWS, count - k * MAX_DRAWS))[0]
        for k in range(-(-count // MAX_DRAWS))
    ]
    return np.concatenate(chunks)


def linear(weights: Weights, name: str, inputs: Tensor) -> Tensor:
    """Return a layer's outputs for (agents, rows, inputs)."""
    return torch.baddbmm(weights[f"{name}.bias"], inputs, weights[f"{name}.weight"])


@dataclass(frozen=True)
class Noise:
    """Factorised noise of one layer: (agents, inputs, 1) and (agents, 1, outputs)."""

    inputs: Tensor
    outputs: Tensor

    def part(self, start: int, stop: int) -> Noise:
        """Return a view of the noise of some agents."""
        return Noise(self.inputs[start:stop], self.outputs[start:stop])


def add_noise(weights: Weights, noise: Mapping[str, Noise]) -> dict[str, Tensor]:
    """Return weights with noise added to noisy layers, without the noise parameters.

    Noisy networks: Fortunato et al. (2018).
    """
    noisy = {
        name: tensor
        for name, tensor in weights.items()
        if name.startswith(MODULE) or not name.endswith("_noise")
    }
    for layer, epsilon in noise.items():
        factors = {
            f"{layer}.weight": epsilon.inputs * epsilon.outputs,
            f"{layer}.bias": epsilon.outputs,
        }
        for name, factor in factors.items():
            noisy[name] = torch.addcmul(weights[name], weights[f"{name}_noise"], factor)
    return noisy


def signed_root(draws: Array) -> Array:
    """Return sign(x) * sqrt(|x|), the transform of factorised noise."""
    return np.sign(draws) * np.sqrt(np.abs(draws))


class Features:
    """Turns observations into network inputs: all parts flattened, side by side."""

    def __init__(self, spec: AgentSpec, frames: int) -> None:
        self.frames = frames
        self._columns: dict[str, tuple[int, int, float]] = {}
        """Part name to its first column, the column after its last, and its scale."""
        start = 0
        for name, part in spec.parts.items():
            stop = start + frames * prod(part.shape)
            self._columns[name] = (start, stop, part.scale)
            start = stop
        self.width = start
        self.padded = padded(start)

    def fill(self, inputs: Array, observations: Mapping[str, Array]) -> None:
        """Write observations (n, frames, *shape) into `inputs` (n, padded)."""
        for name, (start, stop, scale) in self._columns.items():
            flat = observations[name].reshape(len(inputs), stop - start)
            scale_into(inputs[:, start:stop], flat, scale)

    def draw(self, inputs: Array, rows: Rows, addresses: Array) -> None:
        """Write the observations in some rows into `inputs` (n, padded)."""
        for name, (start, _, scale) in self._columns.items():
            fill(inputs, start, rows, name, addresses, self.frames, scale)

    def draw_nonzero(
        self, nonzero: tuple[Array, Array, Array], rows: Rows, addresses: Array
    ) -> None:
        """Write what is not 0 in the observations in some rows.

        For parts of unscaled bytes. `nonzero` are columns, numbers and counts of a row.
        """
        indices, values, counts = nonzero
        counts[:] = 0
        for name, (start, _, _) in self._columns.items():
            part = rows.flat_parts[name]
            add_nonzero(part, addresses, self.frames, start, indices, values, counts)
