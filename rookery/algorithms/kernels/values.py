"""Action values from a network's last outputs: dueling, the best action, gradients.

Compiled functions here are called from other compiled loops, for one row at a time.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from rookery.kernels import Scalar, kernel
from rookery.specs import Array

NO_MASK = np.zeros((0, 0, 0), np.bool_)


def mask_array(mask: Tensor | None) -> Array:
    """Return a mask of legal actions as an array; an empty one if all are always legal."""
    return NO_MASK if mask is None else mask.numpy()


@kernel
def value_of(outputs: Array, action: int, num_actions: int, dueling: bool) -> Scalar:
    """Return the value of an action from outputs (outputs,).

    Dueling (Wang et al., 2016): Q(a) = V + A(a) − mean A; V is the output after the
    advantages.
    """
    if not dueling:
        return outputs[action]
    total = np.float32(0)
    for i in range(num_actions):
        total += outputs[i]
    return outputs[num_actions] + outputs[action] - total / np.float32(num_actions)


@kernel
def value_backward(
    d_value: Scalar, action: int, num_actions: int, dueling: bool, d_outputs: Array
) -> None:
    """Write the gradient of outputs from that of an action's value."""
    shared = -d_value / np.float32(num_actions) if dueling else np.float32(0)
    for i in range(num_actions):
        d_outputs[i] = shared
    d_outputs[action] += d_value
    if dueling:
        d_outputs[num_actions] = d_value


@kernel
def best_action(outputs: Array, legal: Array, place: int, row: int, count: int) -> int:
    """Return the legal action with the highest output, the first of equals.

    `legal` is (places, rows, actions). An empty mask, or one without a legal action in
    this row, allows all. With dueling networks, the largest advantage belongs to the
    highest value.
    """
    any_legal = False
    if legal.size:
        for i in range(count):
            any_legal |= legal[place, row, i]
    best = -1
    for i in range(count):
        if any_legal and not legal[place, row, i]:
            continue
        if best < 0 or outputs[i] > outputs[best]:
            best = i
    return best
