"""Adam (Kingma and Ba, 2015) for many agents at once, in one pass over memory.

Each agent has its own learning rate, gradient clip and update count.
"""

from __future__ import annotations

import numpy as np

from rookery.kernels import kernel
from rookery.specs import Array

BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-8
LANES = 16
"""Sums of squares are added up side by side, which is faster than one after the other."""


def clip_factors(norms: Array, limits: Array) -> Array:
    """Return the factors that scale gradients so that norms stay within limits."""
    factors: Array = np.minimum(limits / np.maximum(norms, np.float32(1e-12)), 1.0)
    return factors.astype(np.float32)


def adam_step(
    weights: Array,
    means: Array,
    squares: Array,
    target: Array,
    gradient: Array,
    *,
    factors: Array,
    rates: Array,
    counts: Array,
    active: Array,
    target_rates: Array,
) -> None:
    """Update weights, moments and targets of active agents in place.

    Args:
        weights: (agents, parameters).
        means: (agents, parameters) first moments.
        squares: (agents, parameters) second moments.
        target: (agents, parameters) weights of the target networks.
        gradient: (agents, parameters).
        factors: (agents,) scale of the gradients, for clipping.
        rates: (agents,) learning rates.
        counts: (agents,) updates made, including this one.
        active: (agents,) bool; the others keep every bit.
        target_rates: (agents,) how far targets move to the new weights; 0: not at all.
    """
    # Bias corrections are moved to where they are one number per agent:
    # m / (sqrt(v) / c + eps) is m c / (sqrt(v) + eps c).
    updates = counts.astype(np.float64)
    corrections = np.sqrt(1.0 - BETA2**updates)
    steps = rates / (1.0 - BETA1**updates) * corrections
    _adam(
        weights,
        means,
        squares,
        target,
        gradient,
        factors,
        steps.astype(np.float32),
        (EPSILON * corrections).astype(np.float32),
        active,
        target_rates,
    )


@kernel
def _adam(
    weights: Array,
    means: Array,
    squares: Array,
    target: Array,
    gradient: Array,
    factors: Array,
    steps: Array,
    epsilons: Array,
    active: Array,
    target_rates: Array,
) -> None:
    one_less_beta1, one_less_beta2 = np.float32(1 - BETA1), np.float32(1 - BETA2)
    for a in range(len(weights)):
        if not active[a]:
            continue
        factor, step, epsilon, rate = factors[a], steps[a], epsilons[a], target_rates[a]
        is_copy = rate == np.float32(1)  # to the bit, which t + (w - t) is not
        w, t, g = weights[a], target[a], gradient[a]
        m, v = means[a], squares[a]
        for i in range(len(g)):
            clipped = g[i] * factor
            m[i] += (clipped - m[i]) * one_less_beta1
            v[i] += (clipped * clipped - v[i]) * one_less_beta2
            w[i] -= step * (m[i] / (np.sqrt(v[i]) + epsilon))
            t[i] = w[i] if is_copy else t[i] + rate * (w[i] - t[i])


@kernel
def gradient_norms(gradient: Array, norms: Array) -> None:
    """Write the norm of each agent's gradient, (agents,)."""
    sums = np.zeros(LANES, np.float32)
    for a in range(len(norms)):
        sums[:] = np.float32(0)
        g = gradient[a].reshape((-1, LANES))  # widths are padded
        for i in range(len(g)):
            for lane in range(LANES):
                sums[lane] += g[i, lane] * g[i, lane]
        total = np.float32(0)
        for lane in range(LANES):
            total += sums[lane]
        norms[a] = np.sqrt(total)
