"""A gated recurrent unit for a group of agents: what is carried from row to row.

Everything is a product of matrices, a sum or a tanh, and widths are multiples of 16: so
stacked agents get the bits they get alone. (A sigmoid by itself would not give them.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rookery.algorithms.nets.layers import Linear, linear

SEEN, CARRIED = "seen", "carried"
"""The layers: what was seen, and what is carried, to three gates each."""


class Gru:
    """The layers of the unit, and what it does with them."""

    def __init__(self, inputs: int, width: int) -> None:
        self.width = width
        self.layers = [Linear(SEEN, inputs, 3 * width), Linear(CARRIED, width, 3 * width)]

    @property
    def numbers(self) -> int:
        """How many numbers a row takes, with its gradients."""
        return 24 * self.width

    def step(self, weights: Mapping[str, Tensor], seen: Tensor, hidden: Tensor) -> Tensor:
        """Return the next hidden state, (agents, rows, width), from (agents, rows, …)."""
        *_, after = _step(
            linear(weights, SEEN, seen), linear(weights, CARRIED, hidden), hidden
        )
        return after

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
        layer = (weights[f"{CARRIED}.weight"], weights[f"{CARRIED}.bias"])
        apply = _Unroll.apply
        found: Tensor = apply(gates, hidden, keep, *layer)  # type: ignore[no-untyped-call]
        return found


def _step(
    gates: Tensor, carried: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what is let in, what is kept, what is new, and the next hidden state."""
    width = hidden.shape[-1]
    both = gates[..., : 2 * width] + carried[..., : 2 * width]
    both = both.mul_(0.5).tanh_().mul_(0.5).add_(0.5)  # the sigmoid, by tanh
    let, kept = both[..., :width], both[..., width:]
    new = torch.addcmul(gates[..., 2 * width :], let, carried[..., 2 * width :]).tanh_()
    return let, kept, new, torch.addcmul(new, kept, hidden - new)


class _Unroll(torch.autograd.Function):
    """All rows of sequences, with the gradient by hand: autograd's takes many more steps.

    Gradients go to what is seen and to the weights; a first hidden state is given.
    """

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, hidden: Tensor, keep: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        agents, sequences, rows, wide = gates.shape
        shape = (rows, agents, sequences, wide // 3)
        before, let, kept, new, after = (gates.new_empty(shape) for _ in range(5))
        inner = gates.new_empty(shape)
        for row in range(rows):
            torch.mul(hidden, keep[:, :, row, None], out=before[row])
            carried = torch.baddbmm(bias, before[row], weight)
            let[row], kept[row], new[row], hidden = _step(
                gates[:, :, row], carried, before[row]
            )
            inner[row], after[row] = carried[..., 2 * shape[3] :], hidden
        ctx.save_for_backward(keep, weight, before, let, kept, new, inner)
        return after.permute(1, 2, 0, 3).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        keep, weight, before, let, kept, new, inner = ctx.saved_tensors
        rows, agents, sequences, width = before.shape
        # What does not depend on later rows, for all rows at once.
        by_kept = (before - new) * (kept * (1.0 - kept))
        by_new = (1.0 - kept) * (1.0 - new * new)
        by_let = inner * (let * (1.0 - let))
        slopes = before.new_empty(rows, agents, sequences, 3 * width)
        fresh = torch.empty_like(before)
        turned, later = weight.transpose(1, 2), torch.zeros_like(before[0])
        for row in range(rows - 1, -1, -1):
            later = later + gradient[:, :, row]
            of_row = slopes[row]
            torch.mul(later, by_new[row], out=fresh[row])
            torch.mul(fresh[row], by_let[row], out=of_row[..., :width])
            torch.mul(later, by_kept[row], out=of_row[..., width : 2 * width])
            torch.mul(fresh[row], let[row], out=of_row[..., 2 * width :])
            later = torch.baddbmm(later * kept[row], of_row, turned)
            later = later * keep[:, :, row, None]
        flat, inputs = _by_agent(slopes), _by_agent(before)
        of_weight = torch.bmm(inputs.transpose(1, 2), flat)
        of_bias = flat.sum(dim=1, keepdim=True)
        # Into what is new, what is carried comes through a gate, and what is seen does not.
        of_gates = torch.cat([slopes[..., : 2 * width], fresh], dim=3)
        of_gates = of_gates.permute(1, 2, 0, 3).contiguous()  # as in `_by_agent`
        return of_gates, None, None, of_weight, of_bias


def _by_agent(rows: Tensor) -> Tensor:
    """Return (rows, agents, sequences, n) as (agents, rows × sequences, n).

    Copied also where a view would do, for one agent or one sequence: sums add up in the
    order of memory, which must not depend on the company.
    """
    return rows.transpose(0, 1).contiguous().flatten(1, 2)
