"""The gated unit: what it does, and the same bits in any company."""

from __future__ import annotations

import pytest
import torch

from rookery.algorithms.nets.gru import CARRIED, SEEN, Gru

INPUTS, WIDTH = 16, 32


def weights_of(agents: int, width: int = WIDTH) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    shapes = {
        f"{SEEN}.weight": (agents, INPUTS, 3 * width),
        f"{SEEN}.bias": (agents, 1, 3 * width),
        f"{CARRIED}.weight": (agents, width, 3 * width),
        f"{CARRIED}.bias": (agents, 1, 3 * width),
    }
    return {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}


def given(
    agents: int, sequences: int, rows: int, width: int = WIDTH
) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(2)
    seen = torch.randn(agents, sequences, rows, INPUTS, generator=random)
    return seen, torch.rand(agents, sequences, width, generator=random) * 2 - 1


def cell_of(weights: dict[str, torch.Tensor], agent: int) -> torch.nn.GRUCell:
    """Return torch's own cell with an agent's weights."""
    cell = torch.nn.GRUCell(INPUTS, WIDTH)
    with torch.no_grad():
        cell.weight_ih.copy_(weights[f"{SEEN}.weight"][agent].T)
        cell.bias_ih.copy_(weights[f"{SEEN}.bias"][agent, 0])
        cell.weight_hh.copy_(weights[f"{CARRIED}.weight"][agent].T)
        cell.bias_hh.copy_(weights[f"{CARRIED}.bias"][agent, 0])
    return cell


def test_a_step_is_that_of_torchs_own_cell():
    weights = weights_of(3)
    seen, hidden = given(3, 5, 1)

    found = Gru(INPUTS, WIDTH).step(weights, seen[:, :, 0], hidden)

    for agent in range(3):
        expected = cell_of(weights, agent)(seen[agent, :, 0], hidden[agent])
        torch.testing.assert_close(found[agent], expected)


def test_a_sequence_is_its_steps_one_after_the_other_and_starts_carry_nothing():
    weights, gru = weights_of(2), Gru(INPUTS, WIDTH)
    seen, hidden = given(2, 3, 6)
    keep = torch.ones(2, 3, 6)
    keep[0, 1, 4] = keep[1, 2, 0] = 0

    found = gru.unroll(weights, seen, hidden, keep)

    for row in range(6):
        hidden = gru.step(weights, seen[:, :, row], hidden * keep[:, :, row, None])
        torch.testing.assert_close(found[:, :, row], hidden)
    alone, nothing = seen[0:1, 1:2, 4], torch.zeros(1, 1, WIDTH)
    fresh = gru.step({name: each[:1] for name, each in weights.items()}, alone, nothing)
    torch.testing.assert_close(found[0:1, 1:2, 4], fresh)


@pytest.mark.shows("A1")
@pytest.mark.parametrize("agents", [2, 3, 8])
@pytest.mark.parametrize("sequences", [1, 2, 5, 16])
@pytest.mark.parametrize("width", [16, 32, 48, 80, 96])
def test_values_and_gradients_are_the_same_bits_alone_and_in_company(
    agents, sequences, width
):
    rows = 12
    seen, hidden = given(agents, sequences, rows, width)
    keep = torch.ones(agents, sequences, rows)
    keep[:, :, 5] = 0

    def gone_through(some: slice) -> list[torch.Tensor]:
        weights = {
            name: each[some].clone().requires_grad_()
            for name, each in weights_of(agents, width).items()
        }
        found = Gru(INPUTS, width).unroll(weights, seen[some], hidden[some], keep[some])
        found.square().sum().backward()
        return [found.detach(), *(each.grad for each in weights.values())]

    together = gone_through(slice(None))

    for agent in range(agents):
        alone = gone_through(slice(agent, agent + 1))
        for mine, theirs in zip(alone, together, strict=True):
            assert torch.equal(mine[0], theirs[agent])


def test_gradients_are_those_of_torchs_own_cell_row_by_row():
    weights = {name: each.requires_grad_() for name, each in weights_of(2).items()}
    seen, hidden = given(2, 3, 6)
    seen.requires_grad_()
    keep = torch.ones(2, 3, 6)
    keep[0, 1, 4] = keep[1, 2, 0] = 0
    wanted = torch.randn(2, 3, 6, WIDTH, generator=torch.Generator().manual_seed(3))

    (Gru(INPUTS, WIDTH).unroll(weights, seen, hidden, keep) * wanted).sum().backward()

    for agent in range(2):
        cell, own = cell_of(weights, agent), seen[agent].detach().requires_grad_()
        carried, total = hidden[agent], torch.zeros(())
        for row in range(6):
            carried = cell(own[:, row], carried * keep[agent, :, row, None])
            total = total + (carried * wanted[agent, :, row]).sum()
        total.backward()
        torch.testing.assert_close(seen.grad[agent], own.grad, rtol=1e-4, atol=1e-4)
        for name, mine in (("ih", SEEN), ("hh", CARRIED)):
            found = weights[f"{mine}.weight"].grad[agent].T
            expected = getattr(cell, f"weight_{name}").grad
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            found = weights[f"{mine}.bias"].grad[agent, 0]
            expected = getattr(cell, f"bias_{name}").grad
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
