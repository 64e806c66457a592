"""Adam over many agents at once, with a learning rate, a clip and a count for each.

Every operation is elementwise or a sum over one agent's own numbers, and so is blind to
who else is in the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8


def squared_norms(gradients: Sequence[Tensor]) -> Tensor:
    """Return each agent's squared gradient norm, (agents,)."""
    norms = [torch.linalg.vector_norm(each.flatten(1), dim=1) for each in gradients]
    return torch.stack(norms).square().sum(dim=0)


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
        gradients: alike; they are used up.
        factors: (agents,) what gradients are multiplied by.
        rates: (agents,) learning rates.
        counts: (agents,) updates made, this one included.
        active: (agents,) bool; the others keep every bit.
    """
    # Corrections are moved to where they are one number per agent: m / (sqrt(v) / c + e)
    # is m c / (sqrt(v) + e c).
    first, second = BETAS
    made = counts.numpy().astype(np.float64)
    corrected = np.sqrt(1.0 - second**made)
    steps = rates.numpy() / (1.0 - first**made) * corrected
    numbers = [
        torch.from_numpy(each.astype(np.float32)).view(-1, 1, 1)
        for each in (factors.numpy(), steps, EPSILON * corrected)
    ]
    for name, gradient in gradients.items():
        tensors = (weights[name], means[name], squares[name], gradient, *numbers)
        for some in _parts(active):
            _step(*(tensor[some] for tensor in tensors))


def _parts(active: Tensor) -> list[slice]:
    """Return all agents at once, if they are active, or each that is by itself."""
    if bool(active.all()):
        return [slice(None)]
    return [slice(i, i + 1) for i in active.nonzero().flatten().tolist()]


def _step(
    weight: Tensor,
    mean: Tensor,
    square: Tensor,
    gradient: Tensor,
    factors: Tensor,
    steps: Tensor,
    least: Tensor,
) -> None:
    """Update one parameter of some agents in place."""
    first, second = BETAS
    clipped = gradient.mul_(factors)  # in place: new memory would not be in cache
    mean.lerp_(clipped, 1.0 - first)
    square.lerp_(clipped.square_(), 1.0 - second)
    # Not torch's root: that takes several times as long, and longest for zeros.
    np.sqrt(square.numpy(), out=clipped.numpy())
    change = torch.div(mean, clipped.add_(least), out=clipped)
    weight.sub_(change.mul_(steps))
