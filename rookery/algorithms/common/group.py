"""What every rule shares: the stacked states of a group, and how they take a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import WEIGHTS, Agent, Shapes, State
from rookery.algorithms.common.optimizer import adam_step, clip_factors
from rookery.algorithms.common.schedules import learning_rate
from rookery.algorithms.nets.layers import Features, Noise, Parameters, padded, signed_root
from rookery.replay.rewards import RewardSpread
from rookery.rng import Stream
from rookery.specs import Array

FLAT = (WEIGHTS, "target", "means", "squares")
UPDATES, STOPPED = 0, 1


class Inputs:
    """A buffer for what the agents of a group see, filled anew for every pass."""

    def __init__(self, features: Features, agents: int, rows: int) -> None:
        self._features, self.rows = features, rows
        self._array = np.zeros((agents, rows, features.padded), np.float32)
        self._tensor = torch.from_numpy(self._array)

    def fill(self, seen: Sequence[Mapping[str, Array] | None]) -> Tensor:
        """Return (agents, rows, features); agents that see nothing keep what was there."""
        for inputs, parts in zip(self._array, seen, strict=True):
            if parts is not None:
                self._features.fill(inputs, parts)
        return self._tensor


def normals(stream: Stream, place: tuple[Array | int, ...], draw: int, count: int) -> Array:
    """Return (n, count) normal numbers, by Box and Muller."""
    draws = stream.uniform(place, draw, 2 * count)
    radius = np.sqrt(-2.0 * np.log(1.0 - draws[:, :count]))
    return radius * np.cos(2.0 * np.pi * draws[:, count:])


def noise_for(
    layers: Mapping[str, tuple[int, int]],
    stream: Stream,
    place: tuple[Array | int, ...],
    draw: int,
) -> dict[str, Noise]:
    """Draw the factorised noise of noisy layers, for each agent by itself."""
    found = {}
    for number, (name, (inputs, outputs)) in enumerate(layers.items()):
        drawn = signed_root(normals(stream, place, draw + number, inputs + outputs))
        rows = np.zeros((len(drawn), padded(inputs), 1), np.float32)
        columns = np.zeros((len(drawn), 1, padded(outputs)), np.float32)
        rows[:, :inputs, 0] = drawn[:, :inputs]
        columns[:, 0, :outputs] = drawn[:, inputs:]
        found[name] = Noise(torch.from_numpy(rows), torch.from_numpy(columns))
    return found


class Group:
    """The states of a group: parameters, target, moments and counts."""

    def __init__(self, agents: Sequence[Agent], parameters: Parameters) -> None:
        self.agents, self.parameters = agents, parameters
        size = (len(agents), parameters.size)
        self._flat = {name: torch.zeros(size) for name in FLAT}
        self.counters = np.zeros((len(agents), 2), np.int64)
        views = {name: parameters.views(flat) for name, flat in self._flat.items()}
        self.weights = {
            name: view.detach().requires_grad_() for name, view in views[WEIGHTS].items()
        }
        self.target = views["target"]
        # One tensor for all parameters: a step is then few large operations, not many
        # small ones. What has no gradient keeps a zero there, and stays as it is.
        self._gradient = torch.zeros(size)
        self._gradients = parameters.views(self._gradient)
        self.spreads = [RewardSpread(agent.settings.reward) for agent in agents]
        targets = [agent.settings.target for agent in agents]
        self._target_every = np.array([target.every for target in targets])
        self._target_rates = np.array([target.rate for target in targets], np.float32)
        self._limits = torch.tensor([agent.settings.gradient.clip for agent in agents])

    @staticmethod
    def shapes(size: int) -> Shapes:
        """Return the arrays of an agent's state."""
        flat: Shapes = {name: ((size,), np.float32) for name in FLAT}
        return flat | {"counters": ((2,), np.int64), "reward_spread": ((3,), np.float64)}

    @staticmethod
    def initial(weights: Array) -> dict[str, Array]:
        """Return a first state; the target starts as a copy of the weights."""
        zeros = np.zeros_like(weights)
        counters = np.zeros(2, np.int64)
        return {
            WEIGHTS: weights,
            "target": weights,
            "means": zeros,
            "squares": zeros,
            "counters": counters,
            "reward_spread": np.zeros(3),
        }

    def load(self, states: Sequence[State]) -> None:
        """Take the states of all agents."""
        for i, state in enumerate(states):
            for name, flat in self._flat.items():
                flat[i] = torch.from_numpy(np.array(state[name]))
            self.counters[i] = state["counters"]
            self.spreads[i].load(state["reward_spread"])

    def save(self) -> list[dict[str, Array]]:
        """Return the states of all agents, in place."""
        arrays = {name: flat.numpy() for name, flat in self._flat.items()}
        arrays["counters"] = self.counters
        return [
            {name: array[i] for name, array in arrays.items()}
            | {"reward_spread": spread.state}
            for i, spread in enumerate(self.spreads)
        ]

    def named(self, state: State) -> dict[str, Array]:
        """Return one agent's state with every parameter by name, without padding."""
        found = {name: array for name, array in state.items() if name not in FLAT}
        for name in FLAT:
            for parameter, real in self.parameters.real(np.asarray(state[name])).items():
                found[f"{name}.{parameter}"] = real
        return found

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return one agent's state from what `named` gave."""
        flat = {}
        for name in FLAT:
            real = {key: arrays[f"{name}.{key}"] for key in self.parameters.shapes}
            flat[name] = self.parameters.flat(real)
        rest = {
            key: array for key, array in arrays.items() if key.split(".")[0] not in FLAT
        }
        return flat | rest

    @property
    def going(self) -> Array:
        """(agents,) bool: who has not been stopped."""
        return self.counters[:, STOPPED] == 0

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Return the gradients of a loss (agents,); agents do not touch each other's."""
        return list(torch.autograd.grad(loss.sum(), list(self.weights.values())))

    @torch.no_grad()
    def apply(self, gradients: Sequence[Tensor], loss: Tensor, active: Array) -> Array:
        """Let active agents take a step; return gradient norms (agents,).

        An agent whose loss or gradient is no longer a number is stopped: it keeps its
        last good state, and nobody else notices.
        """
        for name, gradient in zip(self.weights, gradients, strict=True):
            self._gradients[name].copy_(gradient)
        norms = torch.linalg.vector_norm(self._gradient, dim=1)
        sound = np.isfinite(norms.numpy()) & np.isfinite(loss.detach().numpy())
        self.counters[active & ~sound, STOPPED] = 1
        active = active & sound
        self.counters[active, UPDATES] += 1
        counts = np.maximum(self.counters[:, UPDATES], 1)
        rates = [
            learning_rate(agent.settings.learning_rate, agent.settings.rate, int(count) - 1)
            for agent, count in zip(self.agents, counts, strict=True)
        ]
        flat = {name: tensor.unsqueeze(1) for name, tensor in self._flat.items()}
        adam_step(
            {WEIGHTS: flat[WEIGHTS]},
            {WEIGHTS: flat["means"]},
            {WEIGHTS: flat["squares"]},
            {WEIGHTS: self._gradient.unsqueeze(1)},
            factors=clip_factors(norms, self._limits),
            rates=torch.tensor(rates),
            counts=torch.from_numpy(counts),
            active=torch.from_numpy(active),
        )
        self._follow(active)
        return norms.numpy()

    def _follow(self, active: Array) -> None:
        """Let targets follow, exactly once per scheduled time of each agent."""
        due_now = active & (self.counters[:, UPDATES] % self._target_every == 0)
        steps = np.where(due_now, self._target_rates, np.float32(0))
        due = np.flatnonzero(steps)
        weights, target = self._flat[WEIGHTS], self._flat["target"]
        if len(due) == len(steps):
            target.lerp_(weights, torch.from_numpy(steps)[:, None])
        else:
            for i in due.tolist():
                target[i].lerp_(weights[i], float(steps[i]))

    def check_padding(self) -> None:
        """Assert that nothing has got into the padding of any agent."""
        for agent, flat in zip(self.agents, self._flat[WEIGHTS].numpy(), strict=True):
            assert self.parameters.padding_is_zero(flat), f"agent '{agent.spec.id}'"
