"""The GRU: against torch's, and the same bits in any group."""

from __future__ import annotations

import pytest
import torch

from rookery.algorithms.nets.gru import HIDDEN, INPUT, Gru

INPUTS, WIDTH = 16, 32


def weights_of(agents: int, width: int = WIDTH) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    shapes = {
        f"{INPUT}.weight": (agents, INPUTS, 3 * width),
        f"{INPUT}.bias": (agents, 1, 3 * width),
        f"{HIDDEN}.weight": (agents, width, 3 * width),
        f"{HIDDEN}.bias": (agents, 1, 3 * width),
    }
    return {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}


def random_inputs(
    agents: int, sequences: int, rows: int, width: int = WIDTH
) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(2)
    inputs = torch.randn(agents, sequences, rows, INPUTS, generator=random)
    return inputs, torch.rand(agents, sequences, width, generator=random) * 2 - 1


def cell_of(weights: dict[str, torch.Tensor], agent: int) -> torch.nn.GRUCell:
    """Return torch's cell with an agent's weights."""
    cell = torch.nn.GRUCell(INPUTS, WIDTH)
    with torch.no_grad():
        cell.weight_ih.copy_(weights[f"{INPUT}.weight"][agent].T)
        cell.bias_ih.copy_(weights[f"{INPUT}.bias"][agent, 0])
        cell.weight_hh.copy_(weights[f"{HIDDEN}.weight"][agent].T)
        cell.bias_hh.copy_(weights[f"{HIDDEN}.bias"][agent, 0])
    return cell


def test_a_step_is_that_of_torchs_cell():
    weights = weights_of(3)
    inputs, hidden = random_inputs(3, 5, 1)

    result = Gru(INPUTS, WIDTH).step(weights, inputs[:, :, 0], hidden)

    for agent in range(3):
        expected = cell_of(weights, agent)(inputs[agent, :, 0], hidden[agent])
        torch.testing.assert_close(result[agent], expected)


def test_unrolling_is_step_after_step_and_episodes_start_with_zeros():
    weights, gru = weights_of(2), Gru(INPUTS, WIDTH)
    inputs, hidden = random_inputs(2, 3, 6)
    keep = torch.ones(2, 3, 6)
    keep[0, 1, 4] = keep[1, 2, 0] = 0

    result = gru.unroll(weights, inputs, hidden, keep)

    for row in range(6):
        hidden = gru.step(weights, inputs[:, :, row], hidden * keep[:, :, row, None])
        torch.testing.assert_close(result[:, :, row], hidden)
    alone, zeros = inputs[0:1, 1:2, 4], torch.zeros(1, 1, WIDTH)
    restarted = gru.step({name: each[:1] for name, each in weights.items()}, alone, zeros)
    torch.testing.assert_close(result[0:1, 1:2, 4], restarted)


@pytest.mark.shows("A1")
@pytest.mark.parametrize("agents", [2, 3, 8])
@pytest.mark.parametrize("sequences", [1, 2, 5, 16])
@pytest.mark.parametrize("width", [16, 32, 48, 80, 96])
def test_values_and_gradients_are_the_same_bits_in_any_group(agents, sequences, width):
    rows = 12
    inputs, hidden = random_inputs(agents, sequences, rows, width)
    keep = torch.ones(agents, sequences, rows)
    keep[:, :, 5] = 0

    def unroll(some: slice) -> list[torch.Tensor]:
        weights = {
            name: each[some].clone().requires_grad_()
            for name, each in weights_of(agents, width).items()
        }
        result = Gru(INPUTS, width).unroll(weights, inputs[some], hidden[some], keep[some])
        result.square().sum().backward()
        return [result.detach(), *(each.grad for each in weights.values())]

    together = unroll(slice(None))

    for agent in range(agents):
        alone = unroll(slice(agent, agent + 1))
        for mine, theirs in zip(alone, together, strict=True):
            assert torch.equal(mine[0], theirs[agent])


def test_gradients_are_those_of_torchs_cell_row_by_row():
    weights = {name: each.requires_grad_() for name, each in weights_of(2).items()}
    inputs, hidden = random_inputs(2, 3, 6)
    inputs.requires_grad_()
    keep = torch.ones(2, 3, 6)
    keep[0, 1, 4] = keep[1, 2, 0] = 0
    weighting = torch.randn(2, 3, 6, WIDTH, generator=torch.Generator().manual_seed(3))

    (Gru(INPUTS, WIDTH).unroll(weights, inputs, hidden, keep) * weighting).sum().backward()

    for agent in range(2):
        cell, own = cell_of(weights, agent), inputs[agent].detach().requires_grad_()
        state, total = hidden[agent], torch.zeros(())
        for row in range(6):
            state = cell(own[:, row], state * keep[agent, :, row, None])
            total = total + (state * weighting[agent, :, row]).sum()
        total.backward()
        torch.testing.assert_close(inputs.grad[agent], own.grad, rtol=1e-4, atol=1e-4)
        for name, mine in (("ih", INPUT), ("hh", HIDDEN)):
            result = weights[f"{mine}.weight"].grad[agent].T
            expected = getattr(cell, f"weight_{name}").grad
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
            result = weights[f"{mine}.bias"].grad[agent, 0]
            expected = getattr(cell, f"bias_{name}").grad
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
