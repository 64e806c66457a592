"""Losses of PPO and V-trace, one step at a time.

PPO: Schulman et al. (2017); generalised advantages: Schulman et al. (2016); V-trace:
Espeholt et al. (2018). π is the policy of now, μ the one that acted, whose probability of
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

LEAST = 1e-8
"""Added to the spread that advantages are divided by."""


@dataclass
class Judged:
    """A step with what it is worth."""

    step: Transition
    reward: float
    """What it brought, standardised if rewards are."""
    mu: float
    """The stored probability of its action."""
    value: float
    """V(s_t), by the state that judges."""
    after: float
    """V(s_t+1), where it closes."""
    ratio: float
    """π(a_t | s_t) / μ(a_t | s_t), by the state that judges."""
    advantage: float = 0.0
    target: float = 0.0

    @property
    def delta(self) -> float:
        """The temporal difference, r_t + γ V(s_t+1) − V(s_t)."""
        return self.reward + self.step.gamma * self.after - self.value


def chain_from(one: Judged, by_place: dict[tuple[int, int], Judged]) -> list[Judged]:
    """Return a step and those that follow: each opens where the one before it closes.

    After an episode's end nobody is active, so that a chain never goes on from there.
    """
    found = [one]
    while (found[-1].step.closes, one.step.world) in by_place:
        found.append(by_place[found[-1].step.closes, one.step.world])
    return found


def judge_by_gae(steps: list[Judged], lambda_: float) -> None:
    """Give steps their advantages, A_t = Σ_l (γλ)^l δ_t+l, and targets A_t + V(s_t).

    Equation (16) of Schulman et al. (2016); (11) of Schulman et al. (2017). Advantages
    are then standardised, over all steps of the agent's round.
    """
    by_place = {one.step.place: one for one in steps}
    raw = []
    for one in steps:
        total, weight = 0.0, 1.0
        for later in chain_from(one, by_place):
            total += weight * later.delta
            weight *= later.step.gamma * lambda_
        raw.append(total)
        one.target = one.value + total
    mean = sum(raw) / len(raw)
    spread = math.sqrt(sum((each - mean) ** 2 for each in raw) / len(raw))
    for one, each in zip(steps, raw, strict=True):
        one.advantage = (each - mean) / (spread + LEAST)


def judge_by_vtrace(steps: list[Judged], rho_bar: float, c_bar: float) -> None:
    """Give steps their targets v_s and advantages, of Espeholt et al. (2018).

    Equation (1): v_s = V(x_s) + Σ_t γ^(t−s) (Π_i c_i) ρ_t (r_t + γ V(x_t+1) − V(x_t)),
    ρ_t = min(ρ̄, π/μ), c_i = min(c̄, π/μ). The advantage is r_s + γ v_s+1 − V(x_s)
    (section 4.2), where v_s+1 of the last step known is V(x_s+1).
    """
    by_place = {one.step.place: one for one in steps}
    for one in steps:
        v, weight = one.value, 1.0
        for later in chain_from(one, by_place):
            v += weight * min(rho_bar, later.ratio) * later.delta
            weight *= later.step.gamma * min(c_bar, later.ratio)
        one.target = v
    for one in steps:
        follower = by_place.get((one.step.closes, one.step.world))
        v_after = one.after if follower is None else follower.target
        one.advantage = one.reward + one.step.gamma * v_after - one.value


def ppo_objective(one: Judged, log_pi: Tensor, clip: float) -> Tensor:
    """Return L^CLIP of one step, equation (7) of Schulman et al. (2017)."""
    r = (log_pi - math.log(one.mu)).exp()
    note(torch.stack([r - (1 - clip), r - (1 + clip)]))
    clipped = min(max(r.item(), 1 - clip), 1 + clip)
    if clipped * one.advantage < r.item() * one.advantage:
        return torch.tensor(clipped * one.advantage, dtype=torch.float64)
    return r * one.advantage


def vtrace_objective(one: Judged, log_pi: Tensor, rho_bar: float) -> Tensor:
    """Return what has the gradient ρ_s ∇ log π (r_s + γ v_s+1 − V(x_s)), section 4.2."""
    rho = min(rho_bar, math.exp(log_pi.item()) / one.mu)
    return rho * one.advantage * log_pi


def loss_of(
    objective: Tensor,
    one: Judged,
    logs: dict[int, Tensor],
    value: Tensor,
    parts: ActorCriticParts,
) -> Tensor:
    """Return one step's loss: −(objective − c_1 (V − target)² + c_2 H(π)), eq. (9)."""
    entropy = -sum((log.exp() * log for log in logs.values()), torch.zeros(()))
    return -objective + parts.value * (value - one.target) ** 2 - parts.entropy * entropy
