"""Losses of PPO and V-trace, sample transition at a time.

PPO: Schulman et al. (2017); generalised advantages: Schulman et al. (2016); V-trace:
Espeholt et al. (2018). π is the current policy, μ the acting policy, whose probability of
the action was stored.
"""

# ruff: noqa: RUF002 (formulas have the letters of the papers)

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.config.agent import ActorCriticParts
from tests.references.kinks import note
from tests.references.returns import Transition

SMALLEST_STD = 1e-8
"""Added to the standard deviation that advantages are divided by."""


@dataclass
class PolicySample:
    """A transition with its advantage and value target."""

    step: Transition
    reward: float
    """Its reward, standardised if rewards are."""
    mu: float
    """The stored probability of its action."""
    value: float
    """V(s_t), by the current weights."""
    next_value: float
    """V(s_t+1), where it closes."""
    ratio: float
    """π(a_t | s_t) / μ(a_t | s_t), by the current weights."""
    advantage: float = 0.0
    target: float = 0.0

    @property
    def delta(self) -> float:
        """The temporal difference, r_t + γ V(s_t+1) − V(s_t)."""
        return self.reward + self.step.gamma * self.next_value - self.value


def chain_from(
    sample: PolicySample, by_row: dict[tuple[int, int], PolicySample]
) -> list[PolicySample]:
    """Return a transition and those that follow: each opens where the last sample closes.

    The agent is not active where an episode ends, so a chain never continues from there.
    """
    chain = [sample]
    while (chain[-1].step.closes, sample.step.world) in by_row:
        chain.append(by_row[chain[-1].step.closes, sample.step.world])
    return chain


def estimate_gae(steps: list[PolicySample], lambda_: float) -> None:
    """Give transitions their advantages, A_t = Σ_l (γλ)^l δ_t+l, and targets A_t + V(s_t).

    Equation (16) of Schulman et al. (2016); (11) of Schulman et al. (2017). Advantages
    are then standardised, over all transitions of the agent's round.
    """
    by_row = {sample.step.row: sample for sample in steps}
    raw = []
    for sample in steps:
        total, weight = 0.0, 1.0
        for later in chain_from(sample, by_row):
            total += weight * later.delta
            weight *= later.step.gamma * lambda_
        raw.append(total)
        sample.target = sample.value + total
    mean = sum(raw) / len(raw)
    spread = math.sqrt(sum((each - mean) ** 2 for each in raw) / len(raw))
    for sample, each in zip(steps, raw, strict=True):
        sample.advantage = (each - mean) / (spread + SMALLEST_STD)


def estimate_vtrace(steps: list[PolicySample], rho_bar: float, c_bar: float) -> None:
    """Give transitions their targets v_s and advantages, of Espeholt et al. (2018).

    Equation (1): v_s = V(x_s) + Σ_t γ^(t−s) (Π_i c_i) ρ_t (r_t + γ V(x_t+1) − V(x_t)),
    ρ_t = min(ρ̄, π/μ), c_i = min(c̄, π/μ). The advantage is r_s + γ v_s+1 − V(x_s)
    (section 4.2), where v_s+1 of the last known transition is V(x_s+1).
    """
    by_row = {sample.step.row: sample for sample in steps}
    for sample in steps:
        v, weight = sample.value, 1.0
        for later in chain_from(sample, by_row):
            v += weight * min(rho_bar, later.ratio) * later.delta
            weight *= later.step.gamma * min(c_bar, later.ratio)
        sample.target = v
    for sample in steps:
        successor = by_row.get((sample.step.closes, sample.step.world))
        v_after = sample.next_value if successor is None else successor.target
        sample.advantage = sample.reward + sample.step.gamma * v_after - sample.value


def ppo_objective(sample: PolicySample, log_pi: Tensor, clip: float) -> Tensor:
    """Return L^CLIP of sample transition, equation (7) of Schulman et al. (2017)."""
    r = (log_pi - math.log(sample.mu)).exp()
    note(torch.stack([r - (1 - clip), r - (1 + clip)]))
    clipped = min(max(r.item(), 1 - clip), 1 + clip)
    if clipped * sample.advantage < r.item() * sample.advantage:
        return torch.tensor(clipped * sample.advantage, dtype=torch.float64)
    return r * sample.advantage


def vtrace_objective(sample: PolicySample, log_pi: Tensor, rho_bar: float) -> Tensor:
    """Return what has the gradient ρ_s ∇ log π (r_s + γ v_s+1 − V(x_s)), section 4.2."""
    rho = min(rho_bar, math.exp(log_pi.item()) / sample.mu)
    return rho * sample.advantage * log_pi


def loss_of(
    objective: Tensor,
    sample: PolicySample,
    logs: dict[int, Tensor],
    value: Tensor,
    parts: ActorCriticParts,
) -> Tensor:
    """Return a transition's loss: −(objective − c_1 (V − target)² + c_2 H(π)), eq. (9)."""
    entropy = -sum((log.exp() * log for log in logs.values()), torch.zeros(()))
    return -objective + parts.value * (value - sample.target) ** 2 - parts.entropy * entropy
