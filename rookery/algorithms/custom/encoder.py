"""Custom encoders: a user's torch module in place of the layers that read an observation.

`network.module=./mine.py:Encoder` names a torch.nn.Module. It is built as `Encoder(spec,
settings)` and turns the parts of an observation into `network.width` features; what follows
(recurrent layers, quantiles, action values, logits) is the algorithm's own. Its trainable
parameters are stored in the agent's flat vector beside those of the other layers, so that
optimizer, target network and checkpoints work as usual. Agents with a module are never
stacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import pad

from rookery.algorithms.base import Agent
from rookery.algorithms.custom.sandbox import UserClass, seed_of
from rookery.algorithms.nets.encoder import Activation, Encoder
from rookery.algorithms.nets.layers import (
    MODULE,
    Features,
    Linear,
    Parameters,
    Row,
    Weights,
    padded,
)
from rookery.errors import ConfigError
from rookery.plugins import load_object
from rookery.rng import Stream
from rookery.specs import Array

TRIAL_ROWS = 2
"""Rows of the dummy batch that a new module is tried with."""
INERT = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
"""Layers that do something only in training mode."""


def encoder_of(agent: Agent, activation: Activation) -> Encoder | ModuleEncoder:
    """Return the encoder that an agent's settings ask for."""
    settings = agent.settings
    network = settings.network
    if network.module is not None:
        return ModuleEncoder(agent, network.module)
    return Encoder(
        agent.spec,
        settings.frames,
        network.width,
        network.depth,
        network.channels,
        activation,
    )


class ModuleEncoder:
    """A user's module, called like the built-in encoder.

    The module is always in `eval()` mode. Buffers and parameters that do not require a
    gradient keep the values that the constructor gave them.
    """

    linear_layers: Sequence[str] = ()

    def __init__(self, agent: Agent, path: str, seed: int = 0) -> None:
        self._agent, self.user_class = agent, UserClass(path, _module_class(path))
        self.features = Features(agent.spec, agent.settings.frames)
        self._width = agent.settings.network.width
        self._module: nn.Module = self.user_class.build(agent, seed).eval()
        self._refuse_inert_layers()
        self.floats_per_row = self._try()
        trained = [x for x in self._module.named_parameters() if x[1].requires_grad]
        if not trained:
            raise self.error(
                "__init__", "made no trainable parameters, expected at least one."
            )
        self.tensors = {f"{MODULE}{name}": tensor.detach() for name, tensor in trained}
        """The trainable parameters by name, as they were built."""

    def error(self, method: str, problem: str) -> Exception:
        """Return an error that names the agent, the class and the method."""
        return self.user_class.error(self._agent, method, problem)

    def _refuse_inert_layers(self) -> None:
        for name, layer in self._module.named_modules():
            if isinstance(layer, INERT):
                raise self.error(
                    "__init__",
                    f"has a {type(layer).__name__} ('{name}'), which does nothing here: "
                    "the module is always called in eval mode; leave it out, or use "
                    "nn.LayerNorm.",
                )

    @torch.no_grad()
    def _try(self) -> int:
        """Call the module once; return how many numbers a row takes in both passes.

        Lazy layers get their shapes, and mistakes show before the first turn.
        """
        sizes: list[int] = []

        def note(layer: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, Tensor):
                sizes.append(output.numel() // TRIAL_ROWS)

        hooks = [layer.register_forward_hook(note) for layer in self._module.modules()]
        self._forward({}, torch.zeros(TRIAL_ROWS, self.features.padded))
        for hook in hooks:
            hook.remove()
        return self.features.padded + 3 * sum(sizes) + padded(self._width)

    def parameters(self, layers: Sequence[Linear]) -> Parameters:
        """Return the layout of the module's parameters and of other layers."""
        return ModuleParameters(self, layers)

    def initial(self, seed: int) -> dict[str, Tensor]:
        """Return the parameters that the user's constructor gives with a seed."""
        return ModuleEncoder(self._agent, self.user_class.path, seed).tensors

    def __call__(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return (1, rows, width) for observations (1, rows, features)."""
        tensors = {
            name.removeprefix(MODULE): weights[name][0, 0, : tensor.numel()].view(
                tensor.shape
            )
            for name, tensor in self.tensors.items()
        }
        return self._forward(tensors, inputs[0])[None]

    def _forward(self, tensors: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        parts = self._parts(inputs)
        with self.user_class.calling(self._agent, "forward", 0):
            features = functional_call(self._module, dict(tensors), (parts,))
        expected = (len(inputs), self._width)
        if not isinstance(features, Tensor) or tuple(features.shape) != expected:
            is_tensor = isinstance(features, Tensor)
            form = tuple(features.shape) if is_tensor else type(features).__name__
            raise self.error(
                "forward",
                f"returned {form}, expected a tensor {expected}: network.width features "
                "for each row.",
            )
        return pad(features.float(), (0, padded(self._width) - self._width))

    def _parts(self, inputs: Tensor) -> dict[str, Tensor]:
        """Return inputs (rows, features) as parts by name, (rows, frames, *shape)."""
        parts, start, frames = {}, 0, self._agent.settings.frames
        for name, part in self._agent.spec.parts.items():
            stop = start + frames * prod(part.shape)
            parts[name] = inputs[:, start:stop].reshape(-1, frames, *part.shape)
            start = stop
        return parts


def _module_class(path: str) -> type[nn.Module]:
    loaded = load_object(path)
    if not (isinstance(loaded, type) and issubclass(loaded, nn.Module)):
        raise ConfigError(
            f"network.module is '{path}', which is not a class that extends "
            "torch.nn.Module: name one, such as ./mine.py:Encoder."
        )
    return loaded


class ModuleParameters(Parameters):
    """The layout of a module's trainable parameters, and of the layers after it."""

    def __init__(self, encoder: ModuleEncoder, layers: Sequence[Linear]) -> None:
        rows = [Row(name, tensor.numel()) for name, tensor in encoder.tensors.items()]
        super().__init__([*rows, *layers])
        self._encoder = encoder

    def unpadded(self, flat: Array) -> dict[str, Array]:
        """Return the parameters by name, those of the module in their own shapes."""
        views = super().unpadded(flat)
        own = self._encoder.tensors.items()
        return views | {name: views[name].reshape(tuple(t.shape)) for name, t in own}

    def initial(self, stream: Stream, agent: int) -> Array:
        """Return the module as its constructor makes it, and the other layers drawn."""
        flat = super().initial(stream, agent)
        views, seed = self.unpadded(flat), seed_of(stream, (agent,), 0)
        for name, tensor in self._encoder.initial(seed).items():
            views[name][...] = tensor.float().numpy()
        return flat

    def gradients(self, loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients of a loss; zeros for parameters that were not used."""
        encoder = self._encoder
        with encoder.user_class.calling(encoder._agent, "forward", 0):
            gradients = partial(torch.autograd.grad, allow_unused=True)
            return list(gradients(loss, list(leaves), materialize_grads=True))
