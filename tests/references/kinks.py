"""Where a slope changes at once: there float32 may see one side, and float64 the other.

References note how near they came to such places, so that a gradient is compared less
strictly where either side is right. Values are compared as strictly there.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEAR = 1e-5
"""What float32 may be off by in a unit's input; the cosines of IQN are off the most."""

_noted: list[float] = []


def note(distance: Tensor) -> None:
    """Note how far numbers are from a kink, if there is a gradient to find."""
    if torch.is_grad_enabled():
        _noted.append(distance.detach().abs().min().item())


def were_near() -> bool:
    """Whether any noted since the last time was too near to tell."""
    near = min(_noted, default=1.0) < NEAR
    _noted.clear()
    return near


def relu(x: Tensor) -> Tensor:
    note(x)
    return torch.relu(x)
