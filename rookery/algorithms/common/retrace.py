"""Retrace(λ) (Munos et al., 2016) for a greedy policy.

A *path* is a transition and the agent's own rows that followed it, up to `n_step` of them
or to the end of the episode or of the window. Each row of a path is an *end* from which the
target can bootstrap, so all of them are read. Ends beyond the path have weight 0.
"""

from __future__ import annotations

import torch
from torch import Tensor


def retrace_shares(agrees: Tensor, decay: float) -> Tensor:
    """Return the weight of each end of a path in its target, (…, ends); they sum to 1.

    Retrace weights what follows a row by c = λ·min(1, π/μ). The policy learned, π, is
    greedy, so c is λ where the best action was taken and 0 elsewhere. The target then
    bootstraps from an end with weight 1 − c and continues with weight c: all the way to
    the first end where the best action was not taken, or the path stops.

    Args:
        agrees: (…, ends) whether the path continues from there with the best action.
        decay: λ.
    """
    c = agrees.float() * decay
    reached = torch.cumprod(c, dim=-1).roll(1, dims=-1)
    reached[..., 0] = 1.0
    return reached * (1.0 - c)
