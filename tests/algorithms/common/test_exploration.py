"""Epsilon-greedy, softmax and sampling, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.algorithms.base import PolicyInput
from rookery.algorithms.common.exploration import (
    act_by_probabilities,
    act_by_values,
    sample,
    temperatures_of,
)
from tests.algorithms.conftest import agent_of

VALUES = [1.0, 3.0, 2.0]


def make_input(worlds: int, exploration: list[float], legal=None) -> PolicyInput:
    draws = np.random.default_rng(0).random((len(exploration), worlds, 2))
    masks = [None if legal is None else np.tile(legal, (worlds, 1)) for _ in exploration]
    return PolicyInput([], masks, draws, np.array(exploration))


def values_of(worlds: int, agents: int = 1, values=VALUES) -> np.ndarray:
    return np.tile(np.array(values, np.float32), (agents, worlds, 1))


def shares(actions: np.ndarray) -> list[float]:
    return (np.bincount(actions.ravel(), minlength=3) / actions.size).tolist()


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_a_temperature_takes_actions_by_a_softmax_of_their_values(temperature):
    policy_input = make_input(20_000, [0.1])

    output = act_by_values(values_of(20_000), policy_input, np.array([temperature]))

    weights = np.exp(np.array(VALUES) / temperature)
    expected = 0.9 * weights / weights.sum() + 0.1 / 3
    assert shares(output.actions) == pytest.approx(expected, abs=0.015)
    assert output.probabilities[0] == pytest.approx(expected[output.actions[0]], rel=1e-6)
    assert output.entropies == pytest.approx(-(expected * np.log(expected)).sum())


def test_actions_of_nearly_the_same_value_are_taken_nearly_equally_often():
    flat = values_of(9_000, values=[0.01, 0.0, 0.005])

    output = act_by_values(flat, make_input(9_000, [0.1]), np.ones(1))

    assert shares(output.actions) == pytest.approx([1 / 3] * 3, abs=0.02)


def test_an_illegal_action_is_never_taken_at_any_temperature():
    policy_input = make_input(5_000, [0.5], np.array([True, False, True]))

    output = act_by_values(values_of(5_000), policy_input, np.array([10.0]))

    assert set(output.actions.ravel()) == {0, 2}


def test_where_nothing_is_legal_any_action_will_do():
    policy_input = make_input(3_000, [1.0], np.zeros(3, bool))

    output = act_by_values(values_of(3_000), policy_input, np.ones(1))

    assert shares(output.actions) == pytest.approx([1 / 3] * 3, abs=0.03)
    assert np.isfinite(output.probabilities).all()


def test_an_agent_that_does_not_explore_takes_the_best_at_any_temperature():
    tied = values_of(50, agents=2, values=[3.0, 3.0, 1.0])

    single = act_by_values(tied[:1], make_input(50, [0.0]), None)
    pair = act_by_values(tied, make_input(50, [0.0, 0.5]), np.array([0.0, 1.0]))

    assert not single.actions.any()
    assert not pair.actions[0].any()
    assert (pair.probabilities[0] == 1).all()
    assert set(pair.actions[1]) == {0, 1, 2}


def test_a_temperature_falls_as_epsilon_does():
    agents = [
        agent_of(epsilon={"start": start, "temperature": 2.0}) for start in (1.0, 0.5, 0.0)
    ]

    temperatures = temperatures_of(agents, np.array([0.5, 0.5, 0.0]))

    assert temperatures.tolist() == [1.0, 2.0, 0.0]
    assert temperatures_of(agents, np.zeros(3)) is None
    rising = agent_of(epsilon={"start": 0.0, "end": 0.1, "temperature": 2.0})
    assert temperatures_of([rising], np.array([0.05])).tolist() == [1.0]
    assert temperatures_of([agent_of()], np.ones(1)) is None


def test_the_largest_draws_take_the_last_action_with_a_probability():
    probabilities = np.array([[0.1, 0.2, 0.0], [0.0, 0.0, 0.7]])

    assert sample(probabilities, np.array([1.0, 1.0])).tolist() == [1, 2]
    assert sample(probabilities, np.array([0.0, 0.0])).tolist() == [0, 2]


# One agent, by hand.


def make_one_agents_input(legal, exploration: float, draws) -> PolicyInput:
    draws = np.array([draws], float)
    return PolicyInput([], [legal], draws, np.array([exploration]))


def entropy(*probabilities: float) -> float:
    return -sum(probability * np.log(probability) for probability in probabilities)


def test_the_best_legal_action_is_taken_or_any_legal_one():
    values = np.array([[[1, 9, 3], [1, 9, 3], [7, 9, 3]]], np.float32)
    legal = np.array([[1, 0, 1], [1, 0, 1], [1, 1, 1]], bool)
    draws = [[0.9, 0], [0.1, 0], [0.9, 0]]

    output = act_by_values(values, make_one_agents_input(legal, 0.5, draws), None)

    assert output.actions.tolist() == [[2, 0, 1]]
    np.testing.assert_allclose(output.probabilities, [[0.75, 0.25, 2 / 3]], rtol=1e-6)
    assert output.values.tolist() == [[3, 1, 9]]
    two, three = entropy(0.75, 0.25), entropy(2 / 3, 1 / 6, 1 / 6)
    np.testing.assert_allclose(output.entropies, [[two, two, three]], rtol=1e-6)


def test_probabilities_of_illegal_actions_are_shared_among_the_legal_ones():
    probabilities = np.array([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3], [0, 1, 0]], np.float32)
    legal = np.array([[1, 0, 1], [1, 1, 1], [1, 0, 1]], bool)
    draws = [[0.39, 0], [0.8, 0], [0.6, 0]]

    output = act_by_probabilities(probabilities, make_one_agents_input(legal, 0.1, draws))

    assert output.actions.tolist() == [[0, 2, 2]]
    np.testing.assert_allclose(output.probabilities, [[0.4, 0.3, 0.5]], rtol=1e-6)
    expected = [entropy(0.4, 0.6), entropy(0.2, 0.5, 0.3), entropy(0.5, 0.5)]
    np.testing.assert_allclose(output.entropies, [expected], rtol=1e-6)


@pytest.mark.parametrize("by", ["values", "probabilities"])
def test_where_nothing_is_legal_the_output_is_valid(by):
    inputs = make_one_agents_input(np.zeros((1, 3), bool), 0.5, [[0.9, 0.9]])

    output = (
        act_by_values(np.ones((1, 1, 3), np.float32), inputs, None)
        if by == "values"
        else act_by_probabilities(np.ones((1, 3), np.float32), inputs)
    )

    assert 0 <= output.actions[0, 0] < 3
    assert np.isfinite(output.entropies).all()


def test_without_exploration_the_most_likely_action_is_taken():
    probabilities = np.array([[0.2, 0.5, 0.3]], np.float32)
    inputs = make_one_agents_input(None, 0.0, [[0.99, 0]])

    output = act_by_probabilities(probabilities, inputs)

    assert output.actions.tolist() == [[1]]
