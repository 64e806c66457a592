"""V-trace: the off-policy actor-critic of IMPALA (Espeholt et al., 2018).

The network, acting and the passes over a round are PPO's. Advantages and value targets are
corrected for transitions that an older policy took, by truncated importance weights, and
are computed again for each pass with the newest weights.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Algorithm
from rookery.algorithms.common import losses
from rookery.algorithms.common.rollout import Minibatch, Rollout, advantages_of
from rookery.algorithms.ppo import PpoLearner, PpoPolicy
from rookery.config.agent import ActorCriticParts, AgentSettings, VtraceConfig
from rookery.specs import Array


class VtraceLearner(PpoLearner):
    """Makes a few passes over the newest round, corrected for the policy that played it."""

    has_gradients_by_hand = True
    advantages_each_pass = True

    @staticmethod
    def parts(settings: AgentSettings) -> ActorCriticParts:
        """Return the settings of V-trace."""
        return settings.vtrace

    @torch.no_grad()
    def compute_advantages(self, rollout: Rollout) -> None:
        """Fill in advantages and value targets, with the current weights."""
        ratios, values, next_values = self.ratios_and_values(rollout)
        for i, transitions in enumerate(rollout.transitions):
            used = slice(len(transitions))
            rollout.returns[i, used], rollout.advantages[i, used] = vtrace(
                rollout.successors[i],
                rollout.rewards[i, used],
                rollout.discounts[i, used],
                values[i, used],
                next_values[i, used],
                ratios[i, used],
                self.agents[0].settings.vtrace,
            )

    def ratios_and_values(self, rollout: Rollout) -> tuple[Array, Array, Array]:
        """Return π / μ, and values where transitions open and close, (agents, slots)."""
        by_hand, weights = self.pass_by_hand(self.rows_of(rollout)), self.group.weights
        if by_hand is not None:
            values_at_closing = by_hand.values(rollout.next_inputs)
            return *by_hand.ratios_and_values(rollout), values_at_closing
        logits, values = self.network(weights, torch.from_numpy(rollout.inputs))
        _, next_values = self.network(weights, torch.from_numpy(rollout.next_inputs))
        legal = None if rollout.legal is None else torch.from_numpy(rollout.legal)
        all_log_probs = torch.log_softmax(losses.masked(logits, legal), dim=2)
        log_probs = losses.pick(all_log_probs, torch.from_numpy(rollout.actions))
        ratios = (log_probs - torch.from_numpy(rollout.old_log_probs)).exp()
        return ratios.numpy(), values.numpy(), next_values.numpy()

    def policy_loss(self, log_probs: Tensor, minibatch: Minibatch) -> Tensor:
        """Return the policy-gradient loss of each transition, weighted by rho."""
        ratio = (log_probs.detach() - minibatch.old_log_probs).exp()
        rho = ratio.clamp(max=self.agents[0].settings.vtrace.rho_bar)
        return -rho * minibatch.advantages * log_probs


def vtrace(
    successors: Array,
    rewards: Array,
    discounts: Array,
    values: Array,
    next_values: Array,
    ratios: Array,
    settings: VtraceConfig,
) -> tuple[Array, Array]:
    """Return V-trace targets v_s and advantages r + discount v_s' − V(s), (n,) each.

    Args:
        successors: (n,) the index of the transition that follows each, or −1.
        rewards: (n,).
        discounts: (n,) factor of the next value; 0 where the episode terminated.
        values: (n,) V where transitions open.
        next_values: (n,) V where they close.
        ratios: (n,) π(a | s) / μ(a | s), of the current and the acting policy.
        settings: with the bounds on rho and c.
    """
    deltas = rewards + discounts * next_values - values
    rho, c = np.minimum(ratios, settings.rho_bar), np.minimum(ratios, settings.c_bar)
    corrections = advantages_of(successors, rho * deltas, discounts * c)
    next_corrections = np.where(successors >= 0, corrections[successors], np.float32(0.0))
    vs = values + corrections
    return vs, deltas + discounts * next_corrections


VTRACE = Algorithm("vtrace", PpoPolicy, VtraceLearner)
