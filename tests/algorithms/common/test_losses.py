"""Losses and parts of targets, against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common import losses

pytestmark = pytest.mark.shows("D3")


def tensor(*values):
    return torch.tensor(values, dtype=torch.float32)


def assert_close(result, expected):
    assert np.allclose(result.detach().numpy(), np.array(expected, np.float32), atol=1e-6)


# Dueling.


def test_dueling_adds_the_state_value_to_advantages_less_their_mean():
    outputs = tensor([1, 2, 6, 10])  # advantages 1, 2, 6 with mean 3; value 10

    assert_close(losses.dueling(outputs, 3), [[8, 9, 13]])


def test_dueling_ignores_padding():
    outputs = tensor([1, 2, 6, 10, 99, -99])

    assert_close(losses.dueling(outputs, 3), [[8, 9, 13]])


def test_values_of_dueling_have_the_state_value_as_their_mean():
    outputs = torch.randn(2, 3, 4, 6, generator=torch.Generator().manual_seed(0))

    result = losses.dueling(outputs, 5)

    assert_close(result.mean(dim=-1), outputs[..., 5].numpy())


# Masks.


def test_illegal_actions_are_never_the_best():
    legal = torch.tensor([[False, True, True], [True, False, False]])

    result = losses.masked(tensor([5, 1, 2], [-7, 0, 0]), legal)

    assert result.argmax(dim=1).tolist() == [2, 0]


def test_legal_values_stay_as_they_are():
    legal = torch.tensor([[False, True, True]])

    result = losses.masked(tensor([5, 1, 2]), legal)

    assert result[0, 1:].tolist() == [1, 2]
    assert result[0, 0] == losses.FAR_BELOW


def test_without_a_mask_values_are_untouched():
    values = tensor([5, 1, 2])

    assert losses.masked(values, None) is values


def test_probabilities_of_illegal_actions_are_exactly_zero():
    legal = torch.tensor([[True, False, True]])

    probabilities = torch.softmax(losses.masked(tensor([0, 50, 0]), legal), dim=1)

    assert probabilities.tolist() == [[0.5, 0.0, 0.5]]


# Picking and bootstrapping.


def test_pick_takes_the_value_of_each_action():
    values = tensor([[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]])

    result = losses.pick(values, torch.tensor([[2, 0], [1, 1]]))

    assert result.tolist() == [[3, 4], [8, 11]]


def test_bootstrap_adds_discounted_values_to_returns():
    returns, discounts = tensor([1, 2]), tensor([0.5, 0.9])
    values = tensor([[10, 20], [30, 40]])

    assert_close(losses.bootstrap(returns, discounts, values), [[[6, 11], [29, 38]]])


def test_nothing_is_bootstrapped_where_the_discount_is_zero():
    result = losses.bootstrap(tensor([3]), tensor([0]), tensor([[1e6, -1e6]]))

    assert result.tolist() == [[[3, 3]]]


# Advantage learning.


def test_the_gap_of_an_action_is_its_distance_to_the_best_legal_one():
    values, actions = tensor([1, 4, 2]), torch.tensor([2])

    assert_close(losses.action_gaps(values, actions, None), [2])
    legal = torch.tensor([[True, False, True]])
    assert_close(losses.action_gaps(values, actions, legal), [0])


def test_advantage_learning_keeps_the_best_value_and_widens_gaps():
    worth, gap = tensor(1, 0.9, 0.5), 0.75
    values = torch.zeros(3)
    for _ in range(200):
        gaps = losses.action_gaps(values.expand(3, 3), torch.arange(3), None)
        values = worth - gap * gaps

    assert_close(values, [1, 1 - 4 * 0.1, 1 - 4 * 0.5])


# The quantile Huber loss.


def test_quantile_huber_of_one_quantile_by_hand():
    # Error 3 - 1 = 2, above the threshold: huber 1 * (2 - 0.5) = 1.5; times tau 0.25.
    loss = losses.quantile_huber(tensor([[1]]), tensor([[3]]), tensor([[0.25]]))

    assert_close(loss, [[0.375]])


def test_overestimates_are_weighted_by_one_minus_tau():
    # Error 1 - 3 = -2: huber 1.5, times 1 - 0.25.
    loss = losses.quantile_huber(tensor([[3]]), tensor([[1]]), tensor([[0.25]]))

    assert_close(loss, [[1.125]])


def test_small_errors_are_squared():
    # Error 0.5: huber 0.125; times 0.8.
    loss = losses.quantile_huber(tensor([[0]]), tensor([[0.5]]), tensor([[0.8]]))

    assert_close(loss, [[0.1]])


def test_quantile_huber_is_a_sum_over_quantiles_and_a_mean_over_targets():
    # Quantile 0.5 at 0: errors 0.5 and -2, huber 0.125 and 1.5, weights 0.5: mean 0.40625.
    # Quantile 0.1 at 1: errors -0.5 and -3, huber 0.125 and 2.5, weights 0.9: mean 1.18125.
    quantiles, taus = tensor([[0, 1]]), tensor([[0.5, 0.1]])

    loss = losses.quantile_huber(quantiles, tensor([[0.5, -2]]), taus)

    assert_close(loss, [[0.40625 + 1.18125]])


def test_the_error_of_quantiles_is_that_of_their_mean():
    # Means 0.5 and -0.75: single quantiles are off by 1.5 in the mean.
    quantiles, targets = tensor([[0, 1]]), tensor([[0.5, -2]])

    assert_close(losses.mean_errors(quantiles, targets), [[1.25]])
    shares = tensor([[0.8, 0.2]])  # 0.8 * 0.5 - 0.2 * 2 = 0
    assert_close(losses.mean_errors(quantiles, targets, shares), [[0.5]])


def test_random_returns_with_known_quantiles_have_no_error():
    known = tensor([[-1, 1]])

    assert_close(losses.mean_errors(known, known), [[0]])


def test_the_threshold_is_where_the_loss_turns_linear():
    # Error 3, threshold 2: 2 * (3 - 1) / 2 = 2; times 0.5.
    result = losses.quantile_huber(tensor([[0]]), tensor([[3]]), tensor([[0.5]]), 2.0)

    assert_close(result, [[1.0]])


def plain_quantile_huber(quantiles, targets, taus, threshold):
    """The definition, one pair of quantiles after the other."""
    total = 0.0
    for value, tau in zip(quantiles, taus, strict=True):
        for target in targets:
            error = target - value
            if abs(error) <= threshold:
                huber = 0.5 * error**2
            else:
                huber = threshold * (abs(error) - 0.5 * threshold)
            total += abs(tau - (error < 0)) * huber / threshold / len(targets)
    return total


@pytest.mark.parametrize("threshold", [0.5, 1.0, 3.0])
def test_quantile_huber_is_that_of_a_plain_loop(threshold):
    rng = np.random.default_rng(0)
    quantiles, taus = rng.normal(size=(2, 3, 4)), rng.random((2, 3, 4))
    targets = 2 * rng.normal(size=(2, 3, 5))

    loss = losses.quantile_huber(
        *(torch.tensor(array) for array in (quantiles, targets, taus)), threshold
    )

    expected = [
        [
            plain_quantile_huber(quantiles[i, j], targets[i, j], taus[i, j], threshold)
            for j in range(3)
        ]
        for i in range(2)
    ]
    assert np.allclose(loss.numpy(), expected)


def test_the_gradient_of_quantile_huber_is_that_of_finite_differences():
    rng = np.random.default_rng(1)
    quantiles = torch.tensor(rng.normal(size=(1, 2, 3)), requires_grad=True)
    targets = torch.tensor(rng.normal(size=(1, 2, 4)))
    taus = torch.tensor(rng.random((1, 2, 3)))

    assert torch.autograd.gradcheck(
        lambda values: losses.quantile_huber(values, targets, taus), (quantiles,)
    )


def test_minimising_quantile_huber_finds_the_quantile():
    targets = torch.arange(101, dtype=torch.float32).view(1, 1, -1)
    candidates = torch.arange(0, 101, 5, dtype=torch.float32).view(1, 1, -1)
    taus = torch.full_like(candidates, 0.8)

    each = [
        losses.quantile_huber(candidate.view(1, 1, 1), targets, taus[..., :1]).item()
        for candidate in candidates.flatten()
    ]

    assert candidates.flatten()[int(np.argmin(each))] == 80


# PPO's clipped ratio.


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, -2.0),
        (1.1, 2.0, -2.2),
        (1.5, 2.0, -2.4),  # kept at 1.2
        (0.5, 2.0, -1.0),  # the worse of 1.0 and 1.6
        (1.5, -2.0, 3.0),  # the worse of -3.0 and -2.4
        (0.5, -2.0, 1.6),  # kept at 0.8
    ],
)
def test_clipped_ratio_is_the_worse_of_two(ratio, advantage, expected):
    result = losses.clipped_ratio(tensor(ratio), tensor(advantage), 0.2)

    assert_close(result, [expected])


def test_a_ratio_beyond_the_clip_has_no_gradient():
    ratio = tensor(1.5, 1.1, 0.5).requires_grad_()

    losses.clipped_ratio(ratio, tensor(1, 1, -1), 0.2).sum().backward()

    assert ratio.grad.tolist() == [0, -1, 0]


# Hysteresis.


def test_hysteresis_is_a_factor_on_losses_of_values_that_were_too_high():
    values, targets = tensor([2, 2, 2]).requires_grad_(), tensor([5, 1, 2])
    loss, _ = losses.huber(values, targets)  # 3 - 0.5, 0.5, 0

    result = losses.hysteretic(loss, values, targets, 0.1)
    result.sum().backward()

    assert_close(result, [[2.5, 0.05, 0]])
    assert_close(values.grad, [[-1, 0.1, 0]])


def test_without_hysteresis_losses_are_the_same_tensor():
    loss = tensor([1, 2])

    assert losses.hysteretic(loss, tensor([3, 3]), tensor([1, 5]), 1.0) is loss
