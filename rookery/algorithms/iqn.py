"""IQN: implicit quantile networks (Dabney et al., 2018), for a group as one computation.

An observation is encoded to a vector; a quantile fraction tau is embedded by cosines to
another; their product goes through one more hidden layer to the return's quantile at tau,
for every action. Double, dueling, noisy networks, Retrace and advantage learning are
options. Each agent draws its own taus and has its own row in every tensor; the loss is a
sum over agents, so that gradients stay separate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import PassDraws, StackedBatch
from rookery.algorithms.common.group import Inputs
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.nets.layers import Features, Linear, Weights, linear, padded
from rookery.algorithms.q_learning import EpsilonGreedyPolicy, QLearner, ValueNetwork
from rookery.config.agent import AgentSettings, ValueParts
from rookery.specs import Array

COSINES = 64
Observations = Sequence[Mapping[str, Array]]


class IqnNetwork(ValueNetwork):
    """Encoder, tau embedding, one more hidden layer, quantiles of action values."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._multiples = torch.arange(COSINES, dtype=torch.float32) * torch.pi

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
        each = 2 * COSINES + 3 * padded(self.width) + 3 * padded(self.actions + 1)
        return self.encoder.floats_per_row + most * each + 3 * quantiles**2

    def embed(self, weights: Weights, taus: Tensor) -> Tensor:
        """Return embeddings, (agents, rows, N, width), of taus (agents, rows, N)."""
        agents, rows, quantiles = taus.shape
        cosines = torch.cos(taus.unsqueeze(-1) * self._multiples)
        flat = cosines.view(agents, rows * quantiles, COSINES)
        embedded = torch.relu_(linear(weights, "fraction", flat))
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


# Acting. The forward pass is `IqnNetwork.means`, made fast for weights that serve a whole
# round. Between two turns a game pushes everything out of the processor's caches, so a pass
# is fast if it touches little memory: its arrays are allocated once, and of a layer with
# sparse inputs only the weights of those that are not zero are read.


class IqnPolicy(EpsilonGreedyPolicy):
    """Acts by the mean of each action's quantiles."""

    network: IqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = IqnNetwork(agents[0])
        super().__init__(agents, seed, self.network)
        self._taus = midpoints(len(agents), agents[0].settings.iqn.acting_quantiles)
        self._pass: ActingPass | None = None

    def prepare(self, weights: dict[str, Tensor]) -> None:
        """Fold the weights of a round, and embed the fixed taus once."""
        self._weights = fold_weights(self.network, weights, self._taus.shape[2])
        self._embedded = self.network.embed(weights, self._taus).numpy()

    def values(self, observations: Observations, worlds: int) -> Array:
        """Return means over quantiles, (agents, worlds, actions)."""
        if self._pass is None or self._pass.worlds != worlds:
            quantiles = self._taus.shape[2]
            self._pass = ActingPass(self.network, len(self.agents), worlds, quantiles)
        return self._pass.values(self._weights, self._embedded, observations)


def fold_weights(
    network: IqnNetwork, weights: Weights, quantiles: int
) -> dict[str, Tensor]:
    """Return weights whose last layer gives mean action values from sums over quantiles.

    Means and dueling are linear: applied to the layer once, they need not be applied to
    its outputs every turn.
    """
    spare = padded(network.actions) - network.actions
    weight, bias = (
        pad(network.action_values(weights[f"values.{name}"]), (0, spare))
        for name in ("weight", "bias")
    )
    folded = {**weights, "values.weight": weight / quantiles, "values.bias": bias}
    if network.encoder.has_sparse_inputs:
        first = (weights["read.0.weight"], weights["read.0.bias"])
        folded["read.0"] = torch.cat(first, dim=1).flatten(end_dim=1)
    return folded


class ActingPass:
    """The forward pass of a group in a fixed number of worlds."""

    def __init__(
        self, network: IqnNetwork, agents: int, worlds: int, quantiles: int
    ) -> None:
        self._network, self.worlds = network, worlds
        sparse, features = network.encoder.has_sparse_inputs, network.features
        self._inputs = None if sparse else Inputs(features, agents, worlds)
        self._sparse = _SparseLayer(features, agents, worlds) if sparse else None
        shape = (agents, worlds, quantiles, padded(network.width))
        self._joined, self._outputs = np.zeros((2, *shape), np.float32)
        self._flat_joined, self._flat_outputs = (
            torch.from_numpy(array).view(agents, worlds * quantiles, -1)
            for array in (self._joined, self._outputs)
        )

    def values(
        self, weights: Weights, embedded: Array, observations: Observations
    ) -> Array:
        """Return mean action values, (agents, worlds, actions), from folded weights.

        Everything but products is left to numpy where its calls cost less.
        """
        encoded = self._encode(weights, observations)
        np.multiply(encoded[:, :, None], embedded, out=self._joined)
        bias, weight = weights["join.bias"], weights["join.weight"]
        torch.baddbmm(bias, self._flat_joined, weight, out=self._flat_outputs).relu_()
        sums = torch.from_numpy(np.add.reduce(self._outputs, axis=2))
        return linear(weights, "values", sums).numpy()[..., : self._network.actions]

    def _encode(self, weights: Weights, observations: Observations) -> Array:
        encoder = self._network.encoder
        if self._sparse is not None:
            first = torch.from_numpy(self._sparse.forward(weights["read.0"], observations))
            return encoder.after_first(weights, first).numpy()
        assert self._inputs is not None
        return encoder(weights, self._inputs.fill(observations)).numpy()


class _SparseLayer:
    """The encoder's first layer for sparse inputs: sums the weights of nonzero ones."""

    def __init__(self, features: Features, agents: int, worlds: int) -> None:
        self._features = features
        self._width = features.padded + 1
        self._array = np.zeros((agents, worlds, self._width), np.uint8)
        self._array[..., -1] = 1  # the bias is the weight of an input that is always 1
        rows = np.arange(agents * worlds)
        self._starts = rows * self._width
        # All worlds of an agent look up the same weights.
        self._shifts = (rows - rows // worlds) * self._width

    def forward(self, table: Tensor, observations: Observations) -> Array:
        """Return the layer's outputs after the ReLU, (agents, worlds, width)."""
        for inputs, parts in zip(self._array, observations, strict=True):
            self._features.fill(inputs[:, :-1], parts)
        nonzero = np.flatnonzero(self._array != 0)
        indices = nonzero - self._shifts.take(nonzero // self._width)
        starts = np.searchsorted(nonzero, self._starts)
        numbers = self._array.reshape(-1).take(nonzero).astype(np.float32)
        sums, *_ = torch.embedding_bag(
            table,
            torch.from_numpy(indices),
            torch.from_numpy(starts),
            per_sample_weights=torch.from_numpy(numbers),
        )
        outputs = sums.numpy()
        np.maximum(outputs, 0, out=outputs)
        return outputs.reshape(*self._array.shape[:2], -1)


IQN = Algorithm("iqn", IqnPolicy, IqnLearner)
