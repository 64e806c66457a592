"""The stacked states of a group, and how they are updated.

Each array of a state is one matrix (agents, parameters) for the whole group, so that an
update is a few large operations. Agents stay independent: no operation mixes rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import WEIGHTS, Agent, Shapes, State
from rookery.algorithms.common.optimizer import (
    adam_step,
    clip_factors,
    gradient_norms,
    step_sizes,
)
from rookery.algorithms.common.schedules import learning_rate, varies
from rookery.algorithms.nets.layers import (
    Features,
    Noise,
    Parameters,
    padded,
    signed_root,
)
from rookery.kernels import Scalar, kernel
from rookery.replay.drawing import RowObservations
from rookery.replay.rewards import RewardSpread
from rookery.rng import Stream
from rookery.specs import Array

FLAT = (WEIGHTS, "target", "means", "squares")
"""The arrays of a state that are laid out like the weights; Adam's moments among them."""
UPDATES, STOPPED = 0, 1
"""Entries of a state's counters."""


class Inputs:
    """A buffer for the observations that a group acts on, refilled every turn."""

    def __init__(self, features: Features, agents: int, rows: int) -> None:
        self._features, self.rows = features, rows
        self._array = np.zeros((agents, rows, features.padded), np.float32)
        self._tensor = torch.from_numpy(self._array)

    def fill(self, observations: Sequence[Mapping[str, Array]]) -> Tensor:
        """Return (agents, rows, features)."""
        for inputs, parts in zip(self._array, observations, strict=True):
            if isinstance(parts, RowObservations):
                self._features.draw(inputs, parts.rows, parts.addresses)
            else:
                self._features.fill(inputs, parts)
        return self._tensor


def normals(stream: Stream, key: tuple[Array | int, ...], draw: int, count: int) -> Array:
    """Return (n, count) normal numbers, by the Box-Muller transform."""
    draws = stream.uniform(key, draw, 2 * count)
    radius = np.sqrt(-2.0 * np.log(1.0 - draws[:, :count]))
    return radius * np.cos(2.0 * np.pi * draws[:, count:])


def noise_for(
    layers: Mapping[str, tuple[int, int]],
    stream: Stream,
    key: tuple[Array | int, ...],
    draw: int,
) -> dict[str, Noise]:
    """Draw the factorised noise of noisy layers, separately for each agent."""
    noise = {}
    for number, (name, (inputs, outputs)) in enumerate(layers.items()):
        drawn = signed_root(normals(stream, key, draw + number, inputs + outputs))
        rows = np.zeros((len(drawn), padded(inputs), 1), np.float32)
        columns = np.zeros((len(drawn), 1, padded(outputs)), np.float32)
        rows[:, :inputs, 0] = drawn[:, :inputs]
        columns[:, 0, :outputs] = drawn[:, inputs:]
        noise[name] = Noise(torch.from_numpy(rows), torch.from_numpy(columns))
    return noise


@kernel
def _stop_and_count(losses: Array, norms: Array, active: Array, counters: Array) -> None:
    """Stop active agents whose loss or norm is not finite; count an update of the others.

    `active` becomes False for those that were stopped.
    """
    for a in range(len(active)):
        if active[a]:
            active[a] = stop_or_count(losses[a], norms[a], counters[a])


@kernel
def stop_or_count(loss: Scalar, norm: Scalar, counters: Array) -> bool:
    """Count an agent's update, or stop it if loss or norm is not finite.

    Returns whether the update is to be made; `counters` are the agent's.
    """
    is_finite = np.isfinite(loss) and np.isfinite(norm)
    if is_finite:
        counters[UPDATES] += 1
    else:
        counters[STOPPED] = 1
    return is_finite


@dataclass(frozen=True)
class UpdatePlan:
    """What an agent's next updates depend on besides its gradients; (updates,) arrays."""

    limit: Scalar
    """The largest norm of a gradient."""
    steps: Array
    """See `step_sizes`, also for the next."""
    epsilons: Array
    target_rates: Array
    """How far the target moves to the new weights."""


class Group:
    """The states of a group: weights, target, Adam's moments, counters, reward spreads."""

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
        # Parameters without a gradient keep a zero there and do not change.
        self._gradient = torch.zeros(size)
        self._earlier_passes = torch.zeros_like(self._gradient)
        self.gradients = parameters.views(self._gradient)
        """Parameter name to the gradient of the last pass, to be written to."""
        self.arrays = {name: flat.numpy() for name, flat in self._flat.items()}
        """The arrays that are laid out like the weights, (agents, parameters)."""
        self.gradient: Array = self._gradient.numpy()
        """The gradient of the last pass in the same layout."""
        self._norms = np.zeros(len(agents), np.float32)
        self.spreads = [RewardSpread(agent.settings.reward) for agent in agents]
        targets = [agent.settings.target for agent in agents]
        self._target_every = np.array([target.every for target in targets])
        self._target_rates = np.array([target.rate for target in targets], np.float32)
        clips = [agent.settings.gradient.clip for agent in agents]
        self._limits = np.array(clips, np.float32)
        rates = [agent.settings.learning_rate for agent in agents]
        self._rates = np.array(rates, np.float32)
        self._varying_rates = [
            i for i, agent in enumerate(agents) if varies(agent.settings.rate)
        ]
        """The agents whose learning rates depend on their updates."""

    @staticmethod
    def shapes(size: int) -> Shapes:
        """Return shape and type of each array of an agent's state."""
        flat: Shapes = {name: ((size,), np.float32) for name in FLAT}
        return flat | {"counters": ((2,), np.int64), "reward_spread": ((3,), np.float64)}

    @staticmethod
    def initial(weights: Array) -> dict[str, Array]:
        """Return an initial state; the target starts as a copy of the weights."""
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
        """Return the states of all agents, as views."""
        arrays = self.arrays | {"counters": self.counters}
        return [
            {name: array[i] for name, array in arrays.items()}
            | {"reward_spread": spread.state}
            for i, spread in enumerate(self.spreads)
        ]

    def named(self, state: State) -> dict[str, Array]:
        """Return one agent's state with every parameter by name, without padding."""
        arrays = {name: array for name, array in state.items() if name not in FLAT}
        for name in FLAT:
            unpadded = self.parameters.unpadded(np.asarray(state[name]))
            arrays |= {f"{name}.{key}": array for key, array in unpadded.items()}
        return arrays

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return one agent's state from what `named` gave."""
        flat = {}
        for name in FLAT:
            named = {key: arrays[f"{name}.{key}"] for key in self.parameters.shapes}
            flat[name] = self.parameters.flat(named)
        rest = {
            key: array for key, array in arrays.items() if key.split(".")[0] not in FLAT
        }
        return flat | rest

    @property
    def running(self) -> Array:
        """(agents,) bool: the agents that have not been stopped."""
        return self.counters[:, STOPPED] == 0

    def differentiate(self, loss: Tensor) -> None:
        """Write the gradients of losses (agents,), by autograd.

        Each agent's gradient depends on its own loss only.
        """
        leaves = list(self.weights.values())
        gradients = self.parameters.gradients(loss.sum(), leaves)
        with torch.no_grad():
            for name, gradient in zip(self.weights, gradients, strict=True):
                self.gradients[name].copy_(gradient)

    def accumulate(self, number: int, passes: int) -> None:
        """Add the gradients of the passes of an update; called after each pass."""
        if number > 0:
            self._gradient.add_(self._earlier_passes)
        if number < passes - 1:
            self._earlier_passes.copy_(self._gradient)

    def apply(self, losses: Array, active: Array) -> Array:
        """Make one Adam step for active agents; return gradient norms (agents,).

        An agent whose loss or gradient is not finite is stopped: it keeps its last good
        state, and the others are not affected.
        """
        gradient_norms(self.gradient, self._norms)
        active = active.copy()
        _stop_and_count(losses, self._norms, active, self.counters)
        self._step(active)
        return self._norms.copy()

    def plan(self, i: int, updates: int) -> UpdatePlan:
        """Return what the next updates of an agent depend on; no other may come between."""
        made = int(self.counters[i, UPDATES])
        counts = np.arange(made + 1, made + 1 + updates)
        rates: Array = self._rates[i]
        if i in self._varying_rates:
            settings = self.agents[i].settings
            varying = partial(learning_rate, settings.learning_rate, settings.rate)
            rates = np.array([*map(varying, range(made, made + updates))], np.float32)
        target_rates = np.full(updates, self._target_rates[i])
        target_rates[counts % self._target_every[i] != 0] = 0
        return UpdatePlan(self._limits[i], *step_sizes(rates, counts), target_rates)

    def _step(self, active: Array) -> None:
        """Move the weights of active agents, and their targets where they are due."""
        counts = np.maximum(self.counters[:, UPDATES], 1)
        for i in self._varying_rates:
            settings = self.agents[i].settings
            self._rates[i] = learning_rate(
                settings.learning_rate, settings.rate, int(counts[i]) - 1
            )
        is_target_due = counts % self._target_every == 0
        adam_step(
            self.arrays[WEIGHTS],
            self.arrays["means"],
            self.arrays["squares"],
            self.arrays["target"],
            self.gradient,
            factors=clip_factors(self._norms, self._limits),
            rates=self._rates,
            counts=counts,
            active=active,
            target_rates=np.where(is_target_due, self._target_rates, np.float32(0)),
        )

    def check_padding(self) -> None:
        """Assert that the padding of every agent's weights is still zero."""
        for agent, flat in zip(self.agents, self.arrays[WEIGHTS], strict=True):
            assert self.parameters.padding_is_zero(flat), f"agent '{agent.spec.id}'"
