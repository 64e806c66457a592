"""Adam (Kingma and Ba, 2015) for many agents at once.

Each has its own learning rate, gradient clip and update count. Every operation is
elementwise, so an agent's result does not depend on its group.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-8


def clip_factors(norms: Tensor, limits: Tensor) -> Tensor:
    """Return the factors that scale gradients so that norms stay within limits."""
    return (limits / norms.clamp(min=1e-12)).clamp(max=1.0)


def adam_step(
    weights: Tensor,
    means: Tensor,
    squares: Tensor,
    gradients: Tensor,
    *,
    factors: Tensor,
    rates: Tensor,
    counts: Tensor,
    active: Tensor,
) -> None:
    """Update weights and moments of active agents in place.

    Args:
        weights: (agents, parameters).
        means: (agents, parameters) first moments.
        squares: (agents, parameters) second moments.
        gradients: (agents, parameters); overwritten.
        factors: (agents,) scale of the gradients, for clipping.
        rates: (agents,) learning rates.
        counts: (agents,) updates made, including this one.
        active: (agents,) bool; the others keep every bit.
    """
    # Bias corrections are moved to where they are one number per agent:
    # m / (sqrt(v) / c + eps) is m c / (sqrt(v) + eps c).
    updates = counts.numpy().astype(np.float64)
    corrections = np.sqrt(1.0 - BETA2**updates)
    steps = rates.numpy() / (1.0 - BETA1**updates) * corrections
    step_sizes, epsilons = (
        torch.from_numpy(numbers.astype(np.float32)).view(-1, 1)
        for numbers in (steps, EPSILON * corrections)
    )
    factors = factors.view(-1, 1)
    rows = [slice(None)]  # all agents in one operation, or each active one on its own
    if not bool(active.all()):
        rows = [slice(i, i + 1) for i in active.nonzero().flatten().tolist()]
    for row in rows:
        clipped = gradients[row].mul_(factors[row])  # new memory would not be in cache
        means[row].lerp_(clipped, 1.0 - BETA1)
        squares[row].lerp_(clipped.square_(), 1.0 - BETA2)
        # Not torch's sqrt: it takes several times as long, and longest for zeros.
        np.sqrt(squares[row].numpy(), out=clipped.numpy())
        change = torch.div(means[row], clipped.add_(epsilons[row]), out=clipped)
        weights[row].sub_(change.mul_(step_sizes[row]))
