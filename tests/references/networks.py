"""The networks for one agent and one row, in float64, with autograd's gradients."""

# ruff: noqa: RUF002 (formulas have the letters of the papers)

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from rookery.config.agent import NetworkConfig
from rookery.rng import Purpose, Stream
from tests.references.kinks import relu

Weights = Mapping[str, Tensor]
COSINES = 64
"""n of equation (4) of Dabney et al. (2018)."""


def dense(w: Weights, name: str, x: Tensor) -> Tensor:
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"][0]


def encode(
    w: Weights, obs: list[Tensor], network: NetworkConfig, activation: Callable
) -> Tensor:
    """Return the encoding of an observation; grids can go through a convolution."""
    pieces = []
    for name, part in zip(("view", "self"), obs, strict=True):
        if network.channels and part.ndim == 4:
            image = part.flatten(0, 1)[None]
            kernel = w[f"look.{name}.weight"].T.reshape(-1, image.shape[1], 3, 3)
            bias = w[f"look.{name}.bias"][0]
            convolved = activation(conv2d(image, kernel, bias, padding=1))[0]
            pieces.append(convolved.permute(1, 2, 0).flatten())
        else:
            pieces.append(part.flatten())
    x = torch.cat(pieces)
    for i in range(network.depth):
        x = activation(dense(w, f"read.{i}", x))
    return x


def action_values(w: Weights, x: Tensor, dueling: bool) -> Tensor:
    """Return values of actions; dueling (Wang et al., 2016, eq. 9): V + A − mean A."""
    out = dense(w, "values", x)
    return out[-1] + out[:-1] - out[:-1].mean() if dueling else out


def q_values(w: Weights, obs: list[Tensor], settings) -> Tensor:
    """Return Q(s, ·) of DQN."""
    x = encode(w, obs, settings.network, relu)
    return action_values(w, relu(dense(w, "hidden", x)), settings.dqn.dueling)


def quantile(w: Weights, psi: Tensor, tau: float, dueling: bool) -> Tensor:
    """Return Z_τ(s, ·) = f(ψ(s) ⊙ φ(τ)), φ(τ) = ReLU(Σ_i cos(π i τ) w_i + b), eq. (4)."""
    cosines = torch.tensor([np.cos(np.pi * i * tau) for i in range(COSINES)])
    phi = relu(dense(w, "fraction", cosines))
    return action_values(w, relu(dense(w, "join", psi * phi)), dueling)


def quantiles(w: Weights, obs: list[Tensor], taus: list[float], settings) -> Tensor:
    """Return (len(taus), actions)."""
    psi = encode(w, obs, settings.network, relu)
    return torch.stack([quantile(w, psi, tau, settings.iqn.dueling) for tau in taus])


def policy_and_value(w: Weights, x: Tensor, legal: list[int]) -> tuple[dict, Tensor]:
    """Return log π of each legal action, and V, from the last hidden layer."""
    logits = dense(w, "choose", x)
    total = torch.logsumexp(torch.stack([logits[a] for a in legal]), dim=0)
    return {a: logits[a] - total for a in legal}, dense(w, "value", x)[0]


def gru_step(w: Weights, x: Tensor, hidden: Tensor) -> Tensor:
    """Return the next hidden state, by the function behind torch.nn.GRUCell."""
    states = torch.gru_cell(
        x[None],
        hidden[None],
        w["seen.weight"].T,
        w["carried.weight"].T,
        w["seen.bias"][0],
        w["carried.bias"][0],
    )
    return states[0]


def with_noise(w: Weights, noise: Mapping[str, tuple[Tensor, Tensor]]) -> Weights:
    """Return w = μ + σ ⊙ ε, ε_ij = f(ε_i) f(ε_j) (Fortunato et al., 2018, eq. 10, 11)."""
    noisy = dict(w)
    for layer, (rows, columns) in noise.items():
        weight, bias = f"{layer}.weight", f"{layer}.bias"
        noisy[weight] = w[weight] + w[f"{weight}_noise"] * torch.outer(rows, columns)
        noisy[bias] = w[bias] + w[f"{bias}_noise"] * columns
    return noisy


def drawn_noise(w: Weights, key: tuple[int, int, int], seed: int, which: int):
    """Return f(ε) = sgn(ε) √|ε| of each noisy layer, ε normal by Box and Muller.

    The numbers are those of the run, keyed by agent, round and pass; `which` is 0 for the
    online and 1 for the target network.
    """
    stream = Stream(seed, Purpose.LEARNER_NOISE)
    layers = [name[: -len(".weight_noise")] for name in w if name.endswith(".weight_noise")]
    noise = {}
    for number, layer in enumerate(layers):
        inputs, outputs = w[f"{layer}.weight"].shape
        draw, count = which * len(layers) + number, inputs + outputs
        u = stream.uniform(key, draw, 2 * count)[0]
        e = np.sqrt(-2 * np.log(1 - u[:count])) * np.cos(2 * np.pi * u[count:])
        f = torch.tensor(np.sign(e) * np.sqrt(np.abs(e)))
        noise[layer] = (f[:inputs], f[inputs:])
    return noise
