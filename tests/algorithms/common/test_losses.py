"""Losses and the parts of targets, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common import losses

pytestmark = pytest.mark.shows("D3")


def tensor(*values):
    return torch.tensor(values, dtype=torch.float32)


def assert_close(found, expected):
    assert np.allclose(found.detach().numpy(), np.array(expected, np.float32), atol=1e-6)


# Dueling.


def test_dueling_adds_the_state_value_to_advantages_less_their_mean():
    outputs = tensor([1, 2, 6, 10])  # advantages 1, 2, 6 with mean 3; value 10

    assert_close(losses.dueling(outputs, 3), [[8, 9, 13]])


def test_dueling_never_looks_at_padding():
    outputs = tensor([1, 2, 6, 10, 99, -99])

    assert_close(losses.dueling(outputs, 3), [[8, 9, 13]])


def test_values_of_dueling_have_the_state_value_as_their_mean():
    outputs = torch.randn(2, 3, 4, 6, generator=torch.Generator().manual_seed(0))

    found = losses.dueling(outputs, 5)

    assert_close(found.mean(dim=-1), outputs[..., 5].numpy())


# Masks.


def test_illegal_actions_are_never_the_best():
    legal = torch.tensor([[False, True, True], [True, False, False]])

    found = losses.masked(tensor([5, 1, 2], [-7, 0, 0]), legal)

    assert found.argmax(dim=1).tolist() == [2, 0]


def test_legal_values_stay_as_they_are():
    legal = torch.tensor([[False, True, True]])

    found = losses.masked(tensor([5, 1, 2]), legal)

    assert found[0, 1:].tolist() == [1, 2]
    assert found[0, 0] == losses.FAR_BELOW


def test_without_a_mask_values_are_untouched():
    values = tensor([5, 1, 2])

    assert losses.masked(values, None) is values


def test_probabilities_of_illegal_actions_are_exactly_zero():
    legal = torch.tensor([[True, False, True]])

    chances = torch.softmax(losses.masked(tensor([0, 50, 0]), legal), dim=1)

    assert chances.tolist() == [[0.5, 0.0, 0.5]]


# Picking and bootstrapping.


def test_pick_takes_the_value_of_each_chosen_action():
    values = tensor([[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]])

    found = losses.pick(values, torch.tensor([[2, 0], [1, 1]]))

    assert found.tolist() == [[3, 4], [8, 11]]


def test_bootstrap_adds_discounted_values_to_returns():
    returns, discounts = tensor([1, 2]), tensor([0.5, 0.9])
    values = tensor([[10, 20], [30, 40]])

    assert_close(losses.bootstrap(returns, discounts, values), [[[6, 11], [29, 38]]])


def test_nothing_is_bootstrapped_where_the_discount_is_zero():
    found = losses.bootstrap(tensor([3]), tensor([0]), tensor([[1e6, -1e6]]))

    assert found.tolist() == [[[3, 3]]]


# Pushing actions apart.


def test_the_shortfall_of_an_action_is_what_it_is_worth_less_than_the_best_legal_one():
    values, actions = tensor([1, 4, 2]), torch.tensor([2])

    assert_close(losses.shortfalls(values, actions, None), [2])
    legal = torch.tensor([[True, False, True]])
    assert_close(losses.shortfalls(values, actions, legal), [0])


def test_a_gap_leaves_the_best_action_and_multiplies_differences():
    worth, gap = tensor(1, 0.9, 0.5), 0.75
    values = torch.zeros(3)
    for _ in range(200):
        short = losses.shortfalls(values.expand(3, 3), torch.arange(3), None)
        values = worth - gap * short

    assert_close(values, [1, 1 - 4 * 0.1, 1 - 4 * 0.5])


# The quantile Huber loss.


def test_quantile_huber_of_one_quantile_by_hand():
    # Error 3 - 1 = 2, above the threshold: huber 1 * (2 - 0.5) = 1.5; times fraction 0.25.
    loss = losses.quantile_huber(tensor([[1]]), tensor([[3]]), tensor([[0.25]]))

    assert_close(loss, [[0.375]])


def test_overestimates_weigh_what_underestimates_do_not():
    # Error 1 - 3 = -2: huber 1.5, times 1 - 0.25.
    loss = losses.quantile_huber(tensor([[3]]), tensor([[1]]), tensor([[0.25]]))

    assert_close(loss, [[1.125]])


def test_small_errors_count_squared():
    # Error 0.5: huber 0.125; times 0.8.
    loss = losses.quantile_huber(tensor([[0]]), tensor([[0.5]]), tensor([[0.8]]))

    assert_close(loss, [[0.1]])


def test_quantile_huber_is_a_sum_over_quantiles_and_a_mean_over_targets():
    # Quantile 0.5 at 0: errors 0.5 and -2, huber 0.125 and 1.5, weights 0.5: mean 0.40625.
    # Quantile 0.1 at 1: errors -0.5 and -3, huber 0.125 and 2.5, weights 0.9: mean 1.18125.
    found, fractions = tensor([[0, 1]]), tensor([[0.5, 0.1]])

    loss = losses.quantile_huber(found, tensor([[0.5, -2]]), fractions)

    assert_close(loss, [[0.40625 + 1.18125]])


def test_the_error_of_quantiles_is_that_of_their_mean():
    # Means 0.5 and -0.75: single quantiles are off by 1.5 in the mean.
    found, targets = tensor([[0, 1]]), tensor([[0.5, -2]])

    assert_close(losses.mean_errors(found, targets), [[1.25]])
    shares = tensor([[0.8, 0.2]])  # 0.8 * 0.5 - 0.2 * 2 = 0
    assert_close(losses.mean_errors(found, targets, shares), [[0.5]])


def test_returns_that_differ_by_chance_are_no_error_once_they_are_known():
    known = tensor([[-1, 1]])

    assert_close(losses.mean_errors(known, known), [[0]])


def test_the_threshold_is_where_the_loss_turns_linear():
    # Error 3, threshold 2: 2 * (3 - 1) / 2 = 2; times 0.5.
    found = losses.quantile_huber(tensor([[0]]), tensor([[3]]), tensor([[0.5]]), 2.0)

    assert_close(found, [[1.0]])


def plain_quantile_huber(found, targets, fractions, threshold):
    """The definition, one pair of quantiles after the other."""
    total = 0.0
    for value, fraction in zip(found, fractions, strict=True):
        for target in targets:
            error = target - value
            if abs(error) <= threshold:
                huber = 0.5 * error**2
            else:
                huber = threshold * (abs(error) - 0.5 * threshold)
            total += abs(fraction - (error < 0)) * huber / threshold / len(targets)
    return total


@pytest.mark.parametrize("threshold", [0.5, 1.0, 3.0])
def test_quantile_huber_is_that_of_a_plain_loop(threshold):
    chance = np.random.default_rng(0)
    found, fractions = chance.normal(size=(2, 3, 4)), chance.random((2, 3, 4))
    targets = 2 * chance.normal(size=(2, 3, 5))

    loss = losses.quantile_huber(
        *(torch.tensor(array) for array in (found, targets, fractions)), threshold
    )

    expected = [
        [
            plain_quantile_huber(found[i, j], targets[i, j], fractions[i, j], threshold)
            for j in range(3)
        ]
        for i in range(2)
    ]
    assert np.allclose(loss.numpy(), expected)


def test_the_gradient_of_quantile_huber_is_that_of_finite_differences():
    chance = np.random.default_rng(1)
    found = torch.tensor(chance.normal(size=(1, 2, 3)), requires_grad=True)
    targets = torch.tensor(chance.normal(size=(1, 2, 4)))
    fractions = torch.tensor(chance.random((1, 2, 3)))

    assert torch.autograd.gradcheck(
        lambda values: _double_quantile_huber(values, targets, fractions), (found,)
    )


def _double_quantile_huber(found, targets, fractions):
    return losses.quantile_huber(found, targets, fractions)


def test_minimising_quantile_huber_finds_the_quantile():
    targets = torch.arange(101, dtype=torch.float32).view(1, 1, -1)
    places = torch.arange(0, 101, 5, dtype=torch.float32).view(1, 1, -1)
    fractions = torch.full_like(places, 0.8)

    each = [
        losses.quantile_huber(place.view(1, 1, 1), targets, fractions[..., :1]).item()
        for place in places.flatten()
    ]

    assert places.flatten()[int(np.argmin(each))] == 80


# PPO's ratio.


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
    found = losses.clipped_ratio(tensor(ratio), tensor(advantage), 0.2)

    assert_close(found, [expected])


def test_a_ratio_beyond_the_clip_has_no_gradient():
    ratio = tensor(1.5, 1.1, 0.5).requires_grad_()

    losses.clipped_ratio(ratio, tensor(1, 1, -1), 0.2).sum().backward()

    assert ratio.grad.tolist() == [0, -1, 0]
