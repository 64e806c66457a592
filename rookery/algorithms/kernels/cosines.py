"""The cosines of IQN's embedding, cos(πiτ), with bits that no library decides.

Only the first of a row is computed from scratch, by a polynomial; the others follow from it
by cos((i + k)x) = 2 cos(kx) cos(ix) − cos((i − k)x). In float64 the errors of that are far
below what float32 can hold.
"""

from __future__ import annotations

from math import pi

import numpy as np

from rookery.kernels import kernel
from rookery.specs import Array

COSINES = 64
"""How many there are for each τ; a multiple of `STRIDE`."""
STRIDE = 8


def _sine_coefficients(terms: int) -> tuple[float, ...]:
    """Return the coefficients of u, u³, u⁵, … in sin(πu); the last first."""
    coefficients = [pi]
    for k in range(1, terms):
        coefficients.append(-coefficients[-1] * pi * pi / (2 * k * (2 * k + 1)))
    return tuple(reversed(coefficients))


SINE = _sine_coefficients(12)


def cosines_of(taus: Array) -> Array:
    """Return the cosines of fractions (agents, n), (agents, n, 64)."""
    cosines = np.empty((*taus.shape, COSINES), np.float32)
    write_cosines(taus, 0, taus.shape[1], cosines)
    return cosines


@kernel
def write_cosines(taus: Array, start: int, count: int, cosines: Array) -> None:
    """Write the cosines of fractions, (agents, rows, 64).

    Args:
        taus: (agents, n) in [0, 1].
        start: the first one to use.
        count: how many to use.
        cosines: a row for each of them, written; further rows keep what they hold.
    """
    wave = np.empty(COSINES)
    for a in range(len(taus)):
        for r in range(count):
            u = 0.5 - taus[a, start + r]  # cos(πτ) = sin(π(½ − τ))
            square, sine = u * u, 0.0
            for coefficient in SINE:
                sine = sine * square + coefficient
            wave[0], wave[1] = 1.0, sine * u
            for i in range(2, STRIDE + 1):
                k = i // 2
                wave[i] = 2.0 * wave[k] * wave[i - k] - wave[i - 2 * k]
            double = 2.0 * wave[STRIDE]
            for i in range(STRIDE + 1, 2 * STRIDE):
                wave[i] = double * wave[i - STRIDE] - wave[2 * STRIDE - i]
            for i in range(2 * STRIDE, COSINES, STRIDE):
                for lane in range(i, i + STRIDE):
                    wave[lane] = double * wave[lane - STRIDE] - wave[lane - 2 * STRIDE]
            row = cosines[a, r]
            for i in range(COSINES):
                row[i] = wave[i]
