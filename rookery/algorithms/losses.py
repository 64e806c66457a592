"""Losses and the parts of targets, each a small pure function over (agents, …) tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

FAR_BELOW = -1e9
"""The value of an action that cannot be taken."""


def dueling(outputs: Tensor, actions: int) -> Tensor:
    """Return values of actions from advantages and, in the next column, a state value."""
    advantages = outputs[..., :actions]
    value = outputs[..., actions : actions + 1]
    return value + advantages - advantages.mean(dim=-1, keepdim=True)


def masked(values: Tensor, legal: Tensor | None) -> Tensor:
    """Return values with those of illegal actions far below all others.

    Where no action is legal (nobody acts there), all values stay.
    """
    if legal is None:
        return values
    return torch.where(legal | ~legal.any(dim=-1, keepdim=True), values, FAR_BELOW)


def pick(values: Tensor, actions: Tensor) -> Tensor:
    """Return the values of chosen actions: (…, actions) and (…) give (…)."""
    return values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def bootstrap(returns: Tensor, discounts: Tensor, values: Tensor) -> Tensor:
    """Return targets: what was got, and the discounted value of where it led.

    `returns` and `discounts` are (agents, batch), `values` (agents, batch, quantiles).
    """
    return returns.unsqueeze(-1) + discounts.unsqueeze(-1) * values


def quantile_huber(
    found: Tensor, targets: Tensor, fractions: Tensor, threshold: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return the quantile Huber loss and the mean absolute error, (agents, batch) each.

    Args:
        found: (agents, batch, quantiles) values at `fractions`.
        targets: (agents, batch, other quantiles).
        fractions: (agents, batch, quantiles) in [0, 1).
        threshold: below it errors count squared, above it in proportion.
    """
    apply = _QuantileHuber.apply
    loss, sizes = apply(found, targets, fractions, threshold)  # type: ignore[no-untyped-call]
    return loss, sizes


class _QuantileHuber(torch.autograd.Function):
    """The loss with its gradient by hand: autograd's takes more steps."""

    @staticmethod
    def forward(
        ctx: Any, found: Tensor, targets: Tensor, fractions: Tensor, threshold: float
    ) -> tuple[Tensor, Tensor]:
        errors = targets.unsqueeze(2) - found.unsqueeze(3)
        sizes = errors.abs()
        weight = (fractions.unsqueeze(3) - (errors < 0).float()).abs_()
        near = sizes.clamp(max=threshold)
        slopes = errors.clamp_(-threshold, threshold).mul_(weight).mean(dim=3)
        ctx.save_for_backward(slopes.div_(-threshold))
        means = sizes.mean(dim=(2, 3))
        huber = sizes.sub_(0.5 * near).mul_(near).mul_(weight)
        ctx.mark_non_differentiable(means)
        return huber.mean(dim=3).sum(dim=2).div_(threshold), means

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        (slopes,) = ctx.saved_tensors
        return gradient.unsqueeze(2) * slopes, None, None, None


def huber(found: Tensor, targets: Tensor, threshold: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the Huber loss and the absolute error of values, each as large as `found`.

    Below `threshold` errors count squared, above it in proportion, like in
    `quantile_huber`.
    """
    loss = huber_loss(found, targets, reduction="none", delta=threshold) / threshold
    return loss, (targets - found.detach()).abs()


def clipped_ratio(ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Return PPO's loss of each step: the worse of the ratio as it is and kept near 1."""
    kept = ratio.clamp(1.0 - clip, 1.0 + clip)
    return -torch.minimum(ratio * advantages, kept * advantages)
