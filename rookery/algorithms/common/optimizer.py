"""Adam (Kingma and Ba, 2015) for many agents at once, in one pass over memory.

Each agent has its own learning rate, gradient clip and update count.
"""

from __future__ import annotations

import numpy as np

from rookery.kernels import Scalar, kernel
from rookery.specs import Array

BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-8
LANES = 16
"""Sums of squares are added up side by side, which is faster than one after the other."""


@kernel
def clip_factors(norms: Array, limits: Array) -> Array:
    """Return the factors that scale gradients so that norms stay within limits."""
    factors = np.empty(len(norms), np.float32)
    for a in range(len(norms)):
        factors[a] = clip_factor(norms[a], limits[a])
    return factors


@kernel
def clip_factor(norm: Scalar, limit: Scalar) -> Scalar:
    """Return the factor of one agent's gradient."""
    factor = limit / max(norm, np.float32(1e-12))
    return min(factor, np.float32(1))


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
    steps, epsilons = step_sizes(rates, counts)
    _adam(
        weights,
        means,
        squares,
        target,
        gradient,
        factors,
        steps,
        epsilons,
        active,
        target_rates,
    )


def step_sizes(rates: Array, counts: Array) -> tuple[Array, Array]:
    """Return the factors of the step and Adam's ε of updates, with bias corrections.

    The corrections are moved to where they are one number per update:
    m / (sqrt(v) / c + eps) is m c / (sqrt(v) + eps c).
    """
    updates = counts.astype(np.float64)
    corrections = np.sqrt(1.0 - BETA2**updates)
    steps = rates / (1.0 - BETA1**updates) * corrections
    return steps.astype(np.float32), (EPSILON * corrections).astype(np.float32)


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
    for a in range(len(weights)):
        if active[a]:
            take_step(
                weights[a],
                means[a],
                squares[a],
                target[a],
                gradient[a],
                factors[a],
                steps[a],
                epsilons[a],
                target_rates[a],
            )


@kernel
def take_step(
    weights: Array,
    means: Array,
    squares: Array,
    target: Array,
    gradient: Array,
    factor: Scalar,
    step: Scalar,
    epsilon: Scalar,
    target_rate: Scalar,
) -> None:
    """Update one agent; see `adam_step` and `step_sizes`."""
    one_less_beta1, one_less_beta2 = np.float32(1 - BETA1), np.float32(1 - BETA2)
    is_copy = target_rate == np.float32(1)  # to the bit, which t + (w - t) is not
    w, t, g, m, v = weights, target, gradient, means, squares
    for i in range(len(g)):
        clipped = g[i] * factor
        m[i] += (clipped - m[i]) * one_less_beta1
        v[i] += (clipped * clipped - v[i]) * one_less_beta2
        w[i] -= step * (m[i] / (np.sqrt(v[i]) + epsilon))
        t[i] = w[i] if is_copy else t[i] + target_rate * (w[i] - t[i])


@kernel
def gradient_norms(gradient: Array, norms: Array) -> None:
    """Write the norm of each agent's gradient, (agents,)."""
    for a in range(len(norms)):
        norms[a] = norm_of(gradient[a])


@kernel
def norm_of(gradient: Array) -> Scalar:
    """Return the norm of one agent's gradient, whose size is a multiple of `LANES`."""
    sums = np.zeros(LANES, np.float32)
    g = gradient.reshape((-1, LANES))
    eights = len(g) // 8 * 8
    for i in range(0, eights, 8):  # eight at a time, so that sums are stored less often
        for lane in range(LANES):
            g_0, g_1, g_2, g_3 = g[i, lane], g[i + 1, lane], g[i + 2, lane], g[i + 3, lane]
            g_4, g_5 = g[i + 4, lane], g[i + 5, lane]
            g_6, g_7 = g[i + 6, lane], g[i + 7, lane]
            total = sums[lane] + g_0 * g_0 + g_1 * g_1 + g_2 * g_2 + g_3 * g_3
            sums[lane] = total + g_4 * g_4 + g_5 * g_5 + g_6 * g_6 + g_7 * g_7
    for i in range(eights, len(g)):
        for lane in range(LANES):
            sums[lane] += g[i, lane] * g[i, lane]
    total = np.float32(0)
    for lane in range(LANES):
        total += sums[lane]
    return np.sqrt(total)
