"""IQN as one writes it by hand: what acting and learning in stacks is compared with.

One agent at a time, one world, a module and an optimizer each, experience in arrays. The
algorithm, the sizes and the settings are those of `rookery.algorithms.iqn`; the game is
ours, too, so that only the loops differ. It knows games like treasurehunt and no others:
one part to see, all actions legal, everybody active until the episode is over.
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
    """A linear layer with factorised noise in its weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        scale = INITIAL_NOISE / sqrt(inputs)
        self.weight_scale = nn.Parameter(torch.full((outputs, inputs), scale))
        self.bias_scale = nn.Parameter(torch.full((outputs,), scale))
        self.draw_noise()

    def draw_noise(self) -> None:
        """Draw other noise."""
        rows = torch.randn(self.in_features)
        columns = torch.randn(self.out_features)
        rows = rows.sign() * rows.abs().sqrt_()
        self._bias_noise = columns.sign() * columns.abs().sqrt_()
        self._weight_noise = torch.outer(self._bias_noise, rows)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return outputs, as the noise at hand has it."""
        weight = torch.addcmul(self.weight, self.weight_scale, self._weight_noise)
        bias = torch.addcmul(self.bias, self.bias_scale, self._bias_noise)
        return functional.linear(inputs, weight, bias)


class PlainNetwork(nn.Module):
    """Values of actions at fractions of the return."""

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
        """Return (rows, quantiles, actions); fractions may be one row for all."""
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
        """Draw other noise for all noisy layers."""
        for layer in self._noisy:
            layer.draw_noise()


@dataclass
class PlainBatch:
    """Steps drawn from a replay, one entry each."""

    inputs: Tensor
    next_inputs: Tensor
    actions: Tensor
    returns: Tensor
    discounts: Tensor


class PlainReplay:
    """An agent's experience: one row per turn, stacked and summed up when drawn."""

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

    def see(self, view: Array, age: int, active: bool) -> None:
        """Begin a row; `age` counts the rows of the episode."""
        row = self.count % self._capacity
        self._views[row], self._ages[row], self._active[row] = view, age, active

    def get(self, action: int, reward: float, terminated: bool, truncated: bool) -> None:
        """Finish the row."""
        row = self.count % self._capacity
        self._actions[row] = action
        self._rewards[row] = reward * self._settings.reward.scale
        self._terminated[row] = terminated
        self._ended[row] = terminated or truncated
        self.count += 1

    def sample(self, size: int) -> PlainBatch:
        """Draw steps, each equally likely."""
        oldest = max(0, self.count - self._capacity + len(self._back) - 1)
        newest = self.count - len(self._ahead)
        rows = self._random.integers(oldest, newest, size)
        closing = ~self._active[rows % self._capacity]
        while closing.any():
            rows[closing] = self._random.integers(oldest, newest, closing.sum())
            closing = ~self._active[rows % self._capacity]
        return self.batch(rows)

    def batch(self, rows: Array) -> PlainBatch:
        """Return the steps that open in some rows."""
        ahead = (rows[:, None] + self._ahead) % self._capacity
        ended = self._ended[ahead]
        within = np.cumsum(ended, axis=1) - ended == 0  # up to the row that ended it
        returns = (self._rewards[ahead] * self._powers[:-1] * within).sum(axis=1)
        length = within.sum(axis=1)
        over = (self._terminated[ahead] & within).any(axis=1)
        discounts = np.where(over, np.float32(0), self._powers[length])
        return PlainBatch(
            self.stacked(rows),
            self.stacked(rows + length),
            torch.from_numpy(self._actions[rows % self._capacity]),
            torch.from_numpy(returns),
            torch.from_numpy(discounts),
        )

    def stacked(self, rows: Array) -> Tensor:
        """Return (rows, inputs): the last frames up to some rows, oldest first."""
        views = self._views[(rows[:, None] - self._back) % self._capacity]
        ages = self._ages[rows % self._capacity]
        views[self._back > ages[:, None]] = 0
        return torch.from_numpy(views.reshape(len(rows), -1)).float()


class PlainAgent:
    """One agent: acts, remembers and learns by itself."""

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
        kept = 1.0 - settings.target.rate
        self._follow = get_ema_multi_avg_fn(kept)  # type: ignore[no-untyped-call]
        middle = torch.arange(settings.iqn.acting_quantiles) + 0.5
        self._fixed = (middle / settings.iqn.acting_quantiles).unsqueeze(0)
        self.replay = PlainReplay(part.shape, settings, seed)
        self._history = np.zeros((settings.frames, *part.shape), np.float32)
        self._age, self._action = 0, 0

    # Collecting.

    def act(self, view: Array, active: bool) -> int:
        """Take in what it sees, and choose."""
        self._history[:-1] = self._history[1:]
        self._history[-1] = view
        self.replay.see(view, self._age, active)
        self._action = self._choose() if active else 0
        return self._action

    @torch.no_grad()
    def _choose(self) -> int:
        if self._settings.iqn.noisy:
            self.network.draw_noise()
        elif self._random.random() < self._settings.epsilon.end:
            return int(self._random.integers(self._num_actions))
        inputs = torch.from_numpy(self._history.reshape(1, -1))
        return int(self.network(inputs, self._fixed).mean(dim=1).argmax())

    def get(self, reward: float, terminated: bool, truncated: bool, over: bool) -> None:
        """Take in what the turn brought; `over`: the next one starts an episode."""
        self.replay.get(self._action, reward, terminated, truncated)
        self._age += 1
        if over:
            self._age = 0
            self._history[:] = 0

    # Learning.

    def learn(self) -> float:
        """Make one update from a batch, and return its loss."""
        size, quantiles = self._settings.batch_size, self._settings.network.quantiles
        if self._settings.iqn.noisy:
            self.network.draw_noise()
            self.target.draw_noise()
        batch = self.replay.sample(size)
        return self.update(batch, torch.rand(size, quantiles), torch.rand(size, quantiles))

    def update(self, batch: PlainBatch, fractions: Tensor, others: Tensor) -> float:
        """Make one update; return the loss before it."""
        targets = self._targets_of(batch, others)
        every = self.network(batch.inputs, fractions)
        found = _of_action(every, batch.actions)
        loss = _quantile_huber(found, targets, fractions, self._settings.iqn.threshold)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, self._settings.gradient.clip)
        self._optimizer.step()
        self._follow(self._targets, self._parameters, 0)
        return float(loss.detach())

    @torch.no_grad()
    def _targets_of(self, batch: PlainBatch, fractions: Tensor) -> Tensor:
        every = self.target(batch.next_inputs, fractions)
        chooser = every
        if self._settings.iqn.double:
            chooser = self.network(batch.next_inputs, self._fixed)
        after = _of_action(every, chooser.mean(dim=1).argmax(dim=1))
        return batch.returns.unsqueeze(1) + batch.discounts.unsqueeze(1) * after


def _of_action(values: Tensor, actions: Tensor) -> Tensor:
    """Return quantiles of chosen actions, (rows, quantiles)."""
    return values[torch.arange(len(actions)), :, actions]


def _quantile_huber(
    found: Tensor, targets: Tensor, fractions: Tensor, threshold: float
) -> Tensor:
    shape = (*found.shape, targets.shape[1])
    found, targets = found.unsqueeze(2).expand(shape), targets.unsqueeze(1).expand(shape)
    huber = functional.huber_loss(found, targets, reduction="none", delta=threshold)
    below = (targets < found.detach()).float()
    weighted = (fractions.unsqueeze(2) - below).abs() * huber / threshold
    return weighted.mean(dim=2).sum(dim=1).mean()


class PlainLoop:
    """Agents that play one world, each in its turn."""

    def __init__(self, game: Game, agents: Sequence[PlainAgent]) -> None:
        torch.set_num_threads(1)
        self._game, self._agents = game, agents

    def play(self, turns: int) -> None:
        """Act, step and remember; nobody learns."""
        for _ in range(turns):
            closing = False
            for phase in self._game.begin_turn():
                seen = self._game.observe(phase)
                actions = []
                for place, i in enumerate(phase):
                    (view,) = seen.parts[place].values()
                    active = bool(seen.active[place][0])
                    actions.append(self._agents[i].act(view[0], active))
                    closing = closing or not active
                self._game.act(phase, np.array([actions]))
            outcome = self._game.end_turn()
            columns = (outcome.rewards, outcome.terminated, outcome.truncated)
            for agent, *got in zip(
                self._agents, *(column[0].tolist() for column in columns), strict=True
            ):
                agent.get(*got, over=closing)
