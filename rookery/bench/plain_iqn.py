"""IQN in a plain loop, the baseline for acting and learning with stacked agents.

One agent at a time, one world, a module and an optimizer per agent, experience in arrays.
The algorithm, the sizes and the settings are those of `rookery.algorithms.iqn`, and the
game is the same, so that only the loops differ. It only supports games like treasurehunt:
one observation part, all actions legal, and all agents active until the episode ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import get_ema_multi_avg_fn

from rookery.config.agent import AgentSettings
from rookery.games.base import Game
from rookery.specs import AgentSpec, Array

COSINES = 64
INITIAL_NOISE = 0.5


class NoisyLinear(nn.Linear):
    """A linear layer with factorised Gaussian noise in its weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        scale = INITIAL_NOISE / sqrt(inputs)
        self.weight_scale = nn.Parameter(torch.full((outputs, inputs), scale))
        self.bias_scale = nn.Parameter(torch.full((outputs,), scale))
        self.draw_noise()

    def draw_noise(self) -> None:
        """Draw new noise."""
        rows = torch.randn(self.in_features)
        columns = torch.randn(self.out_features)
        rows = rows.sign() * rows.abs().sqrt_()
        self._bias_noise = columns.sign() * columns.abs().sqrt_()
        self._weight_noise = torch.outer(self._bias_noise, rows)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return outputs with the current noise."""
        weight = torch.addcmul(self.weight, self.weight_scale, self._weight_noise)
        bias = torch.addcmul(self.bias, self.bias_scale, self._bias_noise)
        return functional.linear(inputs, weight, bias)


class PlainNetwork(nn.Module):
    """Quantiles of the return of each action, at given fractions."""

    def __init__(self, inputs: int, actions: int, settings: AgentSettings) -> None:
        super().__init__()
        width = settings.network.width
        layer: type[nn.Linear] = NoisyLinear if settings.iqn.noisy else nn.Linear
        self.read = nn.Linear(inputs, width)
        self.fraction = nn.Linear(COSINES, width)
        self.join = layer(width, width)
        self.advantages = layer(width, actions)
        self.value = layer(width, 1) if settings.iqn.dueling else None
        self._multiples = torch.arange(COSINES, dtype=torch.float32) * torch.pi
        self._noisy = [part for part in self.modules() if isinstance(part, NoisyLinear)]

    def forward(self, inputs: Tensor, fractions: Tensor) -> Tensor:
        """Return (rows, quantiles, actions); fractions can be one row for all."""
        hidden = torch.relu(self.read(inputs)).unsqueeze(1)
        cosines = torch.cos(fractions.unsqueeze(-1) * self._multiples)
        joined = hidden * torch.relu(self.fraction(cosines))
        joined = torch.relu(self.join(joined))
        advantages: Tensor = self.advantages(joined)
        if self.value is None:
            return advantages
        value: Tensor = self.value(joined)
        return value + advantages - advantages.mean(dim=-1, keepdim=True)

    def draw_noise(self) -> None:
        """Draw new noise for all noisy layers."""
        for layer in self._noisy:
            layer.draw_noise()


@dataclass
class PlainBatch:
    """Transitions drawn from a replay."""

    inputs: Tensor
    next_inputs: Tensor
    actions: Tensor
    returns: Tensor
    discounts: Tensor


class PlainReplay:
    """One row per turn; frames are stacked and returns summed when rows are drawn."""

    def __init__(self, shape: tuple[int, ...], settings: AgentSettings, seed: int) -> None:
        self._settings, self._random = settings, np.random.default_rng(seed)
        self._capacity = capacity = settings.replay.capacity
        self._views = np.zeros((capacity, *shape), np.uint8)
        self._ages = np.zeros(capacity, np.int64)
        self._actions = np.zeros(capacity, np.int64)
        self._rewards = np.zeros(capacity, np.float32)
        self._active, self._terminated, self._ended = np.zeros((3, capacity), bool)
        self._back = np.arange(settings.frames - 1, -1, -1)
        self._ahead = np.arange(settings.n_step)
        powers = settings.discount ** np.arange(settings.n_step + 1)
        self._powers = powers.astype(np.float32)
        self.count = 0
        """Rows added so far; the newest `capacity` are kept."""

    def write_observation(self, view: Array, age: int, active: bool) -> None:
        """Start a row; `age` is its index in the episode."""
        row = self.count % self._capacity
        self._views[row], self._ages[row], self._active[row] = view, age, active

    def write_outcome(
        self, action: int, reward: float, terminated: bool, truncated: bool
    ) -> None:
        """Complete the row."""
        row = self.count % self._capacity
        self._actions[row] = action
        self._rewards[row] = reward * self._settings.reward.scale
        self._terminated[row] = terminated
        self._ended[row] = terminated or truncated
        self.count += 1

    def sample(self, size: int) -> PlainBatch:
        """Draw transitions uniformly."""
        oldest = max(0, self.count - self._capacity + len(self._back) - 1)
        newest = self.count - len(self._ahead)
        rows = self._random.integers(oldest, newest, size)
        closing = ~self._active[rows % self._capacity]
        while closing.any():
            rows[closing] = self._random.integers(oldest, newest, closing.sum())
            closing = ~self._active[rows % self._capacity]
        return self.batch(rows)

    def batch(self, rows: Array) -> PlainBatch:
        """Return the transitions that start in these rows."""
        ahead = (rows[:, None] + self._ahead) % self._capacity
        ended = self._ended[ahead]
        within = np.cumsum(ended, axis=1) - ended == 0  # up to the row that ended it
        returns = (self._rewards[ahead] * self._powers[:-1] * within).sum(axis=1)
        length = within.sum(axis=1)
        ends = (self._terminated[ahead] & within).any(axis=1)
        discounts = np.where(ends, np.float32(0), self._powers[length])
        return PlainBatch(
            self.stacked(rows),
            self.stacked(rows + length),
            torch.from_numpy(self._actions[rows % self._capacity]),
            torch.from_numpy(returns),
            torch.from_numpy(discounts),
        )

    def stacked(self, rows: Array) -> Tensor:
        """Return (rows, inputs): the last frames up to these rows, oldest first."""
        views = self._views[(rows[:, None] - self._back) % self._capacity]
        ages = self._ages[rows % self._capacity]
        views[self._back > ages[:, None]] = 0
        return torch.from_numpy(views.reshape(len(rows), -1)).float()


class PlainAgent:
    """One agent with its own network, optimizer and replay."""

    def __init__(self, spec: AgentSpec, settings: AgentSettings, seed: int) -> None:
        (part,) = spec.parts.values()
        self._settings, self._random = settings, np.random.default_rng(seed)
        self._num_actions = spec.num_actions
        inputs = settings.frames * prod(part.shape)
        self.network, self.target = (
            PlainNetwork(inputs, spec.num_actions, settings) for _ in range(2)
        )
        self.target.load_state_dict(self.network.state_dict())
        self._parameters = list(self.network.parameters())
        self._targets = [parameter.detach() for parameter in self.target.parameters()]
        self._optimizer = torch.optim.Adam(
            self._parameters, lr=settings.learning_rate, foreach=True
        )
        decay = 1.0 - settings.target.rate
        self._update_target = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        midpoints = torch.arange(settings.iqn.acting_quantiles) + 0.5
        self._fixed_fractions = (midpoints / settings.iqn.acting_quantiles).unsqueeze(0)
        self.replay = PlainReplay(part.shape, settings, seed)
        self._history = np.zeros((settings.frames, *part.shape), np.float32)
        self._age, self._action = 0, 0

    # Collecting.

    def act(self, view: Array, active: bool) -> int:
        """Store an observation and return an action."""
        self._history[:-1] = self._history[1:]
        self._history[-1] = view
        self.replay.write_observation(view, self._age, active)
        self._action = self._choose() if active else 0
        return self._action

    @torch.no_grad()
    def _choose(self) -> int:
        if self._settings.iqn.noisy:
            self.network.draw_noise()
        elif self._random.random() < self._settings.epsilon.end:
            return int(self._random.integers(self._num_actions))
        inputs = torch.from_numpy(self._history.reshape(1, -1))
        return int(self.network(inputs, self._fixed_fractions).mean(dim=1).argmax())

    def write_outcome(
        self, reward: float, terminated: bool, truncated: bool, is_closing: bool
    ) -> None:
        """Store the outcome of a turn; after a closing one a new episode starts."""
        self.replay.write_outcome(self._action, reward, terminated, truncated)
        self._age += 1
        if is_closing:
            self._age = 0
            self._history[:] = 0

    # Learning.

    def learn(self) -> float:
        """Make one update from a sampled batch and return the loss."""
        size, quantiles = self._settings.batch_size, self._settings.network.quantiles
        if self._settings.iqn.noisy:
            self.network.draw_noise()
            self.target.draw_noise()
        batch = self.replay.sample(size)
        return self.update(batch, torch.rand(size, quantiles), torch.rand(size, quantiles))

    def update(self, batch: PlainBatch, fractions: Tensor, next_fractions: Tensor) -> float:
        """Make one update from a batch and return the loss."""
        targets = self._targets_of(batch, next_fractions)
        quantiles = _of_action(self.network(batch.inputs, fractions), batch.actions)
        threshold = self._settings.iqn.threshold
        loss = _quantile_huber(quantiles, targets, fractions, threshold)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, self._settings.gradient.clip)
        self._optimizer.step()
        self._update_target(self._targets, self._parameters, 0)
        return float(loss.detach())

    @torch.no_grad()
    def _targets_of(self, batch: PlainBatch, fractions: Tensor) -> Tensor:
        next_quantiles = self.target(batch.next_inputs, fractions)
        selector = next_quantiles
        if self._settings.iqn.double:
            selector = self.network(batch.next_inputs, self._fixed_fractions)
        best = selector.mean(dim=1).argmax(dim=1)
        bootstrap = _of_action(next_quantiles, best)
        return batch.returns.unsqueeze(1) + batch.discounts.unsqueeze(1) * bootstrap


def _of_action(values: Tensor, actions: Tensor) -> Tensor:
    """Return the quantiles of one action per row, (rows, quantiles)."""
    return values[torch.arange(len(actions)), :, actions]


def _quantile_huber(
    quantiles: Tensor, targets: Tensor, fractions: Tensor, threshold: float
) -> Tensor:
    shape = (*quantiles.shape, targets.shape[1])
    quantiles = quantiles.unsqueeze(2).expand(shape)
    targets = targets.unsqueeze(1).expand(shape)
    huber = functional.huber_loss(quantiles, targets, reduction="none", delta=threshold)
    below = (targets < quantiles.detach()).float()
    weighted = (fractions.unsqueeze(2) - below).abs() * huber / threshold
    return weighted.mean(dim=2).sum(dim=1).mean()


class PlainLoop:
    """Agents that play one world, computed one after the other."""

    def __init__(self, game: Game, agents: Sequence[PlainAgent]) -> None:
        torch.set_num_threads(1)
        self._game, self._agents = game, agents

    def play(self, turns: int) -> None:
        """Act, step the game and store rows, without learning."""
        for _ in range(turns):
            closing = False
            for phase in self._game.begin_turn():
                observed = self._game.observe(phase)
                actions = []
                for index, agent in enumerate(phase):
                    (view,) = observed.parts[index].values()
                    active = bool(observed.active[index][0])
                    actions.append(self._agents[agent].act(view[0], active))
                    closing = closing or not active
                self._game.act(phase, np.array([actions]))
            outcome = self._game.end_turn()
            columns = (outcome.rewards, outcome.terminated, outcome.truncated)
            for player, *values in zip(
                self._agents, *(column[0].tolist() for column in columns), strict=True
            ):
                player.write_outcome(*values, is_closing=closing)
