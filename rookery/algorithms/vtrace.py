"""V-trace: an actor-critic that allows for steps which an older policy took (IMPALA).

The network, acting and the way over a round are PPO's. What a step is worth is corrected
by how likely its action is now, against how likely it was when it was taken: truncated,
so that nothing explodes. It is computed anew for each pass, with the weights of then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Algorithm
from rookery.algorithms.common import losses
from rookery.algorithms.common.rollout import (
    Experience,
    Minibatch,
    advantages_of,
    followers_of,
)
from rookery.algorithms.ppo import PpoLearner
from rookery.algorithms.ppo_acting import PpoPolicy
from rookery.config.agent import ActorCriticParts, AgentSettings, VtraceConfig
from rookery.replay.buffer import ReplayReader
from rookery.specs import Array

Path = tuple[Array, Array, Array]
"""Where steps opened, where they closed, and their worlds."""


class VtraceLearner(PpoLearner):
    """Goes over the steps of the newest round, whoever's policy took them."""

    judges_each_pass = True

    @staticmethod
    def parts(settings: AgentSettings) -> ActorCriticParts:
        """Return how a round is gone over."""
        return settings.vtrace

    @torch.no_grad()
    def judge(
        self,
        experience: Experience,
        readers: Sequence[ReplayReader],
        steps: Sequence[Array],
    ) -> None:
        """Give steps their advantages and value targets, by the state there is now."""
        weights = self.group.weights
        logits, values = self.network(weights, torch.from_numpy(experience.inputs))
        _, after = self.network(weights, torch.from_numpy(experience.next_inputs))
        legal = None if experience.legal is None else torch.from_numpy(experience.legal)
        logs = torch.log_softmax(losses.masked(logits, legal), dim=2)
        taken = losses.pick(logs, torch.from_numpy(experience.actions))
        ratios = (taken - torch.from_numpy(experience.old_logs)).exp().numpy()
        for i, (reader, found) in enumerate(zip(readers, steps, strict=True)):
            some = slice(len(found))
            targets, advantages = corrected(
                (reader.opening(found)[0], reader.closes(found), reader.opening(found)[1]),
                experience.returns[i, some],
                experience.discounts[i, some],
                values[i, some].numpy(),
                after[i, some].numpy(),
                ratios[i, some],
                self.agents[0].settings.vtrace,
            )
            experience.targets[i, some] = targets
            experience.advantages[i, some] = advantages

    def policy_loss(self, logs: Tensor, part: Minibatch) -> Tensor:
        """Return the policy gradient's loss of each step, weighed by what it is now."""
        ratio = (logs.detach() - part.old_logs).exp()
        weight = ratio.clamp(max=self.agents[0].settings.vtrace.rho_bar)
        return -weight * part.advantages * logs


def corrected(
    path: Path,
    returns: Array,
    discounts: Array,
    values: Array,
    after: Array,
    ratios: Array,
    settings: VtraceConfig,
) -> tuple[Array, Array]:
    """Return value targets and advantages of steps, given in the order they opened.

    Args:
        path: (n,) turns at which steps opened and closed, and worlds.
        returns: (n,) what each step brought.
        discounts: (n,) what the value of where it led counts; 0 after the end.
        values: (n,) of where it opened.
        after: (n,) of where it closed.
        ratios: (n,) how likely its action is now, by how likely it was.
        settings: how far ratios count.
    """
    opens, closes, worlds = path
    errors = returns + discounts * after - values
    rho, c = np.minimum(ratios, settings.rho_bar), np.minimum(ratios, settings.c_bar)
    above = advantages_of(opens, closes, worlds, rho * errors, discounts * c)
    followers = followers_of(opens, closes, worlds)
    above_after = np.where(followers >= 0, above[followers], np.float32(0.0))
    return values + above, errors + discounts * above_after


VTRACE = Algorithm("vtrace", PpoPolicy, VtraceLearner)
