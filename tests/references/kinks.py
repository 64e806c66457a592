"""Kinks of ReLU and clipping, where float32 can be on one side and float64 on the other.

References note how close they come to a kink, so that gradients are compared less strictly
where either side is right. Values are compared as strictly as elsewhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEAR = 1e-5
"""Rounding error of a unit's input in float32; largest for the cosines of IQN."""

_noted: list[float] = []


def note(distance: Tensor) -> None:
    """Note how far numbers are from a kink, if gradients are enabled."""
    if torch.is_grad_enabled():
        _noted.append(distance.detach().abs().min().item())


def were_near() -> bool:
    """Whether any distance noted since the last call was too small to tell the side."""
    near = min(_noted, default=1.0) < NEAR
    _noted.clear()
    return near


def relu(x: Tensor) -> Tensor:
    note(x)
    return torch.relu(x)
