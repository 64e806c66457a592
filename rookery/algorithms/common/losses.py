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


def shortfalls(values: Tensor, actions: Tensor, legal: Tensor | None) -> Tensor:
    """Return what chosen actions are worth less than the best, (…).

    Targets lowered by a share of it, `gap`, leave the best action what it is worth and
    push the others further below, until differences are 1 / (1 − gap) times as large.
    """
    return masked(values, legal).amax(dim=-1) - pick(values, actions)


def bootstrap(returns: Tensor, discounts: Tensor, values: Tensor) -> Tensor:
    """Return targets: what was got, and the discounted value of where it led.

    `returns` and `discounts` are (agents, batch), `values` (agents, batch, quantiles).
    """
    return returns.unsqueeze(-1) + discounts.unsqueeze(-1) * values


def retrace_shares(agrees: Tensor, decay: float) -> Tensor:
    """Return what each end of a path counts for in its target, (…, ends); in all 1.

    Retrace weighs what comes after a row by λ·min(1, π/μ). With the best action as the
    policy that is learned (π is 1 or 0), it is λ where the best action was taken, and
    nothing where another was. So a path counts up to its first end with the chance 1 − λ,
    and so on, and wholly up to the first end from which it did not go on like that.

    Args:
        agrees: (…, ends) whether the path goes on from there with the best action.
        decay: λ.
    """
    on = agrees.float() * decay
    reached = torch.cumprod(on, dim=-1).roll(1, dims=-1)
    reached[..., 0] = 1.0
    return reached * (1.0 - on)


def quantile_huber(
    found: Tensor,
    targets: Tensor,
    fractions: Tensor,
    threshold: float = 1.0,
    shares: Tensor | None = None,
) -> Tensor:
    """Return the quantile Huber loss, (agents, batch).

    Args:
        found: (agents, batch, quantiles) values at `fractions`.
        targets: (agents, batch, other quantiles).
        fractions: (agents, batch, quantiles) in [0, 1).
        threshold: below it errors count squared, above it in proportion.
        shares: (agents, batch, other quantiles) what each target counts for; by default
            all the same.
    """
    apply = _QuantileHuber.apply
    given = (found, targets, fractions, threshold, shares)
    loss: Tensor = apply(*given)  # type: ignore[no-untyped-call]
    return loss


def mean_errors(found: Tensor, targets: Tensor, shares: Tensor | None = None) -> Tensor:
    """Return how far the means of quantiles are from those of targets, (agents, batch).

    Not the errors of single quantiles: where returns differ by chance these stay large
    for ever, and such steps would be drawn again and again with nothing to learn from.
    """
    wanted = targets.mean(dim=2) if shares is None else (targets * shares).sum(dim=2)
    return (wanted - found.mean(dim=2)).abs()


class _QuantileHuber(torch.autograd.Function):
    """The loss with its gradient by hand: autograd's takes more steps."""

    @staticmethod
    def forward(
        ctx: Any,
        found: Tensor,
        targets: Tensor,
        fractions: Tensor,
        threshold: float,
        shares: Tensor | None,
    ) -> Tensor:
        errors = targets.unsqueeze(2) - found.unsqueeze(3)
        sizes = errors.abs()
        weight = (fractions.unsqueeze(3) - (errors < 0).float()).abs_()
        near = sizes.clamp(max=threshold)
        slopes = _mean(errors.clamp_(-threshold, threshold).mul_(weight), shares)
        ctx.save_for_backward(slopes.div_(-threshold))
        huber = sizes.sub_(0.5 * near).mul_(near).mul_(weight)
        return _mean(huber, shares).sum(dim=2).div_(threshold)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        (slopes,) = ctx.saved_tensors
        return gradient.unsqueeze(2) * slopes, None, None, None, None


def _mean(values: Tensor, shares: Tensor | None) -> Tensor:
    """Return means over targets, which may count differently."""
    if shares is None:
        return values.mean(dim=3)
    return (values * shares.unsqueeze(2)).sum(dim=3)


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
