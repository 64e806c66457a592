"""Adam over many agents at once, with a learning rate, a clip and a count for each.

Every operation is elementwise or a sum over one agent's own numbers, and so is blind to
who else is in the group. It works leaf by leaf, so that what it touches stays in cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8


def squared_norms(gradients: Sequence[Tensor]) -> Tensor:
    """Return each agent's squared gradient norm, (agents,)."""
    total = torch.zeros(len(gradients[0]))
    for gradient in gradients:
        total = total + gradient.square().flatten(1).sum(dim=1)
    return total


def clip_factors(norms: Tensor, limits: Tensor) -> Tensor:
    """Return what to multiply gradients by so that norms stay within limits."""
    return (limits / norms.clamp(min=1e-12)).clamp(max=1.0)


def adam_step(
    weights: Mapping[str, Tensor],
    means: Mapping[str, Tensor],
    squares: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    *,
    factors: Tensor,
    rates: Tensor,
    counts: Tensor,
    active: Tensor,
) -> None:
    """Update weights and moments in place, for active agents.

    Args:
        weights: parameter name to (agents, rows, columns).
        means: first moments, alike.
        squares: second moments, alike.
        gradients: alike.
        factors: (agents,) what gradients are multiplied by.
        rates: (agents,) learning rates.
        counts: (agents,) updates made, this one included.
        active: (agents,) bool; the others keep every bit.
    """
    first, second = BETAS
    corrected = (1.0 - second ** counts.double()).sqrt().float().view(-1, 1, 1)
    steps = (rates.double() / (1.0 - first ** counts.double())).float().view(-1, 1, 1)
    factors = factors.view(-1, 1, 1)
    everyone, keep = bool(active.all()), active.view(-1, 1, 1)
    for name, gradient in gradients.items():
        touched = (weights[name], means[name], squares[name])
        before = None if everyone else [tensor.clone() for tensor in touched]
        _step(*touched, gradient * factors, first, second, corrected, steps)
        if before is not None:
            for tensor, old in zip(touched, before, strict=True):
                tensor.copy_(torch.where(keep, tensor, old))


def _step(
    weight: Tensor,
    mean: Tensor,
    square: Tensor,
    gradient: Tensor,
    first: float,
    second: float,
    corrected: Tensor,
    steps: Tensor,
) -> None:
    """Update one parameter of all agents in place; `gradient` is used as scratch."""
    mean.lerp_(gradient, 1.0 - first)
    square.lerp_(gradient.square_(), 1.0 - second)
    change = torch.sqrt(square, out=gradient).div_(corrected).add_(EPSILON)
    weight.sub_(torch.div(mean, change, out=change).mul_(steps))
