"""Networks of many agents as one computation.

The parameters of an agent are one flat vector; those of a group are the rows of a matrix
(agents, parameters). A layer is a slice of it, seen as (agents, inputs, outputs), and a
product over all agents is one `baddbmm`. Widths are padded to 16: only then does an agent
get the same bits in any company. Padding is zero in parameters, features and gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
import torch
from torch import Tensor

from rookery.errors import ConfigError
from rookery.rng import Stream
from rookery.specs import AgentSpec, Array

LANES = 16
MOST = 1 << 22
"""Numbers in one draw of a stream."""


def padded(width: int) -> int:
    """Return the next multiple of 16."""
    return -(-width // LANES) * LANES


@dataclass(frozen=True)
class Linear:
    """A layer; a noisy one has a second pair of weights that scale its noise."""

    name: str
    inputs: int
    outputs: int
    noisy: bool = False

    @property
    def tensors(self) -> dict[str, tuple[int, int]]:
        """Parameter name to its real shape; a bias is a matrix of one row."""
        shapes = {".weight": (self.inputs, self.outputs), ".bias": (1, self.outputs)}
        if self.noisy:
            shapes |= {f"{name}_noise": shape for name, shape in list(shapes.items())}
        return {self.name + name: shape for name, shape in shapes.items()}


class Parameters:
    """Where each parameter lies in an agent's flat vector."""

    def __init__(self, layers: Sequence[Linear]) -> None:
        self.layers = {layer.name: layer for layer in layers}
        self.shapes: dict[str, tuple[int, int]] = {}
        self._places: dict[str, tuple[int, int, int]] = {}
        offset = 0
        for layer in layers:
            for name, (rows, columns) in layer.tensors.items():
                high = 1 if ".bias" in name.removeprefix(layer.name) else padded(rows)
                wide = padded(columns)
                self.shapes[name] = (rows, columns)
                self._places[name] = (offset, high, wide)
                offset += high * wide
        self.size = offset

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return each parameter of all agents, (agents, rows, columns), in place."""
        return {
            name: flat[:, offset : offset + high * wide].view(len(flat), high, wide)
            for name, (offset, high, wide) in self._places.items()
        }

    def real(self, flat: Array) -> dict[str, Array]:
        """Return one agent's parameters without padding."""
        found = {}
        for name, (offset, high, wide) in self._places.items():
            rows, columns = self.shapes[name]
            whole = flat[offset : offset + high * wide].reshape(high, wide)
            found[name] = whole[:rows, :columns]
        return found

    def flat(self, real: Mapping[str, Array]) -> Array:
        """Return the flat vector of one agent's parameters without padding."""
        flat = np.zeros(self.size, np.float32)
        for name, view in self.real(flat).items():
            if name not in real or real[name].shape != view.shape:
                found = real[name].shape if name in real else "nothing"
                raise ConfigError(
                    f"weights '{name}' are {found}, expected {view.shape}: the network "
                    "they were trained with has another shape; use the same settings."
                )
            view[...] = real[name]
        return flat

    def padding_is_zero(self, flat: Array) -> bool:
        """Whether nothing has got into one agent's padding."""
        rest = flat.copy()
        for view in self.real(rest).values():
            view[...] = 0
        return not rest.any()

    def initial(self, stream: Stream, agent: int) -> Array:
        """Return an agent's first parameters: uniform within 1 / sqrt(inputs)."""
        flat = np.zeros(self.size, np.float32)
        for number, (name, view) in enumerate(self.real(flat).items()):
            layer = self.layers[name.rsplit(".", 1)[0]]
            bound = 1.0 / sqrt(layer.inputs)
            if name.endswith("_noise"):
                view[...] = 0.5 * bound
                continue
            draws = _many_uniform(stream, agent, number, view.size)
            view[...] = ((2.0 * draws - 1.0) * bound).reshape(view.shape)
        return flat


def _many_uniform(stream: Stream, agent: int, number: int, count: int) -> Array:
    """Return any number of draws; one draw of a stream has at most `MOST`."""
    parts = [
        stream.uniform((agent, part), number, min(MOST, count - part * MOST))[0]
        for part in range(-(-count // MOST))
    ]
    return np.concatenate(parts)


def linear(weights: Mapping[str, Tensor], name: str, inputs: Tensor) -> Tensor:
    """Return a layer's outputs for (agents, rows, inputs)."""
    return torch.baddbmm(weights[f"{name}.bias"], inputs, weights[f"{name}.weight"])


@dataclass(frozen=True)
class Noise:
    """Factorised noise of one layer: (agents, inputs, 1) and (agents, 1, outputs)."""

    inputs: Tensor
    outputs: Tensor

    def part(self, start: int, stop: int) -> Noise:
        """Return the noise of some rows, in place."""
        return Noise(self.inputs[start:stop], self.outputs[start:stop])


def shaken(weights: Mapping[str, Tensor], noise: Mapping[str, Noise]) -> dict[str, Tensor]:
    """Return parameters with the noise of noisy layers added."""
    found = {
        name: tensor for name, tensor in weights.items() if not name.endswith("_noise")
    }
    for layer, drawn in noise.items():
        both = drawn.inputs * drawn.outputs
        for name, by in ((f"{layer}.weight", both), (f"{layer}.bias", drawn.outputs)):
            found[name] = torch.addcmul(weights[name], weights[f"{name}_noise"], by)
    return found


def signed_root(draws: Array) -> Array:
    """Return sign(x) * sqrt(|x|), the usual transform of factorised noise."""
    return np.sign(draws) * np.sqrt(np.abs(draws))


class Features:
    """How an observation becomes the inputs of a network: parts side by side, flat."""

    def __init__(self, spec: AgentSpec, frames: int) -> None:
        self._parts = dict(spec.parts)
        self.width = frames * sum(prod(part.shape) for part in spec.parts.values())
        self.padded = padded(self.width)

    def fill(self, inputs: Array, seen: Mapping[str, Array]) -> None:
        """Write observations (n, frames, *shape) into rows of `inputs` (n, padded)."""
        start = 0
        for name, part in self._parts.items():
            flat = seen[name].reshape(len(inputs), prod(seen[name].shape[1:]))
            stop = start + flat.shape[1]
            if part.scale == 1.0:
                inputs[:, start:stop] = flat
            else:
                np.multiply(flat, part.scale, out=inputs[:, start:stop], casting="unsafe")
            start = stop
