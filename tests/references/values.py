"""Losses of DQN and IQN, one transition at a time.

DQN: Mnih et al. (2015); double: van Hasselt et al. (2016); Retrace: Munos et al. (2016);
advantage learning: Bellemare et al. (2016); hysteretic: Matignon et al. (2007); IQN: Dabney
et al. (2018). θ are the weights that learn, θ⁻ those of the target network.
"""

# ruff: noqa: RUF002, RUF003 (formulas have the letters of the papers)

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.config.agent import DqnConfig
from tests.references.experience import Experience
from tests.references.networks import Weights, q_values, quantiles
from tests.references.returns import Transition


@dataclass(frozen=True)
class Sample:
    """A sampled transition: what followed it, and its random numbers."""

    path: list[Transition]
    """Only itself; with Retrace, the agent's transitions from it on."""
    importance: float
    factor: float
    """Scale of the rewards."""
    taus: list[float]
    """IQN: τ_i, for the row where it opened."""
    next_taus: list[list[float]]
    """IQN: τ'_j, for each row where a transition of the path closes."""


def best(values: Tensor, legal: list[int]) -> int:
    """Return argmax_a over legal actions."""
    return max(legal, key=lambda action: values[action].item())


def huber(delta: Tensor, kappa: float) -> Tensor:
    """Return L_κ(δ), equation (2) of Dabney et al. (2018), which DQN uses as well."""
    if abs(delta.item()) <= kappa:
        return 0.5 * delta**2
    return kappa * (delta.abs() - 0.5 * kappa)


# DQN.


def rate(delta: Tensor, settings: DqnConfig) -> float:
    """Return β / α where δ < 0, else 1: equation (6) of Matignon et al. (2007)."""
    return settings.hysteresis if delta.item() < 0 else 1.0


def dqn_loss(
    sample: Sample, theta: Weights, target: Weights, experience: Experience
) -> tuple[Tensor, float]:
    """Return the loss of one sample, L_κ(δ) / κ, and |δ|."""
    settings, step = experience.agent.settings, sample.path[0]
    with torch.no_grad():
        y = dqn_target(sample, theta, target, experience)
    delta = y - q_values(theta, experience.obs(*step.row), settings)[step.action]
    kappa, weight = settings.dqn.threshold, sample.importance * rate(delta, settings.dqn)
    return weight * huber(delta, kappa) / kappa, abs(delta.item())


def dqn_target(
    sample: Sample, theta: Weights, target: Weights, experience: Experience
) -> Tensor:
    """Return what Q(s, a) is compared with."""
    settings, step = experience.agent.settings, sample.path[0]

    def q_of(row):
        return q_values(target, experience.obs(*row), settings)

    def greedy_at(row):
        """Return the best action: by θ if double, else by θ⁻."""
        choosing = theta if settings.dqn.double else target
        return best(
            q_values(choosing, experience.obs(*row), settings), experience.legal(*row)
        )

    y = retrace(sample, q_of, greedy_at, settings.dqn.retrace or 0.0)
    q = q_of(step.row)
    v = q[best(q, experience.legal(*step.row))]
    # T_AL Q = T Q − α (V − Q): Bellemare et al. (2016), section 3.1.
    return y - settings.dqn.gap * (v - q[step.action])


def retrace(sample: Sample, q_of, greedy_at, lambda_: float) -> Tensor:
    """Return Retrace's target, equation (3) of Munos et al. (2016).

    Q(x_0, a_0) + Σ_t γ^t (Π_s c_s) [r_t + γ E_π Q(x_t+1, ·) − Q(x_t, a_t)], where
    c_s = λ min(1, π(a_s | x_s) / μ(a_s | x_s)). π is greedy: the ratio is at least 1 for
    its action, and 0 for all others. On a path of one transition it is double DQN's.
    """
    first = sample.path[0]
    y, weight = q_of(first.row)[first.action], 1.0
    for t, step in enumerate(sample.path):
        if t > 0:
            weight *= lambda_ if step.action == greedy_at(step.row) else 0.0
        after = (step.closes, step.world)
        expected = q_of(after)[greedy_at(after)]
        delta = sample.factor * step.gain + step.gamma * expected
        delta = delta - q_of(step.row)[step.action]
        y = y + weight * delta
        weight *= step.gamma
    return y


# IQN.


def midpoints(count: int) -> list[float]:
    """Return the fixed taus that agents act by."""
    return [(i + 0.5) / count for i in range(count)]


def acting_values(w: Weights, row: tuple[int, int], experience: Experience) -> Tensor:
    """Return Q(s, ·): the mean over fixed taus, equation (5) of Dabney et al."""
    settings = experience.agent.settings
    taus = midpoints(settings.iqn.acting_quantiles)
    return quantiles(w, experience.obs(*row), taus, settings).mean(dim=0)


def iqn_loss(
    sample: Sample, theta: Weights, target: Weights, experience: Experience
) -> tuple[Tensor, float]:
    """Return the loss of one sample, equation (3) of Dabney et al. (2018), and an error.

    Σ_i 1/N' Σ_j ρ_τi(δ_ij) with ρ_τ(δ) = |τ − 1{δ < 0}| L_κ(δ) / κ. Targets of a path are
    a mixture of those of its ends. The error is that of the means.
    """
    settings, step = experience.agent.settings, sample.path[0]
    with torch.no_grad():
        targets = iqn_targets(sample, theta, target, experience)
    z = quantiles(theta, experience.obs(*step.row), sample.taus, settings)[:, step.action]
    kappa, loss = settings.iqn.threshold, torch.zeros((), dtype=torch.float64)
    for tau, quantile in zip(sample.taus, z, strict=True):
        for share, wanted in targets:
            if share:
                delta = wanted - quantile
                tilt = abs(tau - (1.0 if delta.item() < 0 else 0.0))
                loss = loss + share * tilt * huber(delta, kappa) / kappa
    error = sum(share * wanted for share, wanted in targets) - z.detach().mean()
    return sample.importance * loss, abs(float(error))


def iqn_targets(
    sample: Sample, theta: Weights, target: Weights, experience: Experience
) -> list[tuple[float, Tensor]]:
    """Return r + γ Z_τ'(s', a*) for all τ' and all ends of a path, with their weights.

    The weight of an end is that of its value in Retrace: Π c_s up to it, times 1 − c.
    """
    settings, step = experience.agent.settings, sample.path[0]
    means = acting_values(target, step.row, experience)
    gap = means[best(means, experience.legal(*step.row))] - means[step.action]
    targets, gain, gamma, reached = [], 0.0, 1.0, 1.0
    for t, each in enumerate(sample.path):
        gain, gamma = gain + gamma * sample.factor * each.gain, gamma * each.gamma
        after = (each.closes, each.world)
        z = quantiles(target, experience.obs(*after), sample.next_taus[t], settings)
        values = (
            acting_values(theta, after, experience)
            if settings.iqn.double
            else z.mean(dim=0)
        )
        a = best(values, experience.legal(*after))
        c = 0.0
        if t + 1 < len(sample.path) and sample.path[t + 1].action == a:
            c = settings.iqn.retrace
        for target_quantile in gain + gamma * z[:, a]:
            share = reached * (1 - c) / len(z)
            targets.append((share, target_quantile - settings.iqn.gap * gap))
        reached *= c
    return targets
