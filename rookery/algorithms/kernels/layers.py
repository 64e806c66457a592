"""Linear layers of a group of agents: outputs, and gradients by hand.

Arrays are (agents, rows, units). `d_x` is the gradient of the loss with respect to x. A
layer keeps its last inputs and outputs for `backward`, which goes through the first rows
only: those that the loss depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.kernels import loops
from rookery.algorithms.kernels.sparse import Nonzero
from rookery.algorithms.nets.layers import Noise, Parameters, Weights
from rookery.specs import Array

Gradients = Mapping[str, Tensor]
"""Parameter name to its gradient, (agents, inputs, outputs), written by `backward`."""


class Linear:
    """y = x W + b."""

    def __init__(
        self,
        name: str,
        weights: Weights,
        rows: int,
        gradients: Gradients | None = None,
        gradient_rows: int = 0,
        is_first: bool = False,
    ) -> None:
        """Allocate the buffers of a layer.

        Args:
            name: of the layer.
            weights: of all layers; they may change in place between passes.
            rows: of every agent, in a forward pass.
            gradients: of all layers; None if there is no backward pass.
            gradient_rows: how many of the rows are in the backward pass.
            is_first: whether the inputs need no gradient.
        """
        self._weight, bias = parameters_of(weights, name)
        agents, inputs, units = self._weight.shape
        self.outputs = torch.empty(agents, rows, units)
        self._outputs = self.outputs.numpy()
        self._bias_array = bias.numpy()
        # Contiguous whatever the size of the group, so that loops are compiled once.
        self._bias_copy = np.empty(bias.shape, np.float32)
        self._inputs: Tensor | Nonzero = self.outputs
        if gradients is not None:
            self._d_weight, d_bias = parameters_of(gradients, name)
            self._d_bias_array = d_bias.numpy()
            self._d_bias = np.empty(d_bias.shape, np.float32)
            self._used = slice(gradient_rows)
            shape = (0,) if is_first else (agents, gradient_rows, inputs)
            self._d_inputs = torch.empty(shape)

    def forward(self, inputs: Tensor | Nonzero) -> Tensor:
        """Return the outputs of (agents, rows, inputs), valid until the next call."""
        self._inputs = inputs
        if isinstance(inputs, Nonzero):
            inputs.multiply(self._weight, self.outputs)
        else:
            torch.bmm(inputs, self._weight, out=self.outputs)
        np.copyto(self._bias_copy, self._bias_array)
        self._activate(self._outputs)
        return self.outputs

    def backward(self, d_outputs: Tensor) -> Tensor:
        """Write the gradients of the parameters; return that of the inputs.

        `d_outputs` is overwritten. The result is empty for a first layer.
        """
        self._activate_backward(d_outputs.numpy(), self._outputs)
        np.copyto(self._d_bias_array, self._d_bias)
        if isinstance(self._inputs, Nonzero):
            self._inputs.multiply_backward(d_outputs, self._d_weight)
        else:
            torch.bmm(self._inputs[:, self._used].mT, d_outputs, out=self._d_weight)
        if self._d_inputs.numel():
            torch.bmm(d_outputs, self._weight.mT, out=self._d_inputs)
        return self._d_inputs

    def _activate(self, outputs: Array) -> None:
        loops.add_bias(outputs, self._bias_copy)

    def _activate_backward(self, d_outputs: Array, outputs: Array) -> None:
        loops.bias_backward(d_outputs, self._d_bias)


class LinearRelu(Linear):
    """y = max(x W + b, 0)."""

    def _activate(self, outputs: Array) -> None:
        loops.add_bias_relu(outputs, self._bias_copy)

    def _activate_backward(self, d_outputs: Array, outputs: Array) -> None:
        loops.relu_backward(d_outputs, outputs, self._d_bias)


class LinearTanh(Linear):
    """y = tanh(x W + b)."""

    def _activate(self, outputs: Array) -> None:
        loops.add_bias(outputs, self._bias_copy)
        np.tanh(outputs, out=outputs)  # six times as fast as torch's

    def _activate_backward(self, d_outputs: Array, outputs: Array) -> None:
        loops.tanh_backward(d_outputs, outputs, self._d_bias)


class Noisy:
    """The noisy version of a layer's parameters (Fortunato et al., 2018).

    W = M + S × (n_in ⊗ n_out), b = m + s × n_out: a layer takes `weights`, which `sample`
    overwrites, and its gradients are those of M and m; `backward` adds those of S and s.
    """

    def __init__(
        self,
        name: str,
        weights: Weights,
        gradients: Gradients | None = None,
        sampled: Weights | None = None,
    ) -> None:
        """Allocate the buffers; `sampled` can be given, with an entry for each weight."""
        self._means = [each.numpy() for each in parameters_of(weights, name)]
        self._scales = [each.numpy() for each in parameters_of(weights, name, "_noise")]
        names = (f"{name}.weight", f"{name}.bias")
        self.weights = {
            each: torch.empty(weights[each].shape) if sampled is None else sampled[each]
            for each in names
        }
        self._sampled = [each.numpy() for each in self.weights.values()]
        if gradients is not None:
            self._d_means = [each.numpy() for each in parameters_of(gradients, name)]
            self._d_scales = [
                each.numpy() for each in parameters_of(gradients, name, "_noise")
            ]

    def sample(self, noise: Noise) -> None:
        """Write weights with this noise."""
        self._noise = self._factors(noise)
        for mean, scale, factors, sample in zip(
            self._means, self._scales, self._noise, self._sampled, strict=True
        ):
            loops.noisy(mean, scale, *factors, sample)

    def backward(self) -> None:
        """Write the gradients of the scales, after the layer's own `backward`."""
        for d_mean, factors, d_scale in zip(
            self._d_means, self._noise, self._d_scales, strict=True
        ):
            loops.noisy_backward(d_mean, *factors, d_scale)

    @staticmethod
    def _factors(noise: Noise) -> list[tuple[Array, Array]]:
        """Return the two factors of the noise, of the weight and of the bias."""
        noise_out = noise.outputs.numpy()
        ones = np.ones((len(noise_out), 1, 1), np.float32)
        return [(noise.inputs.numpy(), noise_out), (ones, noise_out)]


class NoisyLayers:
    """The noisy layers of a network, sampled and differentiated together."""

    def __init__(
        self,
        names: Iterable[str],
        weights: Weights,
        gradients: Gradients | None = None,
        sampled: Weights | None = None,
    ) -> None:
        self._layers = {name: Noisy(name, weights, gradients, sampled) for name in names}
        self.weights = dict(weights)
        """All weights, with those of the noisy layers replaced by sampled ones."""
        for layer in self._layers.values():
            self.weights |= layer.weights

    def sample(self, noise: Mapping[str, Noise]) -> None:
        """Write weights with this noise, by layer."""
        for name, layer in self._layers.items():
            layer.sample(noise[name])

    def backward(self) -> None:
        """Write the gradients of all scales, after the layers' own `backward`."""
        for layer in self._layers.values():
            layer.backward()


class NoisyParameters:
    """The flat parameters of a group, for its noisy layers if it has any."""

    def __init__(
        self,
        names: Iterable[str],
        parameters: Parameters,
        flat: Array,
        gradients: Gradients | None = None,
    ) -> None:
        """Allocate the buffers; `flat` is (agents, parameters), without noise."""
        self._flat, names = flat, list(names)
        sampled = torch.empty(flat.shape if names else 0)
        self._sampled = sampled.numpy()
        self._layers = None
        if names:
            views = parameters.views(torch.from_numpy(flat)), parameters.views(sampled)
            self._layers = NoisyLayers(names, views[0], gradients, views[1])

    def sample(self, noise: Mapping[str, Noise]) -> Array:
        """Return parameters with this noise, by layer; valid until the next call.

        If there are noisy layers, only their parameters are filled in.
        """
        if self._layers is None:
            return self._flat
        self._layers.sample(noise)
        return self._sampled

    def backward(self) -> None:
        """Write the gradients of the noise's scales, after those of all others."""
        if self._layers is not None:
            self._layers.backward()


def parameters_of(tensors: Weights, name: str, suffix: str = "") -> tuple[Tensor, Tensor]:
    """Return a layer's weight and bias; views that autograd does not follow."""
    weight, bias = (tensors[f"{name}.{kind}{suffix}"] for kind in ("weight", "bias"))
    return weight.detach(), bias.detach()
