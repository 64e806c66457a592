"""A gated recurrent unit for a group of agents: what is carried from row to row.

Everything is a product of matrices, a sum or a tanh, and widths are multiples of 16: so
stacked agents get the bits they get alone. (A sigmoid by itself would not give them.)
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rookery.algorithms.networks import Linear, linear

SEEN, CARRIED = "seen", "carried"
"""The layers: what was seen, and what is carried, to three gates each."""


class Gru:
    """The layers of the unit, and what it does with them."""

    def __init__(self, inputs: int, width: int) -> None:
        self.width = width
        self.layers = [Linear(SEEN, inputs, 3 * width), Linear(CARRIED, width, 3 * width)]

    def step(self, weights: Mapping[str, Tensor], seen: Tensor, hidden: Tensor) -> Tensor:
        """Return the next hidden state, (agents, rows, width), from (agents, rows, …)."""
        return self._step(weights, linear(weights, SEEN, seen), hidden)

    def unroll(
        self, weights: Mapping[str, Tensor], seen: Tensor, hidden: Tensor, keep: Tensor
    ) -> Tensor:
        """Return what is carried after each row, (agents, sequences, rows, width).

        Args:
            weights: of all agents.
            seen: (agents, sequences, rows, inputs).
            hidden: (agents, sequences, width): what is carried into the first row.
            keep: (agents, sequences, rows): 0 where an episode starts, else 1.
        """
        agents, sequences, rows, _ = seen.shape
        # What is seen does not depend on what is carried: one product for all rows.
        gates = linear(weights, SEEN, seen.flatten(1, 2))
        gates = gates.view(agents, sequences, rows, 3 * self.width)
        found = []
        for row in range(rows):
            hidden = hidden * keep[:, :, row, None]
            hidden = self._step(weights, gates[:, :, row], hidden)
            found.append(hidden)
        return torch.stack(found, dim=2)

    def _step(self, weights: Mapping[str, Tensor], gates: Tensor, hidden: Tensor) -> Tensor:
        width = self.width
        carried = linear(weights, CARRIED, hidden)
        both = _sigmoid(gates[..., : 2 * width] + carried[..., : 2 * width])
        reset, keep = both[..., :width], both[..., width:]
        new = torch.tanh(gates[..., 2 * width :] + reset * carried[..., 2 * width :])
        return new + keep * (hidden - new)


def _sigmoid(values: Tensor) -> Tensor:
    return torch.tanh(values * 0.5) * 0.5 + 0.5
