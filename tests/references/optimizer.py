"""An update: torch's Adam in float64, clipping, and the target network."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rookery.config.agent import AgentSettings
from tests.references.kinks import were_near
from tests.references.recording import ABSOLUTE, Named, ReferenceAgent, agree


def rate_of(settings: AgentSettings, updates: int) -> float:
    """Return the learning rate after so many updates: warm-up, then a schedule."""
    rate, base = settings.rate, settings.learning_rate
    if updates < rate.warmup:
        return base * (updates + 1) / rate.warmup
    if rate.schedule == "constant":
        return base
    done = min(1.0, (updates - rate.warmup) / rate.updates)
    if rate.schedule == "linear":
        return base * ((1 - done) + done * rate.end)
    return base * (rate.end + (1 - rate.end) * (1 + math.cos(math.pi * done)) / 2)


class PlainAdam:
    """Adam (Kingma and Ba, 2015) of one agent, from any state."""

    def __init__(self, settings: AgentSettings, state: dict[str, Named]) -> None:
        self.settings, self.updates = settings, int(state["counters"][0])
        self.weights = {
            name: weight.clone().requires_grad_()
            for name, weight in state["weights"].items()
        }
        self.target = {name: weight.clone() for name, weight in state["target"].items()}
        self._adam = torch.optim.Adam(self.weights.values())
        for name, weight in self.weights.items():
            self._adam.state[weight] = {
                "step": torch.tensor(float(self.updates)),
                "exp_avg": state["means"][name].clone(),
                "exp_avg_sq": state["squares"][name].clone(),
            }

    def moments(self, which: str) -> Named:
        return {
            name: self._adam.state[weight][which] for name, weight in self.weights.items()
        }

    def step(self, gradient: Named) -> None:
        """Make one update; a gradient longer than `gradient.clip` is scaled down."""
        norm = math.sqrt(sum((each**2).sum().item() for each in gradient.values()))
        limit = self.settings.gradient.clip
        scale = 1.0 if norm <= limit else limit / norm
        for name, weight in self.weights.items():
            weight.grad = scale * gradient[name]
        self._adam.param_groups[0]["lr"] = rate_of(self.settings, self.updates)
        self._adam.step()
        self.updates += 1
        if self.updates % self.settings.target.every == 0:
            rho = self.settings.target.rate
            for name, weight in self.weights.items():
                self.target[name] = (1 - rho) * self.target[name] + rho * weight.detach()


def gradient_of(loss: Tensor, weights: Named) -> Named:
    """Return the gradient of a loss; zeros where it does not depend on a weight."""
    gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    return {
        name: torch.zeros_like(weight) if each is None else each
        for (name, weight), each in zip(weights.items(), gradients, strict=True)
    }


def joined(named: Named) -> Tensor:
    return torch.cat([each.detach().flatten() for each in named.values()])


def check_update(
    where: str,
    settings: AgentSettings,
    agent: ReferenceAgent,
    loss: Tensor,
    gradient: Named,
) -> None:
    """Compare an update with the loss and the gradient of a reference.

    The update itself is compared for the gradient of the code under test: where a gradient
    is almost zero, Adam turns rounding errors into full steps.
    """
    expected = joined(gradient)
    loose = 0.1 * expected.abs().max().item() if were_near() else ABSOLUTE
    agree(f"loss of {where}", agent.loss, loss.item())
    agree(f"gradient of {where}", joined(agent.gradient), expected, loose)
    plain = PlainAdam(settings, agent.before)
    plain.step(agent.gradient)
    agree(f"updates of {where}", agent.after["counters"], [plain.updates, 0])
    for name, moment in (("means", "exp_avg"), ("squares", "exp_avg_sq")):
        actual, expected = agent.after[name], plain.moments(moment)
        agree(f"{name} of {where}", joined(actual), joined(expected), 1e-12)
    for name, expected in (("weights", plain.weights), ("target", plain.target)):
        moved, before = joined(agent.after[name]), joined(agent.before[name])
        # Rounding errors are relative to the weights, not to the step.
        agree(f"{name} of {where}", moved - before, joined(expected) - before, 2e-7)
