"""IQN: implicit quantile networks (Dabney et al., 2018), for a group as one computation.

An observation is encoded to a vector; a quantile fraction tau is embedded by cosines to
another; their product goes through one more hidden layer to the return's quantile at tau,
for every action. Double, dueling, noisy networks, Retrace and advantage learning are
options. Each agent draws its own taus and has its own row in every tensor; the loss is a
sum over agents, so that gradients stay separate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import PassDraws, StackedBatch
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.kernels.cosines import COSINES, cosines_of
from rookery.algorithms.kernels.iqn import IqnPass
from rookery.algorithms.nets import acting
from rookery.algorithms.nets.layers import Linear, Weights, linear, padded
from rookery.algorithms.q_learning import EpsilonGreedyPolicy, QLearner, ValueNetwork
from rookery.config.agent import AgentSettings, ValueParts
from rookery.specs import Array


class IqnNetwork(ValueNetwork):
    """Encoder, tau embedding, one more hidden layer, quantiles of action values."""

    @staticmethod
    def parts(settings: AgentSettings) -> ValueParts:
        """Return the settings of IQN."""
        return settings.iqn

    def layers_between(self, noisy: bool) -> list[Linear]:
        """Return the embedding of taus, and the hidden layer after the product."""
        return [
            Linear("fraction", COSINES, self.width),
            Linear("join", self.width, self.width, noisy),
        ]

    def floats_per_row(self, settings: AgentSettings) -> int:
        """Return how many numbers a row takes in a forward and backward pass."""
        quantiles = settings.network.quantiles
        most = max(quantiles, settings.iqn.acting_quantiles)
        each = COSINES + 5 * padded(self.width) + 2 * padded(self.actions + 1)
        pairs = 0 if settings.network.module is None else 3 * quantiles**2  # autograd's
        return self.encoder.floats_per_row + most * each + pairs

    def embed(self, weights: Weights, taus: Tensor) -> Tensor:
        """Return embeddings, (agents, rows, N, width), of taus (agents, rows, N)."""
        agents, rows, quantiles = taus.shape
        cosines = cosines_of(taus.view(agents, rows * quantiles).numpy())
        embedded = torch.relu_(linear(weights, "fraction", torch.from_numpy(cosines)))
        return embedded.view(agents, rows, quantiles, padded(self.width))

    def outputs(self, weights: Weights, obs: Tensor, taus: Tensor) -> Tensor:
        """Return the last layer's outputs at taus, (agents, rows, N, outputs)."""
        joined = self._join(weights, obs, taus)
        agents, rows, quantiles, width = joined.shape
        flat = joined.view(agents, rows * quantiles, width)
        return linear(weights, "values", flat).view(agents, rows, quantiles, -1)

    def quantiles(self, weights: Weights, obs: Tensor, taus: Tensor) -> Tensor:
        """Return the quantiles of all actions, (agents, rows, N, actions)."""
        return self.action_values(self.outputs(weights, obs, taus))

    def means(self, weights: Weights, obs: Tensor, taus: Tensor) -> Tensor:
        """Return means over quantiles, (agents, rows, actions).

        The last layer is linear, so the mean is taken before it: less to multiply.
        """
        joined = self._join(weights, obs, taus).mean(dim=2)
        return self.action_values(linear(weights, "values", joined))

    def _join(self, weights: Weights, obs: Tensor, taus: Tensor) -> Tensor:
        """Return the hidden layer after the product, (agents, rows, N, width).

        `taus` can have one row, for taus that are the same everywhere.
        """
        encoded = self.encoder(weights, obs)
        joined = encoded.unsqueeze(2) * self.embed(weights, taus)
        agents, rows, quantiles, width = joined.shape
        flat = joined.view(agents, rows * quantiles, width)
        return torch.relu_(linear(weights, "join", flat)).view(joined.shape)


def midpoints(agents: int, quantiles: int) -> Tensor:
    """Return fixed taus in the middle of N equal intervals, (agents, 1, N)."""
    taus = (np.arange(quantiles, dtype=np.float32) + 0.5) / quantiles
    return torch.from_numpy(taus).expand(agents, 1, quantiles).contiguous()


# Learning.


class IqnLearner(QLearner):
    """Learns quantiles of the return with the quantile Huber loss."""

    network_type = IqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        settings = agents[0].settings
        self.network = IqnNetwork(agents[0])
        self._quantiles = settings.network.quantiles
        draws = (1 + self.ends_of(settings)) * settings.batch_size * self._quantiles
        super().__init__(agents, seed, self.network, draws)
        self._acting_taus = midpoints(len(agents), settings.iqn.acting_quantiles)
        self._pass: IqnPass | None = None
        if type(self) is IqnLearner and settings.network.module is None:
            taus = self._acting_taus[:, 0].numpy()
            self._pass = IqnPass(self.network, self.group, agents[0], self.ends, taus)
            if self._pass.reads_nonzero:
                self.buffers.draw_nonzero()

    def backpropagate(self, batch: StackedBatch) -> PassResult:
        """Write the gradients of a pass: by hand, or by autograd for a user's code."""
        if self._pass is None:
            return super().backpropagate(batch)
        taus = np.ascontiguousarray(batch.draws.extra, np.float32)
        return self._pass.backpropagate(batch, self.noise(batch.draws), taus)

    def compute_losses(self, batch: StackedBatch) -> PassResult:
        """Return the loss between quantiles of taken actions and target quantiles."""
        taus, next_taus = self._draw_taus(batch.draws)
        online, target = self.noisy_weights(batch.draws)
        obs = self.obs(batch)
        with torch.no_grad():
            next_obs = self.next_obs(batch)
            next_quantiles = self.network.quantiles(target, next_obs, next_taus)
            best = self.best_actions(online, next_quantiles, next_obs, batch.next_legal)
            repeated = best.unsqueeze(2).expand(next_quantiles.shape[:3])
            best_quantiles = losses.pick(next_quantiles, repeated)
            target_quantiles = losses.bootstrap(
                batch.returns, batch.discounts, best_quantiles
            )
            shares = self.retrace_shares(batch, best)
            if shares is not None:  # the quantiles at all ends are targets, side by side
                target_quantiles = target_quantiles.reshape(*shares.shape[:2], -1)
                shares = (shares / self._quantiles).repeat_interleave(self._quantiles, 2)
            if self.advantage_gap:
                means = self.means(target, obs)
                gaps = losses.action_gaps(means, batch.actions, batch.legal)
                target_quantiles = target_quantiles - self.advantage_gap * gaps.unsqueeze(2)
        outputs = self.network.outputs(online, obs, taus)
        quantiles = self.network.values_taken(outputs, batch.actions)
        threshold = self.agents[0].settings.iqn.threshold
        loss = losses.quantile_huber(quantiles, target_quantiles, taus, threshold, shares)
        quantiles = quantiles.detach()
        errors = losses.mean_errors(quantiles, target_quantiles, shares)
        return PassResult(
            (loss * batch.importance).mean(dim=1), errors, quantiles.mean(dim=2)
        )

    def best_actions(
        self, online: Weights, target_quantiles: Tensor, obs: Tensor, legal: Tensor | None
    ) -> Tensor:
        """Return the best actions: by the online network if double, else by the target."""
        double = self.agents[0].settings.iqn.double
        means = self.means(online, obs) if double else target_quantiles.mean(dim=2)
        return losses.masked(means, legal).argmax(dim=2)

    def _draw_taus(self, draws: PassDraws) -> tuple[Tensor, Tensor]:
        """Return random taus where transitions open, and at all their ends."""
        count, numbers = self.batch_size * self._quantiles, draws.extra.astype(np.float32)
        taus, next_taus = (
            torch.from_numpy(np.ascontiguousarray(part).reshape(len(part), rows, -1))
            for part, rows in (
                (numbers[:, :count], self.batch_size),
                (numbers[:, count:], self.batch_size * self.ends),
            )
        )
        return taus, next_taus

    def means(self, weights: Weights, obs: Tensor) -> Tensor:
        """Return action values as agents act by them: means over fixed taus."""
        return self.network.means(weights, obs, self._acting_taus)


# Acting. This is `IqnNetwork.means`, with everything that is the same in all turns of a
# round computed once.


class IqnPolicy(EpsilonGreedyPolicy):
    """Acts by the mean of each action's quantiles."""

    network: IqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = IqnNetwork(agents[0])
        super().__init__(agents, seed, self.network)
        self._taus = midpoints(len(agents), agents[0].settings.iqn.acting_quantiles)
        self.is_compiled = type(self) is IqnPolicy and self.computes_in_loops

    def prepare(self, weights: dict[str, Tensor]) -> None:
        """Prepare the layers of a round, and embed the fixed taus."""
        super().prepare(weights)
        self._embedded = self.network.embed(weights, self._taus)[:, 0].numpy()

    def fold(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return weights whose last layer gives mean values from sums over quantiles."""
        folded = super().fold(weights)
        return folded | {"values.weight": folded["values.weight"] / self._taus.shape[2]}

    def values(self, obs: Tensor) -> Array:
        """Return means over quantiles, (agents, worlds, actions)."""
        sums = acting.joined_sums(self.weights, self.encode(obs), self._embedded)
        values = acting.linear(self.weights, "values", sums, relu=False)
        return values[..., : self.network.actions]


IQN = Algorithm("iqn", IqnPolicy, IqnLearner)
